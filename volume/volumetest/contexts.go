// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"context"
	"time"

	"github.com/volumekit/volumekit/volume"
)

// contextChecks are about contexts that end. A call whose context has ended may succeed or fail, but it returns, and
// another one reaches the end.
var contextChecks = []check{
	{name: "ACancelledSetUpReturnsAndCanBeRepeated", run: func(c *trial) { endedSetUp(c, cancelled) }},
	{name: "ASetUpPastItsDeadlineReturnsAndCanBeRepeated", run: func(c *trial) { endedSetUp(c, pastDeadline) }},
	{name: "ASetUpThatIsCancelledCanBeTornDown", run: func(c *trial) { endedSetUpIsTornDown(c, cancelled) }},
	{name: "ACancelledTearDownReturnsAndCanBeRepeated", run: func(c *trial) { endedTearDown(c, cancelled) }},
	{name: "ATearDownPastItsDeadlineReturnsAndCanBeRepeated", run: func(c *trial) { endedTearDown(c, pastDeadline) }},
	{name: "ACancelledPresenceReturns", run: cancelledPresence},
	{name: "SetUpIsCancelledHalfway", run: setUpIsCancelledHalfway},
}

func cancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx, cancel
}

func pastDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, time.Unix(0, 0))
}

type ended func(context.Context) (context.Context, context.CancelFunc)

func endedSetUp(c *trial, end ended) {
	c.halfSetUp(end)
	c.restart()
	c.setUp()
	c.tearDown()
}

func endedSetUpIsTornDown(c *trial, end ended) {
	c.halfSetUp(end)
	c.restart()
	c.tearDown()
}

// halfSetUp sets the volume up with a context that has ended.
func (c *trial) halfSetUp(end ended) {
	c.Helper()
	ctx, cancel := end(c.ctx())
	defer cancel()
	if err := c.trySetUp(ctx, volume.SetUpOptions{}); err == nil {
		c.wantPresence(volume.Present, "after SetUp has succeeded")
	}
}

func endedTearDown(c *trial, end ended) {
	c.setUp()
	ctx, cancel := end(c.ctx())
	defer cancel()
	err := c.tryTearDown(ctx)
	if err == nil {
		c.wantNothing()
	}
	c.restart()
	c.tearDown()
}

func cancelledPresence(c *trial) {
	ctx, cancel := cancelled(c.ctx())
	defer cancel()
	for _, wrong := range []volume.Presence{volume.Present, volume.Absent} {
		presence, err := c.presenceWithin(ctx)
		switch {
		case presence == volume.Unknown && err == nil:
			c.Error("Presence is Unknown, and no error says why")
		case presence == wrong && !c.subject.InPlace:
			c.Errorf("Presence is %s, which is wrong", presence)
		}
		if wrong == volume.Present {
			c.setUp()
		}
	}
	c.tearDown()
}

// setUpIsCancelledHalfway ends the context during the n-th mount or unmount, before and after it has its effect.
func setUpIsCancelledHalfway(c *trial) {
	for _, at := range []string{"before", "after"} {
		c.eachMount(at, func(n int) {
			ctx, cancel := context.WithCancel(c.ctx())
			defer cancel()
			hook := func(call MountCall) error {
				if call.N == n {
					cancel()
				}
				return nil
			}
			c.injectAt(at, hook)
			if err := c.trySetUp(ctx, volume.SetUpOptions{}); err == nil {
				c.wantPresence(volume.Present, "after SetUp has succeeded")
			}
		}, func() {
			c.setUp()
			c.tearDown()
		})
	}
}
