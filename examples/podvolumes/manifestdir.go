// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/volumemanager"
)

// wantedPods tells a manager which pods the manifests of a directory want.
type wantedPods struct {
	dir     manifestDir
	source  *objectSource
	manager *volumemanager.Manager
	claims  *claimKeeper
	s       streams

	mu       sync.Mutex
	reported []string
}

// follow reads what has changed and tells the manager. What is wrong goes to standard error, once.
func (w *wantedPods) follow(ctx context.Context) {
	err := w.dir.scan(ctx)
	pods, faults, unknown := w.dir.pods()
	switch {
	case err != nil:
		faults = append(faults, fmt.Sprintf("%s: %v: the pods that it held stay", w.dir.path, err))
	case unknown != "":
		faults = append(faults, fmt.Sprintf("what no manifest wants stays until %s can be read", unknown))
	}
	// Before the pods: who wants an object that has come with its pod does not wait for it.
	objects, twice := w.dir.objects()
	objects = withDefaultClass(objects)
	faults = append(faults, twice...)
	if err == nil && unknown == "" {
		faults = append(faults, w.source.replace(objects)...)
	} else {
		faults = append(faults, w.source.add(objects)...)
	}
	if err == nil && unknown == "" {
		err = w.manager.SetPods(ctx, pods)
	} else {
		var errs []error
		for _, pod := range pods {
			errs = append(errs, w.manager.SetPod(ctx, pod))
		}
		err = errors.Join(errs...)
	}
	if err != nil {
		faults = append(faults, strings.Split(err.Error(), "\n")...)
	}
	w.claims.follow(objects, pods)
	w.mu.Lock()
	before := w.reported
	w.reported = faults
	w.mu.Unlock()
	for _, fault := range faults {
		if !slices.Contains(before, fault) {
			w.s.complain("%s", fault)
		}
	}
}

// faults are what is wrong with the manifests now.
func (w *wantedPods) faults() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Concat(w.reported, w.claims.faults())
}

// manifestDir holds what the manifests of a directory stand for, file by file. A file that cannot be understood stands for what
// it stood for before.
type manifestDir struct {
	path  string
	files map[string]*manifestFile
}

type manifestFile struct {
	content []byte
	pods    []manifest.Pod // of the last content that could be understood
	objects []manifest.Object
	known   bool    // there has been one
	errs    []error // what is wrong with the content now
}

// maxManifestBytes is more than a manifest has, and less than what would hurt.
const maxManifestBytes = 64 << 20

// readTimeout is how long a file is waited for.
const readTimeout = 5 * time.Second

// scan reads the files that have changed. An error says that the directory cannot be read; then nothing has changed.
func (d *manifestDir) scan(ctx context.Context) error {
	entries, err := abandon.Run(ctx, func() ([]os.DirEntry, error) { return os.ReadDir(d.path) })
	if err != nil {
		return err
	}
	found := make(map[string]*manifestFile)
	for _, entry := range entries {
		name := entry.Name()
		// What begins with a dot is an editor's, or the bookkeeping of a volume of a config map.
		if strings.HasPrefix(name, ".") || !slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(name)) {
			continue
		}
		path := filepath.Join(d.path, name)
		if entry.IsDir() && d.files[name] == nil {
			continue
		}
		found[name] = readManifest(ctx, path, d.files[name])
	}
	d.files = found
	return nil
}

// readManifest returns what the file stands for now; before is what it was, nil if it is new.
func readManifest(ctx context.Context, path string, before *manifestFile) *manifestFile {
	// A file may be a link to a server that does not answer.
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, fmt.Errorf("read %s: no answer in %v", path, readTimeout))
	defer cancel()
	now := &manifestFile{}
	if before != nil {
		now.pods, now.objects, now.known = before.pods, before.objects, before.known
	}
	content, err := abandon.Run(ctx, func() ([]byte, error) { return readRegular(path) })
	if err != nil {
		now.errs = []error{err}
		return now
	}
	now.content = content
	if before != nil && before.content != nil && bytes.Equal(before.content, content) {
		return before
	}
	if len(bytes.TrimSpace(content)) == 0 {
		now.errs = []error{fmt.Errorf("%s is empty, as a file is when it begins to be written: remove it if its pods are to go", path)}
		return now
	}
	loaded, errs := manifest.Load(ctx, []string{path}, manifest.Options{})
	if again, err := abandon.Run(ctx, func() ([]byte, error) { return readRegular(path) }); err != nil || !bytes.Equal(again, content) {
		now.content = nil // it changed meanwhile: the next scan reads it again
	}
	if len(errs) > 0 {
		now.errs = errs
		return now
	}
	now.pods, now.objects, now.known = loaded.Pods, loaded.Objects, true
	return now
}

// readRegular reads a file, but waits for nobody who may write to a named pipe.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxManifestBytes {
		return nil, fmt.Errorf("%s is no manifest: %s of %d bytes", path, info.Mode(), info.Size())
	}
	return os.ReadFile(path)
}

// pods returns the pods of all files, what is wrong with the files, and the name of a file of which it has never been known what
// it stands for, if there is one. A pod that stands in two files is that of the first.
func (d *manifestDir) pods() (pods []*v1.Pod, faults []string, unknown string) {
	origins := make(map[types.UID]string)
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		file := d.files[name]
		if !file.known {
			unknown = filepath.Join(d.path, name)
		}
		for _, err := range file.errs {
			fault := err.Error()
			if file.known {
				fault += ": what it held before stays in force"
			}
			faults = append(faults, fault)
		}
		for _, pod := range file.pods {
			if first, taken := origins[pod.Pod.UID]; taken {
				faults = append(faults, fmt.Sprintf("%s: pod %s/%s stands in %s too, which counts", pod.Origin, pod.Pod.Namespace, pod.Pod.Name, first))
				continue
			}
			origins[pod.Pod.UID] = pod.Origin.String()
			pods = append(pods, pod.Pod)
		}
	}
	return pods, faults, unknown
}

// objects returns those that volumes come from, of all manifests. One that stands in several is taken from the first, and told;
// a claim that is only made for a pod gives way to one that stands in any of them.
func (d *manifestDir) objects() (all []manifest.Object, faults []string) {
	type key struct {
		kind            string
		namespace, name string
	}
	origins := make(map[key]string)
	for _, made := range []bool{false, true} {
		for _, o := range d.eachObject(made) {
			object, err := meta.Accessor(o.Object)
			if err != nil {
				faults = append(faults, fmt.Sprintf("%s: %v", o.Origin, err))
				continue
			}
			k := key{o.Object.GetObjectKind().GroupVersionKind().Kind, object.GetNamespace(), object.GetName()}
			first, taken := origins[k]
			switch {
			case taken && made:
				continue
			case taken:
				faults = append(faults, fmt.Sprintf("%s: %s %s stands in %s too, which counts", o.Origin, k.kind, strings.TrimPrefix(k.namespace+"/"+k.name, "/"), first))
				continue
			}
			origins[k] = o.Origin.String()
			all = append(all, o)
		}
	}
	return all, faults
}

// eachObject returns the objects of all manifests that were made for a pod, or that were not.
func (d *manifestDir) eachObject(made bool) []manifest.Object {
	var all []manifest.Object
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		for _, o := range d.files[name].objects {
			if o.Made == made {
				all = append(all, o)
			}
		}
	}
	return all
}
