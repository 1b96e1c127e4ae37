// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"slices"
	"sync"
	"time"

	"k8s.io/mount-utils"
)

// FaultyMounter is a [mount.Interface] that mounts and unmounts as another one does, counts these calls, and fails them
// on request. Its methods may be called concurrently, if those of the other one may.
type FaultyMounter struct {
	mount.Interface

	mu     sync.Mutex
	calls  []MountCall
	before MountHook
	after  MountHook
}

// MountCall is a call that changes mounts.
type MountCall struct {
	// N is 1 for the first such call, and so on.
	N int

	// Unmount tells the calls that unmount from those that mount. They have a Target only.
	Unmount bool

	// Source, Target, FSType and Options are the arguments of the call, without what was marked as sensitive.
	Source, Target, FSType string
	Options                []string
}

// MountHook is called during a call that changes mounts, by its goroutine. An error ends the call, which returns it.
type MountHook func(MountCall) error

// NewFaultyMounter returns a FaultyMounter that leaves the work to mounter.
func NewFaultyMounter(mounter mount.Interface) *FaultyMounter {
	return &FaultyMounter{Interface: mounter}
}

// Inject has before called before each call that changes mounts has had an effect, and after when it has had its effect,
// from now on and instead of what was injected before. Either may be nil. It starts the count anew.
func (m *FaultyMounter) Inject(before, after MountHook) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before, m.after, m.calls = before, after, nil
}

// Calls returns the calls since the last Inject, in the order in which they began.
func (m *FaultyMounter) Calls() []MountCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

func (m *FaultyMounter) do(call MountCall, effect func() error) error {
	m.mu.Lock()
	call.N = len(m.calls) + 1
	call.Options = slices.Clone(call.Options)
	m.calls = append(m.calls, call)
	before, after := m.before, m.after
	m.mu.Unlock()
	if before != nil {
		if err := before(call); err != nil {
			return err
		}
	}
	if err := effect(); err != nil {
		return err
	}
	if after != nil {
		return after(call)
	}
	return nil
}

// Mount mounts, see [FaultyMounter.Inject].
func (m *FaultyMounter) Mount(source, target, fstype string, options []string) error {
	call := MountCall{Source: source, Target: target, FSType: fstype, Options: options}
	return m.do(call, func() error { return m.Interface.Mount(source, target, fstype, options) })
}

// MountSensitive mounts, see [FaultyMounter.Inject].
func (m *FaultyMounter) MountSensitive(source, target, fstype string, options, sensitive []string) error {
	call := MountCall{Source: source, Target: target, FSType: fstype, Options: options}
	return m.do(call, func() error {
		return m.Interface.MountSensitive(source, target, fstype, options, sensitive)
	})
}

// MountSensitiveWithoutSystemd mounts, see [FaultyMounter.Inject].
func (m *FaultyMounter) MountSensitiveWithoutSystemd(source, target, fstype string, options, sensitive []string) error {
	call := MountCall{Source: source, Target: target, FSType: fstype, Options: options}
	return m.do(call, func() error {
		return m.Interface.MountSensitiveWithoutSystemd(source, target, fstype, options, sensitive)
	})
}

// MountSensitiveWithoutSystemdWithMountFlags mounts, see [FaultyMounter.Inject].
func (m *FaultyMounter) MountSensitiveWithoutSystemdWithMountFlags(source, target, fstype string, options, sensitive, flags []string) error {
	call := MountCall{Source: source, Target: target, FSType: fstype, Options: options}
	return m.do(call, func() error {
		return m.Interface.MountSensitiveWithoutSystemdWithMountFlags(source, target, fstype, options, sensitive, flags)
	})
}

// Unmount unmounts, see [FaultyMounter.Inject].
func (m *FaultyMounter) Unmount(target string) error {
	return m.do(MountCall{Unmount: true, Target: target}, func() error { return m.Interface.Unmount(target) })
}

// UnmountWithForce unmounts, with force after the timeout if the other mounter is a [mount.MounterForceUnmounter]. See
// [FaultyMounter.Inject].
func (m *FaultyMounter) UnmountWithForce(target string, timeout time.Duration) error {
	return m.do(MountCall{Unmount: true, Target: target}, func() error {
		if forcing, ok := m.Interface.(mount.MounterForceUnmounter); ok {
			return forcing.UnmountWithForce(target, timeout)
		}
		return m.Interface.Unmount(target)
	})
}
