// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"slices"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

// Run tests the plugin, each rule in a subtest. The subtests about the plugin are "plugin/RULE", those about a volume
// "NAME OF THE CASE/RULE". It must not run beside other tests.
func Run(t *testing.T, config Config) {
	t.Helper()
	config = config.complete(t)
	t.Run("plugin", func(t *testing.T) {
		for _, check := range pluginChecks {
			check.subtest(t, &config, config.Cases[0])
		}
	})
	for _, invalid := range config.Invalid {
		t.Run(invalid.Name, func(t *testing.T) {
			invalidCheck(invalid).subtest(t, &config, Case{Spec: invalid.Spec, Pod: invalid.Pod})
		})
	}
	for _, subject := range config.Cases {
		t.Run(subject.Name, func(t *testing.T) {
			if subject.Mounts {
				mountns.RequirePrivate(t)
			}
			// What is left running is looked for once per case: it takes a while to be sure of.
			running := goleak.IgnoreCurrent()
			for _, check := range checksOf(subject) {
				check.subtest(t, &config, subject)
			}
			noGoroutineIsLeft(t, &config, running)
		})
	}
	t.Run("provisioning", func(t *testing.T) { runProvisioning(t, &config) })
}

// check is one rule.
type check struct {
	name string
	run  func(*trial)

	// mounts says that the check itself mounts, whatever the plugin does.
	mounts bool

	// applies reports whether the rule holds for such a volume. Nil: for all of them.
	applies func(Case) bool

	// needs reports whether the plugin has what the rule is about. Nil: every plugin has it.
	needs func(volume.VolumePlugin) bool
}

func (c check) subtest(t *testing.T, config *Config, subject Case) {
	if !config.only(c.name) || c.applies != nil && !c.applies(subject) || c.needs != nil && !c.needs(config.New()) {
		return
	}
	t.Run(c.name, func(t *testing.T) {
		if c.mounts {
			mountns.RequirePrivate(t)
		}
		trial := newTrial(t, config, subject)
		c.run(trial)
		trial.finish()
	})
}

func checksOf(subject Case) []check {
	pv := subject.Spec.PersistentVolume
	if pv != nil && pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == v1.PersistentVolumeBlock {
		return blockChecks
	}
	return volumeChecks
}

// volumeChecks are the rules for volumes that are directories or files.
var volumeChecks = slices.Concat(
	lifecycleChecks,
	nameChecks,
	rootChecks,
	contentChecks,
	foreignMountChecks,
	contextChecks,
	faultChecks,
	fullDiskChecks,
	ownershipChecks,
	metricsChecks,
	concurrencyChecks,
	attachChecks,
	deviceChecks,
	expandChecks,
	recycleChecks,
)

// The rules that are not for every volume.

// belowRoot is about volumes that have a place below the root.
func belowRoot(subject Case) bool { return !subject.InPlace }

// ephemeral is about volumes whose files go with the pod.
func ephemeral(subject Case) bool { return !subject.InPlace && !subject.Durable }

// can reports whether a plugin has the capability T.
func can[T volume.VolumePlugin](plugin volume.VolumePlugin) bool {
	_, ok := plugin.(T)
	return ok
}

func noGoroutineIsLeft(t *testing.T, config *Config, running goleak.Option) {
	const name = "NoGoroutineIsLeft"
	if !config.only(name) {
		return
	}
	t.Run(name, func(t *testing.T) {
		if err := goleak.Find(running); err != nil {
			t.Error(err)
		}
	})
}
