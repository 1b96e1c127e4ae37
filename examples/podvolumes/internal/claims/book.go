// SPDX-License-Identifier: Apache-2.0

// Package claims gives claims volumes of their own on one machine, without a cluster: what the PersistentVolume controller and the
// provisioners do there. What a claim was given is kept in a book on disk, from before it is made until it has been deleted, so
// that a claim has one volume for ever.
package claims

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/google/uuid"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/record"
	"github.com/volumekit/volumekit/volume"
)

// Book is the book of what claims were given. Its methods may be called concurrently; one process at a time has a book, which the
// lock of the volume manager sees to.
type Book struct {
	dir          string
	host         volume.Host
	provisioners map[string]Provisioner

	mu    sync.Mutex
	pages map[string]*page // by keyOf

	// busy has a claim's volume worked on by one at a time.
	busy map[string]bool
	idle *sync.Cond
}

// page is what is known of one claim. It is replaced, not changed.
type page struct {
	Claim types.NamespacedName `json:"claim"`

	// Name is the volume's.
	Name string `json:"name"`

	// Pod is the UID of the pod that the claim was made for and goes with, empty for one that stays.
	Pod types.UID `json:"pod,omitempty"`

	// Ask and Class are what the volume was, or is to be, provisioned from.
	Ask   *v1.PersistentVolumeClaim `json:"ask"`
	Class *storagev1.StorageClass   `json:"class"`

	// Volume is nil as long as it is not known what has been made.
	Volume *v1.PersistentVolume `json:"volume,omitempty"`

	// Growing says that the node still has to grow the device or the file system to the volume's capacity.
	Growing bool `json:"growing,omitempty"`

	// Deleting says that the volume is being deleted, for ever.
	Deleting bool `json:"deleting,omitempty"`
}

const pageVersion = 1

// Provisioner makes volumes in one directory, which a StorageClass may choose.
type Provisioner struct {
	// Parameter is the parameter of a StorageClass that names the directory, and Default the directory of those without it. Default
	// goes when nothing is left in it.
	Parameter, Default string

	// New returns a plugin that provisions in the directory, not initialised.
	New func(directory string) volume.VolumePlugin
}

// Open reads the book below the host's root. provisioners are by the name that a StorageClass has for them. Pages that cannot be
// read are passed over: the error says which, and the book can be used.
func Open(host volume.Host, provisioners map[string]Provisioner) (*Book, error) {
	b := &Book{dir: filepath.Join(host.Root, "claims"), host: host, provisioners: provisioners, pages: make(map[string]*page), busy: make(map[string]bool)}
	b.idle = sync.NewCond(&b.mu)
	entries, err := os.ReadDir(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		b.removeEmpty()
		return b, nil
	}
	if err != nil {
		return b, err
	}
	var errs []error
	for _, entry := range entries {
		key, isPage := strings.CutSuffix(entry.Name(), ".json")
		if !isPage {
			continue
		}
		if unfinished, is := strings.CutPrefix(key, "."); is { // what a crash has left of writing a page
			errs = append(errs, record.RemoveUnfinished(b.path(unfinished)))
			continue
		}
		p := &page{}
		err := record.Read(filepath.Join(b.dir, entry.Name()), pageVersion, p)
		if err == nil && (p.Ask == nil || p.Class == nil || p.Name == "" || keyOf(p.Claim) != key) {
			err = fmt.Errorf("%w %s: it is no page of a claim", record.ErrDamaged, filepath.Join(b.dir, entry.Name()))
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		b.pages[key] = p
	}
	b.removeEmpty()
	return b, errors.Join(errs...)
}

// claimSpace is the name space of the UUIDs that are made from the names of claims.
var claimSpace = uuid.MustParse("0d8ac4cf-5d52-5f3f-8f1c-3b8f37d5a2e6")

// keyOf names the page of a claim.
func keyOf(claim types.NamespacedName) string {
	return uuid.NewSHA1(claimSpace, []byte(claim.String())).String()
}

// newName returns a name for a claim's volume, as in Kubernetes, but that a claim of a manifest has no UID. Another root may have a
// claim of the same name, and provision in the same directory.
func newName() string { return "pvc-" + uuid.NewString() }

// Volumes returns the volumes that claims have, each with its claimRef.
func (b *Book) Volumes() []*v1.PersistentVolume {
	b.mu.Lock()
	defer b.mu.Unlock()
	var volumes []*v1.PersistentVolume
	for _, p := range b.pages {
		if p.Volume != nil && !p.Deleting {
			volumes = append(volumes, p.Volume)
		}
	}
	slices.SortFunc(volumes, func(a, b *v1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
	return volumes
}

// lock has the volume worked on by nobody else until unlock is called, and returns its page, nil if it has none.
func (b *Book) lock(key string) (p *page, unlock func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.busy[key] {
		b.idle.Wait()
	}
	b.busy[key] = true
	return b.pages[key], func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.busy, key)
		b.idle.Broadcast()
	}
}

// write puts the page in the book, for ever.
func (b *Book) write(p *page) error {
	key := keyOf(p.Claim)
	if err := record.WriteDurably(b.path(key), pageVersion, p); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pages[key] = p
	return nil
}

// remove takes the page out of the book.
func (b *Book) remove(p *page) error {
	key := keyOf(p.Claim)
	if err := errors.Join(record.Remove(b.path(key)), record.RemoveUnfinished(b.path(key))); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pages, key)
	b.removeEmpty()
	return nil
}

// removeEmpty removes the directories in which nothing is left, once the book is empty: until then they tell that nothing is missing.
// mu is locked, or nobody else has the book.
func (b *Book) removeEmpty() {
	if len(b.pages) > 0 {
		return
	}
	_ = syscall.Rmdir(b.dir)
	for _, p := range b.provisioners {
		_ = syscall.Rmdir(p.Default)
		_ = syscall.Rmdir(filepath.Dir(p.Default))
	}
}

func (b *Book) path(key string) string { return filepath.Join(b.dir, key+".json") }

// plugin returns what provisions for the class; ok is false if its provisioner is none of ours.
func (b *Book) plugin(ctx context.Context, class *storagev1.StorageClass) (plugin volume.VolumePlugin, ok bool, err error) {
	provisioner, ok := b.provisioners[class.Provisioner]
	if !ok {
		return nil, false, nil
	}
	directory := class.Parameters[provisioner.Parameter]
	if directory == "" {
		directory = provisioner.Default
	}
	plugin = provisioner.New(directory)
	if err := plugin.Init(ctx, b.host); err != nil {
		return nil, true, fmt.Errorf("StorageClass %s: %w", class.Name, err)
	}
	return plugin, true, nil
}

func nameOf(claim *v1.PersistentVolumeClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}
