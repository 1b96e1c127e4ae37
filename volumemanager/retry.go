// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// defaultBackoff is the kubelet's for volumes: from half a second, doubled, to two minutes and two seconds.
var defaultBackoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 2*time.Minute + 2*time.Second}

// retry tells when what has failed is to be tried again. The zero value says: now.
type retry struct {
	failures int
	next     time.Time
	backoff  wait.Backoff // what is left of it
}

// fail counts a failure.
func (r *retry) fail(now time.Time, backoff wait.Backoff) {
	if r.failures == 0 {
		r.backoff = backoff
	}
	r.failures++
	r.next = now.Add(r.backoff.Step())
}

// reset forgets the failures, when something has changed that may have caused them.
func (r *retry) reset() { *r = retry{} }
