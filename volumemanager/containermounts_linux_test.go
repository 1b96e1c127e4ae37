// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

func memory(name string) v1.Volume {
	v := emptyDir(name)
	v.EmptyDir.Medium = v1.StorageMediumMemory
	return v
}

// withSubPath has the pod's container mount a part of a volume.
func withSubPath(p *v1.Pod, volume, subPath string) *v1.Pod {
	c := &p.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: volume, MountPath: "/sub/" + subPath, SubPath: subPath})
	return p
}

// manage returns a rig that has set the pod up, in either way.
func manage(t *testing.T, running bool, p *v1.Pod) *rig {
	b := newRig(t, plugins.Default()...)
	if !running {
		_, err := b.SetUpPod(t.Context(), p)
		require.NoError(t, err)
		return b
	}
	b.run()
	require.NoError(t, b.SetPods(t.Context(), []*v1.Pod{p}))
	b.requireReady(p.UID)
	return b
}

// drop takes the pod away, in the way in which it was set up.
func (b *rig) drop(p *v1.Pod) {
	b.t.Helper()
	if !b.Status().Running {
		require.NoError(b.t, b.TearDownPod(b.t.Context(), p.UID))
		return
	}
	events := b.Events(b.t.Context(), 100)
	require.NoError(b.t, b.RemovePod(p.UID))
	next(b.t, events, isRemoved(p.UID))
}

// eachWay runs the test with the simple calls and with Run.
func eachWay(t *testing.T, test func(t *testing.T, running bool)) {
	mountns.RequirePrivate(t)
	t.Run("SetUpPod", func(t *testing.T) { test(t, false) })
	t.Run("Run", func(t *testing.T) { test(t, true) })
}

func TestAContainerGetsTheMountsThatItAsksForWhenItStarts(t *testing.T) {
	eachWay(t, func(t *testing.T, running bool) {
		p := withSubPath(pod("web", memory("cache"), hostPath("host", "/etc")), "cache", "a/b")
		b := manage(t, running, p)
		mounts, err := b.ContainerMounts(t.Context(), p.UID, "main")
		require.NoError(t, err)
		require.Len(t, mounts, 3)
		sub := mounts[2]
		assert.Equal(t, "/sub/a/b", sub.Destination)
		assert.Equal(t, filepath.Join(b.root, "pods/uid-web/volume-subpaths/cache/main/2"), sub.Source)
		assert.False(t, sub.Unprepared)
		require.NoError(t, os.WriteFile(filepath.Join(sub.Source, "file"), nil, 0o600))
		assert.FileExists(t, filepath.Join(mounts[0].Source, "a/b/file"))

		again, err := b.ContainerMounts(t.Context(), p.UID, "main")
		require.NoError(t, err)
		assert.Equal(t, mounts, again)
		assert.FileExists(t, filepath.Join(sub.Source, "file"))
		b.drop(p)
		b.requireEmpty()
	})
}

func TestASubPathIsMadeWhenItsContainerStartsIfAnInitContainerMayHaveToFillTheVolume(t *testing.T) {
	eachWay(t, func(t *testing.T, running bool) {
		p := withSubPath(pod("web", emptyDir("cache")), "cache", "settings.conf")
		p.Spec.InitContainers = []v1.Container{{Name: "init", VolumeMounts: []v1.VolumeMount{{Name: "cache", MountPath: "/cache"}}}}
		b := manage(t, running, p)
		file := filepath.Join(b.inspect()[0].Volumes[0].Path, "settings.conf")
		require.NoFileExists(t, file)
		require.True(t, b.inspect()[0].Containers[1].Mounts[1].Unprepared)
		_, err := b.ContainerMounts(t.Context(), p.UID, "init")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, []byte("made by the init container"), 0o600))
		mounts, err := b.ContainerMounts(t.Context(), p.UID, "main")
		require.NoError(t, err)
		data, err := os.ReadFile(mounts[1].Source)
		require.NoError(t, err)
		assert.Equal(t, "made by the init container", string(data))
		assert.False(t, b.inspect()[0].Containers[1].Mounts[1].Unprepared)
		b.drop(p)
		b.requireEmpty()
	})
}

func TestASubPathOutOfTheVolumeIsRefusedByName(t *testing.T) {
	eachWay(t, func(t *testing.T, running bool) {
		p := pod("web", emptyDir("cache"))
		b := manage(t, running, p)
		require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(b.inspect()[0].Volumes[0].Path, "link")))
		again := withSubPath(pod("web", emptyDir("cache")), "cache", "link")
		if running {
			require.NoError(t, b.SetPod(t.Context(), again))
			b.requireReady(p.UID)
		} else {
			_, err := b.SetUpPod(t.Context(), again)
			require.ErrorIs(t, err, volume.ErrInvalid)
		}
		_, err := b.ContainerMounts(t.Context(), p.UID, "main")
		require.ErrorIs(t, err, volume.ErrInvalid)
		assert.ErrorContains(t, err, `container "main": volume "cache": subPath "link"`)
		b.drop(p)
		b.requireEmpty()
	})
}

func TestAVolumeThatVanishedIsNeverHandedOutAsABareDirectory(t *testing.T) {
	eachWay(t, func(t *testing.T, running bool) {
		p := withSubPath(pod("web", memory("cache")), "cache", "a")
		b := manage(t, running, p)
		mounts, err := b.ContainerMounts(t.Context(), p.UID, "main")
		require.NoError(t, err)
		require.NoError(t, unix.Unmount(mounts[0].Source, unix.MNT_DETACH))
		_, err = b.ContainerMounts(t.Context(), p.UID, "main")
		require.ErrorContains(t, err, "not there any more")
		assert.ErrorContains(t, err, mounts[0].Source)

		if running {
			b.requireReady(p.UID)
		} else {
			_, err = b.SetUpPod(t.Context(), p)
			require.NoError(t, err)
		}
		again, err := b.ContainerMounts(t.Context(), p.UID, "main")
		require.NoError(t, err, "it has been set up again")
		require.NoError(t, os.WriteFile(filepath.Join(again[1].Source, "file"), nil, 0o600))
		assert.FileExists(t, filepath.Join(again[0].Source, "a/file"), "the subPath is that of the new mount")
		b.drop(p)
		b.requireEmpty()
	})
}

func TestAnotherMountInTheVolumesPlaceIsNeitherHandedOutNorTakenAway(t *testing.T) {
	eachWay(t, func(t *testing.T, running bool) {
		p := pod("web", memory("cache"))
		b := manage(t, running, p)
		path := b.inspect()[0].Volumes[0].Path
		require.NoError(t, unix.Mount("precious", path, "tmpfs", 0, ""))
		t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
		gold := filepath.Join(path, "gold")
		require.NoError(t, os.WriteFile(gold, nil, 0o600))
		_, err := b.ContainerMounts(t.Context(), p.UID, "main")
		require.ErrorContains(t, err, path)
		if !running {
			require.ErrorIs(t, b.TearDownPod(t.Context(), p.UID), volume.ErrInUse)
		} else {
			events := b.Events(t.Context(), 100)
			require.NoError(t, b.RemovePod(p.UID))
			require.ErrorIs(t, next(t, events, hasFailed("cache", volumemanager.OperationTearDown)).Err, volume.ErrInUse)
		}
		assert.FileExists(t, gold)
		require.NoError(t, unix.Unmount(path, 0))
		b.drop(p)
		b.requireEmpty()
	})
}

func TestWhatIsNotThereHasNoMounts(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	_, err := b.ContainerMounts(t.Context(), "uid-web", "main")
	require.ErrorIs(t, err, volume.ErrNotFound)
	p := pod("web", emptyDir("cache"), image("tools"))
	_, err = b.SetUpPod(t.Context(), p)
	require.Error(t, err)
	_, err = b.ContainerMounts(t.Context(), p.UID, "other")
	require.ErrorIs(t, err, volume.ErrNotFound)
	_, err = b.ContainerMounts(t.Context(), p.UID, "main")
	require.ErrorIs(t, err, volume.ErrNotSupported)
	assert.ErrorContains(t, err, "image")
}

func TestASubPathExprIsRenderedOnceAndForAll(t *testing.T) {
	eachWay(t, func(t *testing.T, running bool) {
		p := pod("web", emptyDir("cache"))
		c := &p.Spec.Containers[0]
		c.Env = append(c.Env, v1.EnvVar{Name: "POD", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}})
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "cache", MountPath: "/logs", SubPathExpr: "logs/$(POD)"})
		b := manage(t, running, p)
		mounts, err := b.ContainerMounts(t.Context(), p.UID, "main")
		require.NoError(t, err)
		assert.Equal(t, "logs/web", mounts[1].SubPath)
		assert.DirExists(t, filepath.Join(mounts[0].Source, "logs/web"))
		assert.Equal(t, "logs/web", b.inspect()[0].Containers[0].Mounts[1].SubPath)
		assert.Equal(t, "logs/$(POD)", p.Spec.Containers[0].VolumeMounts[1].SubPathExpr, "the caller's pod is not changed")
		b.drop(p)
		b.requireEmpty()
	})
}

func TestAMountThatVanishesIsNoticedAndMadeAgain(t *testing.T) {
	mountns.RequirePrivate(t)
	for name, vanish := range map[string]func(t *testing.T, path string){
		"unmounted": func(t *testing.T, path string) { require.NoError(t, unix.Unmount(path, unix.MNT_DETACH)) },
		"covered": func(t *testing.T, path string) {
			require.NoError(t, unix.Mount("precious", path, "tmpfs", 0, ""))
			t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod("web", memory("cache"))
			b := manage(t, true, p)
			path := b.inspect()[0].Volumes[0].Path
			events := b.Events(t.Context(), 100)
			vanish(t, path)
			failed := next(t, events, hasFailed("cache", volumemanager.OperationVerify))
			assert.ErrorContains(t, failed.Err, "not there any more")
			if name == "covered" {
				again := next(t, events, hasFailed("cache", volumemanager.OperationSetUp))
				require.ErrorIs(t, again.Err, volume.ErrInUse, "what lies on top is left alone")
				require.NoError(t, unix.Unmount(path, 0))
			}
			b.requireReady(p.UID)
			b.drop(p)
			b.requireEmpty()
		})
	}
}

func TestAMountThatVanishedWhileNobodyLookedIsMadeAgain(t *testing.T) {
	mountns.RequirePrivate(t)
	b := newRig(t, plugins.Default()...)
	stop := b.run()
	p := pod("web", memory("cache"))
	require.NoError(t, b.SetPods(t.Context(), []*v1.Pod{p}))
	path := b.requireReady(p.UID).Volumes[0].Path
	stop()
	require.NoError(t, unix.Unmount(path, unix.MNT_DETACH))
	events := b.Events(t.Context(), 100)
	b.run()
	next(t, events, hasFailed("cache", volumemanager.OperationVerify))
	next(t, events, func(e volumemanager.Event) bool { return e.Operation == volumemanager.OperationSetUp })
	b.drop(p)
	b.requireEmpty()
}
