// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/volumekit/volumekit/internal/mountid"
	"github.com/volumekit/volumekit/volume"
)

const (
	// grace is how long an operation whose context has ended may take to return by itself, with an error of its own, before
	// it is left to itself.
	grace = time.Second

	// slow is how long an operation may take before another one may run in its place, beyond atOnce.
	slow = 100 * time.Millisecond
)

// operation is something that is being done to one volume. There is one at a time for a volume: calls to its plugin never
// overlap.
type operation struct {
	kind  Operation
	of    *podVolume // the volume as it was wanted when it began, nil if it was not
	since time.Time

	// abandoned says that its context has ended, but it has not returned. It costs a goroutine until it does, and holds up
	// nothing but its own volume.
	abandoned bool

	// seen and changed count the files that have been looked at, and given to another group, so far.
	seen, changed atomic.Int64

	// err is what it ended with.
	err error

	cancel context.CancelCauseFunc
}

func (o *operation) status() *RunningOperation {
	return &RunningOperation{Operation: o.kind, Since: o.since, Abandoned: o.abandoned, FilesSeen: o.seen.Load(), FilesChanged: o.changed.Load()}
}

// result is what an operation finds out, beside its error.
type result struct {
	// progress tells how many files have been looked at, and how many of those have been given to another group.
	progress func(seen, changed int64)

	warnings []string
	mount    *mountid.Identity

	// persistentVolume is what the claim is bound to, and volumeName what it says that is. expandable says that the volume has grown
	// where it is stored, and the node has not been told to grow it.
	persistentVolume *v1.PersistentVolume
	volumeName       string
	expandable       bool
}

func (r *result) warn(message string) { r.warnings = append(r.warnings, message) }

// errOvertaken ends an operation whose volume is wanted in another way now, or not at all.
var errOvertaken = errors.New("the pod has been changed meanwhile")

// begin has work done for the volume, until it returns or ctx ends; finish and abandon see to what comes of it. mu is
// locked, and no operation of the volume is running.
func (p *managedPod) begin(ctx context.Context, v *managedVolume, kind Operation, work func(context.Context, *result) error) {
	opCtx, cancel := context.WithCancelCause(ctx)
	release := func() {}
	if p.m.running {
		timeout := p.m.options.Timeout
		opCtx, release = context.WithTimeoutCause(opCtx, timeout, fmt.Errorf("it takes longer than %v: %w", timeout, context.DeadlineExceeded))
	}
	o := &operation{kind: kind, of: v.wanted, since: p.m.host.Clock.Now(), cancel: cancel}
	v.running = o
	ended := context.AfterFunc(opCtx, func() {
		time.AfterFunc(grace, func() { p.abandon(opCtx, v, o) })
	})
	go func() {
		r := result{progress: func(seen, changed int64) {
			o.seen.Store(seen)
			o.changed.Store(changed)
		}}
		err := p.m.slots.do(opCtx, func() error { return work(opCtx, &r) })
		ended()
		p.finish(ctx, v, o, &r, err)
		release()
		cancel(nil)
	}()
}

// abandon stops waiting for an operation that has not returned although its context ended.
func (p *managedPod) abandon(ctx context.Context, v *managedVolume, o *operation) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if v.running != o {
		return
	}
	o.abandoned = true
	v.fail(p, volume.Errorf(volume.ErrUncertain, "given up waiting for an operation that goes on: %w", context.Cause(ctx)))
	v.interrupted = !p.m.running
	p.publishOperation(v, o, nil)
	p.kick()
}

// finish takes over what has come of an operation. ctx is that of whoever asked for it.
func (p *managedPod) finish(ctx context.Context, v *managedVolume, o *operation, r *result, err error) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	v.running, o.err = nil, err
	v.look()
	if err != nil {
		v.failed(ctx, p, o, r, err)
	} else {
		v.succeeded(p, o, r)
	}
	p.measure(v)
	if o.kind != OperationVerify && o.kind != OperationResolve && (o.kind != OperationExpand || r.persistentVolume != nil) || err != nil {
		p.publishOperation(v, o, r)
	}
	p.kick()
}

func (v *managedVolume) succeeded(p *managedPod, o *operation, r *result) {
	v.err, v.interrupted, v.suspect = nil, false, false
	tried := v.retry
	v.retry.reset()
	switch o.kind {
	case OperationResolve:
		p.resolved(v, o, r)
		if v.failing == OperationSetUp {
			v.retry = tried // that the claim has been looked at again does not make it the first attempt
		}
	case OperationExpand:
		v.failing = ""
		p.grown(v, o, r)
	case OperationSetUp, OperationRefresh:
		v.warnings, v.failing = r.warnings, ""
		v.there = o.of == v.wanted
		if v.adopted && v.there && v.wanted.canGrow() {
			v.adopted, v.stale = false, true
		}
		p.planRefresh(v)
		if v.record.Failure != "" || !mountid.Equal(v.record.Mount, r.mount) {
			v.record.Failure, v.record.Mount = "", r.mount
			p.unwritten = true
		}
	case OperationTearDown:
		v.failing = ""
		v.there, v.record, p.unwritten = false, nil, true
		p.m.unshared()
		if v.wanted == nil {
			p.m.neglect(v)
			p.volumes = slices.DeleteFunc(p.volumes, func(other *managedVolume) bool { return other == v })
		}
	}
}

func (v *managedVolume) failed(ctx context.Context, p *managedPod, o *operation, r *result, err error) {
	if o.kind == OperationVerify {
		v.there = v.there && !errors.Is(err, errGone) // what cannot be told is not known to be gone
	}
	v.fail(p, err)
	v.failing = o.kind
	if v.wanted != nil && v.wanted.claim != nil {
		p.claimFailed(v, o, r)
	}
	if v.stale && o.kind.looksAtObjects() && ctx.Err() == nil {
		v.retry.reset() // what it failed for may be there now
	}
	v.stale = v.stale || o.kind == OperationRefresh || o.kind == OperationExpand
	v.interrupted = ctx.Err() != nil
	if o.abandoned || errors.Is(err, errOvertaken) {
		v.retry.reset() // its failure has been counted, or is none
	}
	if o.kind == OperationSetUp && !v.interrupted && v.record != nil && v.record.Failure != err.Error() {
		v.record.Failure, p.unwritten = err.Error(), true
	}
}

func (v *managedVolume) fail(p *managedPod, err error) {
	v.err = err
	v.retry.fail(p.m.host.Clock.Now(), p.m.options.Backoff)
}

func (p *managedPod) publishOperation(v *managedVolume, o *operation, r *result) {
	e := Event{Volume: v.name, Plugin: v.id.Plugin, Operation: o.kind, Duration: p.m.host.Clock.Since(o.since)}
	if v.err != nil {
		e.Err = &volume.Error{Op: string(o.kind), Volume: v.name, Pod: p.String(), Plugin: v.id.Plugin, Path: v.path, Err: v.err}
	}
	if r != nil {
		e.Warnings = r.warnings
	}
	if p.m.running && v.retry.failures > 0 && !o.abandoned {
		e.NextTry = v.retry.next
	}
	p.publish(e)
	if e.Err != nil {
		klog.Background().V(2).Info("Volume operation failed", "err", e.Err)
	}
}

func outcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return OutcomeSucceeded
	case errors.Is(err, volume.ErrUncertain), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return OutcomeUncertain
	}
	return OutcomeFailed
}

// slots bounds what runs at the same time, but for what takes long: that does not keep others from running.
type slots chan struct{}

func (s slots) do(ctx context.Context, f func() error) error {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("not begun: %w", context.Cause(ctx))
	}
	release := sync.OnceFunc(func() { <-s })
	timer := time.AfterFunc(slow, release)
	defer func() {
		timer.Stop()
		release()
	}()
	return f()
}
