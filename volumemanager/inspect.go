// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/parallel"
	"github.com/volumekit/volumekit/volume"
)

// InspectOptions are the options of [Inspect]. The zero value asks for the least.
type InspectOptions struct {
	// Metrics asks for each volume's metrics, which may mean to walk all its files.
	Metrics bool
}

// Inspect tells what is there below the root of the plugins' host, from the records and from what is mounted, in the order
// of the pods' UIDs. It changes nothing, and needs no manager: it may be called while a manager, in this process or another
// one, is at work. A volume whose presence cannot be found out before ctx ends is Failed. The error is about the root as a
// whole; a root that does not exist holds no pods.
func Inspect(ctx context.Context, plugins *volume.VolumePluginMgr, options InspectOptions) ([]PodStatus, error) {
	uids, err := podUIDs(plugins.Host())
	if err != nil {
		return nil, err
	}
	pods := make([]PodStatus, len(uids))
	parallel.Each(len(uids), atOnce, func(i int) { pods[i] = inspectPod(ctx, plugins, uids[i], options) })
	// Of a pod that comes or goes at this moment there may be no more than its directory.
	return slices.DeleteFunc(pods, func(p PodStatus) bool { return len(p.Volumes) == 0 && errors.Is(p.Err, fs.ErrNotExist) }), nil
}

func inspectPod(ctx context.Context, plugins *volume.VolumePluginMgr, uid types.UID, options InspectOptions) PodStatus {
	records := recordsOf(plugins.Host(), uid)
	status := PodStatus{UID: uid}
	if err := checkPodLinks(plugins.Host(), uid); err != nil {
		status.Err = fmt.Errorf("pod %s: %w", uid, err)
		return status
	}
	status.Namespace, status.Name = records.names()
	recorded, err := volumesOf(plugins.Host(), records, uid)
	if err != nil {
		status.Err = fmt.Errorf("pod %s: list its volumes: %w", uid, err)
		return status
	}
	pod, err := records.readPod()
	if err != nil {
		status.Err = fmt.Errorf("pod %s: what it is was not recorded, or is lost: it can only be torn down: %w", uid, err)
		pod = &v1.Pod{}
		pod.Namespace, pod.Name, pod.UID = status.Namespace, status.Name, uid
	}
	isRecorded := make(map[volumeID]bool, len(recorded))
	for _, id := range recorded {
		isRecorded[id] = true
	}
	var inspected []func() VolumeStatus
	for i := range pod.Spec.Volumes {
		v := resolve(plugins, pod, &pod.Spec.Volumes[i])
		// The pod may have come back with another source, which was refused: what is there is what the volume's record says.
		if r, err := records.readVolume(v.id); err == nil && r.Source != nil {
			v = resolve(plugins, pod, &v1.Volume{Name: r.Volume, VolumeSource: *r.Source})
		}
		found := isRecorded[v.id]
		delete(isRecorded, v.id)
		inspected = append(inspected, func() VolumeStatus { return inspectVolume(ctx, records, v, found, options) })
	}
	for _, id := range recorded {
		if isRecorded[id] {
			inspected = append(inspected, func() VolumeStatus { return strayVolume(plugins, records, uid, id) })
		}
	}
	status.Volumes = make([]VolumeStatus, len(inspected))
	parallel.Each(len(inspected), atOnce, func(i int) { status.Volumes[i] = inspected[i]() })
	status.Containers = containerStatuses(pod, status.Volumes)
	return status
}

// inspectVolume tells what has become of a volume that the pod has.
func inspectVolume(ctx context.Context, records podRecords, v podVolume, recorded bool, options InspectOptions) VolumeStatus {
	err := v.err
	presence := volume.Absent
	if err == nil && recorded {
		presence, err = v.mounter.Presence(ctx)
	}
	status := v.status()
	unfinished, markErr := records.isTearingDown(v.id)
	wrap := func(reason string) error { return v.wrap("inspect", status, errors.New(reason)) }
	switch {
	case err != nil:
		status.State, status.Err = Failed, v.wrap("inspect", status, err)
	case !recorded:
		status.Err = wrap("it has not been set up")
	case markErr != nil:
		status.State, status.Err = Failed, v.wrap("inspect", status, markErr)
	case unfinished:
		status.Err = wrap("it is being torn down, or that was interrupted")
	case presence != volume.Present:
		status.Err = wrap("it was to be set up, but is not there")
		if v, err := records.readVolume(v.id); err == nil && v.Failure != "" {
			status.State, status.Err = Failed, wrap(v.Failure)
		}
	default:
		status.State = Mounted
	}
	provider, ok := v.mounter.(volume.MetricsProvider)
	if ok && options.Metrics && status.State == Mounted {
		metrics, err := provider.Metrics(ctx)
		if err != nil {
			status.MetricsErr = err
		} else {
			status.Metrics = &metrics
		}
	}
	return status
}

// strayVolume tells of a volume that is on disk although the pod, as far as it is known, does not have it.
func strayVolume(plugins *volume.VolumePluginMgr, records podRecords, uid types.UID, id volumeID) VolumeStatus {
	status := VolumeStatus{Name: id.name, Plugin: id.plugin, State: Pending}
	if recorded, err := records.readVolume(id); err == nil {
		status.Name = recorded.Volume
	}
	if plugin, err := plugins.FindPluginByName(id.plugin); err == nil {
		if unmounter, err := plugin.NewUnmounter(id.name, uid); err == nil {
			status.Path = unmounter.Path()
		}
	}
	status.Err = &volume.Error{Op: "inspect", Volume: status.Name, Pod: records.podName(uid), Plugin: id.plugin, Path: status.Path,
		Err: errors.New("the pod, as far as it is known, does not have it")}
	return status
}

func containerStatuses(pod *v1.Pod, volumes []VolumeStatus) []ContainerStatus {
	var containers []ContainerStatus
	for _, c := range containersOf(pod) {
		containers = append(containers, containerStatus(c, volumes))
	}
	return containers
}

// podUIDs lists the pods of which something is recorded, and those whose directory is empty: a crash has left that.
func podUIDs(host volume.Host) ([]types.UID, error) {
	entries, err := os.ReadDir(host.PodsDir())
	if errors.Is(err, fs.ErrNotExist) {
		err = checkDangling(host.Root)
	}
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var uids []types.UID
	for _, entry := range entries {
		uid := types.UID(entry.Name())
		if entry.IsDir() && volume.CheckPodUID(uid) == nil && (recordsOf(host, uid).exist() || isEmpty(host.PodDir(uid))) {
			uids = append(uids, uid)
		}
	}
	return uids, nil
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
