// SPDX-License-Identifier: Apache-2.0

package volume_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/volumekit/volumekit/volume"
)

func TestPresenceHasThreeValues(t *testing.T) {
	assert.Equal(t, "unknown", volume.Presence(0).String(), "the zero value proves nothing")
	assert.Equal(t, "unknown", volume.Unknown.String())
	assert.Equal(t, "absent", volume.Absent.String())
	assert.Equal(t, "present", volume.Present.String())
	assert.Equal(t, "unknown", volume.Presence(99).String())
}

func TestAWarningReachesWhoAsksForIt(t *testing.T) {
	var warnings []string
	hear := func(message string) { warnings = append(warnings, message) }
	volume.SetUpOptions{Warn: hear}.Warnf("the group stays %d", 7)
	volume.TearDownOptions{Warn: hear}.Warnf("unmounted %s", "lazily")
	assert.Equal(t, []string{"the group stays 7", "unmounted lazily"}, warnings)
	assert.NotPanics(t, func() {
		volume.SetUpOptions{}.Warnf("nobody hears this")
		volume.TearDownOptions{}.Warnf("nor this")
	})
}
