// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilstrings "k8s.io/utils/strings"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/volume"
)

// NewBlockVolumeMapper returns the mapper of a raw device for one pod.
func (p *Plugin) NewBlockVolumeMapper(spec *volume.Spec, pod *v1.Pod) (volume.BlockVolumeMapper, error) {
	source, err := checkSpec(spec)
	if err == nil && !isBlock(spec) {
		err = volume.Errorf(volume.ErrInvalid, "PersistentVolume %q has not the volumeMode Block: it is mounted, not mapped", spec.Name())
	}
	if err == nil {
		err = errors.Join(volume.CheckName(spec.Name()), volume.CheckPodUID(pod.UID))
	}
	if err != nil {
		return nil, err
	}
	return &mapper{rawDevice: p.rawDevice(spec.Name(), pod.UID), source: source}, nil
}

// NewBlockVolumeUnmapper returns the unmapper of a raw device for one pod.
func (p *Plugin) NewBlockVolumeUnmapper(name string, podUID types.UID) (volume.BlockVolumeUnmapper, error) {
	if err := errors.Join(volume.CheckName(name), volume.CheckPodUID(podUID)); err != nil {
		return nil, err
	}
	return p.rawDevice(name, podUID), nil
}

// rawDevice is a raw device of a pod. It is the BlockVolumeUnmapper.
type rawDevice struct {
	plugin *Plugin
	name   string
	podUID types.UID
}

func (p *Plugin) rawDevice(name string, podUID types.UID) *rawDevice {
	return &rawDevice{plugin: p, name: name, podUID: podUID}
}

// GlobalMapPath returns "plugins/kubernetes.io~local-volume/volumeDevices/NAME": the kubelet's, which is not below where devices
// are mounted.
func (d *rawDevice) GlobalMapPath() (string, error) {
	return filepath.Join(d.plugin.host.PluginVolumeDevicesDir(utilstrings.EscapeQualifiedName(Name)), d.name), nil
}

// PodDeviceMapPath returns "pods/UID/volumeDevices/kubernetes.io~local-volume" and NAME.
func (d *rawDevice) PodDeviceMapPath() (dir, name string) {
	return d.plugin.host.PodVolumeDevicesDir(d.podUID, Name), d.name
}

// loopName is what the kernel calls the loop device of the volume's file. By it that is found again when the file has lost its own
// name, and told from one that somebody else has attached. It is the same however the root is spelt.
func (d *rawDevice) loopName() string {
	sum := sha256.Sum256([]byte(filepath.Join(resolved(d.plugin.host.PluginDir(Name)), d.name)))
	return "volumekit:" + hex.EncodeToString(sum[:20])
}

// resolved returns path without symbolic links in what there is of it.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil || filepath.Dir(path) == path {
		return real
	}
	return filepath.Join(resolved(filepath.Dir(path)), filepath.Base(path))
}

// UnmapPodDevice does nothing: the pod has had nothing but links.
func (d *rawDevice) UnmapPodDevice(ctx context.Context) error { return ctx.Err() }

// TearDownDevice detaches the loop device of a file, also if the file has been deleted or truncated. A block device stays as it is.
func (d *rawDevice) TearDownDevice(ctx context.Context, _ string) error {
	devices, err := loopdev.FindNamed(ctx, d.loopName())
	if err != nil {
		return err
	}
	for _, device := range devices {
		if err := loopdev.Detach(ctx, device); err != nil {
			return err
		}
	}
	return nil
}

// mapper makes a raw device available to a pod.
type mapper struct {
	*rawDevice
	source source
}

// SetUpDevice attaches a file to a loop device. A block device needs nothing.
func (m *mapper) SetUpDevice(ctx context.Context, _ string) (string, error) {
	path, kind, err := m.device(ctx)
	if err != nil || kind == device {
		return "", err
	}
	return path, nil
}

// MapPodDevice returns the path of the device, which is the loop device of a file.
func (m *mapper) MapPodDevice(ctx context.Context) (string, error) {
	path, _, err := m.device(ctx)
	return path, err
}

// device returns the path of the device. A file is attached to one, unless it is.
func (m *mapper) device(ctx context.Context) (string, kind, error) {
	devices, err := loopdev.FindNamed(ctx, m.loopName())
	if err != nil {
		return "", file, err
	}
	for _, d := range devices {
		// It is taken without a look at the path, as the file may have lost its name. One with Autoclear has been torn down and goes
		// when somebody closes it who has it open still: it may be of a file that was there before.
		if d.Autoclear {
			continue
		}
		if d.ReadOnly != m.source.readOnly {
			return "", file, volume.Errorf(volume.ErrInUse, "%s is attached to %s already, in another way than it is to be: tear the volume down first", m.source.path, d.Path)
		}
		return d.Path, file, nil
	}
	found, err := m.find(ctx)
	if err != nil || found.kind == device {
		return found.path, found.kind, err
	}
	unlock, err := lockFile(ctx, found.path)
	if err != nil {
		return "", file, err
	}
	defer unlock()
	h, err := attached(ctx, found, loopdev.Options{ReadOnly: m.source.readOnly, DirectIO: true, Name: m.loopName()})
	if err != nil {
		return "", file, err
	}
	return h.Path, file, h.Close()
}

func (m *mapper) find(ctx context.Context) (place, error) {
	found, err := m.source.find(ctx)
	if err == nil && found.kind == directory {
		err = volume.Errorf(volume.ErrInvalid, "local.path leads to the directory %s, which is no device: a PersistentVolume of volumeMode Block needs a block device or a file", found.path)
	}
	return found, err
}
