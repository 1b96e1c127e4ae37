// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volumekit/volumekit/volume"
)

// Store holds objects in memory: Secrets, ConfigMaps, PersistentVolumes, PersistentVolumeClaims, Nodes, ServiceAccounts,
// StorageClasses and ClusterTrustBundles. It is a [volume.SecretSource], [volume.ConfigMapSource], [volume.ClaimSource],
// [volume.NodeSource], [volume.TrustBundleSource] and [volume.Watcher]. All methods may be called at the same time.
//
// Objects are copied on their way in. On their way out they are shared with everybody who asks: nobody changes them.
type Store struct {
	mu      sync.RWMutex
	objects map[volume.Reference]runtime.Object

	// bySigner are the trust bundles once more, by signer and name; those without one are under "".
	bySigner map[string]map[string]*certificatesv1.ClusterTrustBundle

	// claimants are the names of the PersistentVolumes whose claimRef names a claim.
	claimants map[volume.Reference]map[string]struct{}

	watches map[volume.Reference]watches
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{
		objects:   make(map[volume.Reference]runtime.Object),
		bySigner:  make(map[string]map[string]*certificatesv1.ClusterTrustBundle),
		claimants: make(map[volume.Reference]map[string]struct{}),
		watches:   make(map[volume.Reference]watches),
	}
}

// Set adds the objects, or replaces those of the same kind, namespace and name; of several in one call the last counts. On an
// error nothing has changed. The error names the object and matches [volume.ErrNotSupported] for a kind that the store does not
// hold, and [volume.ErrInvalid] for what an API server would refuse:
//   - a name or a namespace that cannot be one, no namespace where the kind has them, or one where it has none;
//   - a key of a Secret or a ConfigMap that cannot be one, or that stands in both data and binaryData;
//   - other content for a Secret or a ConfigMap that is immutable. One with another UID is another object, and may have it.
//
// The stringData of a Secret is merged into its data. Nothing else is filled in: what an API server sets by default (a volume
// mode, a reclaim policy, a UID) stays empty.
func (s *Store) Set(objects ...runtime.Object) error {
	entries, err := prepare(objects)
	if err != nil {
		return err
	}
	told, err := s.put(entries, false)
	tell(told)
	return err
}

// Replace makes the store hold these objects and no others. Watchers are told of what differs only. Errors are those of
// [Store.Set], and again nothing has changed then.
func (s *Store) Replace(objects ...runtime.Object) error {
	entries, err := prepare(objects)
	if err != nil {
		return err
	}
	told, err := s.put(entries, true)
	tell(told)
	return err
}

// Remove takes away the objects of the same kinds, namespaces and names. Those that are not there are passed over.
func (s *Store) Remove(objects ...runtime.Object) {
	told := make(watches)
	s.mu.Lock()
	for _, object := range objects {
		if ref, ok := referenceTo(object); ok {
			s.change(ref, nil, told)
		}
	}
	s.mu.Unlock()
	tell(told)
}

// put stores the entries, and removes all else if alone is true. It returns who is to be told.
func (s *Store) put(entries map[volume.Reference]runtime.Object, alone bool) (watches, error) {
	told := make(watches)
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, object := range entries {
		if before, ok := s.objects[ref]; ok {
			if err := checkChange(ref, before, object); err != nil {
				return nil, err
			}
		}
	}
	if alone {
		for ref := range s.objects {
			if _, stays := entries[ref]; !stays {
				s.change(ref, nil, told)
			}
		}
	}
	for ref, object := range entries {
		s.change(ref, object, told)
	}
	return told, nil
}

// change stores the object, or removes it if it is nil, and adds those to told who watch what has changed by that. mu is locked.
func (s *Store) change(ref volume.Reference, object runtime.Object, told watches) {
	before, existed := s.objects[ref]
	if !existed && object == nil || existed && object != nil && equality.Semantic.DeepEqual(before, object) {
		return
	}
	if object != nil {
		s.objects[ref] = object
	} else {
		delete(s.objects, ref)
	}
	s.addWatches(ref, told)
	switch ref.Kind {
	case volume.KindClusterTrustBundle:
		s.indexBundle(before, object)
	case volume.KindPersistentVolume:
		s.indexClaimant(ref.Name, before, object, told)
	}
}

// indexBundle keeps bySigner. Either bundle may be nil.
func (s *Store) indexBundle(before, now runtime.Object) {
	if bundle, ok := before.(*certificatesv1.ClusterTrustBundle); ok {
		signer := bundle.Spec.SignerName
		delete(s.bySigner[signer], bundle.Name)
		if len(s.bySigner[signer]) == 0 {
			delete(s.bySigner, signer)
		}
	}
	if bundle, ok := now.(*certificatesv1.ClusterTrustBundle); ok {
		signer := bundle.Spec.SignerName
		if s.bySigner[signer] == nil {
			s.bySigner[signer] = make(map[string]*certificatesv1.ClusterTrustBundle)
		}
		s.bySigner[signer][bundle.Name] = bundle
	}
}
