// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/volume"
)

var _ volume.DeletableVolumePlugin = (*Plugin)(nil)

// NewDeleter returns a Deleter of what a Provisioner of the same options has made, on Linux. The error matches
// [volume.ErrNotSupported] if [Options].BasePaths is empty.
//
// What a PersistentVolume says is not trusted, since it may have been edited: the record beside the image decides. Delete refuses, with
// an error that matches [volume.ErrInvalid] and before anything is touched, a volume without the annotation that names this provisioner,
// one whose path is not where its image was provisioned, a file that is not the one that was provisioned, and one of another node.
// While a loop device has the image, mounted or not, the error matches [volume.ErrInUse].
//
// With scrubOnDelete the image is overwritten first, but for its holes. The record goes last, so that after a crash the same call
// goes on. It succeeds for an image that is gone already, but not if the base path is missing: the disk that holds it may not be
// mounted.
func (p *Plugin) NewDeleter() (volume.Deleter, error) {
	if len(p.bases) == 0 {
		return nil, volume.Errorf(volume.ErrNotSupported, "plugin %s has no base path to delete from: set blockdev.Options.BasePaths", Name)
	}
	return deleter{p}, nil
}

type deleter struct{ plugin *Plugin }

// Delete deletes the image of a volume, see [Plugin.NewDeleter].
func (d deleter) Delete(ctx context.Context, pv *v1.PersistentVolume) error {
	image, err := d.plugin.imageOf(pv)
	if err == nil {
		err = provisioning.CheckNode(ctx, d.plugin.host, pv)
	}
	if err != nil {
		return fmt.Errorf("not deleting the device of PersistentVolume %s: %w", pv.Name, err)
	}
	if err := image.delete(ctx); err != nil {
		return fmt.Errorf("delete the device %s of PersistentVolume %s: %w", image.path(), pv.Name, err)
	}
	return d.plugin.formattingRecord(pv.Name).Forget()
}
