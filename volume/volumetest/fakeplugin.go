// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/removal"
	"github.com/volumekit/volumekit/volume"
)

// FakePlugin is a plugin for the tests of what drives plugins. It is small but real: SetUp makes a directory, where the
// kubelet would have it, and TearDown removes it with all that is in it. It passes [Run]. On top it records what it is
// asked to do, and does it badly on request (see [FakePlugin.Inject]).
//
// The zero value serves emptyDir volumes. The exported fields are set before the plugin is used, and its methods may be
// called concurrently.
type FakePlugin struct {
	// PluginName is what Name returns. Empty stands for "volumetest/fake".
	PluginName string

	// Serves is what Sources returns. Nil stands for emptyDir.
	Serves []volume.Source

	// Supports is asked by CanSupport about specs whose source is listed. Nil stands for all of them.
	Supports func(*volume.Spec) bool

	// Tmpfs has SetUp mount a tmpfs on the directory, by way of the host's Mounter.
	Tmpfs bool

	mu    sync.Mutex
	host  volume.Host
	calls []Call
	hooks map[Operation]Hooks
}

var _ volume.VolumePlugin = (*FakePlugin)(nil)

// Operation is a method of a plugin, or of what it returns.
type Operation string

// The operations that a FakePlugin records, and into which faults can be injected.
const (
	Init         Operation = "Init"
	NewMounter   Operation = "NewMounter"
	NewUnmounter Operation = "NewUnmounter"
	SetUp        Operation = "SetUp"
	Presence     Operation = "Presence"
	TearDown     Operation = "TearDown"
)

// Call is one call of an operation.
type Call struct {
	// Op is what was called.
	Op Operation

	// Volume and PodUID say for which volume. They are empty for Init.
	Volume string
	PodUID types.UID
}

// Hook is called during an operation, by its goroutine, with its context (that of the background for those that take
// none). The operation ends with the error that it returns; it hangs for as long as the hook does.
type Hook func(context.Context, Call) error

// Hooks are what is injected into an operation. Nil ones do nothing.
type Hooks struct {
	// Before is called before the operation has had any effect.
	Before Hook

	// After is called when it has had its effect and would return nil.
	After Hook
}

// Inject has hooks called during op, from now on and instead of those that were injected into it before.
func (p *FakePlugin) Inject(op Operation, hooks Hooks) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hooks == nil {
		p.hooks = make(map[Operation]Hooks)
	}
	p.hooks[op] = hooks
}

// Fail is a Hook that always returns err.
func Fail(err error) Hook {
	return func(context.Context, Call) error { return err }
}

// FailTimes is a Hook that returns err the first n times, whatever it is called for, and nil afterwards.
func FailTimes(n int, err error) Hook {
	var mu sync.Mutex
	return func(context.Context, Call) error {
		mu.Lock()
		defer mu.Unlock()
		if n <= 0 {
			return nil
		}
		n--
		return err
	}
}

// Hang is a Hook that waits until release is closed, or its context ends; then the error matches [volume.ErrUncertain].
func Hang(release <-chan struct{}) Hook {
	return func(ctx context.Context, call Call) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return volume.Errorf(volume.ErrUncertain, "%s did not finish: %w", call.Op, context.Cause(ctx))
		}
	}
}

// Calls returns the calls so far, in the order in which they began.
func (p *FakePlugin) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// CallsOf returns those of one operation.
func (p *FakePlugin) CallsOf(op Operation) []Call {
	return slices.DeleteFunc(p.Calls(), func(call Call) bool { return call.Op != op })
}

// do records the call and does effect between the hooks.
func (p *FakePlugin) do(ctx context.Context, call Call, effect func() error) error {
	p.mu.Lock()
	p.calls = append(p.calls, call)
	hooks := p.hooks[call.Op]
	p.mu.Unlock()
	if hooks.Before != nil {
		if err := hooks.Before(ctx, call); err != nil {
			return err
		}
	}
	if err := effect(); err != nil {
		return err
	}
	if hooks.After != nil {
		return hooks.After(ctx, call)
	}
	return nil
}

// Name returns PluginName or its default.
func (p *FakePlugin) Name() string {
	if p.PluginName == "" {
		return "volumetest/fake"
	}
	return p.PluginName
}

// Sources returns Serves or its default.
func (p *FakePlugin) Sources() []volume.Source {
	if p.Serves == nil {
		return []volume.Source{{Type: volume.SourceEmptyDir}}
	}
	return p.Serves
}

// CanSupport asks Supports.
func (p *FakePlugin) CanSupport(spec *volume.Spec) bool {
	return p.Supports == nil || p.Supports(spec)
}

// Init keeps the host.
func (p *FakePlugin) Init(ctx context.Context, host volume.Host) error {
	return p.do(ctx, Call{Op: Init}, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.host = host
		return nil
	})
}

// VolumeName returns the name of the volume.
func (p *FakePlugin) VolumeName(spec *volume.Spec) (string, error) {
	return spec.Name(), nil
}

// NewMounter refuses names that cannot be those of directories.
func (p *FakePlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	return p.newVolume(NewMounter, spec.Name(), pod.UID)
}

// NewUnmounter refuses names that cannot be those of directories.
func (p *FakePlugin) NewUnmounter(name string, podUID types.UID) (volume.Unmounter, error) {
	return p.newVolume(NewUnmounter, name, podUID)
}

func (p *FakePlugin) newVolume(op Operation, name string, podUID types.UID) (*fakeVolume, error) {
	v := &fakeVolume{plugin: p, name: name, podUID: podUID}
	err := p.do(context.Background(), v.call(op), func() error {
		return errors.Join(volume.CheckName(name), volume.CheckPodUID(podUID))
	})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v.host = p.host
	return v, nil
}

// fakeVolume is the Mounter and the Unmounter of one volume.
type fakeVolume struct {
	plugin *FakePlugin
	host   volume.Host
	name   string
	podUID types.UID
}

// fakeMode is the mode of the volume's directory.
const fakeMode = fs.ModeDir | 0o777

func (v *fakeVolume) call(op Operation) Call {
	return Call{Op: op, Volume: v.name, PodUID: v.podUID}
}

func (v *fakeVolume) Path() string {
	return v.host.PodVolumeDir(v.podUID, v.plugin.Name(), v.name)
}

func (v *fakeVolume) Attributes() volume.Attributes {
	return volume.Attributes{Managed: true}
}

func (v *fakeVolume) SetUp(ctx context.Context, options volume.SetUpOptions) error {
	return v.plugin.do(ctx, v.call(SetUp), func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return v.setUp(options)
	})
}

func (v *fakeVolume) setUp(options volume.SetUpOptions) error {
	path := v.Path()
	if err := os.MkdirAll(path, 0o750); err != nil {
		return err
	}
	if err := v.mount(); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	switch {
	case options.FSGroup != nil && info.Mode() != fakeMode|fs.ModeSetgid:
		return v.giveToGroup(int(*options.FSGroup))
	case info.Mode()&^fs.ModeSetgid != fakeMode:
		return os.Chmod(path, fakeMode)
	}
	return nil
}

func (v *fakeVolume) mount() error {
	if !v.plugin.Tmpfs {
		return nil
	}
	mounted, err := v.host.Mounter.IsMountPoint(v.Path())
	if err != nil || mounted {
		return err
	}
	if err := v.host.Mounter.Mount("tmpfs", v.Path(), "tmpfs", nil); err != nil {
		// It may have been mounted all the same.
		return volume.Errorf(volume.ErrUncertain, "mount a tmpfs on %s: %w", v.Path(), err)
	}
	return nil
}

// giveToGroup sets the mode last: the setgid bit says that it was finished.
func (v *fakeVolume) giveToGroup(group int) error {
	if err := os.Chown(v.Path(), -1, group); err != nil {
		return err
	}
	return os.Chmod(v.Path(), fakeMode|fs.ModeSetgid)
}

func (v *fakeVolume) Presence(ctx context.Context) (volume.Presence, error) {
	presence := volume.Unknown
	err := v.plugin.do(ctx, v.call(Presence), func() (err error) {
		presence, err = v.presence()
		return err
	})
	if err != nil {
		return volume.Unknown, err
	}
	return presence, nil
}

func (v *fakeVolume) presence() (volume.Presence, error) {
	info, err := os.Lstat(v.Path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return volume.Absent, nil
	case err != nil:
		return volume.Unknown, err
	case info.Mode()&^fs.ModeSetgid != fakeMode:
		return volume.Absent, nil
	case !v.plugin.Tmpfs:
		return volume.Present, nil
	}
	mounted, err := v.host.Mounter.IsMountPoint(v.Path())
	switch {
	case err != nil:
		return volume.Unknown, err
	case mounted:
		return volume.Present, nil
	}
	return volume.Absent, nil
}

func (v *fakeVolume) TearDown(ctx context.Context, _ volume.TearDownOptions) error {
	return v.plugin.do(ctx, v.call(TearDown), func() error {
		if err := v.unmount(); err != nil {
			return err
		}
		err := removal.All(ctx, v.Path())
		if mounted := (*removal.MountedError)(nil); errors.As(err, &mounted) {
			return volume.Errorf(volume.ErrInUse, "remove %s: %w", v.Path(), err)
		}
		return err
	})
}

func (v *fakeVolume) unmount() error {
	if !v.plugin.Tmpfs {
		return nil
	}
	mounted, err := v.host.Mounter.IsMountPoint(v.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !mounted {
		return err
	}
	err = v.host.Mounter.Unmount(v.Path())
	if err == nil {
		return nil
	}
	inside, listErr := v.mountsInside()
	if listErr != nil || len(inside) == 0 {
		return errors.Join(fmt.Errorf("unmount %s: %w", v.Path(), err), listErr)
	}
	return volume.Errorf(volume.ErrInUse, "unmount %s, in which is mounted %q: %w", v.Path(), inside, err)
}

func (v *fakeVolume) mountsInside() ([]string, error) {
	mounts, err := v.host.Mounter.List()
	if err != nil {
		return nil, err
	}
	var inside []string
	for _, m := range mounts {
		if strings.HasPrefix(m.Path, v.Path()+"/") {
			inside = append(inside, m.Path)
		}
	}
	return inside, nil
}
