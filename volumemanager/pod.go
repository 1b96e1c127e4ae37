// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/volumekit/volumekit/volume"
)

// checked returns the pod as it is served: it has passed checkPod, and its subPathExpr are rendered.
func (m *Manager) checked(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	if err := checkPod(pod); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(containersOf(pod), hasSubPath) {
		return pod, nil
	}
	rendered := pod.DeepCopy()
	var errs []error
	for _, c := range containersOf(rendered) {
		for i := range c.VolumeMounts {
			mount := &c.VolumeMounts[i]
			if mount.SubPath == "" && mount.SubPathExpr == "" {
				continue
			}
			subPath, err := renderSubPath(ctx, m.host, pod, c, mount)
			if err != nil {
				errs = append(errs, fmt.Errorf("pod %s: container %q: volume %q: %w", podName(pod), c.Name, mount.Name, err))
			}
			mount.SubPath, mount.SubPathExpr = subPath, ""
		}
	}
	return rendered, errors.Join(errs...)
}

func hasSubPath(c *v1.Container) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.SubPath != "" || m.SubPathExpr != "" })
}

// checkPod reports everything that makes the pod's volumes and mounts ambiguous or unsafe. A pod with such an error is
// refused as a whole, before anything is touched; a volume that merely cannot be served is not this function's business.
// The errors are joined; all match volume.ErrInvalid.
func checkPod(pod *v1.Pod) error {
	errs := []error{volume.CheckPodUID(pod.UID)}
	if problems := validation.IsDNS1123Subdomain(pod.Name); len(problems) > 0 {
		errs = append(errs, volume.Errorf(volume.ErrInvalid, "pod name %.64q: %s", pod.Name, strings.Join(problems, "; ")))
	}
	if problems := validation.IsDNS1123Label(pod.Namespace); len(problems) > 0 {
		errs = append(errs, volume.Errorf(volume.ErrInvalid, "namespace %.64q: %s", pod.Namespace, strings.Join(problems, "; ")))
	}
	volumes := make(map[string]bool, len(pod.Spec.Volumes))
	for i := range pod.Spec.Volumes {
		name := pod.Spec.Volumes[i].Name
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			errs = append(errs, volume.Errorf(volume.ErrInvalid, "volume name %.64q: %s", name, strings.Join(problems, "; ")))
		}
		if volumes[name] {
			errs = append(errs, volume.Errorf(volume.ErrInvalid, "two volumes have the name %q", name))
		}
		volumes[name] = true
	}
	names := make(map[string]bool)
	for _, c := range containersOf(pod) {
		if problems := validation.IsDNS1123Label(c.Name); len(problems) > 0 {
			errs = append(errs, volume.Errorf(volume.ErrInvalid, "container name %.64q: %s", c.Name, strings.Join(problems, "; ")))
		}
		if names[c.Name] {
			errs = append(errs, volume.Errorf(volume.ErrInvalid, "two containers have the name %q", c.Name))
		}
		names[c.Name] = true
		errs = append(errs, checkContainer(c, volumes)...)
	}
	errs = append(errs, checkSecurityContext(pod.Spec.SecurityContext))
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("pod %s: %w", podName(pod), err)
		}
	}
	return errors.Join(errs...)
}

func checkContainer(c *v1.Container, volumes map[string]bool) []error {
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, volume.Errorf(volume.ErrInvalid, "container %q: %s", c.Name, fmt.Sprintf(format, args...)))
	}
	paths := make(map[string]bool)
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			refuse("mounts volume %q, which the pod does not have", m.Name)
		}
		switch {
		case m.MountPath == "":
			refuse("the mountPath of volume %q is empty", m.Name)
		case strings.ContainsAny(m.MountPath, ":\x00"):
			refuse("the mountPath %q of volume %q holds a colon or a NUL", m.MountPath, m.Name)
		case paths[destination(m.MountPath)]:
			refuse("the mountPath %q is there twice", m.MountPath)
		}
		paths[destination(m.MountPath)] = true
	}
	for _, d := range c.VolumeDevices {
		if !volumes[d.Name] {
			refuse("names volume %q as a device, which the pod does not have", d.Name)
		}
		switch {
		case d.DevicePath == "":
			refuse("the devicePath of volume %q is empty", d.Name)
		case strings.Contains(d.DevicePath, "\x00") || slices.Contains(strings.Split(d.DevicePath, "/"), ".."):
			refuse("the devicePath %q of volume %q holds a NUL or \"..\"", d.DevicePath, d.Name)
		case paths[destination(d.DevicePath)]:
			refuse("the path %q is there twice", d.DevicePath)
		}
		paths[destination(d.DevicePath)] = true
	}
	return errs
}

func checkSecurityContext(security *v1.PodSecurityContext) error {
	if security == nil {
		return nil
	}
	if policy := security.FSGroupChangePolicy; policy != nil && *policy != v1.FSGroupChangeAlways && *policy != v1.FSGroupChangeOnRootMismatch {
		return volume.Errorf(volume.ErrInvalid, "fsGroupChangePolicy %q is neither %s nor %s", *policy, v1.FSGroupChangeAlways, v1.FSGroupChangeOnRootMismatch)
	}
	if group := security.FSGroup; group != nil {
		if problems := validation.IsValidGroupID(*group); len(problems) > 0 {
			return volume.Errorf(volume.ErrInvalid, "fsGroup %d: %s", *group, strings.Join(problems, "; "))
		}
	}
	return nil
}

// containersOf lists the pod's containers: those for initialisation, the ordinary and the ephemeral ones.
func containersOf(pod *v1.Pod) []*v1.Container {
	containers := make([]*v1.Container, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers)+len(pod.Spec.EphemeralContainers))
	for i := range pod.Spec.InitContainers {
		containers = append(containers, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		containers = append(containers, &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.EphemeralContainers {
		containers = append(containers, (*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return containers
}

// podName is how messages name the pod. Its names may not have been checked.
func podName(pod *v1.Pod) string {
	return fmt.Sprintf("%.63s/%.253s", pod.Namespace, pod.Name)
}

// specOf returns the spec of a volume that stands in a pod. One without a source is an emptyDir, as the API server has it.
func specOf(podVolume *v1.Volume) *volume.Spec {
	spec := volume.NewSpecFromVolume(podVolume)
	if spec.Source().Type == volume.SourceNone {
		spec.Volume = &v1.Volume{Name: podVolume.Name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
	}
	return spec
}
