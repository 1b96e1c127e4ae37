// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"github.com/volumekit/volumekit/internal/callback"
	"github.com/volumekit/volumekit/volume"
)

// Watch has changed called after every change of the object; ok is false if the store does not hold that kind. Nothing is locked
// meanwhile: changed may call any method of the store. Whoever changes the store is the one who calls it, before [Store.Set],
// [Store.Replace] or [Store.Remove] returns, so that two of them may call it at the same time. Watchers of a claim are also told
// when a PersistentVolume that names it comes or goes.
//
// When stop has returned, changed neither is running nor will be called: stop waits for calls that others have begun, so a lock
// that changed takes must not be held then. Called by changed itself, stop does not wait for that very call. It may be called
// more than once.
//
// Without a name, a reference is to all objects of the kind in the namespace; without a namespace as well, to all of the kind.
func (s *Store) Watch(ref volume.Reference, changed func()) (stop func(), ok bool) {
	switch ref.Kind {
	case volume.KindSecret, volume.KindConfigMap, volume.KindPersistentVolume, volume.KindPersistentVolumeClaim, volume.KindClusterTrustBundle,
		kindNode, kindServiceAccount, kindStorageClass:
	default:
		return nil, false
	}
	w := callback.New(changed)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches[ref] == nil {
		s.watches[ref] = make(watches, 1)
	}
	s.watches[ref][w] = struct{}{}
	return func() {
		s.forget(ref, w)
		w.Stop()
	}, true
}

func (s *Store) forget(ref volume.Reference, w *callback.Callback) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watches[ref], w)
	if len(s.watches[ref]) == 0 {
		delete(s.watches, ref)
	}
}

// watches are those who are to be told of a change, each once.
type watches map[*callback.Callback]struct{}

// addWatches adds those who watch the object. mu is locked.
func (s *Store) addWatches(ref volume.Reference, told watches) {
	for w := range s.watches[ref] {
		told[w] = struct{}{}
	}
	ref.Name = ""
	for w := range s.watches[ref] {
		told[w] = struct{}{}
	}
	if ref.Namespace != "" {
		ref.Namespace = ""
		for w := range s.watches[ref] {
			told[w] = struct{}{}
		}
	}
}

// tell calls those who are to be told. Nothing is locked.
func tell(told watches) {
	for w := range told {
		w.Call()
	}
}
