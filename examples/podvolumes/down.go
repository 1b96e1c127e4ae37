// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
	"github.com/volumekit/volumekit/internal/parallel"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

func down(ctx context.Context, args []string, s streams) error {
	o, err := parse("down", args, "f", "pod", "all", "claims")
	if err != nil {
		return err
	}
	if err := o.checkSelection(); err != nil {
		return err
	}
	ctx, cancel := o.limit(ctx)
	defer cancel()
	selected := selection{all: o.all, names: o.pods}
	wanted := func(types.NamespacedName) bool { return o.claims && o.all }
	if len(o.files) > 0 {
		loaded, err := load(ctx, o.files, s)
		if err != nil {
			return err
		}
		selected.pods = loaded.Pods
		if o.claims {
			wanted = isClaimOf(loaded.Objects)
		}
	}
	plugins, err := openPlugins(ctx, o, volume.Host{})
	if err != nil {
		return err
	}
	defer plugins.Close()
	root := plugins.Host().Root
	if _, err := os.Lstat(root); errors.Is(err, fs.ErrNotExist) {
		_, _ = fmt.Fprintf(s.out, "nothing is set up in %s\n", root)
		return nil
	}
	manager, err := volumemanager.New(ctx, plugins, volumemanager.Options{WaitForRoot: true})
	if err != nil {
		return err
	}
	defer func() { _ = manager.Close() }()
	uids, err := selected.find(manager, s)
	if err != nil {
		return err
	}
	warned := warnings(ctx, manager)
	errs := make([]error, len(uids))
	progress := newProgress(s.err, "take down", len(uids))
	parallel.Each(len(uids), podsAtOnce, func(i int) {
		errs[i] = manager.TearDownPod(ctx, uids[i])
		progress.step()
	})
	progress.end()
	for _, warning := range warned() {
		s.complain("warning: %s", warning)
	}
	gone := 0
	for i, uid := range uids {
		if errs[i] == nil {
			gone++
			errs[i] = checkGone(plugins.Host().PodDir(uid))
		}
	}
	_, _ = fmt.Fprintf(s.out, "the volumes of %d pods are gone\n", gone)
	if o.all {
		errs = append(errs, manager.ReleaseDevices(ctx))
	}
	book := openBook(plugins.Host(), s)
	deleted, claimErrs := deleteClaims(ctx, book, plugins, wanted, s)
	if errs = append(errs, claimErrs...); deleted > 0 {
		_, _ = fmt.Fprintf(s.out, "the volumes of %d claims are deleted\n", deleted)
	}
	if kept := len(book.Entries()); o.all && kept > 0 {
		hint := " (down -claims deletes them)"
		if o.claims {
			hint = ""
		}
		_, _ = fmt.Fprintf(s.out, "the volumes of %d claims stay%s\n", kept, hint)
	} else if o.all {
		errs = append(errs, manager.Close())
		removeEmptyBelow(filepath.Join(root, "plugins"))
		errs = append(errs, checkEmpty(root, errs))
	}
	if err := errors.Join(errs...); err != nil {
		for line := range strings.Lines(err.Error()) {
			s.complain("%s", line)
		}
		return errNotServed
	}
	return nil
}

// warnings collects what the plugins have to say, such as how a volume on a dead server was unmounted. It collects until the
// returned function is called, which returns them.
func warnings(ctx context.Context, manager *volumemanager.Manager) func() []string {
	ctx, stop := context.WithCancel(ctx)
	events := manager.Events(ctx, 1000)
	collected := make(chan []string)
	go func() {
		var all []string
		for e := range events {
			for _, warning := range e.Warnings {
				all = append(all, fmt.Sprintf("volume %q of pod %s/%s: %s", e.Volume, e.Namespace, e.Name, warning))
			}
		}
		collected <- all
	}()
	return func() []string {
		stop()
		return <-collected
	}
}

// checkSelection wants exactly one way of saying which pods.
func (o *options) checkSelection() error {
	ways := 0
	for _, given := range []bool{len(o.files) > 0, len(o.pods) > 0, o.all} {
		if given {
			ways++
		}
	}
	if o.claims && len(o.pods) > 0 {
		return misuse("-claims goes with -f FILE, whose claims are deleted, or with -all")
	}
	if ways != 1 {
		return misuse("say which pods: with -f FILE, with -pod NAMESPACE/NAME, or with -all, and with one of them only")
	}
	for _, name := range o.pods {
		if _, err := parsePodName(name); err != nil {
			return misuse("-pod: %w", err)
		}
	}
	return nil
}

// selection says which pods a command is about.
type selection struct {
	all   bool
	names []string // namespace/name
	pods  []manifest.Pod
}

func (sel selection) find(manager *volumemanager.Manager, s streams) ([]types.UID, error) {
	if sel.all {
		return manager.PodUIDs()
	}
	var uids []types.UID
	for _, pod := range sel.pods {
		uid := pod.Pod.UID
		wanted := types.NamespacedName{Namespace: pod.Pod.Namespace, Name: pod.Pod.Name}
		if recorded := manager.PodName(uid); recorded.Name != "" && recorded != wanted {
			return nil, fmt.Errorf("%s: its UID %s is that of pod %s, which has volumes here: nothing was taken away", pod.Origin, uid, recorded)
		}
		uids = append(uids, uid)
	}
	for _, name := range sel.names {
		pod, err := parsePodName(name)
		if err != nil {
			return nil, err
		}
		found, err := manager.FindPod(pod.Namespace, pod.Name)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			if lost, err := namesLost(manager); err != nil || lost > 0 {
				return nil, errors.Join(err, fmt.Errorf("nothing is known to be set up for pod %s, but the names of %d pods are lost: status shows them, and down -all takes them away", name, lost))
			}
			s.complain("note: nothing is set up for pod %s", name)
		}
		uids = append(uids, found...)
	}
	return uids, nil
}

// namesLost counts the pods whose records do not tell their names.
func namesLost(manager *volumemanager.Manager) (int, error) {
	uids, err := manager.PodUIDs()
	lost := 0
	for _, uid := range uids {
		if manager.PodName(uid).Name == "" {
			lost++
		}
	}
	return lost, err
}

// checkGone reports what keeps the directory of a pod although its volumes are gone.
func checkGone(podDir string) error {
	entries, err := os.ReadDir(podDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s is left, with what podvolumes did not make: %s", podDir, names(entries))
}

// removeEmptyBelow removes dir and the directories in it, as far as there is nothing but directories: a plugin that was killed has
// left them.
func removeEmptyBelow(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if entry.IsDir() {
			removeEmptyBelow(filepath.Join(dir, entry.Name()))
		}
	}
	_ = syscall.Rmdir(dir) // unless something is left
}

// checkEmpty reports what is left in the root, unless it is known that pods are left.
func checkEmpty(root string, errs []error) error {
	if errors.Join(errs...) != nil {
		return nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	return fmt.Errorf("%s is left with what podvolumes did not make: %s", filepath.Clean(root), names(entries))
}

func names(entries []fs.DirEntry) string {
	all := make([]string, len(entries))
	for i, entry := range entries {
		all[i] = readable(entry.Name())
	}
	return strings.Join(all, ", ")
}
