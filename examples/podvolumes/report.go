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

// reportJSON is what -o json writes.
type reportJSON struct {
	Pods []volumemanager.PodStatus `json:"pods"`
}

func showJSON(pods []reportedPod, out io.Writer) error {
	report := reportJSON{Pods: make([]volumemanager.PodStatus, 0, len(pods))}
	for i := range pods {
		status := pods[i].PodStatus
		status.Volumes = pods[i].volumes()
		report.Pods = append(report.Pods, status)
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// reason is the text of an error without the names that an event has anyway.
func reason(err error) string {
	if e, ok := err.(*volume.Error); ok {
		err = e.Err
	}
	return errorText(err)
}

// errorLines returns the text with a line for each of the errors that were joined, and none for nil.
func errorLines(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func errorText(err error) string { return oneLine(errorLines(err)) }
