// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// Entry is what the book says of a claim.
type Entry struct {
	// Claim is the claim's name, and Pod the UID of the pod that it was made for, empty if it was not made for one.
	Claim types.NamespacedName
	Pod   types.UID

	// Volume is the name of its PersistentVolume.
	Volume string

	// Kept says that the volume is kept when the claim is deleted: its reclaim policy is Retain.
	Kept bool
}

// Entries returns what the book says, in no order.
func (b *Book) Entries() []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	entries := make([]Entry, 0, len(b.pages))
	for _, p := range b.pages {
		entries = append(entries, Entry{Claim: p.Claim, Pod: p.Pod, Volume: p.Name, Kept: p.isKept()})
	}
	return entries
}

// isKept reports whether the volume's reclaim policy is Retain.
func (p *page) isKept() bool {
	switch {
	case p.Volume != nil:
		return p.Volume.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRetain
	case p.Class.ReclaimPolicy != nil:
		return *p.Class.ReclaimPolicy == v1.PersistentVolumeReclaimRetain
	}
	return false
}

// Delete deletes the claim's volume, for ever, unless its reclaim policy is Retain: then nothing is done, and the claim still has
// it. It succeeds for a claim that has none. After an error the same call goes on.
func (b *Book) Delete(ctx context.Context, claim types.NamespacedName) error {
	p, unlock := b.lock(keyOf(claim))
	defer unlock()
	if p == nil || p.isKept() {
		return nil
	}
	if err := b.delete(ctx, p); err != nil {
		return fmt.Errorf("claim %s: delete its volume %s: %w", claim, p.Name, err)
	}
	return nil
}

func (b *Book) delete(ctx context.Context, p *page) error {
	plugin, ok, err := b.plugin(ctx, p.Class)
	if err == nil && !ok {
		err = volume.Errorf(volume.ErrNotFound, "there is no provisioner %s", p.Class.Provisioner)
	}
	if err != nil {
		return err
	}
	deleting := *p
	if deleting.Volume == nil { // it is not known how far it came
		if deleting.Volume, err = provision(ctx, plugin, p); err != nil {
			if errors.Is(err, volume.ErrInvalid) || errors.Is(err, volume.ErrNotSupported) {
				return b.remove(p) // so nothing was made
			}
			return err
		}
	}
	deletable, ok := plugin.(volume.DeletableVolumePlugin)
	if !ok {
		return volume.Errorf(volume.ErrNotSupported, "plugin %s deletes nothing", plugin.Name())
	}
	deleter, err := deletable.NewDeleter()
	if err != nil {
		return err
	}
	if !p.Deleting {
		deleting.Deleting = true
		if err := b.write(&deleting); err != nil {
			return err
		}
	}
	if err := deleter.Delete(ctx, deleting.Volume); err != nil {
		return err
	}
	return b.remove(p)
}
