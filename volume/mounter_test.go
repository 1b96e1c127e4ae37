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
	options := volume.SetUpOptions{Warn: func(message string) { warnings = append(warnings, message) }}
	options.Warnf("the group stays %d", 7)
	assert.Equal(t, []string{"the group stays 7"}, warnings)
	assert.NotPanics(t, func() { volume.SetUpOptions{}.Warnf("nobody hears this") })
}
