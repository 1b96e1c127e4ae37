// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"slices"
	"testing"
)

// RunOnly is Run for some of the rules.
func RunOnly(t *testing.T, config Config, rules ...string) {
	t.Helper()
	config.only = func(rule string) bool { return slices.Contains(rules, rule) }
	Run(t, config)
}

// Rules are the names of all subtests.
func Rules() []string {
	rules := []string{"NewMounterRefusesItByName", "NoGoroutineIsLeft"}
	for _, check := range slices.Concat(pluginChecks, volumeChecks, blockChecks) {
		rules = append(rules, check.name)
	}
	for _, check := range provisionChecks {
		rules = append(rules, check.name)
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}
