// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

// reportedPod is a pod's status together with what the program knows of the pod.
type reportedPod struct {
	volumemanager.PodStatus

	// pod is the pod of the manifest, nil where there is none.
	pod *v1.Pod

	// origin is where in a manifest the pod stands, empty where there is none.
	origin string
}

// volumes are the status's. A pod that was refused as a whole has them from the manifest, all failed.
func (p *reportedPod) volumes() []volumemanager.VolumeStatus {
	if p.Err == nil || len(p.Volumes) > 0 || p.pod == nil {
		return p.Volumes
	}
	volumes := make([]volumemanager.VolumeStatus, len(p.pod.Spec.Volumes))
	for i := range volumes {
		volumes[i] = volumemanager.VolumeStatus{Name: p.pod.Spec.Volumes[i].Name, State: volumemanager.Failed, Err: p.Err}
	}
	return volumes
}

// pending lists the volumes that were not come to, or that something interrupted, each with its place in the manifest.
func (p *reportedPod) pending() []string { return p.volumeErrors(volumemanager.Pending) }

func (p *reportedPod) volumeErrors(state volumemanager.VolumeState) []string {
	var all []string
	for i := range p.Volumes {
		if v := &p.Volumes[i]; v.State == state && v.Err != nil {
			all = append(all, p.place()+v.Err.Error())
		}
	}
	return all
}

// failures lists what is wrong with the pod and does not go away by itself, each with its place in the manifest.
func (p *reportedPod) failures() []string {
	var all []string
	for line := range strings.Lines(errorLines(p.Err)) {
		all = append(all, p.place()+strings.TrimSuffix(line, "\n"))
	}
	all = append(all, p.volumeErrors(volumemanager.Failed)...)
	for i := range p.Containers {
		for _, m := range p.Containers[i].Missing {
			if m.Err != nil {
				all = append(all, fmt.Sprintf("%spod %s/%s: container %q: volume %q at %s: %v", p.place(), p.Namespace, p.Name, p.Containers[i].Name, m.Volume, m.Destination, m.Err))
			}
		}
	}
	return all
}

// reason is what is wrong with a volume, without the names of volume and pod, which whoever shows it shows anyway.
func reason(err error) string {
	if e, ok := err.(*volume.Error); ok {
		err = e.Err
	}
	return errorText(err)
}

// warnings lists what the plugins had to say although they went on.
func (p *reportedPod) warnings() []string {
	var all []string
	for i := range p.Volumes {
		v := &p.Volumes[i]
		for _, warning := range v.Warnings {
			all = append(all, fmt.Sprintf("%svolume %q of pod %s/%s: %s", p.place(), v.Name, p.Namespace, p.Name, warning))
		}
		if v.MetricsErr != nil {
			all = append(all, fmt.Sprintf("volume %q of pod %s/%s: cannot tell how full it is: %v", v.Name, p.Namespace, p.Name, v.MetricsErr))
		}
	}
	return all
}

func (p *reportedPod) place() string {
	if p.origin == "" {
		return ""
	}
	return p.origin + ": "
}

// show writes the pods to standard output: as a tree, or as JSON.
func show(pods []reportedPod, output string, s streams) error {
	if output == "json" {
		return showJSON(pods, s.out)
	}
	return showTree(pods, s.out)
}

// The schema of -o json. Fields are only ever added. Every field without omitempty is always there.
type (
	reportJSON struct {
		Pods []podJSON `json:"pods"`
	}
	podJSON struct {
		Namespace  string          `json:"namespace"`
		Name       string          `json:"name"`
		UID        string          `json:"uid"`
		Error      string          `json:"error,omitempty"`
		Volumes    []volumeJSON    `json:"volumes"`
		Containers []containerJSON `json:"containers"`
	}
	volumeJSON struct {
		Name     string     `json:"name"`
		Plugin   string     `json:"plugin"`
		Path     string     `json:"path"`
		ReadOnly bool       `json:"readOnly"`
		State    string     `json:"state"`
		Error    string     `json:"error"`
		Warnings []string   `json:"warnings,omitempty"`
		Usage    *usageJSON `json:"usage,omitempty"`
	}
	usageJSON struct {
		UsedBytes      int64 `json:"usedBytes"`
		LimitBytes     int64 `json:"limitBytes,omitempty"`
		LimitEnforced  bool  `json:"limitEnforced"`
		CapacityBytes  int64 `json:"capacityBytes"`
		AvailableBytes int64 `json:"availableBytes"`
		Inodes         int64 `json:"inodes"`
	}
	containerJSON struct {
		Name    string        `json:"name"`
		Mounts  []mountJSON   `json:"mounts"`
		Missing []missingJSON `json:"missing,omitempty"`
	}
	missingJSON struct {
		Volume      string `json:"volume"`
		Destination string `json:"destination"`
		Error       string `json:"error"`
	}
	mountJSON struct {
		Source      string   `json:"source"`
		Destination string   `json:"destination"`
		ReadOnly    bool     `json:"readOnly"`
		Propagation string   `json:"propagation"`
		Options     []string `json:"options"`
	}
)

func showJSON(pods []reportedPod, out io.Writer) error {
	report := reportJSON{Pods: make([]podJSON, 0, len(pods))}
	for i := range pods {
		report.Pods = append(report.Pods, newPodJSON(&pods[i]))
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

func newPodJSON(p *reportedPod) podJSON {
	pod := podJSON{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Error: errorText(p.Err), Volumes: []volumeJSON{}, Containers: []containerJSON{}}
	for _, v := range p.volumes() {
		pod.Volumes = append(pod.Volumes, volumeJSON{Name: v.Name, Plugin: v.Plugin, Path: v.Path, ReadOnly: v.ReadOnly,
			State: string(v.State), Error: reason(v.Err), Warnings: v.Warnings, Usage: newUsageJSON(v.Metrics)})
	}
	for _, c := range p.Containers {
		container := containerJSON{Name: c.Name, Mounts: []mountJSON{}}
		for _, m := range c.Missing {
			container.Missing = append(container.Missing, missingJSON{Volume: m.Volume, Destination: m.Destination, Error: errorText(m.Err)})
		}
		for _, m := range c.Mounts {
			container.Mounts = append(container.Mounts, mountJSON{Source: m.Source, Destination: m.Destination, ReadOnly: m.ReadOnly,
				Propagation: string(m.Propagation), Options: m.OCI().Options})
		}
		pod.Containers = append(pod.Containers, container)
	}
	return pod
}

func newUsageJSON(m *volume.Metrics) *usageJSON {
	if m == nil {
		return nil
	}
	return &usageJSON{UsedBytes: m.Used, LimitBytes: m.Limit, LimitEnforced: m.LimitEnforced, CapacityBytes: m.Capacity, AvailableBytes: m.Available, Inodes: m.InodesUsed}
}

// errorLines returns the text with a line for each of the errors that were joined, and none for nil.
func errorLines(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func errorText(err error) string { return oneLine(errorLines(err)) }
