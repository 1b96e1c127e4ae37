// SPDX-License-Identifier: Apache-2.0

package volume_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/mount-utils"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/exec"
	testingexec "k8s.io/utils/exec/testing"

	"github.com/volumekit/volumekit/volume"
)

func TestCompleteFillsInWhatIsMissing(t *testing.T) {
	host, err := volume.Host{Root: t.TempDir() + "/agent/../agent/"}.Complete()
	require.NoError(t, err)
	assert.Equal(t, filepath.Clean(host.Root), host.Root)
	assert.NotNil(t, host.Mounter)
	assert.NotNil(t, host.Exec)
	assert.WithinDuration(t, time.Now(), host.Clock.Now(), time.Hour)
}

func TestCompleteKeepsWhatIsThere(t *testing.T) {
	given := volume.Host{
		Root:     t.TempDir(),
		NodeName: "node",
		Mounter:  mount.NewFakeMounter(nil),
		Exec:     &testingexec.FakeExec{},
		Clock:    testingclock.NewFakeClock(time.Unix(1, 0)),
	}
	host, err := given.Complete()
	require.NoError(t, err)
	assert.Equal(t, given, host)
	assert.Implements(t, (*exec.Interface)(nil), host.Exec)
}

func TestCompleteRefusesARootThatIsNotAbsolute(t *testing.T) {
	for _, root := range []string{"", "relative", "./here"} {
		_, err := volume.Host{Root: root}.Complete()
		assert.ErrorIs(t, err, volume.ErrInvalid)
		assert.ErrorContains(t, err, `"`+root+`"`)
	}
}

func TestTheDirectoriesAreTheKubelets(t *testing.T) {
	const plugin = "kubernetes.io/empty-dir"
	host := volume.Host{Root: filepath.FromSlash("/agent")}
	for want, got := range map[string]string{
		"pods":                                             host.PodsDir(),
		"pods/uid":                                         host.PodDir("uid"),
		"pods/uid/volumes":                                 host.PodVolumesDir("uid"),
		"pods/uid/volume-subpaths":                         host.PodSubpathsDir("uid"),
		"plugins/kubernetes.io/empty-dir":                  host.PluginDir(plugin),
		"plugins/kubernetes.io/csi/mounts":                 host.PluginMountsDir("kubernetes.io/csi"),
		"plugins/kubernetes.io/csi/volumeDevices":          host.PluginVolumeDevicesDir("kubernetes.io/csi"),
		"pods/uid/volumes/kubernetes.io~empty-dir/scratch": host.PodVolumeDir("uid", plugin, "scratch"),
		"pods/uid/volumeDevices/kubernetes.io~empty-dir":   host.PodVolumeDevicesDir("uid", plugin),
		"pods/uid/volumes/plain/pvc-with.dots-in-it":       host.PodVolumeDir("uid", "plain", "pvc-with.dots-in-it"),
	} {
		assert.Equal(t, want, strings.TrimPrefix(filepath.ToSlash(got), "/agent/"))
	}
}
