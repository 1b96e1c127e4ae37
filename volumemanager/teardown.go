// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/subpath"
	"github.com/volumekit/volumekit/volume"
)

// TearDownPod takes away every volume of the pod that is on disk and what was recorded of it. It needs no pod, no spec and
// no whole record, but the plugins of the volumes. Volumes proceed side by side; if some fail the others are gone, the
// error joins a *[volume.Error] for each that failed, and the same call goes on from there. It succeeds for a pod of which
// nothing is there.
//
// The caller has seen to it that no container uses the volumes any more, or gave [Options] Containers, which are asked. A pod
// of which nothing at all is recorded was not set up here, though its directory may be: it is left alone. So is what somebody
// else keeps in the pod's directory.
//
// It is the simple way, like [Manager.SetUpPod], with the same error if another call changes what is wanted of the pod meanwhile.
// While [Manager.Run] sees to pods, [Manager.RemovePod] is the way.
func (m *Manager) TearDownPod(ctx context.Context, uid types.UID) error {
	if err := errors.Join(m.checkSimple(), volume.CheckPodUID(uid)); err != nil {
		return err
	}
	release, err := m.turns.Acquire(ctx, string(uid))
	if err != nil {
		return fmt.Errorf("pod %s: %w", uid, err)
	}
	defer release()
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pod(uid)
	p.readAgain()
	p.unwant()
	p.settle(ctx, onceOnly)
	switch {
	case p.wanted != nil:
		return volume.Errorf(volume.ErrInUse, "pod %s: %w by another call", p, errOvertaken)
	case len(p.volumes) == 0 && p.err == nil:
		return nil
	}
	status := p.status()
	p.leaving = false // what comes of it is for whoever asks next
	m.letGo(p)
	return status.err()
}

// tearDown takes a volume away. name is the volume's in the pod.
func (m *Manager) tearDown(ctx context.Context, uid types.UID, name string, recorded *volumeRecord, r *result) error {
	id := recorded.volumeID
	plugin, err := m.plugins.FindPluginByName(id.Plugin)
	if err != nil {
		return fmt.Errorf("%w: the volume stays until it is", err)
	}
	if blocks, ok := plugin.(volume.BlockVolumePlugin); ok && recorded.mayBe(v1.PersistentVolumeBlock) {
		if err := unmap(ctx, m.host, blocks, id.Name, uid); err != nil {
			return err
		}
	}
	if recorded.mayBe(v1.PersistentVolumeFilesystem) {
		if err := m.unmount(ctx, plugin, uid, name, recorded, r); err != nil {
			return err
		}
	}
	return m.releaseDevice(ctx, uid, recorded, r)
}

// unmount takes from the pod what is a directory for it.
func (m *Manager) unmount(ctx context.Context, plugin volume.VolumePlugin, uid types.UID, name string, recorded *volumeRecord, r *result) error {
	id := recorded.volumeID
	unmounter, err := plugin.NewUnmounter(id.Name, uid)
	if err != nil {
		return err
	}
	if err := checkVolumeLinks(m.host, uid, id); err != nil {
		return err
	}
	if err := subpath.CleanVolume(ctx, filepath.Join(m.host.PodSubpathsDir(uid), name)); err != nil {
		return err
	}
	if err := m.checkNothingOnTop(ctx, recorded, unmounter.Path()); err != nil {
		return err
	}
	if err := unmounter.TearDown(ctx, volume.TearDownOptions{Warn: r.warn}); err != nil {
		return err
	}
	removeEmpty(filepath.Dir(m.host.PodVolumeDir(uid, id.Plugin, id.Name)))
	return nil
}

// removePod takes away what was recorded of a pod whose volumes are gone, and its directories, as far as nothing else is in
// them. recorded says that it is known to have a record. If volumes are left of which nothing was recorded it does nothing, and returns them.
func (m *Manager) removePod(ctx context.Context, uid types.UID, recorded bool) (left []volumeID, err error) {
	if !recorded && !isRecorded(m.host, uid) {
		return nil, removeIfEmpty(m.host.PodDir(uid))
	}
	if err := subpath.Clean(ctx, m.host.PodSubpathsDir(uid)); err != nil {
		return nil, err
	}
	allGone := true
	for _, dir := range []string{m.host.PodVolumesDir(uid), podDevicesDir(m.host, uid)} {
		gone, err := removeEmptyTree(dir)
		if err != nil {
			return nil, err
		}
		allGone = allGone && gone
	}
	if !allGone {
		left, err := directoriesOfVolumes(m.host, uid)
		if err != nil || len(left) > 0 {
			return left, err
		}
	}
	return nil, removeRecord(m.host, uid)
}

// removeEmptyTree removes dir and the directories in it, as far as they are empty, and tells whether dir is gone.
func removeEmptyTree(dir string) (gone bool, err error) {
	if err := syscall.Rmdir(dir); err == nil || errors.Is(err, syscall.ENOENT) {
		return true, nil
	}
	names, err := subdirectories(dir)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if err := removeIfEmpty(filepath.Join(dir, name)); err != nil {
			return false, err
		}
	}
	if err := removeIfEmpty(dir); err != nil {
		return false, err
	}
	_, err = os.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist), nil
}

// removeIfEmpty removes a directory. It is not an error if something is in it, or if it is not there.
func removeIfEmpty(dir string) error {
	err := syscall.Rmdir(dir)
	for _, expected := range []error{syscall.ENOTEMPTY, syscall.EEXIST, syscall.ENOENT} { // POSIX allows the first two for one thing
		if errors.Is(err, expected) {
			return nil
		}
	}
	if err != nil {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// removeEmpty removes a directory, if it is empty. Whether it is shows when the one around it is removed.
func removeEmpty(dir string) { _ = syscall.Rmdir(dir) } // os.Remove would try unlink first

// isFull reports whether an error says that a disk has no room left.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// pathOf returns where the volume is, or was, as far as its plugin is there to tell.
func pathOf(plugins *volume.VolumePluginMgr, uid types.UID, id volumeID) string {
	plugin, err := plugins.FindPluginByName(id.Plugin)
	if err != nil {
		return ""
	}
	unmounter, err := plugin.NewUnmounter(id.Name, uid)
	if err != nil {
		return ""
	}
	return unmounter.Path()
}
