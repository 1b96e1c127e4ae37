// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

func TestMain(m *testing.M) { os.Exit(volumetest.Main(m)) }

// start returns a plugin that is initialised, on a node that is called node-1.
func start(t testing.TB, options hostpath.Options) *hostpath.Plugin {
	t.Helper()
	return startOn(t, volume.Host{NodeName: "node-1"}, options)
}

func startOn(t testing.TB, host volume.Host, options hostpath.Options) *hostpath.Plugin {
	t.Helper()
	host.Root = t.TempDir()
	host, err := host.Complete()
	require.NoError(t, err)
	plugin := hostpath.New(options)
	require.NoError(t, plugin.Init(t.Context(), host))
	return plugin
}

// inline is a pod's hostPath; with the type "none" it has none.
func inline(path string, kind v1.HostPathType) *volume.Spec {
	source := &v1.HostPathVolumeSource{Path: path, Type: &kind}
	if kind == "none" {
		source.Type = nil
	}
	return volume.NewSpecFromVolume(&v1.Volume{Name: "host", VolumeSource: v1.VolumeSource{HostPath: source}})
}

// persistent is the same in a PersistentVolume.
func persistent(path string, kind v1.HostPathType) *volume.Spec {
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
			HostPath: inline(path, kind).Volume.HostPath,
		}},
	}, false)
}

func mounterOf(t testing.TB, plugin *hostpath.Plugin, spec *volume.Spec) volume.Mounter {
	t.Helper()
	mounter, err := plugin.NewMounter(spec, nil)
	require.NoError(t, err)
	return mounter
}

// setUp sets up a pod's hostPath with a context that can end, as in real life.
func setUp(t testing.TB, plugin *hostpath.Plugin, path string, kind v1.HostPathType) error {
	t.Helper()
	return mounterOf(t, plugin, inline(path, kind)).SetUp(t.Context(), volume.SetUpOptions{})
}

func presence(t testing.TB, plugin *hostpath.Plugin, path string, kind v1.HostPathType) volume.Presence {
	t.Helper()
	answer, err := mounterOf(t, plugin, inline(path, kind)).Presence(t.Context())
	if answer == volume.Unknown {
		require.Error(t, err)
	} else {
		require.NoError(t, err)
	}
	return answer
}
