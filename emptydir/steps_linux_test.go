// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/unmounting"
	"github.com/volumekit/volumekit/volume"
)

// steppingMounter unmounts in the way that it is told.
type steppingMounter struct {
	mount.Interface
	step unmounting.Step
}

func (m steppingMounter) UnmountInSteps(_ context.Context, target string) (unmounting.Step, error) {
	return m.step, m.Unmount(target)
}

func TestTearDownSaysHowItUnmountedIfThatIsUnusual(t *testing.T) {
	for step, want := range map[unmounting.Step]string{
		unmounting.Plain:  "",
		unmounting.Forced: "was unmounted by force",
		unmounting.Lazy:   "was unmounted lazily",
	} {
		t.Run(step.String(), func(t *testing.T) {
			mounter := steppingMounter{Interface: mount.NewFakeMounter(nil), step: step}
			f := newFixtureWith(t, v1.EmptyDirVolumeSource{Medium: "Memory"}, newPod(), mounter)
			f.setUp()
			unmounter, err := f.plugin.NewUnmounter(f.spec.Name(), f.pod.UID)
			require.NoError(t, err)
			var warnings []string
			hear := func(message string) { warnings = append(warnings, message) }
			require.NoError(t, unmounter.TearDown(t.Context(), volume.TearDownOptions{Warn: hear}))
			if want == "" {
				assert.Empty(t, warnings)
				return
			}
			require.Len(t, warnings, 1)
			assert.Contains(t, warnings[0], want)
		})
	}
}
