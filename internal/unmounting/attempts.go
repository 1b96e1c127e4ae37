// SPDX-License-Identifier: Apache-2.0

package unmounting

import "sync"

// Attempts are the unmounts that have not returned, at most one for each [Key]. So retrying one that hangs in the kernel costs
// no further goroutine and thread. The zero value is ready, and its methods may be called concurrently.
type Attempts struct {
	mu      sync.Mutex
	running map[Key]*Attempt
}

// Key tells attempts apart.
type Key struct {
	Target string
	// Mount is the identity of what is to be unmounted, 0 if that is not known.
	Mount uint64
	Step  Step
}

// Attempt is a call that may hang; see package abandon for what giving up on it means.
type Attempt struct {
	key       Key
	done      chan struct{}
	err       error // once done is closed
	abandoned bool  // guarded by the mutex of Attempts
}

// Start calls f in a goroutine, or joins the attempt of the same key that is under way.
func (a *Attempts) Start(key Key, f func() error) *Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	if attempt, ok := a.running[key]; ok {
		return attempt
	}
	attempt := &Attempt{key: key, done: make(chan struct{})}
	if a.running == nil {
		a.running = make(map[Key]*Attempt)
	}
	a.running[key] = attempt
	go func() {
		attempt.err = f()
		a.Forget(attempt)
		close(attempt.done)
	}()
	return attempt
}

// Done is closed when the attempt has ended.
func (t *Attempt) Done() <-chan struct{} { return t.done }

// Err is what the attempt came to, which has ended.
func (t *Attempt) Err() error { return t.err }

// Step is the step that the attempt is.
func (t *Attempt) Step() Step { return t.key.Step }

// Abandon notes that the attempt is no longer waited for by who started it.
func (a *Attempts) Abandon(attempt *Attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	attempt.abandoned = true
}

// Forget drops the attempt: it need not be waited for by anybody, be it that it has ended or that it has no effect any more.
func (a *Attempts) Forget(attempt *Attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running[attempt.key] == attempt {
		delete(a.running, attempt.key)
	}
}

// Earlier returns the abandoned attempts on target that have not ended and are about another mount than the one that is given:
// they have taken theirs out of the directory tree, and still work on it.
func (a *Attempts) Earlier(target string, mount uint64) []*Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	var earlier []*Attempt
	for key, attempt := range a.running {
		if key.Target == target && key.Mount != mount && attempt.abandoned {
			earlier = append(earlier, attempt)
		}
	}
	return earlier
}
