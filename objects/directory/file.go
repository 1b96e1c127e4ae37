// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/objects"
	"github.com/volumekit/volumekit/volume"
)

// file is what a file stands for.
type file struct {
	digest  [sha256.Size]byte // of the content that was read last
	objects []manifest        // of the last content without a fault
	known   bool              // there has been one
	faults  []error           // of the content that was read last
	ignored []error
}

const (
	// maxFileBytes is more than a file of manifests has, and less than what would hurt.
	maxFileBytes = 64 << 20

	// readTimeout is how long the directory, or a file, is waited for: it may be a link to a server that does not answer.
	readTimeout = 5 * time.Second
)

// read returns the files of the directory. An error says that it cannot be read.
func (d *Directory) read(ctx context.Context) (map[string]*file, error) {
	entries, err := within(ctx, d.path, func() ([]os.DirEntry, error) { return os.ReadDir(d.path) })
	if err != nil {
		return nil, fmt.Errorf("read the manifests of a directory, whose objects stay: %w", err)
	}
	found := make(map[string]*file)
	for _, entry := range entries {
		name := entry.Name()
		// What begins with a dot is an editor's, or the bookkeeping of a volume of a config map.
		if strings.HasPrefix(name, ".") || !slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(name)) || entry.IsDir() {
			continue
		}
		found[name] = d.readFile(ctx, filepath.Join(d.path, name), d.files[name])
	}
	return found, nil
}

// readFile returns what the file stands for now; before is what it was, nil if it is new.
func (d *Directory) readFile(ctx context.Context, path string, before *file) *file {
	now := &file{}
	if before != nil {
		now.objects, now.known, now.ignored = before.objects, before.known, before.ignored
	}
	content, err := within(ctx, path, func() ([]byte, error) { return readRegular(path) })
	if err != nil {
		now.faults = []error{err}
		return now
	}
	now.digest = sha256.Sum256(content)
	if before != nil && before.digest == now.digest {
		return before
	}
	if len(bytes.TrimSpace(content)) == 0 {
		now.faults = []error{volume.Errorf(volume.ErrInvalid, "%s is empty, as a file is when it begins to be written: remove it if its objects are to go", path)}
		return now
	}
	manifests, ignored, faults := decode(path, content, d.options.Namespace)
	if len(faults) == 0 {
		faults = check(path, manifests)
	}
	if now.faults = faults; len(faults) == 0 {
		now.objects, now.ignored, now.known = manifests, ignored, true
	}
	return now
}

// check has a store look at the objects.
func check(path string, manifests []manifest) (faults []error) {
	scratch := objects.NewStore()
	seen := make(map[key]bool)
	for _, m := range manifests {
		if seen[m.key] {
			faults = append(faults, volume.Errorf(volume.ErrInvalid, "%s: %s stands there twice", path, m.key))
			continue
		}
		seen[m.key] = true
		if err := scratch.Set(m.object); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", path, err))
		}
	}
	return faults
}

// readRegular reads a file, but waits for nobody who may write to a named pipe.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil, volume.Errorf(volume.ErrInvalid, "%s is no manifest: %s of %d bytes", path, info.Mode(), info.Size())
	}
	return os.ReadFile(path)
}

// within calls what may hang.
func within[T any](ctx context.Context, path string, call func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, fmt.Errorf("read %s: no answer in %v", path, readTimeout))
	defer cancel()
	return abandon.Run(ctx, call)
}

// wanted returns the objects of all files, what is wrong with the files, and the path of a file of which it has never been known
// what it stands for, if there is one.
func (d *Directory) wanted() (wanted map[key]runtime.Object, faults []error, unknown string) {
	wanted = make(map[key]runtime.Object)
	origins := make(map[key]string)
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		file, path := d.files[name], filepath.Join(d.path, name)
		if !file.known {
			unknown = path
		}
		for _, fault := range file.faults {
			if file.known {
				fault = fmt.Errorf("%w: what the file held before stays in force", fault)
			}
			faults = append(faults, fault)
		}
		faults = append(faults, file.ignored...)
		for _, m := range file.objects {
			if first, taken := origins[m.key]; taken {
				faults = append(faults, volume.Errorf(volume.ErrInvalid, "%s: %s stands in %s too, which counts", path, m.key, first))
				continue
			}
			origins[m.key] = path
			wanted[m.key] = m.object
		}
	}
	return wanted, faults, unknown
}

// String is the kind and the name: "Secret shop/db".
func (k key) String() string {
	return volume.Reference{Kind: volume.ObjectKind(k.kind), Namespace: k.namespace, Name: k.name}.String()
}
