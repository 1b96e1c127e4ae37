// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volumekit/volumekit/objects"
	"github.com/volumekit/volumekit/volume"
)

// Options say how a directory is read. The zero value is usable.
type Options struct {
	// Namespace is that of objects which name none. Empty stands for "default".
	Namespace string

	// Report is called by Run for each fault when it is first seen, and for each object of a kind that the store does not hold,
	// which is passed over: its error matches volume.ErrNotSupported. Nil drops them.
	Report func(error)
}

// Directory is a directory of manifests. Its methods may be called at the same time.
type Directory struct {
	path    string
	store   *objects.Store
	options Options

	mu       sync.Mutex
	files    map[string]*file
	set      map[key]runtime.Object // what of this directory is in the store
	faults   []error
	reported map[string]bool
}

// key is the identity of an object.
type key struct {
	kind, namespace, name string
}

// New returns the directory at path, which need not exist yet. Nothing is read before [Directory.Load] or [Directory.Run]. The
// store may hold objects from elsewhere: those that never stood in the directory stay as they are.
func New(path string, store *objects.Store, options Options) *Directory {
	if options.Namespace == "" {
		options.Namespace = metav1.NamespaceDefault
	}
	return &Directory{path: filepath.Clean(path), store: store, options: options, set: make(map[key]runtime.Object)}
}

// Load reads what has changed in the directory, and puts it into the store as far as it has no fault. The error is all that is
// wrong with the directory now, without the objects that are passed over.
func (d *Directory) Load(ctx context.Context) error {
	d.load(ctx)
	return errors.Join(slices.DeleteFunc(d.Faults(), func(err error) bool { return errors.Is(err, volume.ErrNotSupported) })...)
}

// Faults returns what was wrong with the directory when it was last read, and the objects that were passed over.
func (d *Directory) Faults() []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.faults)
}

// lookAnyway is how often the directory is read although nothing was told: files behind links into other directories change
// unnoticed, and a directory whose parent is not there either.
const lookAnyway = time.Minute

// Run reads the directory, and again whenever it changes, until ctx ends.
func (d *Directory) Run(ctx context.Context) {
	changed, err := watch(ctx, d.path, lookAnyway)
	if err != nil {
		d.report([]error{err})
	}
	for {
		d.load(ctx)
		if ctx.Err() != nil {
			return
		}
		d.report(d.Faults())
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// report tells of what was not wrong before.
func (d *Directory) report(faults []error) {
	d.mu.Lock()
	before := d.reported
	d.reported = make(map[string]bool, len(faults))
	var news []error
	for _, fault := range faults {
		text := fault.Error()
		if !before[text] && !d.reported[text] {
			news = append(news, fault)
		}
		d.reported[text] = true
	}
	d.mu.Unlock()
	if d.options.Report == nil {
		return
	}
	for _, fault := range news {
		d.options.Report(fault)
	}
}

// load reads the files that have changed and changes the store.
func (d *Directory) load(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	files, err := d.read(ctx)
	if err != nil {
		d.faults = []error{err}
		return
	}
	d.files = files
	wanted, faults, unknown := d.wanted()
	faults = append(faults, d.put(wanted)...)
	if unknown == "" {
		d.removeAllBut(wanted)
	} else if gone := d.goneFrom(wanted); gone > 0 {
		faults = append(faults, volume.Errorf(volume.ErrInvalid, "%d objects that stand in no file any more stay until %s can be read", gone, unknown))
	}
	d.faults = faults
}

// put sets the objects, all at once if none is refused. What a store refuses in spite of the checks before is a change of what is
// immutable.
func (d *Directory) put(wanted map[key]runtime.Object) (faults []error) {
	all := make([]runtime.Object, 0, len(wanted))
	for key, object := range wanted {
		if d.set[key] != object {
			all = append(all, object)
		}
	}
	refused := d.store.Set(all...)
	for key, object := range wanted {
		if refused != nil && d.set[key] != object {
			if err := d.store.Set(object); err != nil {
				faults = append(faults, err)
				continue
			}
		}
		d.set[key] = object
	}
	return faults
}

func (d *Directory) removeAllBut(wanted map[key]runtime.Object) {
	var gone []runtime.Object
	for key, object := range d.set {
		if wanted[key] == nil {
			gone = append(gone, object)
			delete(d.set, key)
		}
	}
	d.store.Remove(gone...)
}

// goneFrom counts what is in the store and not wanted any more.
func (d *Directory) goneFrom(wanted map[key]runtime.Object) (gone int) {
	for key := range d.set {
		if wanted[key] == nil {
			gone++
		}
	}
	return gone
}
