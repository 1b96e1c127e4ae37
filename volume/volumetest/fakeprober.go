// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"context"

	"github.com/volumekit/volumekit/volume"
)

// FakeProber is a prober whose answers a test sends: each call of Probe returns the next one. Its first call waits too,
// so that a test can play a slow prober; a test that wants none sends an empty answer first.
//
// A send on an unbuffered FakeProber returns when the answer is taken, and so the next one returns when the manager has
// begun to deal with all that came before. It must not be closed.
type FakeProber chan ProbeAnswer

// ProbeAnswer is what a call of Probe returns.
type ProbeAnswer struct {
	// Events are what has happened to plugins.
	Events []volume.ProbeEvent

	// Err is what is wrong with the probing, nil if nothing is.
	Err error
}

var _ volume.DynamicPluginProber = FakeProber(nil)

// Probe returns the next answer, or the error of ctx.
func (p FakeProber) Probe(ctx context.Context) ([]volume.ProbeEvent, error) {
	select {
	case answer := <-p:
		return answer.Events, answer.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Found is the answer that the plugins are there, or have changed.
func Found(plugins ...volume.VolumePlugin) ProbeAnswer {
	var answer ProbeAnswer
	for _, plugin := range plugins {
		event := volume.ProbeEvent{Op: volume.ProbeAddOrUpdate, Name: plugin.Name(), Plugin: plugin}
		answer.Events = append(answer.Events, event)
	}
	return answer
}

// Gone is the answer that the plugins of these names are no longer there.
func Gone(names ...string) ProbeAnswer {
	var answer ProbeAnswer
	for _, name := range names {
		answer.Events = append(answer.Events, volume.ProbeEvent{Op: volume.ProbeRemove, Name: name})
	}
	return answer
}
