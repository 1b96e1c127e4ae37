// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"errors"

	"github.com/volumekit/volumekit/volume"
)

// faultChecks play a crash, and an error, at every mount and unmount, before and after it has its effect. The crashes
// between the steps that make no mount are played by rootChecks and fullDiskChecks.
var faultChecks = []check{
	{name: "SetUpGoesOnAfterAnErrorAtEveryMount", run: func(c *trial) {
		c.faultySetUp(failing, c.setUp, c.tearDown)
	}},
	{name: "SetUpGoesOnAfterACrashAtEveryMount", run: func(c *trial) {
		c.faultySetUp(crashing, c.setUp, c.tearDown)
	}},
	{name: "TearDownCleansUpAfterAnErrorAtEveryMount", run: func(c *trial) {
		c.faultySetUp(failing, c.tearDown)
	}},
	{name: "TearDownCleansUpAfterACrashAtEveryMount", run: func(c *trial) {
		c.faultySetUp(crashing, c.tearDown)
	}},
	{name: "TearDownGoesOnAfterAnErrorAtEveryUnmount", run: func(c *trial) { c.faultyTearDown(failing) }},
	{name: "TearDownGoesOnAfterACrashAtEveryUnmount", run: func(c *trial) { c.faultyTearDown(crashing) }},
}

// errInjected is what a mount fails with that had no effect.
var errInjected = errors.New("injected fault")

// injected is what a mount or unmount fails with. If it had its effect, who is told cannot know.
func injected(at string) error {
	if at == "after" {
		return volume.Errorf(volume.ErrUncertain, "injected after the effect: %w", errInjected)
	}
	return errInjected
}

// A fault makes a hook that fails at the n-th call.
type fault func(at string, n int) MountHook

// failing fails the n-th call only.
func failing(at string, n int) MountHook {
	return func(call MountCall) error {
		if call.N == n {
			return injected(at)
		}
		return nil
	}
}

// crashing fails the n-th call and all that come after it: nothing can be cleaned up.
func crashing(at string, n int) MountHook {
	return func(call MountCall) error {
		if call.N >= n {
			return injected(at)
		}
		return nil
	}
}

func (c *trial) faultySetUp(fault fault, then ...func()) {
	c.Helper()
	for _, at := range []string{"before", "after"} {
		c.eachMount(at, func(n int) {
			c.injectAt(at, fault(at, n))
			if err := c.trySetUp(c.ctx(), volume.SetUpOptions{}); err == nil {
				c.wantPresence(volume.Present, "after SetUp has succeeded")
			}
		}, func() {
			for _, step := range then {
				step()
			}
		})
	}
}

func (c *trial) faultyTearDown(fault fault) {
	c.Helper()
	for _, at := range []string{"before", "after"} {
		c.eachMount(at, func(n int) {
			c.setUp()
			c.injectAt(at, fault(at, n))
			if err := c.tryTearDown(c.ctx()); err == nil {
				c.wantNothing()
			}
		}, c.tearDown)
	}
}

// injectAt injects the hook before or after the effect of each mount and unmount.
func (c *trial) injectAt(at string, hook MountHook) {
	if at == "after" {
		c.inject(nil, hook)
	} else {
		c.inject(hook, nil)
	}
}

// mostMounts is how many mounts and unmounts one operation may make before the suite gives up.
const mostMounts = 200

// eachMount calls attempt, which injects something into the n-th mount or unmount, with n growing until there is no n-th.
// After each attempt the program is started again, and then brings it back to where it was.
func (c *trial) eachMount(at string, attempt func(n int), then func()) {
	c.Helper()
	for n := 1; n <= mostMounts; n++ {
		attempt(n)
		reached := len(c.mounter.Calls()) >= n
		c.inject(nil, nil)
		c.restart()
		then()
		if !reached {
			return
		}
		c.Logf("reached the end after a fault %s the effect of mount or unmount %d", at, n)
	}
	c.Fatalf("more than %d mounts and unmounts for one volume", mostMounts)
}
