// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// MarshalJSON returns {"time", "running", "recovered", "complete", "pods"}. Fields are only ever added.
func (s Status) MarshalJSON() ([]byte, error) {
	pods := s.Pods
	if pods == nil {
		pods = []PodStatus{}
	}
	return json.Marshal(struct {
		Time      time.Time   `json:"time"`
		Running   bool        `json:"running"`
		Recovered bool        `json:"recovered"`
		Complete  bool        `json:"complete"`
		Pods      []PodStatus `json:"pods"`
	}{s.Time, s.Running, s.Recovered, s.Complete, pods})
}

// The JSON of a pod. Every field without omitempty or omitzero is always there.
type (
	podJSON struct {
		Namespace  string          `json:"namespace"`
		Name       string          `json:"name"`
		UID        types.UID       `json:"uid"`
		Leaving    bool            `json:"leaving,omitempty"`
		Groups     []int64         `json:"supplementalGroups,omitempty"`
		Error      string          `json:"error,omitempty"`
		Volumes    []volumeJSON    `json:"volumes"`
		Containers []containerJSON `json:"containers"`
	}
	volumeJSON struct {
		Name      string         `json:"name"`
		Plugin    string         `json:"plugin"`
		PV        string         `json:"persistentVolume,omitempty"`
		Path      string         `json:"path"`
		ReadOnly  bool           `json:"readOnly"`
		Block     bool           `json:"block,omitempty"`
		State     VolumeState    `json:"state"`
		Error     string         `json:"error"`
		Warnings  []string       `json:"warnings,omitempty"`
		Operation *operationJSON `json:"operation,omitempty"`
		Failures  int            `json:"failures,omitempty"`
		NextTry   time.Time      `json:"nextTry,omitzero"`
		Usage     *usageJSON     `json:"usage,omitempty"`
	}
	operationJSON struct {
		Name      Operation `json:"name"`
		Since     time.Time `json:"since"`
		Abandoned bool      `json:"abandoned,omitempty"`

		FilesSeen    int64 `json:"filesSeen,omitempty"`
		FilesChanged int64 `json:"filesChanged,omitempty"`
	}
	usageJSON struct {
		UsedBytes     int64 `json:"usedBytes"`
		LimitBytes    int64 `json:"limitBytes,omitempty"`
		LimitEnforced bool  `json:"limitEnforced"`

		LimitedBy      string `json:"limitedBy,omitempty"`
		CapacityBytes  int64  `json:"capacityBytes"`
		AvailableBytes int64  `json:"availableBytes"`
		Inodes         int64  `json:"inodes"`
	}
	containerJSON struct {
		Name    string        `json:"name"`
		Mounts  []mountJSON   `json:"mounts"`
		Devices []deviceJSON  `json:"devices,omitempty"`
		Missing []missingJSON `json:"missing,omitempty"`
	}
	missingJSON struct {
		Volume      string `json:"volume"`
		Destination string `json:"destination"`
		Error       string `json:"error"`
	}
	deviceJSON struct {
		Volume      string `json:"volume"`
		Source      string `json:"source"`
		Destination string `json:"destination"`
		ReadOnly    bool   `json:"readOnly"`
		Permissions string `json:"permissions"`
	}
	mountJSON struct {
		Volume      string   `json:"volume"`
		SubPath     string   `json:"subPath,omitempty"`
		Source      string   `json:"source"`
		Destination string   `json:"destination"`
		ReadOnly    bool     `json:"readOnly"`
		Propagation string   `json:"propagation"`
		Options     []string `json:"options"`
		Unprepared  bool     `json:"unprepared,omitempty"`
	}
)

// MarshalJSON returns what the page of a manager and "podvolumes status -o json" show of a pod. Errors are texts. Fields are
// only ever added.
func (p PodStatus) MarshalJSON() ([]byte, error) {
	pod := podJSON{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Leaving: p.Leaving, Groups: p.SupplementalGroups, Error: errorText(p.Err),
		Volumes: []volumeJSON{}, Containers: []containerJSON{}}
	for i := range p.Volumes {
		pod.Volumes = append(pod.Volumes, newVolumeJSON(&p.Volumes[i]))
	}
	for i := range p.Containers {
		pod.Containers = append(pod.Containers, newContainerJSON(&p.Containers[i]))
	}
	return json.Marshal(pod)
}

func newVolumeJSON(v *VolumeStatus) volumeJSON {
	shown := volumeJSON{Name: v.Name, Plugin: v.Plugin, PV: v.PersistentVolume, Path: v.Path, ReadOnly: v.ReadOnly, Block: v.Block, State: v.State, Error: v.Reason(),
		Warnings: v.Warnings, Failures: v.Failures, NextTry: v.NextTry, Usage: newUsageJSON(v.Metrics)}
	if o := v.Running; o != nil {
		shown.Operation = &operationJSON{Name: o.Operation, Since: o.Since, Abandoned: o.Abandoned, FilesSeen: o.FilesSeen, FilesChanged: o.FilesChanged}
	}
	return shown
}

func newUsageJSON(m *volume.Metrics) *usageJSON {
	if m == nil {
		return nil
	}
	return &usageJSON{UsedBytes: m.Used, LimitBytes: m.Limit, LimitEnforced: m.LimitEnforced, LimitedBy: m.LimitedBy, CapacityBytes: m.Capacity,
		AvailableBytes: m.Available, Inodes: m.InodesUsed}
}

func newContainerJSON(c *ContainerStatus) containerJSON {
	shown := containerJSON{Name: c.Name, Mounts: []mountJSON{}}
	for _, m := range c.Mounts {
		shown.Mounts = append(shown.Mounts, mountJSON{Volume: m.Volume, SubPath: m.SubPath, Source: m.Source, Destination: m.Destination,
			ReadOnly: m.ReadOnly, Propagation: string(m.Propagation), Options: m.OCI().Options, Unprepared: m.Unprepared})
	}
	for _, d := range c.Devices {
		shown.Devices = append(shown.Devices, deviceJSON{Volume: d.Volume, Source: d.Source, Destination: d.Destination, ReadOnly: d.ReadOnly,
			Permissions: d.Permissions()})
	}
	for _, m := range c.Missing {
		shown.Missing = append(shown.Missing, missingJSON{Volume: m.Volume, Destination: m.Destination, Error: errorText(m.Err)})
	}
	return shown
}
