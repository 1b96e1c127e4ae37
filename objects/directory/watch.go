// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// changesSettle is how long after a change it is waited for more: a file is often written in several steps.
const changesSettle = 100 * time.Millisecond

// watch returns a channel on which something comes when the directory may have changed, and every so often in any case, until ctx
// ends. The directory may come, go, be replaced, or be a symbolic link that leads elsewhere all of a sudden. With an error, which
// says that the system tells of no changes, the channel is still good.
func watch(ctx context.Context, path string, every time.Duration) (<-chan struct{}, error) {
	changed := make(chan struct{}, 1)
	w := &watcher{path: path, changed: changed}
	var err error
	if w.notify, err = fsnotify.NewWatcher(); err != nil {
		err = fmt.Errorf("%s is read every %v only, as changes cannot be watched: %w", path, every, err)
		w.notify = nil
	}
	w.add()
	go w.run(ctx, every)
	return changed, err
}

type watcher struct {
	path    string
	notify  *fsnotify.Watcher // nil if the system has none to give
	changed chan<- struct{}
}

// add watches the directory that is at the path now, and the one around it, where another may take its place.
func (w *watcher) add() {
	if w.notify == nil {
		return
	}
	_ = w.notify.Add(filepath.Dir(w.path))
	_ = w.notify.Remove(w.path) // it may be another directory by now
	_ = w.notify.Add(w.path)
}

func (w *watcher) run(ctx context.Context, every time.Duration) {
	var events <-chan fsnotify.Event
	var lost <-chan error
	if w.notify != nil {
		defer func() { _ = w.notify.Close() }()
		events, lost = w.notify.Events, w.notify.Errors
	}
	anyway := time.NewTicker(every)
	defer anyway.Stop()
	// Not put off by more changes, or somebody who writes all the time would keep them from being seen.
	var settled <-chan time.Time
	settle := func() {
		if settled == nil {
			settled = time.After(changesSettle)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-events:
			// Beside the directory, others may be busy all the time.
			if name := filepath.Clean(event.Name); name == w.path || filepath.Dir(name) == w.path { // in ".", names begin with "./"
				settle()
			}
			continue
		case <-lost:
			settle()
			continue
		case <-settled:
		case <-anyway.C:
		}
		settled = nil
		w.add()
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}
