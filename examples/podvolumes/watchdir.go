// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// changesSettle is how long it is waited for more changes: a file is often written in several steps.
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
		timer := time.NewTimer(lookAnyway)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-events:
				timer.Reset(changesSettle)
				continue
			case <-lost:
				timer.Reset(changesSettle)
				continue
			case <-timer.C:
				timer.Reset(lookAnyway)
			}
			watch()
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return changed
}
