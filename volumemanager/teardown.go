// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/types"
	utilstrings "k8s.io/utils/strings"

	"github.com/volumekit/volumekit/internal/parallel"
	"github.com/volumekit/volumekit/volume"
)

// TearDownPod takes away every volume of the pod that is on disk and what was recorded of it. It needs no pod, no spec and
// no whole record, but the plugins of the volumes. Volumes proceed side by side; if some fail the others are gone, the
// error joins a *[volume.Error] for each that failed, and the same call goes on from there. It succeeds for a pod of which
// nothing is there.
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
	parallel.Each(len(ids), atOnce, func(i int) {
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

// removeEmpty removes those of the directories that are empty. It is not an error if they are not, or not there.
func removeEmpty(dirs ...string) {
	for _, dir := range dirs {
		_ = syscall.Rmdir(dir) // os.Remove would try unlink first
	}
}
