// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"github.com/volumekit/volumekit/volumemanager"
)

// diskPlugin serves PersistentVolumes of type local as disks of a rack, which are attached to nodes and mounted once per node. A
// mount is a directory, which anybody can make.
type diskPlugin struct {
	*volumetest.FakePlugin
	rack *rack
	host volume.Host
}

// rack is what disks are attached to, and outlives plugins. It keeps book of what is done, as "attach pv-1 to here".
type rack struct {
	mu        sync.Mutex
	attached  map[string]bool
	mounted   map[string]string // disk by place
	elsewhere []string          // other places where mounts are mounted
	done      []string

	// fault is called before and after each step, and ends it with the error that it returns.
	fault func(step string) error
}

func newRack() *rack { return &rack{attached: make(map[string]bool), mounted: make(map[string]string)} }

func newDiskPlugin(r *rack) *diskPlugin {
	p := &diskPlugin{FakePlugin: &volumetest.FakePlugin{PluginName: "test/disk", Serves: []volume.Source{{Type: volume.SourceLocal}}}, rack: r}
	during := func(name string) volumetest.Hooks {
		hook := func(when string) volumetest.Hook {
			return func(_ context.Context, call volumetest.Call) error {
				return r.at(fmt.Sprintf("%s %s for %s", name, call.Volume, call.PodUID), when)
			}
		}
		return volumetest.Hooks{Before: hook("before"), After: hook("after")}
	}
	p.Inject(volumetest.SetUp, during("set up"))
	p.Inject(volumetest.TearDown, during("tear down"))
	return p
}

// at notes a step that has been done, and lets fault interfere.
func (r *rack) at(step, when string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if when == "after" {
		r.done = append(r.done, step)
	}
	if r.fault == nil {
		return nil
	}
	return r.fault(when + " " + step)
}

// step does f, which changes what the rack holds.
func (r *rack) step(step string, f func() error) error {
	if err := r.at(step, "before"); err != nil {
		return err
	}
	r.mu.Lock()
	err := f()
	r.mu.Unlock()
	if err != nil {
		return err
	}
	return r.at(step, "after")
}

// take returns what has been done since it was called before.
func (r *rack) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	done := r.done
	r.done = nil
	return done
}

func (r *rack) isEmpty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.attached) == 0 && len(r.mounted) == 0
}

func (p *diskPlugin) Init(ctx context.Context, host volume.Host) error {
	p.host = host
	return p.FakePlugin.Init(ctx, host)
}

func (p *diskPlugin) VolumeName(spec *volume.Spec) (string, error) {
	return spec.PersistentVolume.Spec.Local.Path, nil
}

func (p *diskPlugin) CanAttach(*volume.Spec) (bool, error)      { return true, nil }
func (p *diskPlugin) CanDeviceMount(*volume.Spec) (bool, error) { return true, nil }

func (p *diskPlugin) NewAttacher() (volume.Attacher, error)               { return p, nil }
func (p *diskPlugin) NewDetacher() (volume.Detacher, error)               { return p, nil }
func (p *diskPlugin) NewDeviceMounter() (volume.DeviceMounter, error)     { return p, nil }
func (p *diskPlugin) NewDeviceUnmounter() (volume.DeviceUnmounter, error) { return p, nil }

func (p *diskPlugin) Attach(_ context.Context, spec *volume.Spec, node types.NodeName) (string, error) {
	disk := spec.PersistentVolume.Spec.Local.Path
	return "slot of " + disk, p.rack.step(fmt.Sprintf("attach %s to %s", disk, node), func() error {
		p.rack.attached[disk] = true
		return nil
	})
}

func (p *diskPlugin) WaitForAttach(_ context.Context, spec *volume.Spec, devicePath string) (string, error) {
	disk := spec.PersistentVolume.Spec.Local.Path
	return "/dev/" + disk, p.rack.step(fmt.Sprintf("wait for %s in %s", disk, devicePath), func() error { return nil })
}

func (p *diskPlugin) Attached(_ context.Context, specs []*volume.Spec, _ types.NodeName) (map[*volume.Spec]volume.Presence, error) {
	return nil, errors.New("not asked in these tests")
}

func (p *diskPlugin) Detach(_ context.Context, name string, node types.NodeName) error {
	return p.rack.step(fmt.Sprintf("detach %s from %s", name, node), func() error {
		for place, disk := range p.rack.mounted {
			if disk == name {
				return fmt.Errorf("%s is mounted at %s", disk, place)
			}
		}
		delete(p.rack.attached, name)
		return nil
	})
}

func (p *diskPlugin) DeviceMountPath(spec *volume.Spec) (string, error) {
	return filepath.Join(p.host.PluginMountsDir("test/disk"), spec.Name()), nil
}

func (p *diskPlugin) MountDevice(_ context.Context, spec *volume.Spec, devicePath, deviceMountPath string, _ volume.DeviceMountOptions) error {
	disk := spec.PersistentVolume.Spec.Local.Path
	return p.rack.step(fmt.Sprintf("mount %s", devicePath), func() error {
		if !p.rack.attached[disk] {
			return fmt.Errorf("%s is not attached", disk)
		}
		p.rack.mounted[deviceMountPath] = disk
		return os.MkdirAll(deviceMountPath, 0o750)
	})
}

func (p *diskPlugin) DeviceMountRefs(_ context.Context, deviceMountPath string) ([]string, error) {
	p.rack.mu.Lock()
	defer p.rack.mu.Unlock()
	return slices.Clone(p.rack.elsewhere), nil
}

func (p *diskPlugin) UnmountDevice(_ context.Context, deviceMountPath string) error {
	return p.rack.step(fmt.Sprintf("unmount %s", filepath.Base(deviceMountPath)), func() error {
		if pods, _ := filepath.Glob(filepath.Join(p.host.PodsDir(), "*/volumes/test~disk", filepath.Base(deviceMountPath))); len(pods) > 0 {
			return fmt.Errorf("pods have it: %q", pods)
		}
		delete(p.rack.mounted, deviceMountPath)
		for dir := deviceMountPath; dir != p.host.Root && os.Remove(dir) == nil; dir = filepath.Dir(dir) {
		}
		return nil
	})
}

// openDiskRig opens a rig with a rack, whose disk "sda" is the PersistentVolume pv-1, which claim data has.
func openDiskRig(t *testing.T, root string, r *rack) *rig {
	t.Helper()
	host := volume.Host{Root: root, NodeName: "here", Claims: newClaims(claimNamed("data", "pv-1"), localVolume("pv-1", "sda"))}
	return openRigWith(t, volumemanager.Options{}, host, newDiskPlugin(r))
}
