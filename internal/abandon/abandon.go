// SPDX-License-Identifier: Apache-2.0

// Package abandon runs calls that may hang in the kernel for ever (a stat on a dead NFS server, on a dead FUSE daemon), so
// that the caller need not.
package abandon

import "context"

// Run calls f and returns what it returns, or the cause of ctx's end ([context.Cause]) if that comes first. Then f is
// abandoned: it goes on in a goroutine of its own, which costs a thread while f is in a system call, and what it returns is
// dropped. So f holds no lock and writes to no variable of the caller; where it opens something, it returns what the
// garbage collector closes (an [os.File], not a descriptor); and an effect that it has is uncertain from then on.
//
// With a ctx that cannot end, f runs in the goroutine of the caller. With a ctx that has ended, f does not run. A panic in
// f ends the process.
func Run[T any](ctx context.Context, f func() (T, error)) (T, error) {
	if ctx.Done() == nil {
		return f()
	}
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1) // so that an abandoned f can end
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-done: // both came; an answer is worth more
		return r.value, r.err
	default:
		return none, context.Cause(ctx)
	}
}
