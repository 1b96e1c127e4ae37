// SPDX-License-Identifier: Apache-2.0

package objects

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// bound returns the claim with the name of its volume filled in, if it has none and exactly one volume names the claim. mu is
// locked for reading.
func (s *Store) bound(ref volume.Reference, claim *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	if claim.Spec.VolumeName != "" {
		return claim
	}
	var found string
	for name := range s.claimants[ref] {
		pv, _ := s.objects[volume.Reference{Kind: volume.KindPersistentVolume, Name: name}].(*v1.PersistentVolume)
		if pv == nil || otherUID(pv.Spec.ClaimRef.UID, claim.UID) {
			continue
		}
		if found != "" {
			return claim
		}
		found = name
	}
	if found == "" {
		return claim
	}
	// What the fields lead to is shared, which is enough where nobody changes it.
	filled := *claim
	filled.Spec.VolumeName = found
	return &filled
}

// otherUID reports whether a volume is reserved for an earlier or later claim of that name. Manifests give no UIDs.
func otherUID(named, claim types.UID) bool {
	return named != "" && claim != "" && named != claim
}

// indexClaimant keeps claimants. Either volume may be nil. mu is locked.
func (s *Store) indexClaimant(name string, before, now runtime.Object, told watches) {
	old, oldUID, had := claimOf(before)
	claim, uid, has := claimOf(now)
	if had == has && old == claim && oldUID == uid {
		return
	}
	if had {
		delete(s.claimants[old], name)
		if len(s.claimants[old]) == 0 {
			delete(s.claimants, old)
		}
		s.addWatches(old, told)
	}
	if has {
		if s.claimants[claim] == nil {
			s.claimants[claim] = make(map[string]struct{})
		}
		s.claimants[claim][name] = struct{}{}
		s.addWatches(claim, told)
	}
}

// claimOf returns the claim that a volume names.
func claimOf(object runtime.Object) (claim volume.Reference, uid types.UID, ok bool) {
	pv, _ := object.(*v1.PersistentVolume)
	if pv == nil || pv.Spec.ClaimRef == nil {
		return volume.Reference{}, "", false
	}
	ref := pv.Spec.ClaimRef
	return volume.Reference{Kind: volume.KindPersistentVolumeClaim, Namespace: ref.Namespace, Name: ref.Name}, ref.UID, true
}
