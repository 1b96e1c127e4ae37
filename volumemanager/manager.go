// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	utilstrings "k8s.io/utils/strings"

	"github.com/volumekit/volumekit/internal/record"
	"github.com/volumekit/volumekit/volume"
)

// Options are the options of [New]. The zero value is right for most programs.
type Options struct {
	// WaitForRoot makes New wait, until its context ends, for another manager of the same root to be closed. Without it New
	// fails at once with an error that matches [volume.ErrInUse].
	WaitForRoot bool
}

// Manager sets up and tears down the volumes of pods. There is one manager for a root at a time, in all processes of the
// machine (on systems that can lock a directory). All methods may be called concurrently: pods, and the volumes of one
// pod, proceed side by side; calls for one pod wait for each other.
type Manager struct {
	plugins *volume.VolumePluginMgr
	host    volume.Host
	lock    *os.File
	closed  atomic.Bool

	pods    serial // by UID
	volumes serial // by UID, plugin and name: outlives the call for the pod if a plugin does not return
}

// New makes the root directory of the plugins' host if it is missing, locks it, and returns its manager. Nothing else on
// disk is touched: what an earlier process left is taken over by the calls for its pods.
func New(ctx context.Context, plugins *volume.VolumePluginMgr, options Options) (*Manager, error) {
	if plugins == nil {
		return nil, volume.Errorf(volume.ErrInvalid, "the plugin manager is nil")
	}
	host := plugins.Host()
	if err := os.MkdirAll(host.Root, 0o750); err != nil {
		return nil, fmt.Errorf("make root directory %s: %w", host.Root, err)
	}
	lock, err := lockRoot(ctx, host.Root, options.WaitForRoot)
	if err != nil {
		return nil, err
	}
	return &Manager{plugins: plugins, host: host, lock: lock}, nil
}

// Close gives the root up. Volumes stay as they are. No other method may be running; what is called later, but Close, returns
// an error that matches [volume.ErrInvalid].
func (m *Manager) Close() error {
	if m.closed.Swap(true) {
		return nil
	}
	removeEmpty(m.host.PodsDir())
	return m.lock.Close()
}

func (m *Manager) checkOpen() error {
	if m.closed.Load() {
		return volume.Errorf(volume.ErrInvalid, "the volume manager of %s has been closed", m.host.Root)
	}
	return nil
}

// SetUpPod makes the pod's volumes available and returns what became of each, and the mounts of its containers. Volumes
// proceed side by side and do not depend on each other: if some fail the others are there, and the error joins a
// *[volume.Error] for each that failed. A pod that is ambiguous or whose names are unsafe is refused as a whole, before
// anything is touched, with an error that matches [volume.ErrInvalid].
//
// Called again it goes on where an interrupted call ended, and changes nothing if there is nothing to do. A volume that is
// set up from another source than the pod now has is an error that matches [volume.ErrInUse]; so is one that the pod no
// longer has. The pod is not changed.
func (m *Manager) SetUpPod(ctx context.Context, pod *v1.Pod) (PodStatus, error) {
	if pod == nil {
		err := volume.Errorf(volume.ErrInvalid, "the pod is nil")
		return PodStatus{Err: err}, err
	}
	status := PodStatus{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	err := m.checkOpen()
	if err == nil {
		err = checkPod(pod)
	}
	if err != nil {
		status.Err = err
		return status, err
	}
	release, err := m.pods.acquire(ctx, string(pod.UID))
	if err != nil {
		status.Volumes = m.notBegun(pod, err)
		return status, fmt.Errorf("pod %s: %w", podName(pod), err)
	}
	defer release()
	if err := m.setUpPod(ctx, pod, &status); err != nil {
		status.Err = fmt.Errorf("pod %s: %w", podName(pod), err)
	}
	return status, status.err()
}

// err joins the errors of a status.
func (s *PodStatus) err() error {
	errs := []error{s.Err}
	for i := range s.Volumes {
		errs = append(errs, s.Volumes[i].Err)
	}
	for i := range s.Containers {
		for _, err := range s.Containers[i].errs() {
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", s.Namespace, s.Name, err))
		}
	}
	return errors.Join(errs...)
}

// notBegun returns the statuses of a pod's volumes before anything was done.
func (m *Manager) notBegun(pod *v1.Pod, why error) []VolumeStatus {
	volumes := make([]VolumeStatus, len(pod.Spec.Volumes))
	for i := range pod.Spec.Volumes {
		v := resolve(m.plugins, pod, &pod.Spec.Volumes[i])
		volumes[i] = v.status()
		volumes[i].Err = v.wrap("set up", volumes[i], why)
	}
	return volumes
}

// setUpPod fills in status. Its error is about the pod as a whole.
func (m *Manager) setUpPod(ctx context.Context, pod *v1.Pod, status *PodStatus) error {
	if err := checkPodLinks(m.host, pod.UID); err != nil {
		return err
	}
	records := recordsOf(m.host, pod.UID)
	if err := recordPod(records, pod); err != nil {
		return err
	}
	recorded, err := records.volumes()
	if err != nil {
		return fmt.Errorf("list the records of its volumes: %w", err)
	}
	wanted := make([]podVolume, len(pod.Spec.Volumes))
	for i := range pod.Spec.Volumes {
		wanted[i] = resolve(m.plugins, pod, &pod.Spec.Volumes[i])
		recorded = slices.DeleteFunc(recorded, func(id volumeID) bool { return id == wanted[i].id })
	}
	strays := m.refuseStrays(records, pod, wanted, recorded)
	status.Volumes = make([]VolumeStatus, len(wanted), len(wanted)+len(strays))
	sideBySide(len(wanted), func(i int) { status.Volumes[i] = m.setUpVolume(ctx, records, wanted[i]) })
	status.Volumes = append(status.Volumes, strays...)
	status.Containers = containerStatuses(pod, status.Volumes)
	return nil
}

// refuseStrays deals with the volumes that were set up for the pod but are none of those that are wanted: a wanted volume of the
// same name, served by another plugin now, is refused, and for the rest there is a status that says that they are in the way.
func (m *Manager) refuseStrays(records podRecords, pod *v1.Pod, wanted []podVolume, recorded []volumeID) []VolumeStatus {
	var strays []VolumeStatus
	for _, id := range recorded {
		stray := strayVolume(m.plugins, records, pod.UID, id)
		if i := slices.IndexFunc(wanted, func(v podVolume) bool { return v.name == stray.Name }); i >= 0 {
			wanted[i].err = volume.Errorf(volume.ErrInUse, "it is set up by plugin %s: tear the pod down first", id.plugin)
			continue
		}
		stray.State = Failed
		stray.Err = &volume.Error{Op: "set up", Volume: stray.Name, Pod: podName(pod), Plugin: id.plugin, Path: stray.Path,
			Err: volume.Errorf(volume.ErrInUse, "it is set up, but the pod no longer has it: tear the pod down first")}
		strays = append(strays, stray)
	}
	return strays
}

// recordPod writes the pod's record unless the same one is there.
func recordPod(records podRecords, pod *v1.Pod) error {
	recorded, err := records.readPod()
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, record.ErrDamaged):
	case err != nil:
		return err
	case recorded.Namespace != pod.Namespace || recorded.Name != pod.Name:
		return volume.Errorf(volume.ErrInvalid, "its UID %s is that of pod %s, which has volumes here", pod.UID, podName(recorded))
	case equality.Semantic.DeepEqual(recorded, podRecord(pod)):
		return nil
	}
	return records.writePod(pod)
}

func (m *Manager) setUpVolume(ctx context.Context, records podRecords, v podVolume) VolumeStatus {
	status := v.status()
	var warnings []string
	err := v.err
	if err == nil {
		err = m.volumes.do(ctx, v.key(), func() error { return m.setUp(ctx, records, v, &warnings) })
	}
	if err != nil {
		// The plugin may still be at work, so it is not asked for more.
		status.Err = v.wrap("set up", status, err)
		if v.err != nil || ctx.Err() == nil {
			status.State = Failed
		}
		return status
	}
	status = v.status()
	status.State, status.Warnings = Mounted, warnings
	return status
}

func (m *Manager) setUp(ctx context.Context, records podRecords, v podVolume, warnings *[]string) error {
	if err := checkVolumeLinks(m.host, v.pod.UID, v.id); err != nil {
		return err
	}
	unfinished, err := records.isTearingDown(v.id)
	if err != nil {
		return err
	}
	if unfinished {
		if err := m.tearDown(ctx, records, v.pod.UID, v.id); err != nil {
			return fmt.Errorf("finish the tearing down that was begun: %w", err)
		}
	}
	recorded, err := recordVolume(records, v)
	if err != nil {
		return err
	}
	err = mount(ctx, v, warnings)
	if ctx.Err() == nil {
		noteOutcome(ctx, records, v.id, recorded, err)
	}
	return err
}

// mount has the plugin set the volume up and proves that it is there.
func mount(ctx context.Context, v podVolume, warnings *[]string) error {
	options := volume.SetUpOptions{Warn: func(message string) { *warnings = append(*warnings, message) }}
	if security := v.pod.Spec.SecurityContext; security != nil {
		options.FSGroup, options.FSGroupChangePolicy = security.FSGroup, security.FSGroupChangePolicy
	}
	if err := v.mounter.SetUp(ctx, options); err != nil {
		return err
	}
	presence, err := v.mounter.Presence(ctx)
	switch presence {
	case volume.Present:
		return nil
	case volume.Absent:
		return errors.New("the plugin reported success, but the volume is not there")
	}
	return volume.Errorf(volume.ErrUncertain, "the plugin reported success, but it cannot be told whether the volume is there: %w", err)
}

// recordVolume writes the volume's record unless the same one is there, and returns it.
func recordVolume(records podRecords, v podVolume) (*volumeRecord, error) {
	wanted := newVolumeRecord(v.pod, v.name, v.spec)
	recorded, err := records.readVolume(v.id)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, record.ErrDamaged):
		return wanted, records.writeVolume(v.id, wanted)
	case err != nil:
		return nil, err
	}
	wanted.Failure = recorded.Failure
	if !equality.Semantic.DeepEqual(recorded, wanted) {
		return nil, volume.Errorf(volume.ErrInUse, "it is set up from another source than the pod now has: tear the pod down first")
	}
	return recorded, nil
}

// noteOutcome keeps why a volume could not be set up, for Inspect. What the volume needs is recorded already, so it does not
// matter if this cannot be.
func noteOutcome(ctx context.Context, records podRecords, id volumeID, recorded *volumeRecord, err error) {
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	if recorded.Failure == failure {
		return
	}
	recorded.Failure = failure
	if err := records.writeVolume(id, recorded); err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot record the outcome of setting up a volume", "path", records.volumePath(id), "err", err)
	}
}

// TearDownPod takes away every volume of the pod that is on disk and what was recorded of it. It needs no pod, no spec and
// no whole record, but the plugins of the volumes. Volumes proceed side by side; if some fail the others are gone, the error joins a *[volume.Error] for each
// that failed, and the same call goes on from there. It succeeds for a pod of which nothing is there.
//
// A pod of which nothing at all is recorded was not set up here, though its directory may be: it is left alone. So is what
// somebody else keeps in the pod's directory.
func (m *Manager) TearDownPod(ctx context.Context, uid types.UID) error {
	if err := errors.Join(m.checkOpen(), volume.CheckPodUID(uid)); err != nil {
		return err
	}
	release, err := m.pods.acquire(ctx, string(uid))
	if err != nil {
		return fmt.Errorf("pod %s: %w", uid, err)
	}
	defer release()
	if err := checkPodLinks(m.host, uid); err != nil {
		return fmt.Errorf("pod %s: %w", uid, err)
	}
	records := recordsOf(m.host, uid)
	ids, err := volumesOf(m.host, records, uid)
	if err != nil {
		return fmt.Errorf("pod %s: list its volumes: %w", uid, err)
	}
	pod := records.podName(uid)
	errs := make([]error, len(ids))
	sideBySide(len(ids), func(i int) {
		id := ids[i]
		err := m.volumes.do(ctx, key(uid, id), func() error { return m.tearDown(ctx, records, uid, id) })
		if err != nil {
			errs[i] = &volume.Error{Op: "tear down", Volume: id.name, Pod: pod, Plugin: id.plugin, Err: err}
		}
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	removeEmptyTree(m.host.PodVolumesDir(uid))
	if err := records.removePod(); err != nil {
		return fmt.Errorf("pod %s: %w", uid, err)
	}
	removeEmpty(m.host.PodDir(uid), m.host.PodsDir())
	return nil
}

func (m *Manager) tearDown(ctx context.Context, records podRecords, uid types.UID, id volumeID) error {
	plugin, err := m.plugins.FindPluginByName(id.plugin)
	if err != nil {
		return fmt.Errorf("%w: register it and tear the pod down again", err)
	}
	unmounter, err := plugin.NewUnmounter(id.name, uid)
	if err != nil {
		return err
	}
	if err := checkVolumeLinks(m.host, uid, id); err != nil {
		return err
	}
	// On a full disk the mark is done without: what is torn down is what makes room.
	if err := records.beginTearDown(id); err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	if err := unmounter.TearDown(ctx); err != nil {
		return err
	}
	removeEmpty(filepath.Dir(m.host.PodVolumeDir(uid, id.plugin, id.name)))
	return records.removeVolume(id)
}

// volumesOf lists the volumes of the pod that are recorded, and those of which there is only a directory. The latter count
// only if something is recorded of the pod: otherwise they are those of another program, such as a kubelet.
func volumesOf(host volume.Host, records podRecords, uid types.UID) ([]volumeID, error) {
	ids, err := records.volumes()
	if err != nil || !records.exist() {
		return nil, err
	}
	plugins, err := subdirectories(host.PodVolumesDir(uid))
	if err != nil {
		return nil, err
	}
	for _, plugin := range plugins {
		names, err := subdirectories(filepath.Join(host.PodVolumesDir(uid), plugin))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			// Plugins make volumes beside their place, under the same name behind a dot; a crash may have left only that.
			id := volumeID{plugin: utilstrings.UnescapeQualifiedName(plugin), name: strings.TrimPrefix(name, ".")}
			if volume.CheckName(id.name) == nil && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

// PodUIDs lists the pods of which something is recorded, and those whose directory is empty.
func (m *Manager) PodUIDs() ([]types.UID, error) {
	return podUIDs(m.host)
}

// FindPod returns the UIDs under which a pod of that name is recorded: none, one, or several if the pod was replaced by
// another of the same name before it was torn down.
func (m *Manager) FindPod(namespace, name string) ([]types.UID, error) {
	uids, err := m.PodUIDs()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(uids, func(uid types.UID) bool {
		return m.PodName(uid) != types.NamespacedName{Namespace: namespace, Name: name}
	}), nil
}

// PodName returns the name under which the pod is recorded; it is empty if nothing is recorded, or the records are damaged.
func (m *Manager) PodName(uid types.UID) types.NamespacedName {
	namespace, name := recordsOf(m.host, uid).names()
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// removeEmptyTree removes dir and the directories in it, as far as they are empty.
func removeEmptyTree(dir string) {
	if syscall.Rmdir(dir) == nil {
		return
	}
	names, err := subdirectories(dir)
	if err != nil {
		return // what cannot be listed is left
	}
	for _, name := range names {
		removeEmpty(filepath.Join(dir, name))
	}
	removeEmpty(dir)
}

// sideBySideAtMost bounds the threads that one call may need: system calls that block take one each.
const sideBySideAtMost = 64

// sideBySide calls f with 0 to n-1, several of them at the same time, and waits for all.
func sideBySide(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	slots := make(chan struct{}, sideBySideAtMost)
	var running sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	running.Wait()
}

// removeEmpty removes those of the directories that are empty. It is not an error if they are not, or not there.
func removeEmpty(dirs ...string) {
	for _, dir := range dirs {
		_ = syscall.Rmdir(dir) // os.Remove would try unlink first
	}
}
