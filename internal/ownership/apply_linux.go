// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/descent"
	"golang.org/x/sys/unix"
)

const (
	// grace is how long Apply waits, after the end of its context, for the system calls that are under way. A file system
	// that answers needs far less, and then nothing is changed or held open any more when Apply returns.
	grace = 50 * time.Millisecond

	// maxWalks bounds how often a tree is walked because directories of it were moved while it was walked.
	maxWalks = 5
)

// errKeepsMoving is for a volume in which directories are moved around all the time.
var errKeepsMoving = errors.New("its directories keep being moved: stop what moves them, then try again")

// Apply gives path and everything beneath it to the group: its owners stay, the group may read and write it (read it, with
// ReadOnly) and search the directories, and what is made in a directory later belongs to the group too (setgid). Further
// permissions are kept, setuid and setgid bits of files among them. Symbolic links are given to the group and not followed,
// not even path itself; the directories that lead to path may be symbolic links. Where a path is no directory, it alone is
// changed.
//
// What is right already costs one system call. The root directory is changed last, when everything else is right, so that a
// walk that was cut short is not taken for a whole one by [Options.OnRootMismatch]. That holds for one group: who gives a
// volume first to one and then to another, and fails halfway, must not go back to the first one with OnRootMismatch.
//
// The first failure ends the walk, with an error that names the file; the root is not changed then. What vanishes meanwhile
// is no failure. What is added meanwhile by somebody who is not of the group may be missed. Where something is mounted
// beneath path, neither that nor what is in it is changed, and a server that is gone does no harm there. Of a network file
// system it takes the attributes that the kernel knows, which may be a few seconds old.
//
// Changing the group takes a file's setuid and setgid bits away, and they are set again afterwards. A file at which the process is
// killed between the two has lost them, which no later call can know.
//
// When ctx ends, Apply returns within a tenth of a second, with an error that wraps the cause of its end, even if the file
// system does not answer. Unless it does not, nothing is changed any more from then on.
//
// Apply runs on all processors that the program may use. It needs Linux 5.8, for STATX_ATTR_MOUNT_ROOT; before Linux 6.6 it
// needs /proc.
func Apply(ctx context.Context, path string, options Options) (Result, error) {
	if options.Group < 0 || options.Group >= math.MaxUint32 { // the last one stands for "as it is"
		return Result{}, fmt.Errorf("cannot give %q to group %d: a group ID is a number from 0 to 4294967294", path, options.Group)
	}
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("cannot give %q to group %d: %w", path, options.Group, context.Cause(ctx))
	}
	a := newApplication(ctx, path, options)
	stopReporting := a.report()
	late, stopWaiting := afterGrace(ctx)
	result, err := abandon.Run(late, a.run)
	stopWaiting()
	stopReporting()
	if err != nil {
		return a.result(), fmt.Errorf("cannot give %q to group %d: %w", path, options.Group, err)
	}
	return result, nil
}

// afterGrace returns a context that ends a little later than ctx, for the same reason.
func afterGrace(ctx context.Context) (late context.Context, stop func()) {
	if ctx.Done() == nil {
		return context.Background(), func() {}
	}
	late, cancel := context.WithCancelCause(context.Background())
	timer := make(chan *time.Timer, 1)
	stopWatching := context.AfterFunc(ctx, func() {
		timer <- time.AfterFunc(grace, func() { cancel(context.Cause(ctx)) })
	})
	return late, func() {
		if !stopWatching() {
			(<-timer).Stop()
		}
		cancel(nil)
	}
}

// application is one Apply.
type application struct {
	ctx     context.Context // of the one call that this is made for
	path    string
	options Options
	target  target
	changes []*changer // one for each goroutine, and for the root the first

	failure failure
}

func newApplication(ctx context.Context, path string, options Options) *application {
	a := &application{ctx: ctx, path: path, options: options, target: newTarget(options)}
	for range runtime.GOMAXPROCS(0) {
		a.changes = append(a.changes, &changer{target: &a.target, failure: &a.failure})
	}
	return a
}

// result counts what has been done so far.
func (a *application) result() Result {
	var r Result
	for _, c := range a.changes {
		r.Seen += c.seen.Load()
		r.Changed += c.changed.Load()
	}
	return r
}

func (a *application) run() (Result, error) {
	fd, err := openRoot(a.path)
	if err != nil {
		return Result{}, fmt.Errorf("open: %w", err)
	}
	defer unix.Close(fd)
	first := a.changes[0]
	var st unix.Statx_t
	if err := statDescriptor(fd, &st); err != nil {
		return Result{}, fmt.Errorf("statx: %w", err)
	}
	if isDir(&st) {
		if a.options.OnRootMismatch && a.target.right(&st) {
			first.seen.Add(1)
			r := a.result()
			r.Skipped = true
			return r, nil
		}
		if err := a.walk(fd); err != nil {
			return Result{}, err
		}
	}
	if err := a.ended(); err != nil {
		return Result{}, err
	}
	if call, err := first.descriptor(fd); err != nil {
		return Result{}, fmt.Errorf("%s: %w", call, err)
	}
	return a.result(), nil
}

// walk changes everything beneath the root directory.
func (a *application) walk(fd int) error {
	visitors := make([]descent.Visitor, len(a.changes))
	for i, c := range a.changes {
		visitors[i] = c
	}
	for range maxWalks {
		dir, err := reopen(fd)
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		a.failure.moved.Store(false)
		descent.Walk(dir, a.path, visitors, func() bool { return a.failure.happened.Load() || a.ctx.Err() != nil })
		if err := a.ended(); err != nil {
			return err
		}
		if !a.failure.moved.Load() {
			return nil
		}
		// What was around the directory that was moved has been left out. What has been done costs little the next time.
	}
	return errKeepsMoving
}

// ended returns the first failure, or why there is no need to go on.
func (a *application) ended() error {
	if err := a.failure.first(); err != nil {
		return err
	}
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	return nil
}

// report calls Progress now and then until it is stopped.
func (a *application) report() (stop func()) {
	if a.options.Progress == nil {
		return func() {}
	}
	period := a.options.ProgressPeriod
	if period <= 0 {
		period = defaultProgressPeriod
	}
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r := a.result()
				a.options.Progress(Progress{Seen: r.Seen, Changed: r.Changed})
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		running.Wait()
	}
}

// openRoot opens the root for looking at it and for changing it, not for reading it: a device or a fifo must not notice.
func openRoot(path string) (fd int, err error) {
	err = retry(func() (err error) {
		fd, err = unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}

// reopen opens the directory that a descriptor is of for reading.
func reopen(fd int) (dir int, err error) {
	err = retry(func() (err error) {
		dir, err = unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	return dir, err
}
