// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	utilstrings "k8s.io/utils/strings"

	"github.com/volumekit/volumekit/internal/mountid"
	"github.com/volumekit/volumekit/internal/record"
	"github.com/volumekit/volumekit/volume"
)

const (
	// recordName is the name of a pod's record in the pod's directory. It tells that the pod was set up here.
	recordName = "volumekit.json"

	// leavingName is the record's name once the tearing down of all volumes has begun. That is one rename, instead of writing
	// the record again with a mark at each.
	leavingName = "volumekit.leaving.json"

	// recordVersion changes when an older program would misunderstand a record.
	recordVersion = 1
)

// podRecord is what is recorded of a pod: what has to be known to go on after a crash.
type podRecord struct {
	// Pod is the pod, as far as its volumes are concerned; see recordedPod.
	Pod *v1.Pod `json:"pod"`

	// Volumes are those that may be there, in any order.
	Volumes []volumeRecord `json:"volumes,omitempty"`
}

// volumeID names a volume among those of a pod.
type volumeID struct {
	Plugin string `json:"plugin"` // the plugin's name
	Name   string `json:"name"`   // [volume.Spec.Name]
}

// volumeRecord is what is recorded of a volume before anything is done for it.
type volumeRecord struct {
	volumeID

	// Volume is the name that the pod gives the volume.
	Volume string `json:"volume"`

	// Source or PersistentVolume is the spec, and ReadOnly belongs to it.
	Source           *v1.VolumeSource     `json:"source,omitempty"`
	PersistentVolume *v1.PersistentVolume `json:"persistentVolume,omitempty"`
	ReadOnly         bool                 `json:"readOnly,omitempty"`

	// Device is [volume.VolumePlugin.VolumeName], if something has to be done to the device once per node.
	Device string `json:"device,omitempty"`

	// TearingDown says that tearing down has begun, and has to end before the volume can be set up again.
	TearingDown bool `json:"tearingDown,omitempty"`

	// Failure says why the volume could not be set up the last time; empty if that is not so.
	Failure string `json:"failure,omitempty"`

	// Mount tells what was mounted at the volume's path when it had been set up; nil if that is not known, or was no mount.
	Mount *mountid.Identity `json:"mount,omitempty"`
}

func newVolumeRecord(v *podVolume) *volumeRecord {
	r := &volumeRecord{volumeID: v.id, Volume: v.name, PersistentVolume: v.spec.PersistentVolume, ReadOnly: v.spec.ReadOnly}
	if v.spec.Volume != nil {
		r.Source = &v.spec.Volume.VolumeSource
	}
	if v.device != nil {
		r.Device = v.device.id.Device
	}
	return r
}

// spec returns the spec that the volume was set up from.
func (r *volumeRecord) spec() *volume.Spec {
	if r.PersistentVolume != nil {
		return volume.NewSpecFromPersistentVolume(r.PersistentVolume, r.ReadOnly)
	}
	spec := volume.NewSpecFromVolume(&v1.Volume{Name: r.Volume})
	if r.Source != nil {
		spec.Volume.VolumeSource = *r.Source
	}
	spec.ReadOnly = r.ReadOnly
	return spec
}

// recordedPod returns the part of a pod that its volumes and their mounts depend on. Environment variables, commands and the
// like stay out: they can hold secrets.
func recordedPod(pod *v1.Pod) *v1.Pod {
	kept := &v1.Pod{}
	kept.Namespace, kept.Name, kept.UID = pod.Namespace, pod.Name, pod.UID
	kept.Spec.Volumes = pod.Spec.Volumes
	kept.Spec.HostUsers = pod.Spec.HostUsers
	kept.Spec.Resources = pod.Spec.Resources
	kept.Spec.Overhead = pod.Spec.Overhead
	kept.Spec.ServiceAccountName = pod.Spec.ServiceAccountName
	if security := pod.Spec.SecurityContext; security != nil {
		kept.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: security.FSGroup, FSGroupChangePolicy: security.FSGroupChangePolicy,
			RunAsUser: security.RunAsUser, SELinuxOptions: security.SELinuxOptions, SELinuxChangePolicy: security.SELinuxChangePolicy}
	}
	for i := range pod.Spec.InitContainers {
		kept.Spec.InitContainers = append(kept.Spec.InitContainers, recordedContainer(&pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		kept.Spec.Containers = append(kept.Spec.Containers, recordedContainer(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.EphemeralContainers {
		c := recordedContainer((*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
		kept.Spec.EphemeralContainers = append(kept.Spec.EphemeralContainers, v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon(c)})
	}
	return kept
}

// hasSameVolumes reports whether nothing that a pod's volumes depend on differs. Labels and annotations, which a downwardAPI volume
// can show, change more often than the rest, and can hold secrets: they are not recorded.
func hasSameVolumes(a, b *v1.Pod) bool {
	return equality.Semantic.DeepEqual(recordedPod(a), recordedPod(b)) &&
		(!showsPod(a) || equality.Semantic.DeepEqual(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Annotations, b.Annotations))
}

// showsPod reports whether a volume of the pod shows something of the pod itself.
func showsPod(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.DownwardAPI != nil ||
			v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s v1.VolumeProjection) bool { return s.DownwardAPI != nil })
	})
}

func recordedContainer(c *v1.Container) v1.Container {
	kept := v1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy, Resources: c.Resources, VolumeMounts: c.VolumeMounts, VolumeDevices: c.VolumeDevices}
	if security := c.SecurityContext; security != nil {
		kept.SecurityContext = &v1.SecurityContext{Privileged: security.Privileged, RunAsUser: security.RunAsUser, SELinuxOptions: security.SELinuxOptions}
	}
	return kept
}

func recordPath(host volume.Host, uid types.UID) string {
	return filepath.Join(host.PodDir(uid), recordName)
}

func leavingPath(host volume.Host, uid types.UID) string {
	return filepath.Join(host.PodDir(uid), leavingName)
}

// isRecorded reports whether anything is, or was to be, recorded of the pod.
func isRecorded(host volume.Host, uid types.UID) bool {
	return record.Exists(recordPath(host, uid)) || record.Exists(leavingPath(host, uid))
}

// readRecord reads the pod's record. The error matches fs.ErrNotExist if there is none, and record.ErrDamaged if it cannot be
// understood.
func readRecord(host volume.Host, uid types.UID) (*podRecord, error) {
	leaving := record.Exists(leavingPath(host, uid))
	path := recordPath(host, uid)
	var r podRecord
	err := record.Read(path, recordVersion, &r)
	if errors.Is(err, fs.ErrNotExist) && leaving {
		path = leavingPath(host, uid)
		err = record.Read(path, recordVersion, &r)
	}
	if err != nil {
		return nil, err
	}
	if err := r.check(uid); err != nil {
		return nil, fmt.Errorf("%w %s: %w", record.ErrDamaged, path, err)
	}
	if leaving {
		for i := range r.Volumes {
			r.Volumes[i].TearingDown = true
		}
	}
	return &r, nil
}

// check refuses what cannot have been written here: names become parts of paths.
func (r *podRecord) check(uid types.UID) error {
	if r.Pod == nil || r.Pod.Name == "" || r.Pod.Namespace == "" {
		return errors.New("it names no pod")
	}
	if r.Pod.UID != uid {
		return fmt.Errorf("it is that of a pod with the UID %.64q", r.Pod.UID)
	}
	for i := range r.Volumes {
		if err := r.Volumes[i].check(); err != nil {
			return err
		}
	}
	return nil
}

// isLost reports whether nothing but the volume's name is known, because the record was damaged.
func (r *volumeRecord) isLost() bool { return r.Source == nil && r.PersistentVolume == nil }

// mayBe reports whether the volume is, as far as is known, one of the volumeMode.
func (r *volumeRecord) mayBe(mode v1.PersistentVolumeMode) bool {
	return r.isLost() || isBlock(r.spec()) == (mode == v1.PersistentVolumeBlock)
}

func (r *volumeRecord) check() error {
	domain, name, _ := strings.Cut(r.Plugin, "/")
	return errors.Join(
		volume.CheckPathElement("plugin", domain),
		volume.CheckPathElement("plugin", name),
		volume.CheckName(r.Name),
		volume.CheckName(r.Volume))
}

// writeRecord writes the pod's record, in which it is marked which volumes are being torn down. leaving says that there may be
// the one of markLeaving, which says that all are.
func writeRecord(host volume.Host, r *podRecord, leaving bool) error {
	if err := record.Write(recordPath(host, r.Pod.UID), recordVersion, r); err != nil || !leaving {
		return err
	}
	return record.Remove(leavingPath(host, r.Pod.UID))
}

// markLeaving records that the tearing down of all volumes has begun.
func markLeaving(host volume.Host, uid types.UID) error {
	err := os.Rename(recordPath(host, uid), leavingPath(host, uid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // so it was already
	}
	return err
}

// removeRecord removes what is recorded of the pod, and then the pod's directory if nothing else is in it.
func removeRecord(host volume.Host, uid types.UID) error {
	paths := []string{recordPath(host, uid), leavingPath(host, uid)}
	for _, path := range paths {
		if err := record.Remove(path); err != nil {
			return err
		}
	}
	if syscall.Rmdir(host.PodDir(uid)) == nil {
		return nil
	}
	for _, path := range paths {
		if err := record.RemoveUnfinished(path); err != nil {
			return err
		}
	}
	return removeIfEmpty(host.PodDir(uid))
}

// directoriesOfVolumes lists the volumes of the pod that are there as directories, or as links to raw devices. Whoever asks has made sure that the pod is
// recorded: otherwise they are those of another program, such as a kubelet.
func directoriesOfVolumes(host volume.Host, uid types.UID) ([]volumeID, error) {
	var ids []volumeID
	add := func(plugin, name string) {
		id := volumeID{Plugin: utilstrings.UnescapeQualifiedName(plugin), Name: name}
		if volume.CheckName(id.Name) == nil && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	err := eachIn(host.PodVolumesDir(uid), func(plugin string, entry fs.DirEntry) {
		if entry.IsDir() {
			// Plugins make volumes beside their place, under the same name behind a dot; a crash may have left only that.
			add(plugin, strings.TrimPrefix(entry.Name(), "."))
		}
	})
	if err != nil {
		return nil, err
	}
	err = eachIn(podDevicesDir(host, uid), func(plugin string, entry fs.DirEntry) { add(plugin, entry.Name()) })
	return ids, err
}

// podDevicesDir holds the links to the pod's raw devices, in a directory for each plugin.
func podDevicesDir(host volume.Host, uid types.UID) string {
	return filepath.Join(host.PodDir(uid), "volumeDevices")
}

// eachIn calls f for what is in the directories in dir. One that does not exist holds nothing.
func eachIn(dir string, f func(in string, entry fs.DirEntry)) error {
	names, err := subdirectories(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, entry := range entries {
			f(name, entry)
		}
	}
	return nil
}

// subdirectories lists the directories in dir, in the order of their names. A directory that does not exist has none.
func subdirectories(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// podUIDs lists the pods of which something is recorded, and those whose directory is empty: a crash has left that.
func podUIDs(host volume.Host) (recorded []types.UID, foreign []types.UID, err error) {
	entries, err := os.ReadDir(host.PodsDir())
	if errors.Is(err, fs.ErrNotExist) {
		err = checkDangling(host.Root)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list pods: %w", err)
	}
	for _, entry := range entries {
		uid := types.UID(entry.Name())
		if !entry.IsDir() || volume.CheckPodUID(uid) != nil {
			continue
		}
		if isRecorded(host, uid) || isEmpty(host.PodDir(uid)) {
			recorded = append(recorded, uid)
		} else {
			foreign = append(foreign, uid)
		}
	}
	return recorded, foreign, nil
}

func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// checkDangling tells a root that was never made from one that leads to what is not there now, such as a disk that is not
// mounted.
func checkDangling(root string) error {
	if _, err := os.Lstat(root); err != nil {
		return nil
	}
	_, err := os.Stat(root)
	return err
}
