// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// changesSettle is how long after a change it is waited for more: a file is often written in several steps.
	changesSettle = 200 * time.Millisecond

	// lookAnyway is how often it is looked although nothing was told: files behind links in other directories, and directories
	// whose parent is not there either, change unnoticed.
	lookAnyway = time.Minute
)

// watchDir returns a channel on which something comes when the directory may have changed, until ctx ends. The directory may
// come, go, be replaced, or be a symbolic link that leads elsewhere all of a sudden.
func watchDir(ctx context.Context, path string) <-chan struct{} {
	changed := make(chan struct{}, 1)
	var events <-chan fsnotify.Event
	var lost <-chan error
	watch := func() {}
	// Where the kernel has no more watchers to give, there is lookAnyway.
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		events, lost = watcher.Events, watcher.Errors
		watch = func() {
			_ = watcher.Add(filepath.Dir(filepath.Clean(path)))
			_ = watcher.Remove(path) // it may be another directory by now
			_ = watcher.Add(path)
		}
	}
	watch()
	go func() {
		if err == nil {
			defer func() { _ = watcher.Close() }()
		}
		anyway := time.NewTicker(lookAnyway)
		defer anyway.Stop()
		var settled <-chan time.Time
		for {
			select {
			case <-ctx.Done():
				return
			case event := <-events:
				// Beside the directory, others may be busy all the time.
				name, dir := filepath.Clean(event.Name), filepath.Clean(path) // in ".", names begin with "./"
				if name != dir && filepath.Dir(name) != dir {
					continue
				}
				settled = soon(settled)
				continue
			case <-lost:
				settled = soon(settled)
				continue
			case <-settled:
			case <-anyway.C:
			}
			settled = nil
			watch()
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return changed
}

// soon returns a channel that tells when changes have settled, which is not put off by more of them.
func soon(settled <-chan time.Time) <-chan time.Time {
	if settled != nil {
		return settled
	}
	return time.After(changesSettle)
}
