// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// Serve gives the claim its volume, and has that grow if the claim asks for more than it has. It returns nil for a claim that is
// none of ours: one that names a volume, or whose class there is not, or is another provisioner's. After an error the same call
// goes on.
func (b *Book) Serve(ctx context.Context, claim *v1.PersistentVolumeClaim, classes Classes) (*v1.PersistentVolume, error) {
	pv, err := b.serve(ctx, claim, classes)
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", nameOf(claim), err)
	}
	return pv, nil
}

func (b *Book) serve(ctx context.Context, claim *v1.PersistentVolumeClaim, classes Classes) (*v1.PersistentVolume, error) {
	p, unlock := b.lock(keyOf(nameOf(claim)))
	defer unlock()
	class := classes.of(claim)
	switch {
	case p != nil && p.Deleting:
		return nil, volume.Errorf(volume.ErrInUse, "its volume %s of before is being deleted, or that was interrupted: delete it first (down -claims)", p.Name)
	case p != nil && p.Volume != nil:
		return b.grow(ctx, p, claim, class)
	case claim.Spec.VolumeName != "" || class == nil:
		return nil, nil
	}
	plugin, ok, err := b.plugin(ctx, class)
	if !ok || err != nil {
		return nil, err
	}
	if p == nil {
		p = &page{Claim: nameOf(claim), Name: newName(), Pod: podOf(claim), Ask: withoutStatus(claim), Class: class}
		if err := b.write(p); err != nil {
			return nil, err
		}
	}
	pv, err := provision(ctx, plugin, p)
	if err != nil {
		if !errors.Is(err, volume.ErrUncertain) && ctx.Err() == nil {
			// Nothing has been made, so that the claim may ask for something else.
			err = errors.Join(err, b.remove(p))
		}
		return nil, err
	}
	provisioned := *p
	provisioned.Volume = pv
	return pv, b.write(&provisioned)
}

// provision makes the volume of the page, or finds it.
func provision(ctx context.Context, plugin volume.VolumePlugin, p *page) (*v1.PersistentVolume, error) {
	provisionable, ok := plugin.(volume.ProvisionableVolumePlugin)
	if !ok {
		return nil, volume.Errorf(volume.ErrNotSupported, "plugin %s provisions nothing", plugin.Name())
	}
	provisioner, err := provisionable.NewProvisioner()
	if err != nil {
		return nil, err
	}
	pv, err := provisioner.Provision(ctx, volume.ProvisionOptions{PVName: p.Name, Claim: p.Ask, Class: p.Class})
	if err != nil {
		return nil, fmt.Errorf("provision %s with StorageClass %s: %w", p.Name, p.Class.Name, err)
	}
	pv.Spec.ClaimRef = &v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: p.Claim.Namespace, Name: p.Claim.Name, UID: p.Ask.UID}
	return pv, nil
}

// podOf returns the UID of the pod that the claim goes with, empty if there is none.
func podOf(claim *v1.PersistentVolumeClaim) types.UID {
	if owner := metav1.GetControllerOf(claim); owner != nil && owner.Kind == "Pod" {
		return owner.UID
	}
	return ""
}

func withoutStatus(claim *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	kept := claim.DeepCopy()
	kept.Status = v1.PersistentVolumeClaimStatus{}
	return kept
}

// grow has a volume grow, where it is stored, to what the claim asks for.
func (b *Book) grow(ctx context.Context, p *page, claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass) (*v1.PersistentVolume, error) {
	asked, has := claim.Spec.Resources.Requests[v1.ResourceStorage], p.Volume.Spec.Capacity[v1.ResourceStorage]
	if asked.Cmp(has) <= 0 {
		return p.Volume, nil
	}
	if class == nil {
		class = p.Class
	}
	if class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
		return p.Volume, volume.Errorf(volume.ErrInvalid, "it asks for %s and has %s: its StorageClass %s does not allow to expand it (allowVolumeExpansion)",
			asked.String(), has.String(), class.Name)
	}
	size, more, err := b.expand(ctx, p, asked)
	if err != nil {
		return p.Volume, fmt.Errorf("expand %s from %s to %s: %w", p.Name, has.String(), asked.String(), err)
	}
	grown := *p
	grown.Volume, grown.Growing = p.Volume.DeepCopy(), p.Growing || more
	grown.Volume.Spec.Capacity[v1.ResourceStorage] = size
	return grown.Volume, b.write(&grown)
}

func (b *Book) expand(ctx context.Context, p *page, size resource.Quantity) (has resource.Quantity, more bool, err error) {
	plugin, ok, err := b.plugin(ctx, p.Class)
	if err == nil && !ok {
		err = volume.Errorf(volume.ErrNotFound, "there is no provisioner %s", p.Class.Provisioner)
	}
	if err != nil {
		return has, false, err
	}
	expandable, ok := plugin.(volume.ExpandableVolumePlugin)
	if !ok {
		return has, false, volume.Errorf(volume.ErrNotSupported, "plugin %s cannot expand volumes", plugin.Name())
	}
	expander, err := expandable.NewExpander()
	if err != nil {
		return has, false, err
	}
	result, err := expander.Expand(ctx, volume.NewSpecFromPersistentVolume(p.Volume, false), size)
	return result.Size, result.NodeExpansionRequired, err
}

// FinishGrowing has the node grow those volumes whose device or file system has not grown to the volume's capacity yet. The error
// joins what went wrong with each.
func (b *Book) FinishGrowing(ctx context.Context, expand func(context.Context, *v1.PersistentVolume) error) error {
	b.mu.Lock()
	var growing []string
	for key, p := range b.pages {
		if p.Growing && !p.Deleting {
			growing = append(growing, key)
		}
	}
	b.mu.Unlock()
	var errs []error
	for _, key := range growing {
		errs = append(errs, b.finishGrowing(ctx, key, expand))
	}
	return errors.Join(errs...)
}

func (b *Book) finishGrowing(ctx context.Context, key string, expand func(context.Context, *v1.PersistentVolume) error) error {
	p, unlock := b.lock(key)
	defer unlock()
	if p == nil || !p.Growing {
		return nil
	}
	if err := expand(ctx, p.Volume); err != nil {
		return fmt.Errorf("claim %s: %w", p.Claim, err)
	}
	grown := *p
	grown.Growing = false
	return b.write(&grown)
}
