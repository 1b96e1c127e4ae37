// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volumekit/volumekit/examples/podvolumes/internal/claims"
	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
	"github.com/volumekit/volumekit/objects"
	"github.com/volumekit/volumekit/objects/localissuer"
	"github.com/volumekit/volumekit/volume"
)

// objectSource is what the manifests hold beside the pods, and the pods' volumes come from: config maps, secrets, claims. Service account
// tokens are signed with a key that lives as long as the program.
type objectSource struct {
	store *objects.Store
	host  volume.Host

	// book holds the volumes that claims were given, which are there beside those of the manifests. Nil holds none.
	book *claims.Book
}

func newObjectSource() (*objectSource, error) {
	store := objects.NewStore()
	tokens, err := localissuer.New(localissuer.Options{ServiceAccounts: store.ServiceAccount})
	if err != nil {
		return nil, err
	}
	return &objectSource{store: store, host: store.Fill(volume.Host{Tokens: tokens})}, nil
}

// replace makes the objects those that there are, and returns what is wrong with some. Those stay as they were then, and none goes.
func (s *objectSource) replace(all []manifest.Object) (faults []string) {
	typed := make([]runtime.Object, len(all))
	for i := range all {
		typed[i] = all[i].Object
	}
	for _, pv := range s.given() {
		typed = append(typed, pv)
	}
	if s.store.Replace(typed...) == nil {
		return nil
	}
	return s.add(all)
}

// add adds the objects, or puts them in the place of those of the same name, and returns what is wrong with some.
func (s *objectSource) add(all []manifest.Object) (faults []string) {
	for i := range all {
		if err := s.store.Set(all[i].Object); err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", all[i].Origin, err))
		}
	}
	for _, pv := range s.given() {
		if err := s.store.Set(pv); err != nil {
			faults = append(faults, err.Error())
		}
	}
	return faults
}

// given returns the volumes that claims were given.
func (s *objectSource) given() []*v1.PersistentVolume {
	if s.book == nil {
		return nil
	}
	return s.book.Volumes()
}

// fill makes the objects of manifests those that there are. What is wrong with any of them is complained about.
func (s *objectSource) fill(all []manifest.Object, to streams) error {
	faults := s.replace(all)
	for _, fault := range faults {
		to.complain("%s", fault)
	}
	if len(faults) > 0 {
		return errUnreadable
	}
	return nil
}
