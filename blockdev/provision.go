// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/volume"
)

var (
	_ volume.ProvisionableVolumePlugin = (*Plugin)(nil)
	_ volume.DeletableVolumePlugin     = (*Plugin)(nil)
)

// cleanBases checks Options.BasePaths.
func cleanBases(given []string) ([]string, error) {
	var bases []string
	for i, base := range given {
		if err := checkPath(base); err != nil {
			return nil, fmt.Errorf("BasePaths[%d]: %w", i, err)
		}
		base = filepath.Clean(base)
		for _, other := range bases {
			if base == other || isBelow(base, other) || isBelow(other, base) {
				return nil, volume.Errorf(volume.ErrInvalid, "BasePaths: %q and %q overlap", other, base)
			}
		}
		bases = append(bases, base)
	}
	return bases, nil
}

func isBelow(path, dir string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") && path != dir
}

// NewProvisioner returns a Provisioner that makes one image file per claim, which is used as a block device, on Linux. The error
// matches [volume.ErrNotSupported] if [Options].BasePaths is empty.
//
// These are the parameters of a StorageClass; any other is refused by name:
//
//	directory      one of Options.BasePaths or a directory below one; the first of them by default
//	fsType         ext4 (the default), xfs or btrfs; it is not used for claims of volumeMode Block
//	mkfsOptions    further options of mkfs, parted by white space: those that force, or name another file, are refused
//	preallocate    "true" takes the whole space at once; by default it is taken as it is written to
//	scrubOnDelete  "true" overwrites what was written with zeros before the image is deleted
//
// mountOptions of the class are those of the PersistentVolume.
//
// The image is directory/NAME.img, with NAME that of the PersistentVolume. It has the claim's size, rounded up to 4096 bytes, which
// is the capacity of the PersistentVolume; the file system takes a part of it. The file system is made before the image has its
// name, and everything is on the disk when Provision returns, so that a crash leaves no half-made device: the same call goes on.
// What is made for whom is recorded in directory/.volumekit-blockdev. A file that is there already is never taken.
//
// The PersistentVolume is bound to this node by the label kubernetes.io/hostname, if [volume.Host].NodeName is set.
//
// Refused by name, with an error that matches [volume.ErrInvalid] or [volume.ErrNotSupported], are: access modes other than
// ReadWriteOnce and ReadWriteOncePod, a selector, a data source, a VolumeAttributesClass, a reclaimPolicy other than Delete and Retain,
// a node other than this one, allowedTopologies that leave this one out, and a size that is too small for the file system.
func (p *Plugin) NewProvisioner() (volume.Provisioner, error) {
	if len(p.bases) == 0 {
		return nil, volume.Errorf(volume.ErrNotSupported, "plugin %s has no base path to provision in: set blockdev.Options.BasePaths", Name)
	}
	return provisioner{p}, nil
}

// provisioned is what the plugin provisions.
func (p *Plugin) provisioned() provisioning.Kind {
	return provisioning.Kind{Name: "blockdev", AccessModes: p.AccessModes(), Mounted: true,
		VolumeModes: []v1.PersistentVolumeMode{v1.PersistentVolumeFilesystem, v1.PersistentVolumeBlock}}
}

type provisioner struct{ plugin *Plugin }

// Provision makes the image of a claim, see [Plugin.NewProvisioner].
func (r provisioner) Provision(ctx context.Context, options volume.ProvisionOptions) (*v1.PersistentVolume, error) {
	p := r.plugin
	if err := volume.CheckName(options.PVName); err != nil {
		return nil, err
	}
	if err := p.provisioned().Check(options.Claim, options.Class); err != nil {
		return nil, err
	}
	parameters, err := parseParameters(options.Class.Parameters, options.Claim)
	if err != nil {
		return nil, fmt.Errorf("StorageClass %s: %w", options.Class.Name, err)
	}
	bytes, err := sizeOf(options.Claim.Spec.Resources.Requests[v1.ResourceStorage])
	if err != nil {
		return nil, fmt.Errorf("claim %s/%s: %w", options.Claim.Namespace, options.Claim.Name, err)
	}
	if least := smallest[parameters.fsType]; bytes < least {
		return nil, volume.Errorf(volume.ErrInvalid, "claim %s/%s: it asks for %d bytes, and the file system %s needs %s at least",
			options.Claim.Namespace, options.Claim.Name, bytes, parameters.fsType, resource.NewQuantity(least, resource.BinarySI))
	}
	directory, err := p.chosenDirectory(parameters.directory)
	if err != nil {
		return nil, fmt.Errorf("StorageClass %s: %w", options.Class.Name, err)
	}
	affinity, err := provisioning.NodeAffinity(ctx, p.host, options)
	if err != nil {
		return nil, err
	}
	image := image{directory: directory, name: options.PVName}
	made, err := image.make(ctx, p.host.Exec, imageRecord{Bytes: bytes, FSType: parameters.fsType, MkfsOptions: parameters.mkfsOptions,
		Preallocate: parameters.preallocate, ScrubOnDelete: parameters.scrubOnDelete})
	if err != nil {
		return nil, fmt.Errorf("provision device %s: %w", image.path(), err)
	}
	pv := p.provisioned().NewPersistentVolume(options, p.options.ProvisionerName)
	pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: image.path()}}
	if made.FSType != "" {
		pv.Spec.Local.FSType = &made.FSType
	}
	pv.Spec.NodeAffinity = affinity
	pv.Spec.Capacity[v1.ResourceStorage] = *resource.NewQuantity(made.Bytes, resource.BinarySI)
	return pv, nil
}

// unit is what the sizes of images are multiples of.
const unit = 4096

// sizeOf returns a size in bytes, rounded up to a multiple of unit.
func sizeOf(q resource.Quantity) (int64, error) {
	if q.CmpInt64(math.MaxInt64-unit) > 0 {
		return 0, volume.Errorf(volume.ErrInvalid, "no file can have the size %s", q.String())
	}
	return (q.Value() + unit - 1) / unit * unit, nil
}

func (p *Plugin) chosenDirectory(directory string) (string, error) {
	if directory == "" {
		return p.bases[0], nil
	}
	if !slices.ContainsFunc(p.bases, func(b string) bool { return directory == b || isBelow(directory, b) }) {
		return "", volume.Errorf(volume.ErrInvalid, "parameter directory=%q is not one of the plugin's base paths, nor below one (%q)", directory, p.bases)
	}
	return directory, nil
}

// imageOf returns the image of a volume that was provisioned here, as far as the volume itself tells.
func (p *Plugin) imageOf(pv *v1.PersistentVolume) (image, error) {
	if pv.Spec.Local == nil {
		return image{}, volume.Errorf(volume.ErrInvalid, "it has no local source")
	}
	if err := provisioning.CheckProvisionedBy(pv, p.options.ProvisionerName); err != nil {
		return image{}, err
	}
	if err := volume.CheckName(pv.Name); err != nil {
		return image{}, err
	}
	if err := checkPath(pv.Spec.Local.Path); err != nil {
		return image{}, err
	}
	image := image{directory: filepath.Dir(filepath.Clean(pv.Spec.Local.Path)), name: pv.Name}
	if image.path() != filepath.Clean(pv.Spec.Local.Path) {
		return image, volume.Errorf(volume.ErrInvalid, "local.path %s is not where it was provisioned, which is %s", pv.Spec.Local.Path, image.path())
	}
	_, err := p.chosenDirectory(image.directory)
	return image, err
}

// NewDeleter returns a Deleter of what a Provisioner of the same options has made, on Linux. The error matches
// [volume.ErrNotSupported] if [Options].BasePaths is empty.
//
// What a PersistentVolume says is not trusted, since it may have been edited: the record beside the image decides. Delete refuses, with
// an error that matches [volume.ErrInvalid] and before anything is touched, a volume without the annotation that names this provisioner,
// one whose path is not where its image was provisioned, a file that is not the one that was provisioned, and one of another node.
// While a loop device has the image, mounted or not, the error matches [volume.ErrInUse].
//
// It succeeds for an image that is gone already, but not if the directory is missing: the disk that holds it may not be mounted.
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
	return nil
}
