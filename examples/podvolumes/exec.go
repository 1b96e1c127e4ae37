// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

// The exit statuses of exec for a COMMAND that did not run, those of a shell.
const (
	notExecutable = 126
	notFound      = 127
)

// exitStatus is the exit status of a COMMAND that is not 0, or of one that did not run. What there is to say has been said.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// view is what a command is to see of a container.
type view struct {
	Container string // for errors: container "nginx" of pod default/web
	Mounts    []viewMount
	Command   []string
}

// viewMount is a mount of a container with the place of its volume, beneath which a subPath is resolved.
type viewMount struct {
	volumemanager.Mount
	VolumePath string
}

// execInContainer runs a command that sees a container's mounts. It takes no lock: a manager may be at work.
func execInContainer(ctx context.Context, args []string, s streams) error {
	var command []string
	if i := slices.Index(args, "--"); i >= 0 {
		args, command = args[:i], args[i+1:]
	}
	o, err := parse("exec", args, "words")
	if err != nil {
		return err
	}
	if len(o.words) != 2 {
		return misuse("say in which container: NAMESPACE/POD CONTAINER -- COMMAND")
	}
	pod, err := parsePodName(o.words[0])
	if err != nil {
		return err
	}
	if len(command) == 0 || command[0] == "" {
		return misuse("say what to run: -- COMMAND")
	}
	ctx, cancel := o.limit(ctx)
	defer cancel()
	plugins, err := openPlugins(ctx, o, volume.Host{})
	if err != nil {
		return err
	}
	defer plugins.Close()
	pods, err := volumemanager.Inspect(ctx, plugins, volumemanager.InspectOptions{})
	if err != nil {
		return err
	}
	status, err := findPod(pods, pod, plugins.Host().Root)
	if err != nil {
		return err
	}
	seen, err := viewOf(status, o.words[1])
	if err != nil {
		return err
	}
	seen.Command = command
	return runInView(ctx, seen, s)
}

func parsePodName(text string) (types.NamespacedName, error) {
	namespace, name, found := strings.Cut(text, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, misuse("%q is not of the form NAMESPACE/POD", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

func findPod(pods []volumemanager.PodStatus, name types.NamespacedName, root string) (*volumemanager.PodStatus, error) {
	var found []*volumemanager.PodStatus
	for i := range pods {
		if pods[i].Namespace == name.Namespace && pods[i].Name == name.Name {
			found = append(found, &pods[i])
		}
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("nothing is set up for pod %s in %s", name, root)
	case len(found) > 1:
		return nil, fmt.Errorf("there are volumes of %d pods that are or were called %s (UIDs %s and %s): take those down that are gone",
			len(found), name, found[0].UID, found[1].UID)
	case found[0].Err != nil && len(found[0].Containers) == 0:
		return nil, found[0].Err
	}
	return found[0], nil
}

// viewOf returns the mounts of the container, or an error that names each one that cannot be had.
func viewOf(pod *volumemanager.PodStatus, container string) (view, error) {
	i := slices.IndexFunc(pod.Containers, func(c volumemanager.ContainerStatus) bool { return c.Name == container })
	if i < 0 {
		names := make([]string, len(pod.Containers))
		for i, c := range pod.Containers {
			names[i] = c.Name
		}
		return view{}, fmt.Errorf("pod %s/%s has no container %q: there are %s", pod.Namespace, pod.Name, container, strings.Join(names, ", "))
	}
	c := &pod.Containers[i]
	seen := view{Container: fmt.Sprintf("container %q of pod %s/%s", c.Name, pod.Namespace, pod.Name)}
	if len(c.Missing) > 0 {
		missing := make([]string, len(c.Missing))
		for i, m := range c.Missing {
			missing[i] = fmt.Sprintf("volume %q at %s: %s", m.Volume, m.Destination, whyMissing(pod, &m))
		}
		return view{}, fmt.Errorf("%s lacks mounts: %s", seen.Container, strings.Join(missing, "; "))
	}
	for _, m := range c.Mounts {
		v := findVolume(pod, m.Volume)
		if v == nil {
			return view{}, fmt.Errorf("%s: nothing is known of its volume %q", seen.Container, m.Volume)
		}
		seen.Mounts = append(seen.Mounts, viewMount{Mount: m, VolumePath: v.Path})
	}
	for _, d := range c.Devices {
		// To the command the node of the device is mounted; the link to it is the host's.
		node, err := filepath.EvalSymlinks(d.Source)
		if err != nil {
			return view{}, fmt.Errorf("%s: device %s: %w", seen.Container, d.Destination, err)
		}
		seen.Mounts = append(seen.Mounts, viewMount{VolumePath: node, Mount: volumemanager.Mount{Volume: d.Volume, Source: node,
			Destination: d.Destination, ReadOnly: d.ReadOnly, Propagation: v1.MountPropagationNone}})
	}
	return seen, nil
}

func whyMissing(pod *volumemanager.PodStatus, m *volumemanager.MissingMount) string {
	if m.Err != nil {
		return m.Err.Error()
	}
	if v := findVolume(pod, m.Volume); v != nil && v.Err != nil {
		return v.Reason()
	}
	return "it is not there"
}

func findVolume(pod *volumemanager.PodStatus, name string) *volumemanager.VolumeStatus {
	i := slices.IndexFunc(pod.Volumes, func(v volumemanager.VolumeStatus) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return &pod.Volumes[i]
}
