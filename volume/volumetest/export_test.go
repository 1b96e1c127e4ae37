// SPDX-License-Identifier: Apache-2.0

package volumetest

import "slices"

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
