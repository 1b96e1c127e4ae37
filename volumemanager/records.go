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

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilstrings "k8s.io/utils/strings"

	"github.com/volumekit/volumekit/internal/record"
	"github.com/volumekit/volumekit/volume"
)

// The records of a pod are in its directory:
//
//	pods/UID/records/pod                      the pod, as far as its volumes are concerned
//	pods/UID/records/PLUGIN/VOLUME            one volume that may be set up
//	pods/UID/records/PLUGIN/VOLUME~           one volume whose tearing down has begun
//
// The names alone say what to tear down, so a record whose content is damaged is as good as a whole one for that.
const (
	recordsDir    = "records"
	podRecordName = "pod"
	tearingDown   = "~"

	// recordVersion changes when an older program would misunderstand a record.
	recordVersion = 1
)

// volumeID names a volume of a pod by what its record's name holds.
type volumeID struct {
	plugin string // the plugin's name
	name   string // [volume.Spec.Name]
}

// volumeRecord is the content of a volume's record.
type volumeRecord struct {
	// Namespace and Pod are the pod's names, for messages when the pod's own record is damaged.
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`

	// Volume is the name that the pod gives the volume.
	Volume string `json:"volume"`

	// Source or PersistentVolume is the spec, and ReadOnly belongs to it.
	Source           *v1.VolumeSource     `json:"source,omitempty"`
	PersistentVolume *v1.PersistentVolume `json:"persistentVolume,omitempty"`
	ReadOnly         bool                 `json:"readOnly,omitempty"`

	// Failure says why the volume could not be set up the last time; empty if that is not so.
	Failure string `json:"failure,omitempty"`
}

func newVolumeRecord(pod *v1.Pod, podVolume string, spec *volume.Spec) *volumeRecord {
	r := &volumeRecord{Namespace: pod.Namespace, Pod: pod.Name, Volume: podVolume, PersistentVolume: spec.PersistentVolume, ReadOnly: spec.ReadOnly}
	if spec.Volume != nil {
		r.Source = &spec.Volume.VolumeSource
	}
	return r
}

// podRecord returns the part of a pod that its volumes and their mounts depend on. Environment variables, commands and the
// like stay out: they can hold secrets.
func podRecord(pod *v1.Pod) *v1.Pod {
	kept := &v1.Pod{}
	kept.Namespace, kept.Name, kept.UID = pod.Namespace, pod.Name, pod.UID
	kept.Spec.Volumes = pod.Spec.Volumes
	kept.Spec.HostUsers = pod.Spec.HostUsers
	kept.Spec.Resources = pod.Spec.Resources
	kept.Spec.Overhead = pod.Spec.Overhead
	if security := pod.Spec.SecurityContext; security != nil {
		kept.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: security.FSGroup, FSGroupChangePolicy: security.FSGroupChangePolicy}
	}
	for i := range pod.Spec.InitContainers {
		kept.Spec.InitContainers = append(kept.Spec.InitContainers, containerRecord(&pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		kept.Spec.Containers = append(kept.Spec.Containers, containerRecord(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.EphemeralContainers {
		c := containerRecord((*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
		kept.Spec.EphemeralContainers = append(kept.Spec.EphemeralContainers, v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon(c)})
	}
	return kept
}

func containerRecord(c *v1.Container) v1.Container {
	kept := v1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy, Resources: c.Resources, VolumeMounts: c.VolumeMounts, VolumeDevices: c.VolumeDevices}
	if c.SecurityContext != nil {
		kept.SecurityContext = &v1.SecurityContext{Privileged: c.SecurityContext.Privileged}
	}
	return kept
}

// podRecords reads and writes the records of one pod.
type podRecords struct {
	dir string
}

func recordsOf(host volume.Host, uid types.UID) podRecords {
	return podRecords{filepath.Join(host.PodDir(uid), recordsDir)}
}

// exist reports whether anything is, or was to be, recorded of the pod.
func (r podRecords) exist() bool {
	_, err := os.Lstat(r.dir)
	return !errors.Is(err, fs.ErrNotExist) // what cannot be looked at may be there
}

func (r podRecords) podPath() string {
	return filepath.Join(r.dir, podRecordName)
}

func (r podRecords) volumePath(id volumeID) string {
	return filepath.Join(r.dir, utilstrings.EscapeQualifiedName(id.plugin), id.name)
}

func (r podRecords) readPod() (*v1.Pod, error) {
	var pod v1.Pod
	if err := record.Read(r.podPath(), recordVersion, &pod); err != nil {
		return nil, err
	}
	if pod.Name == "" || pod.Namespace == "" {
		return nil, fmt.Errorf("%w %s: it names no pod", record.ErrDamaged, r.podPath())
	}
	return &pod, nil
}

func (r podRecords) writePod(pod *v1.Pod) error {
	return record.Write(r.podPath(), recordVersion, podRecord(pod))
}

// readVolume reads the volume's record, marked or not.
func (r podRecords) readVolume(id volumeID) (*volumeRecord, error) {
	var v volumeRecord
	err := record.Read(r.volumePath(id), recordVersion, &v)
	if errors.Is(err, fs.ErrNotExist) {
		err = record.Read(r.volumePath(id)+tearingDown, recordVersion, &v)
	}
	if err != nil {
		return nil, err
	}
	return &v, nil
}

func (r podRecords) writeVolume(id volumeID, v *volumeRecord) error {
	return record.Write(r.volumePath(id), recordVersion, v)
}

// beginTearDown marks the volume as one that must be torn down before it can be set up again. A volume without a record
// needs no mark.
func (r podRecords) beginTearDown(id volumeID) error {
	err := os.Rename(r.volumePath(id), r.volumePath(id)+tearingDown)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (r podRecords) isTearingDown(id volumeID) (bool, error) {
	_, err := os.Lstat(r.volumePath(id) + tearingDown)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// removeVolume removes what was recorded of the volume, the mark included.
func (r podRecords) removeVolume(id volumeID) error {
	path := r.volumePath(id)
	return errors.Join(record.Remove(path+tearingDown), record.Remove(path), record.RemoveDir(filepath.Dir(path)))
}

// removePod removes the pod's record and the directory, once no volume's record is left in it.
func (r podRecords) removePod() error {
	if err := errors.Join(record.Remove(r.podPath()), record.RemoveDir(r.dir)); err != nil || !r.exist() {
		return err
	}
	plugins, err := subdirectories(r.dir)
	if err != nil {
		return err
	}
	for _, plugin := range plugins { // without records: a crash has left them
		if err := record.RemoveDir(filepath.Join(r.dir, plugin)); err != nil {
			return err
		}
	}
	return record.RemoveDir(r.dir)
}

// volumes lists the volumes that have a record, each once, whether it is being torn down or not.
func (r podRecords) volumes() ([]volumeID, error) {
	plugins, err := subdirectories(r.dir)
	if err != nil {
		return nil, err
	}
	var ids []volumeID
	for _, plugin := range plugins {
		names, err := record.List(filepath.Join(r.dir, plugin))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			id := volumeID{plugin: utilstrings.UnescapeQualifiedName(plugin), name: strings.TrimSuffix(name, tearingDown)}
			// A file that no volume can have is somebody else's, such as an editor's.
			if volume.CheckName(id.name) == nil && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
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

// names returns the pod's namespace and name from whichever record tells, or nothing.
func (r podRecords) names() (namespace, name string) {
	if pod, err := r.readPod(); err == nil {
		return pod.Namespace, pod.Name
	}
	ids, err := r.volumes()
	if err != nil {
		return "", ""
	}
	for _, id := range ids {
		if v, err := r.readVolume(id); err == nil {
			return v.Namespace, v.Pod
		}
	}
	return "", ""
}

// podName is how messages name the pod: by its names, or by its UID if no record tells them.
func (r podRecords) podName(uid types.UID) string {
	if namespace, name := r.names(); name != "" {
		return namespace + "/" + name
	}
	return string(uid)
}
