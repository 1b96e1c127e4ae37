// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
)

// Mount is what a container runtime needs to mount a volume into a container.
type Mount struct {
	// Volume is the volume's name in the pod.
	Volume string

	// SubPath is the part of the volume that the container asks for, after expansion; empty for the whole.
	SubPath string

	// Source is the path on the host, Destination the path in the container.
	Source, Destination string

	// Unprepared says that Source does not show the subPath yet. It has to be made when the container starts, since an init
	// container may have to fill the volume first: [Manager.ContainerMounts] does. Without the right to mount it cannot.
	Unprepared bool

	// ReadOnly says that the container cannot write: it asked for that, or the volume allows nothing else.
	ReadOnly bool

	// RecursiveReadOnly says that what is mounted below the source is read-only too.
	RecursiveReadOnly bool

	// SELinuxRelabel asks the container runtime to give the files the container's SELinux label, as the CRI's selinux_relabel
	// does. The OCI runtime specification has no word for it.
	SELinuxRelabel bool

	// Propagation is how mounts that are made later reach the container, or leave it.
	Propagation v1.MountPropagationMode

	// BindOptions are the container's bindMountOptions: noexec, nodev and nosuid.
	BindOptions []string
}

// propagationOptions are the options of OCI runtimes that Kubernetes' propagation modes stand for.
var propagationOptions = map[v1.MountPropagationMode]string{
	v1.MountPropagationNone:            "rprivate",
	v1.MountPropagationHostToContainer: "rslave",
	v1.MountPropagationBidirectional:   "rshared",
}

// OCI returns the mount as the OCI runtime specification has it.
func (m Mount) OCI() specs.Mount {
	access := "rw"
	switch {
	case m.RecursiveReadOnly:
		access = "rro"
	case m.ReadOnly:
		access = "ro"
	}
	options := append([]string{"rbind", propagationOptions[m.Propagation], access}, m.BindOptions...)
	return specs.Mount{Type: "bind", Source: m.Source, Destination: m.Destination, Options: options}
}

// containerStatuses tells which mounts the pod's containers get of its volumes.
func containerStatuses(host volume.Host, pod *v1.Pod, volumes []VolumeStatus) []ContainerStatus {
	var containers []ContainerStatus
	for _, c := range containersOf(pod) {
		containers = append(containers, containerStatus(host, pod, c, volumes))
	}
	return containers
}

func containerStatus(host volume.Host, pod *v1.Pod, c *v1.Container, volumes []VolumeStatus) ContainerStatus {
	status := ContainerStatus{Name: c.Name}
	for i, m := range c.VolumeMounts {
		missing := MissingMount{Volume: m.Name, Destination: destination(m.MountPath)}
		j := slices.IndexFunc(volumes, func(v VolumeStatus) bool { return v.Name == m.Name })
		if j < 0 || volumes[j].State != Mounted {
			status.Missing = append(status.Missing, missing)
			continue
		}
		mount, err := containerMount(c, &m, &volumes[j])
		if mount.SubPath != "" {
			mount.Source, mount.Unprepared = subPathTarget(host, pod.UID, c, i), true
		}
		if err != nil {
			missing.Err = err
			status.Missing = append(status.Missing, missing)
			continue
		}
		status.Mounts = append(status.Mounts, mount)
	}
	devices, missing := containerDevices(c, volumes)
	status.Devices, status.Missing = devices, append(status.Missing, missing...)
	slices.SortStableFunc(status.Mounts, func(a, b Mount) int { return depth(a.Destination) - depth(b.Destination) })
	return status
}

// errs returns an error for each mount that is missing because of how the container asks for it.
func (s *ContainerStatus) errs() []error {
	var errs []error
	for _, m := range s.Missing {
		if m.Err != nil {
			errs = append(errs, fmt.Errorf("container %q: volume %q at %s: %w", s.Name, m.Volume, m.Destination, m.Err))
		}
	}
	return errs
}

// containerMount tells what the container asks for. The subPath has been rendered.
func containerMount(c *v1.Container, m *v1.VolumeMount, v *VolumeStatus) (Mount, error) {
	if v.Block {
		return Mount{}, volume.Errorf(volume.ErrInvalid, "it is a raw device (volumeMode Block): it belongs in volumeDevices, not in volumeMounts")
	}
	mount := Mount{Volume: m.Name, SubPath: m.SubPath, Source: v.Path, Destination: destination(m.MountPath), ReadOnly: m.ReadOnly || v.ReadOnly, SELinuxRelabel: v.SELinuxRelabel, Propagation: v1.MountPropagationNone}
	if m.MountPropagation != nil {
		mount.Propagation = *m.MountPropagation
	}
	if _, known := propagationOptions[mount.Propagation]; !known {
		return Mount{}, volume.Errorf(volume.ErrInvalid, "mountPropagation %q is none of None, HostToContainer and Bidirectional", mount.Propagation)
	}
	if mount.Propagation == v1.MountPropagationBidirectional && !isPrivileged(c) {
		return Mount{}, volume.Errorf(volume.ErrInvalid, "mountPropagation Bidirectional needs a privileged container")
	}
	var err error
	if mount.RecursiveReadOnly, err = isRecursiveReadOnly(m, mount.Propagation); err != nil {
		return Mount{}, err
	}
	if mount.BindOptions, err = bindOptions(m); err != nil {
		return Mount{}, err
	}
	return mount, nil
}

// isRecursiveReadOnly follows the API's rules for recursiveReadOnly. Whether the kernel and the container runtime can do
// it shows when the runtime mounts: one that cannot refuses the option, so Enabled fails closed.
func isRecursiveReadOnly(m *v1.VolumeMount, propagation v1.MountPropagationMode) (bool, error) {
	if m.RecursiveReadOnly == nil || *m.RecursiveReadOnly == v1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	mode := *m.RecursiveReadOnly
	switch {
	case mode != v1.RecursiveReadOnlyIfPossible && mode != v1.RecursiveReadOnlyEnabled:
		return false, volume.Errorf(volume.ErrInvalid, "recursiveReadOnly %q is none of Disabled, IfPossible and Enabled", mode)
	case !m.ReadOnly:
		return false, volume.Errorf(volume.ErrInvalid, "recursiveReadOnly %s needs readOnly: true", mode)
	case propagation != v1.MountPropagationNone:
		return false, volume.Errorf(volume.ErrInvalid, "recursiveReadOnly %s does not go together with mountPropagation %s", mode, propagation)
	}
	return mode == v1.RecursiveReadOnlyEnabled || kernelHasRecursiveReadOnly(), nil
}

func bindOptions(m *v1.VolumeMount) ([]string, error) {
	var options []string
	for _, option := range m.BindMountOptions {
		switch v1.BindMountOption(option) {
		case v1.BindMountOptionNoExec, v1.BindMountOptionNoDev, v1.BindMountOptionNoSUID:
		default:
			return nil, volume.Errorf(volume.ErrInvalid, "bindMountOptions: %q is none of noexec, nodev and nosuid", option)
		}
		if slices.Contains(options, option) {
			return nil, volume.Errorf(volume.ErrInvalid, "bindMountOptions: %q stands there twice", option)
		}
		options = append(options, option)
	}
	return options, nil
}

func isPrivileged(c *v1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}

// destination is the mountPath as an absolute path: Kubernetes takes one without a leading slash from the container's root.
func destination(mountPath string) string {
	return path.Join("/", mountPath)
}

func depth(path string) int {
	return strings.Count(strings.TrimSuffix(path, "/"), "/")
}
