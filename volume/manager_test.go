// SPDX-License-Identifier: Apache-2.0

package volume_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

func emptyDir() *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{
		Name:         "scratch",
		VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
	})
}

func csiSpec(driver string) *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{
		Name:         "data",
		VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: driver}},
	})
}

func flexVolume(driver string) *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{
		Name:         "data",
		VolumeSource: v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{Driver: driver}},
	})
}

// serving returns a plugin that serves the sources, emptyDir if there are none.
func serving(name string, sources ...volume.Source) *volumetest.FakePlugin {
	return &volumetest.FakePlugin{PluginName: name, Serves: sources}
}

func csi(driver string) volume.Source { return volume.Source{Type: volume.SourceCSI, Driver: driver} }

func newManager(t testing.TB, plugins []volume.VolumePlugin, options ...volume.Option) *volume.VolumePluginMgr {
	t.Helper()
	mgr, err := volume.NewVolumePluginMgr(t.Context(), volume.Host{Root: t.TempDir()}, plugins, options...)
	require.NoError(t, err)
	t.Cleanup(mgr.Close)
	return mgr
}

func TestAPluginIsFoundBySpecAndByName(t *testing.T) {
	scratch, oneDriver, anyNFS := serving("example.com/empty-dir"), serving("example.com/driver", csi("one")), serving("example.com/nfs", volume.Source{Type: volume.SourceNFS})
	mgr := newManager(t, []volume.VolumePlugin{scratch, oneDriver, anyNFS})

	for want, spec := range map[*volumetest.FakePlugin]*volume.Spec{scratch: emptyDir(), oneDriver: csiSpec("one")} {
		found, err := mgr.FindPluginBySpec(spec)
		require.NoError(t, err)
		assert.Same(t, want, found)
		found, err = mgr.FindPluginByName(want.Name())
		require.NoError(t, err)
		assert.Same(t, want, found)
	}
	assert.Equal(t, []volume.VolumePlugin{oneDriver, scratch, anyNFS}, mgr.Plugins(), "in the order of their names")
}

func TestThePluginsGetTheHostOfTheManager(t *testing.T) {
	plugin := serving("example.com/plugin")
	root := t.TempDir()
	mgr, err := volume.NewVolumePluginMgr(t.Context(), volume.Host{Root: root + "/", NodeName: "node"}, []volume.VolumePlugin{plugin})
	require.NoError(t, err)
	defer mgr.Close()
	assert.Equal(t, root, mgr.Host().Root)
	assert.EqualValues(t, "node", mgr.Host().NodeName)
	assert.NotNil(t, mgr.Host().Mounter)

	unmounter, err := plugin.NewUnmounter("data", "uid")
	require.NoError(t, err)
	assert.Equal(t, mgr.Host().PodVolumeDir("uid", "example.com/plugin", "data"), unmounter.Path())
}

func TestAHostWithoutARootGivesNoManager(t *testing.T) {
	_, err := volume.NewVolumePluginMgr(t.Context(), volume.Host{}, nil)
	assert.ErrorIs(t, err, volume.ErrInvalid)
}

func TestEveryPluginThatFailsIsNamed(t *testing.T) {
	bad, worse := serving("example.com/bad"), serving("example.com/worse")
	cause := errors.New("needs Host.Secrets")
	bad.Inject(volumetest.Init, volumetest.Hooks{Before: volumetest.Fail(cause)})
	worse.Inject(volumetest.Init, volumetest.Hooks{Before: volumetest.Fail(cause)})
	_, err := volume.NewVolumePluginMgr(t.Context(), volume.Host{Root: t.TempDir()}, []volume.VolumePlugin{bad, serving("example.com/good"), worse})
	require.ErrorIs(t, err, cause)
	assert.ErrorContains(t, err, "initialise plugin example.com/bad: needs Host.Secrets")
	assert.ErrorContains(t, err, "initialise plugin example.com/worse: needs Host.Secrets")
	assert.NotContains(t, err.Error(), "example.com/good")
}

func TestAPluginForOneDriverIsFoundBesideOneForEveryDriver(t *testing.T) {
	all := serving("example.com/all", csi(""))
	all.Supports = func(spec *volume.Spec) bool { return spec.Source().Driver != "one" }
	one := serving("example.com/one", csi("one"))
	mgr := newManager(t, []volume.VolumePlugin{all, one})
	for driver, want := range map[string]*volumetest.FakePlugin{"one": one, "another": all, "": all} {
		found, err := mgr.FindPluginBySpec(csiSpec(driver))
		require.NoError(t, err)
		assert.Same(t, want, found, "driver %q", driver)
	}
}

func TestAVolumeThatNobodyServes(t *testing.T) {
	refusing := serving("example.com/refusing", volume.Source{Type: volume.SourceNFS})
	refusing.Supports = func(*volume.Spec) bool { return false }
	mgr := newManager(t, []volume.VolumePlugin{serving("example.com/empty-dir"), serving("example.com/driver", csi("one")), refusing})

	vol := func(source v1.VolumeSource) *volume.Spec {
		return volume.NewSpecFromVolume(&v1.Volume{Name: "data", VolumeSource: source})
	}
	for name, test := range map[string]struct {
		spec *volume.Spec
		kind error
		text string
	}{
		"a source that no plugin lists": {
			vol(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}), volume.ErrNotSupported,
			`source hostPath is not served here, since no plugin for it is registered: plugin kubernetes.io/host-path serves it (package hostpath)`,
		},
		"a driver that no plugin lists": {
			csiSpec("another"), volume.ErrNotSupported,
			`source csi/another is not served here, since no plugin for it is registered: a plugin for the CSI driver of that name has to be registered`,
		},
		"a source that its plugin refuses": {
			vol(v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}), volume.ErrNotSupported,
			`the plugins for source nfs cannot serve it as it is written`,
		},
		"no source": {
			vol(v1.VolumeSource{}), volume.ErrInvalid,
			`no source is set that Kubernetes 1.37 knows`,
		},
		"two sources": {
			vol(v1.VolumeSource{NFS: &v1.NFSVolumeSource{}, EmptyDir: &v1.EmptyDirVolumeSource{}}), volume.ErrInvalid,
			`more than one source is set`,
		},
		"no spec": {nil, volume.ErrInvalid, `no source is set that Kubernetes 1.37 knows`},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := mgr.FindPluginBySpec(test.spec)
			assert.Nil(t, found)
			assert.EqualError(t, err, test.text)
			assert.ErrorIs(t, err, test.kind)
		})
	}
}

func TestTwoPluginsThatServeAVolumeAreBothNamed(t *testing.T) {
	for name, plugins := range map[string][]volume.VolumePlugin{
		"both for every driver":   {serving("example.com/a", csi("")), serving("example.com/b", csi(""))},
		"both for the driver":     {serving("example.com/a", csi("one")), serving("example.com/b", csi("one"))},
		"one for every driver":    {serving("example.com/a", csi("")), serving("example.com/b", csi("one"))},
		"and the other way round": {serving("example.com/a", csi("one")), serving("example.com/b", csi(""))},
		"among three":             {serving("example.com/a", csi("two")), serving("example.com/b", csi("one")), serving("example.com/c", csi("one"))},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newManager(t, plugins).FindPluginBySpec(csiSpec("one"))
			require.ErrorIs(t, err, volume.ErrInvalid)
			assert.ErrorContains(t, err, "source csi/one is served by two plugins")
			named := 0
			for _, plugin := range plugins {
				if strings.Contains(err.Error(), plugin.Name()) {
					named++
				}
			}
			assert.Equal(t, 2, named, err.Error())
		})
	}
}

func TestANameThatIsNotThereIsNotFound(t *testing.T) {
	mgr := newManager(t, nil)
	_, err := mgr.FindPluginByName("example.com/absent")
	assert.ErrorIs(t, err, volume.ErrNotFound)
	assert.ErrorContains(t, err, "example.com/absent")
	err = mgr.Unregister("example.com/absent")
	assert.ErrorIs(t, err, volume.ErrNotFound)
	assert.ErrorContains(t, err, "example.com/absent")
}

// persistentPlugin has a capability.
type persistentPlugin struct{ *volumetest.FakePlugin }

func (persistentPlugin) AccessModes() []v1.PersistentVolumeAccessMode { return nil }

func TestAPluginIsFoundByCapability(t *testing.T) {
	capable := persistentPlugin{serving("example.com/capable", csi("capable"))}
	mgr := newManager(t, []volume.VolumePlugin{serving("example.com/a"), capable})

	found, err := volume.Find[volume.PersistentVolumePlugin](mgr, csiSpec("capable"))
	require.NoError(t, err)
	assert.Equal(t, capable, found)
	found, err = volume.FindByName[volume.PersistentVolumePlugin](mgr, "example.com/capable")
	require.NoError(t, err)
	assert.Equal(t, capable, found)
	assert.Equal(t, []volume.PersistentVolumePlugin{capable}, volume.FindAll[volume.PersistentVolumePlugin](mgr))
	assert.Len(t, volume.FindAll[volume.VolumePlugin](mgr), 2)
	assert.Empty(t, volume.FindAll[volume.RecyclableVolumePlugin](mgr))
}

func TestACapabilityThatIsMissing(t *testing.T) {
	mgr := newManager(t, []volume.VolumePlugin{serving("example.com/plugin")})
	const text = "plugin example.com/plugin is no AttachableVolumePlugin"

	found, err := volume.Find[volume.AttachableVolumePlugin](mgr, emptyDir())
	assert.Nil(t, found)
	assert.ErrorIs(t, err, volume.ErrNotSupported)
	assert.EqualError(t, err, text)
	found, err = volume.FindByName[volume.AttachableVolumePlugin](mgr, "example.com/plugin")
	assert.Nil(t, found)
	assert.ErrorIs(t, err, volume.ErrNotSupported)
	assert.EqualError(t, err, text)

	_, err = volume.Find[volume.AttachableVolumePlugin](mgr, csiSpec("absent"))
	assert.ErrorContains(t, err, "source csi/absent is not served here")
	_, err = volume.FindByName[volume.AttachableVolumePlugin](mgr, "example.com/absent")
	assert.ErrorIs(t, err, volume.ErrNotFound)
}

func TestRegisterRefusesWhatAPluginSaysOfItself(t *testing.T) {
	for name, plugin := range map[string]*volumetest.FakePlugin{
		"a name without a domain":           serving("plugin"),
		"a name with an empty domain":       serving("/plugin"),
		"a name with an empty rest":         serving("example.com/"),
		"a name with two slashes":           serving("example.com/a/b"),
		"a name with a tilde":               serving("example.com/a~b"),
		"a name that begins with a dot":     serving("../plugin"),
		"a name with a control character":   serving("example.com/a\nb"),
		"a name that is too long":           serving("example.com/" + strings.Repeat("n", 300)),
		"no sources":                        {PluginName: "example.com/plugin", Serves: []volume.Source{}},
		"the source of a spec without one":  serving("example.com/plugin", volume.Source{Type: volume.SourceNone}),
		"the source of a spec with several": serving("example.com/plugin", volume.Source{Type: volume.SourceSeveral}),
		"a source type that does not exist": serving("example.com/plugin", volume.Source{Type: 200}),
	} {
		t.Run(name, func(t *testing.T) {
			mgr := newManager(t, nil)
			err := mgr.Register(t.Context(), plugin)
			assert.ErrorIs(t, err, volume.ErrInvalid)
			assert.Empty(t, plugin.Calls(), "it is not initialised")
			assert.Empty(t, mgr.Plugins())
		})
	}
}

func TestANameIsTakenOnce(t *testing.T) {
	first, second := serving("example.com/plugin"), serving("example.com/plugin", csi("one"))
	mgr := newManager(t, []volume.VolumePlugin{first})
	err := mgr.Register(t.Context(), second)
	assert.ErrorIs(t, err, volume.ErrInvalid)
	assert.ErrorContains(t, err, "example.com/plugin")
	assert.Empty(t, second.Calls(), "it is not initialised")
	found, err := mgr.FindPluginByName("example.com/plugin")
	require.NoError(t, err)
	assert.Same(t, first, found)

	require.NoError(t, mgr.Unregister("example.com/plugin"))
	_, err = mgr.FindPluginBySpec(emptyDir())
	assert.ErrorIs(t, err, volume.ErrNotSupported)
	require.NoError(t, mgr.Register(t.Context(), second))
	found, err = mgr.FindPluginBySpec(csiSpec("one"))
	require.NoError(t, err)
	assert.Same(t, second, found)
}

func TestOfSeveralThatRegisterOneNameAtOnceOneSucceeds(t *testing.T) {
	mgr := newManager(t, nil)
	var succeeded atomic.Int32
	var working sync.WaitGroup
	for range 20 {
		working.Go(func() {
			if mgr.Register(context.Background(), serving("example.com/plugin")) == nil {
				succeeded.Add(1)
			}
		})
	}
	working.Wait()
	assert.EqualValues(t, 1, succeeded.Load())
	assert.Len(t, mgr.Plugins(), 1)
}

func TestAPluginThatFailsCanBeRegisteredAgain(t *testing.T) {
	mgr := newManager(t, nil)
	plugin := serving("example.com/plugin")
	cause := errors.New("not yet")
	plugin.Inject(volumetest.Init, volumetest.Hooks{Before: volumetest.FailTimes(1, cause)})
	err := mgr.Register(t.Context(), plugin)
	assert.ErrorIs(t, err, cause)
	assert.ErrorContains(t, err, "example.com/plugin")
	assert.Empty(t, mgr.Plugins())
	require.NoError(t, mgr.Register(t.Context(), plugin))
	assert.Len(t, mgr.Plugins(), 1)
}

func TestPluginsComeAndGoWhileOthersAreLookedUp(t *testing.T) {
	stays := serving("example.com/stays")
	mgr := newManager(t, []volume.VolumePlugin{stays})
	var working sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		working.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				found, err := mgr.FindPluginBySpec(emptyDir())
				if assert.NoError(t, err) {
					assert.Same(t, stays, found)
				}
				if _, err := mgr.FindPluginBySpec(csiSpec("driver-1")); err != nil {
					assert.ErrorIs(t, err, volume.ErrNotSupported)
				}
				if _, err := volume.FindByName[volume.VolumePlugin](mgr, "example.com/driver-2"); err != nil {
					assert.ErrorIs(t, err, volume.ErrNotFound)
				}
				volume.FindAll[volume.PersistentVolumePlugin](mgr)
			}
		})
	}
	var changing sync.WaitGroup
	for i := range 4 {
		changing.Go(func() {
			driver := fmt.Sprintf("driver-%d", i)
			for range 100 {
				assert.NoError(t, mgr.Register(context.Background(), serving("example.com/"+driver, csi(driver))))
				assert.NoError(t, mgr.Unregister("example.com/"+driver))
			}
		})
	}
	changing.Wait()
	close(done)
	working.Wait()
	assert.Equal(t, []volume.VolumePlugin{stays}, mgr.Plugins())
}

// countingPlugin counts how often it is asked.
type countingPlugin struct {
	*volumetest.FakePlugin
	asked *atomic.Int64
}

func (p countingPlugin) CanSupport(spec *volume.Spec) bool {
	p.asked.Add(1)
	return p.FakePlugin.CanSupport(spec)
}

func TestALookupAsksOnlyThePluginsForItsSource(t *testing.T) {
	for _, drivers := range []int{0, 10, 100} {
		var asked atomic.Int64
		plugins := []volume.VolumePlugin{countingPlugin{serving("example.com/empty-dir"), &asked}}
		for i := range drivers {
			driver := fmt.Sprintf("driver-%d", i)
			plugins = append(plugins, countingPlugin{serving("example.com/"+driver, csi(driver)), &asked})
		}
		mgr := newManager(t, plugins)
		specs := []*volume.Spec{emptyDir()}
		if drivers > 0 {
			specs = append(specs, csiSpec("driver-3"))
		}
		for _, spec := range specs {
			asked.Store(0)
			_, err := mgr.FindPluginBySpec(spec)
			require.NoError(t, err)
			assert.EqualValues(t, 1, asked.Load(), "plugins asked about %s, with %d drivers", spec.Source(), drivers)
		}
	}
}

func TestALookupAllocatesNothing(t *testing.T) {
	plugins := []volume.VolumePlugin{persistentPlugin{serving("example.com/empty-dir")}}
	for i := range 100 {
		driver := fmt.Sprintf("driver-%d", i)
		plugins = append(plugins, serving("example.com/"+driver, csi(driver)))
	}
	mgr := newManager(t, plugins)
	scratch, driver := emptyDir(), csiSpec("driver-50")
	for name, lookup := range map[string]func() error{
		"by spec":         func() error { _, err := mgr.FindPluginBySpec(scratch); return err },
		"by driver":       func() error { _, err := mgr.FindPluginBySpec(driver); return err },
		"by name":         func() error { _, err := mgr.FindPluginByName("example.com/driver-7"); return err },
		"with capability": func() error { _, err := volume.Find[volume.PersistentVolumePlugin](mgr, scratch); return err },
		"by name with capability": func() error {
			_, err := volume.FindByName[volume.PersistentVolumePlugin](mgr, "example.com/empty-dir")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			assert.Zero(t, testing.AllocsPerRun(100, func() { err = lookup() }))
			assert.NoError(t, err)
		})
	}
}
