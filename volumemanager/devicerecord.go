// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/record"
	"github.com/volumekit/volumekit/volume"
)

// deviceID names what is behind a volume among all that the node has of the plugin: pods that use one share its attachment, and
// its mount or preparation for all pods.
type deviceID struct {
	Plugin string `json:"plugin"`
	Device string `json:"device"` // [volume.VolumePlugin.VolumeName]
}

// deviceRecord is what is recorded of a device before anything is done to it on this node, until it is detached. It is changed by
// who has the device's turn.
type deviceRecord struct {
	deviceID

	// Volume is [volume.Spec.Name].
	Volume string `json:"volume"`

	// Block says that pods use it as a raw device.
	Block bool `json:"block,omitempty"`

	// Attached says that it is, or may be, attached to this node, and Path what the attacher called it.
	Attached bool   `json:"attached,omitempty"`
	Path     string `json:"path,omitempty"`

	// MountPath is where it is, or may be, mounted for all pods.
	MountPath string `json:"mountPath,omitempty"`

	// Users are the pods that have it, or may have it.
	Users []types.UID `json:"users"`
}

// deviceRecordVersion changes when an older program would misunderstand a record.
const deviceRecordVersion = 1

// devicesDir holds the records of devices.
func devicesDir(host volume.Host) string {
	return filepath.Join(host.PluginDir("volumekit.io"), "devices")
}

// recordPath is where the device is recorded. Its name may be anything: a path, a handle of any length.
func (id deviceID) recordPath(host volume.Host) string {
	return filepath.Join(devicesDir(host), id.key()+".json")
}

// key is a name of the device that can be that of a file.
func (id deviceID) key() string {
	sum := sha256.Sum256([]byte(id.Plugin + "\x00" + id.Device))
	return hex.EncodeToString(sum[:16])
}

// String is how messages name the device.
func (id deviceID) String() string {
	return fmt.Sprintf("device %q of plugin %s", id.Device, id.Plugin)
}

// readDevice reads what is recorded of a device; nil if nothing is. The error matches [record.ErrDamaged] if it cannot be
// understood.
func readDevice(host volume.Host, id deviceID) (*deviceRecord, error) {
	return readDeviceAt(id.recordPath(host))
}

func readDeviceAt(path string) (*deviceRecord, error) {
	var r deviceRecord
	err := record.Read(path, deviceRecordVersion, &r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := r.check(path); err != nil {
		return nil, fmt.Errorf("%w %s: %w", record.ErrDamaged, path, err)
	}
	return &r, nil
}

// check refuses what cannot have been written here.
func (r *deviceRecord) check(path string) error {
	if name := r.key() + ".json"; name != filepath.Base(path) {
		return fmt.Errorf("it is that of %s, whose name is %s", r.deviceID, name)
	}
	for _, uid := range r.Users {
		if err := volume.CheckPodUID(uid); err != nil {
			return err
		}
	}
	return volume.CheckName(r.Volume)
}

// write records the device. What is attached stays so after a power cut, and so does its record.
func (r *deviceRecord) write(host volume.Host) error {
	write := record.Write
	if r.Attached {
		write = record.WriteDurably
	}
	return write(r.recordPath(host), deviceRecordVersion, r)
}

// remove removes what is recorded of the device.
func (id deviceID) remove(host volume.Host) error {
	path := id.recordPath(host)
	if err := errors.Join(record.Remove(path), record.RemoveUnfinished(path)); err != nil {
		return err
	}
	removeEmptyOfDevices(host)
	return nil
}

// removeEmptyOfDevices removes the directories of the records, as far as nothing is in them.
func removeEmptyOfDevices(host volume.Host) {
	for _, dir := range []string{devicesDir(host), filepath.Dir(devicesDir(host)), filepath.Join(host.Root, "plugins")} {
		removeEmpty(dir)
	}
}

// unfinishedDevices lists the keys of the devices whose records were begun to be written. Some may be being written.
func unfinishedDevices(host volume.Host) []string {
	paths, _ := filepath.Glob(filepath.Join(devicesDir(host), ".*.json")) // the pattern is not malformed
	keys := make([]string, len(paths))
	for i, path := range paths {
		keys[i] = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "."), ".json")
	}
	return keys
}

// withUser adds a pod.
func (r *deviceRecord) withUser(uid types.UID) {
	if !slices.Contains(r.Users, uid) {
		r.Users = append(r.Users, uid)
	}
}

// others returns the users beside the pod, as far as anything of them is there.
func (r *deviceRecord) others(host volume.Host, uid types.UID) []types.UID {
	var others []types.UID
	for _, user := range r.Users {
		if user == uid {
			continue
		}
		if _, err := os.Lstat(host.PodDir(user)); !errors.Is(err, fs.ErrNotExist) {
			others = append(others, user)
		}
	}
	return others
}

// deviceRecords reads what is recorded of all devices. Damaged records are passed over: the errors say which.
func deviceRecords(host volume.Host) (devices []*deviceRecord, errs []error) {
	entries, err := os.ReadDir(devicesDir(host))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, []error{fmt.Errorf("list devices: %w", err)}
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") { // not written to the end
			continue
		}
		r, err := readDeviceAt(filepath.Join(devicesDir(host), entry.Name()))
		switch {
		case err != nil:
			errs = append(errs, err)
		case r != nil:
			devices = append(devices, r)
		}
	}
	return devices, errs
}
