// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	kvolume "k8s.io/kubernetes/pkg/volume"
	kemptydir "k8s.io/kubernetes/pkg/volume/emptydir"
	khostpath "k8s.io/kubernetes/pkg/volume/hostpath"

	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
)

// findPluginJobs find the plugin of an emptyDir. Both sides have emptyDir and hostPath built in, and as many dynamic
// drivers as the row says, each of which serves the FlexVolumes of its name.
func findPluginJobs() []job {
	var js []job
	for _, drivers := range []int{0, 10, 100} {
		js = append(js,
			job{
				tag:    "core",
				name:   fmt.Sprintf("find a plugin by spec, %d dynamic drivers", drivers),
				target: "under 40 ns, flat, no allocation",
				allocs: true,
				peer:   serially(peerFinder(drivers)),
				ours:   serially(ourFinder(drivers)),
			},
			job{
				tag:    "core",
				name:   fmt.Sprintf("the same from every core at once, %d dynamic drivers", drivers),
				target: "scales with cores",
				allocs: true,
				peer:   inParallel(peerFinder(drivers)),
				ours:   inParallel(ourFinder(drivers)),
			})
	}
	return js
}

// A finder is made once per measurement; what it returns looks the plugin up once.
type finder func(*testing.B) func() error

func serially(f finder) func(*testing.B) {
	return func(b *testing.B) {
		find := f(b)
		b.ReportAllocs()
		for b.Loop() {
			if err := find(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func inParallel(f finder) func(*testing.B) {
	return func(b *testing.B) {
		find := f(b)
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := find(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
}

func emptyDirVolume() *v1.Volume {
	return &v1.Volume{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
}

func driverName(i int) string {
	return fmt.Sprintf("example.com/driver-%d", i)
}

func peerFinder(drivers int) finder {
	return func(b *testing.B) func() error {
		builtIn := append(kemptydir.ProbeVolumePlugins(), khostpath.ProbeVolumePlugins(kvolume.VolumeConfig{})...)
		mgr := &kvolume.VolumePluginMgr{}
		if err := mgr.InitPlugins(builtIn, &peerProber{drivers: drivers}, newPeerHost(b.TempDir(), newPeerMounter())); err != nil {
			b.Fatal(err)
		}
		spec := kvolume.NewSpecFromVolume(emptyDirVolume())
		return func() error {
			_, err := mgr.FindPluginBySpec(spec)
			return err
		}
	}
}

// peerProber reports its drivers once. The real one also takes a lock and looks at what fsnotify left on every call, so
// this favours the peer.
type peerProber struct {
	drivers int
	done    bool
}

func (p *peerProber) Init() error { return nil }

func (p *peerProber) Probe() ([]kvolume.ProbeEvent, error) {
	if p.done {
		return nil, nil
	}
	p.done = true
	var events []kvolume.ProbeEvent
	for i := range p.drivers {
		d := &peerDriver{name: driverName(i)}
		events = append(events, kvolume.ProbeEvent{Op: kvolume.ProbeAddOrUpdate, PluginName: d.name, Plugin: d})
	}
	return events, nil
}

// peerDriver answers CanSupport as the peer's FlexVolume plugin does.
type peerDriver struct {
	kvolume.VolumePlugin

	name string
}

func (d *peerDriver) Init(kvolume.VolumeHost) error { return nil }

func (d *peerDriver) GetPluginName() string { return d.name }

func (d *peerDriver) CanSupport(spec *kvolume.Spec) bool {
	switch {
	case spec.Volume != nil && spec.Volume.FlexVolume != nil:
		return spec.Volume.FlexVolume.Driver == d.name
	case spec.PersistentVolume != nil && spec.PersistentVolume.Spec.FlexVolume != nil:
		return spec.PersistentVolume.Spec.FlexVolume.Driver == d.name
	}
	return false
}

func ourFinder(drivers int) finder {
	return func(b *testing.B) func() error {
		ctx := b.Context()
		mgr, err := volume.NewVolumePluginMgr(ctx, volume.Host{Root: b.TempDir()}, plugins.Default(), volume.WithProber(&ourProber{drivers: drivers}))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(mgr.Close)
		if err := mgr.WaitForProbers(ctx); err != nil {
			b.Fatal(err)
		}
		if registered := len(mgr.Plugins()); registered < drivers {
			b.Fatalf("%d plugins, want more than %d", registered, drivers)
		}
		spec := volume.NewSpecFromVolume(emptyDirVolume())
		return func() error {
			_, err := mgr.FindPluginBySpec(spec)
			return err
		}
	}
}

// ourProber reports its drivers once.
type ourProber struct {
	drivers int
	done    bool
}

func (p *ourProber) Probe(ctx context.Context) ([]volume.ProbeEvent, error) {
	if p.done {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	p.done = true
	var events []volume.ProbeEvent
	for i := range p.drivers {
		d := &ourDriver{name: driverName(i)}
		events = append(events, volume.ProbeEvent{Op: volume.ProbeAddOrUpdate, Name: d.name, Plugin: d})
	}
	return events, nil
}

// ourDriver serves the FlexVolumes of its name.
type ourDriver struct {
	volume.VolumePlugin

	name string
}

func (d *ourDriver) Init(context.Context, volume.Host) error { return nil }

func (d *ourDriver) Name() string { return d.name }

func (d *ourDriver) Sources() []volume.Source {
	return []volume.Source{{Type: volume.SourceFlexVolume, Driver: d.name}}
}

func (d *ourDriver) CanSupport(spec *volume.Spec) bool {
	source := spec.Source()
	return source.Type == volume.SourceFlexVolume && source.Driver == d.name
}
