// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

// podWith is a pod with one volume, "a".
func podWith(uid string, source v1.VolumeSource) *v1.Pod {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "d", "p-"+uid, types.UID(uid)
	pod.Spec.Containers = []v1.Container{{Name: "c"}}
	pod.Spec.Volumes = []v1.Volume{{Name: "a", VolumeSource: source}}
	return pod
}

// plug is the directory of the emptyDir plugin.
const plug = "kubernetes.io~empty-dir"

func TestTearDownTakesAwayWhatAKillLeft(t *testing.T) {
	for name, left := range map[string][]string{
		"while the record was written":         {".volumekit.json"},
		"before the directory of a volume":     {"volumekit.json", "volumes/" + plug + "/"},
		"while the record was written again":   {"volumekit.json", ".volumekit.json"},
		"between two directories of a subPath": {"volumekit.json", "volume-subpaths/cache/main/"},
		"before the last rmdir":                {""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRig(t, plugins.Default()...)
			dir := filepath.Join(b.root, "pods/u1")
			for _, path := range left {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o750))
				if path != "" && !strings.HasSuffix(path, "/") {
					require.NoError(t, os.WriteFile(filepath.Join(dir, path), nil, 0o600))
				}
			}
			uids, err := b.PodUIDs()
			require.NoError(t, err)
			require.Equal(t, []types.UID{"u1"}, uids)
			require.NoError(t, b.TearDownPod(t.Context(), "u1"))
			b.requireEmpty()
		})
	}
}

// Symbolic links between the root and the volume.
func TestTearDownDoesNotFollowLinksBelowThePod(t *testing.T) {
	precious := func(t *testing.T, elem ...string) (dir, file string) {
		dir = t.TempDir()
		file = filepath.Join(append([]string{dir}, elem...)...)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, []byte("gold"), 0o600))
		return dir, file
	}
	for name, c := range map[string]struct {
		link string
		elem []string
	}{
		"plugin directory": {"pods/u1/volumes/" + plug, []string{"a", "gold"}},
		"volumes":          {"pods/u1/volumes", []string{plug, "a", "gold"}},
		"pod":              {"pods/u1", []string{"volumes", plug, "a", "gold"}},
		"record":           {"pods/u1/volumekit.json", []string{"pod"}},
		"volume-subpaths":  {"pods/u1/volume-subpaths", []string{"a", "c", "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRig(t, plugins.Default()...)
			_, err := b.SetUpPod(t.Context(), podWith("u1", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
			require.NoError(t, err)
			dir, file := precious(t, c.elem...)
			require.NoError(t, os.RemoveAll(filepath.Join(b.root, c.link)))
			require.NoError(t, os.Symlink(dir, filepath.Join(b.root, c.link)))
			_ = b.TearDownPod(t.Context(), "u1")
			assert.FileExists(t, file)
		})
	}
}

// The pod's record is written before its volumes are refused, and what is shown comes from it.
func TestInspectShowsWhatIsSetUpAfterARefusedChange(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	host := func(path string) v1.VolumeSource {
		return v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path}}
	}
	_, err := b.SetUpPod(t.Context(), podWith("u1", host("/etc")))
	require.NoError(t, err)
	_, err = b.SetUpPod(t.Context(), podWith("u1", host("/usr")))
	require.ErrorIs(t, err, volume.ErrInUse)
	v := b.inspect()[0].Volumes[0]
	assert.False(t, v.State == volumemanager.Mounted && v.Path == "/usr", "%+v", v)
}
