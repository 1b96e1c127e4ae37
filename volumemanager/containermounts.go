// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/subpath"
	"github.com/volumekit/volumekit/volume"
)

// ContainerMounts returns the mounts of a container that is about to start, parents before what is mounted inside them. It is
// to be called each time that the container starts, so that nothing is handed out that is not what it should be: it proves
// that each volume is still the mount that was set up, and makes the container's subPaths, which may not have been there
// before its init containers ran.
//
// The pod has been set up by this manager, or adopted. The error joins what is wrong with each volume and mount; one about a
// volume that somebody has taken away behind the manager's back comes once, after which the volume is set up again, by
// [Manager.Run] or the next [Manager.SetUpPod]. It matches [volume.ErrNotFound] if there is no such pod or container, and
// [volume.ErrInUse] if the pod is changed or removed during the call.
func (m *Manager) ContainerMounts(ctx context.Context, uid types.UID, container string) ([]Mount, error) {
	proved, err := m.proveContainer(ctx, uid, container)
	return proved.Mounts, err
}

// ContainerDevices returns the raw devices of a container that is about to start. It does, and fails, as
// [Manager.ContainerMounts] does.
func (m *Manager) ContainerDevices(ctx context.Context, uid types.UID, container string) ([]Device, error) {
	proved, err := m.proveContainer(ctx, uid, container)
	return proved.Devices, err
}

// proveContainer makes the subPaths of a container, and proves that all that it asks for is there.
func (m *Manager) proveContainer(ctx context.Context, uid types.UID, container string) (ContainerStatus, error) {
	var none ContainerStatus
	if err := m.checkOpen(); err != nil {
		return none, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[uid]
	if p == nil || p.wanted == nil {
		return none, volume.Errorf(volume.ErrNotFound, "pod %s has not been set up", uid)
	}
	pod := p.wanted
	containers := containersOf(pod)
	i := slices.IndexFunc(containers, func(c *v1.Container) bool { return c.Name == container })
	if i < 0 {
		return none, volume.Errorf(volume.ErrNotFound, "pod %s has no container %q", p, container)
	}
	c := containers[i]
	var proofs []*proof
	var errs []error
	for _, v := range slices.Clone(p.volumes) { // they may change while mu is not locked
		mounts := mountsOf(c, v.name)
		if v.wanted != nil && (len(mounts) > 0 || slices.ContainsFunc(c.VolumeDevices, func(d v1.VolumeDevice) bool { return d.Name == v.name })) {
			proof, err := p.prove(ctx, v, c, mounts)
			proofs, errs = append(proofs, proof), append(errs, err)
		}
	}
	for _, proof := range proofs {
		if proof != nil {
			errs = append(errs, p.await(ctx, proof))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return none, err
	}
	if p.wanted != pod {
		return none, volume.Errorf(volume.ErrInUse, "pod %s: %w", p, errOvertaken)
	}
	status := p.status()
	if status.Containers = status.Containers[i : i+1]; len(status.Containers[0].Missing) > 0 {
		return none, status.err()
	}
	mounts := status.Containers[0].Mounts
	for i := range mounts {
		mounts[i].Unprepared = false
	}
	return status.Containers[0], nil
}

// mountsOf returns the indices of the container's mounts of a volume.
func mountsOf(c *v1.Container, volume string) []int {
	var mounts []int
	for i := range c.VolumeMounts {
		if c.VolumeMounts[i].Name == volume {
			mounts = append(mounts, i)
		}
	}
	return mounts
}

// proof is the verification of a volume, and the making of its subPaths for one container.
type proof struct {
	volume    *managedVolume
	operation *operation
	subPaths  error // once the operation has ended
}

// prove begins to verify a volume, and to make the subPaths of a container's mounts of it. mu is locked, and unlocked while
// another operation of the volume is running.
func (p *managedPod) prove(ctx context.Context, v *managedVolume, c *v1.Container, mounts []int) (*proof, error) {
	for v.running != nil {
		if !p.wait(ctx) {
			return nil, fmt.Errorf("pod %s: volume %q: an earlier operation has not ended: %w", p, v.name, context.Cause(ctx))
		}
	}
	if !v.there || v.wanted == nil {
		status := v.status(p.String())
		return nil, status.Err
	}
	made := &proof{volume: v}
	wanted, recorded := v.wanted, *v.record
	m, uid, dir := p.m, p.uid, v.path
	p.begin(ctx, v, OperationVerify, func(ctx context.Context, _ *result) error {
		if err := verify(ctx, wanted, &recorded); err != nil {
			return err
		}
		var errs []error
		for _, i := range mounts {
			if subPath := c.VolumeMounts[i].SubPath; subPath != "" {
				err := bindSubPath(ctx, dir, subPath, subPathTarget(m.host, uid, c, i))
				if err != nil {
					err = fmt.Errorf("pod %s: container %q: volume %q: %w", podName(wanted.pod), c.Name, wanted.name, err)
				}
				errs = append(errs, err)
			}
		}
		made.subPaths = errors.Join(errs...)
		return nil
	})
	made.operation = v.running
	return made, nil
}

// await waits for what prove has begun. mu is locked, and unlocked while it waits.
func (p *managedPod) await(ctx context.Context, made *proof) error {
	v := made.volume
	for v.running == made.operation && !made.operation.abandoned {
		p.wait(context.Background())
	}
	switch {
	case made.operation.err != nil:
		return &volume.Error{Op: string(OperationVerify), Volume: v.name, Pod: p.String(), Plugin: v.id.Plugin, Path: v.path, Err: made.operation.err}
	case made.operation.abandoned:
		return fmt.Errorf("pod %s: volume %q: %w", p, v.name, v.err)
	}
	return made.subPaths
}

// bindSubPath makes target show what subPath names in the volume at dir.
func bindSubPath(ctx context.Context, dir, subPath, target string) error {
	err := subpath.Bind(ctx, dir, subPath, target)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, subpath.ErrOutside), errors.Is(err, subpath.ErrInvalid):
		return volume.Errorf(volume.ErrInvalid, "subPath %q: %w", subPath, err)
	}
	return fmt.Errorf("subPath %q: %w", subPath, err)
}

// subPathTarget is where the subPath of a container's i-th mount is bound: the kubelet's place.
func subPathTarget(host volume.Host, uid types.UID, c *v1.Container, i int) string {
	return filepath.Join(host.PodSubpathsDir(uid), c.VolumeMounts[i].Name, c.Name, strconv.Itoa(i))
}

// prepareFirstContainers makes the subPaths of the containers that start first. Those of others may have to wait for what an
// init container makes: a file, where a directory would be made now.
func (m *Manager) prepareFirstContainers(ctx context.Context, pod *v1.Pod, status *PodStatus) {
	containers := containersOf(pod)
	first := len(containers)
	if len(pod.Spec.InitContainers) > 0 {
		first = 1
	}
	for i := range containers {
		shown := &status.Containers[i]
		prepared := shown.Mounts[:0]
		for _, mount := range shown.Mounts {
			if mount.Unprepared {
				mount.Unprepared = !isBound(m.host, mount.Source)
			}
			if mount.SubPath != "" && i < first {
				j := slices.IndexFunc(status.Volumes, func(v VolumeStatus) bool { return v.Name == mount.Volume })
				err := bindSubPath(ctx, status.Volumes[j].Path, mount.SubPath, mount.Source)
				if err != nil && !errors.Is(err, syscall.EPERM) { // who may not mount leaves it to the runtime
					shown.Missing = append(shown.Missing, MissingMount{Volume: mount.Volume, Destination: mount.Destination, Err: err})
					continue
				}
				mount.Unprepared = err != nil
			}
			prepared = append(prepared, mount)
		}
		shown.Mounts = prepared
	}
}

// isBound reports whether a subPath is bound at the target.
func isBound(host volume.Host, target string) bool {
	mounted, err := host.Mounter.IsMountPoint(target)
	return mounted && err == nil
}
