// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

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
// It is the simple way, like [Manager.SetUpPod]. While [Manager.Run] sees to pods, [Manager.RemovePod] is the way.
func (m *Manager) TearDownPod(ctx context.Context, uid types.UID) error {
	if err := errors.Join(m.checkSimple(), volume.CheckPodUID(uid)); err != nil {
		return err
	}
	release, err := m.turns.acquire(ctx, string(uid))
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
	if len(p.volumes) == 0 && p.err == nil {
		return nil
	}
	status := p.status()
	p.leaving = false // what comes of it is for whoever asks next
	m.forget(p)
	return status.err()
}

// tearDown takes a volume away. name is the volume's in the pod.
func (m *Manager) tearDown(ctx context.Context, uid types.UID, name string, recorded *volumeRecord, r *result) error {
	id := recorded.volumeID
	plugin, err := m.plugins.FindPluginByName(id.Plugin)
	if err != nil {
		return fmt.Errorf("%w: the volume stays until it is", err)
	}
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
		removeEmpty(m.host.PodDir(uid))
		return nil, nil
	}
	if err := subpath.Clean(ctx, m.host.PodSubpathsDir(uid)); err != nil {
		return nil, err
	}
	if !removeEmptyTree(m.host.PodVolumesDir(uid)) {
		left, err := directoriesOfVolumes(m.host, uid)
		if err != nil || len(left) > 0 {
			return left, err
		}
	}
	return nil, removeRecord(m.host, uid)
}

// removeEmptyTree removes dir and the directories in it, as far as they are empty. It returns whether dir is gone.
func removeEmptyTree(dir string) bool {
	if err := syscall.Rmdir(dir); err == nil || errors.Is(err, syscall.ENOENT) {
		return true
	}
	names, err := subdirectories(dir)
	if err != nil {
		return false // what cannot be listed is left
	}
	for _, name := range names {
		removeEmpty(filepath.Join(dir, name))
	}
	return syscall.Rmdir(dir) == nil
}

// removeEmpty removes those of the directories that are empty. It is not an error if they are not, or not there.
func removeEmpty(dirs ...string) {
	for _, dir := range dirs {
		_ = syscall.Rmdir(dir) // os.Remove would try unlink first
	}
}

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
