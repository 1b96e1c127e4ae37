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
	"github.com/volumekit/volumekit/internal/record"
	"github.com/volumekit/volumekit/volume"
)

var _ volume.ProvisionableVolumePlugin = (*Plugin)(nil)

// NewProvisioner returns a Provisioner that makes one image file per claim, which is used as a block device, on Linux. The error
// matches [volume.ErrNotSupported] if [Options].BasePaths is empty.
//
// These are the parameters of a StorageClass; any other is refused by name:
//
//	directory      one of Options.BasePaths or a directory below one; the first of them by default
//	fsType         ext4 (the default), xfs or btrfs
//	mkfsOptions    further options of mkfs, parted by white space: those that force, or name another file, are refused
//	preallocate    "true" takes the whole space at once; by default it is taken as it is written to
//	scrubOnDelete  "true" overwrites what was written with zeros before the image is deleted
//
// mountOptions of the class are those of the PersistentVolume. For a claim of volumeMode Block they are refused, and so are fsType
// and mkfsOptions.
//
// The image is directory/NAME.img, with NAME that of the PersistentVolume, of at most 240 bytes. It has the claim's size, rounded up
// to 4096 bytes, which is the capacity of the PersistentVolume; the file system takes a part of it. The file system is made before
// the image has its name, and everything is on the disk when Provision returns, so that a crash leaves no half-made device: the same
// call goes on. What is made for whom is recorded in .volumekit-blockdev, in the base path, before it is made: the same name gets the
// same image again, also if the class names another directory by then. A file that is there already is never taken, and a symbolic
// link or a mount point on the way from the base path is refused.
//
// The PersistentVolume is bound to this node by the label kubernetes.io/hostname, if [volume.Host].NodeName is set.
//
// Refused by name, with an error that matches [volume.ErrInvalid] or [volume.ErrNotSupported], are: access modes other than
// ReadWriteOnce and ReadWriteOncePod, a selector, a data source, a VolumeAttributesClass, a reclaimPolicy other than Delete and Retain,
// mountOptions that are not about a device, a node other than this one, allowedTopologies that leave this one out, and a size that is
// too small for the file system. [volume.ErrExhausted] says that there is no space for it.
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
	if err := checkMountOptions(options); err != nil {
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
	image, err := p.chosen(parameters.directory, options.PVName)
	if err != nil {
		return nil, fmt.Errorf("StorageClass %s: %w", options.Class.Name, err)
	}
	affinity, err := provisioning.NodeAffinity(ctx, p.host, options)
	if err != nil {
		return nil, err
	}
	made, err := image.make(ctx, p.host.Exec, imageRecord{Bytes: bytes, FSType: parameters.fsType, MkfsOptions: parameters.mkfsOptions,
		Preallocate: parameters.preallocate, ScrubOnDelete: parameters.scrubOnDelete})
	if err != nil {
		return nil, fmt.Errorf("provision device %s: %w", image.path(), err)
	}
	image.below = made.Below
	pv := p.provisioned().NewPersistentVolume(options, p.options.ProvisionerName)
	pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: image.path()}}
	if made.FSType != "" {
		pv.Spec.Local.FSType = &made.FSType
	}
	pv.Spec.NodeAffinity = affinity
	pv.Spec.Capacity[v1.ResourceStorage] = *resource.NewQuantity(made.Bytes, resource.BinarySI)
	return pv, nil
}

// senseless are mount options that are not about the file system of a device.
var senseless = []string{"", "bind", "rbind", "move", "remount", "loop", "shared", "rshared", "slave", "rslave", "private", "rprivate",
	"unbindable", "runbindable"}

func checkMountOptions(options volume.ProvisionOptions) error {
	if len(options.Class.MountOptions) > 0 && provisioning.VolumeMode(options.Claim) == v1.PersistentVolumeBlock {
		return volume.Errorf(volume.ErrInvalid, "StorageClass %s: mountOptions have no effect on a raw device, which the claim %s/%s asks for (volumeMode Block): use another class",
			options.Class.Name, options.Claim.Namespace, options.Claim.Name)
	}
	for _, option := range options.Class.MountOptions {
		name, _, _ := strings.Cut(option, "=")
		if slices.Contains(senseless, name) || strings.ContainsAny(option, ", \t\n\x00") {
			return volume.Errorf(volume.ErrInvalid, "StorageClass %s: the mount option %q makes no sense for a device", options.Class.Name, option)
		}
	}
	return nil
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

// imageIn returns the image of that name in a directory, which has to be a base path or below one.
func (p *Plugin) imageIn(directory, name string) (image, error) {
	if len(name) > maxNameBytes {
		return image{}, volume.Errorf(volume.ErrInvalid, "the name %.32q… has %d bytes, more than the %d that the image of a device can have", name, len(name), maxNameBytes)
	}
	for _, base := range p.bases {
		if directory != base && !provisioning.IsBelow(directory, base) {
			continue
		}
		below := strings.TrimPrefix(strings.TrimPrefix(directory, base), "/")
		if slices.Contains(strings.Split(below, "/"), recordsDir) {
			return image{}, volume.Errorf(volume.ErrInvalid, "%q: the name %s is reserved for the plugin's records", directory, recordsDir)
		}
		return image{base: base, below: below, name: name}, nil
	}
	return image{}, volume.Errorf(volume.ErrInvalid, "%q is not one of the plugin's base paths, nor below one (%q)", directory, p.bases)
}

// chosen returns where the image of a claim is to be, or has been since the first call for the same name.
func (p *Plugin) chosen(directory, name string) (image, error) {
	if directory == "" {
		directory = p.bases[0]
	}
	chosen, err := p.imageIn(directory, name)
	if err != nil {
		return chosen, fmt.Errorf("parameter directory: %w", err)
	}
	for _, base := range p.bases {
		if base == chosen.base {
			continue
		}
		if other := (image{base: base, name: name}); record.Exists(other.recordPath()) {
			return other, nil
		}
	}
	return chosen, nil
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
	if err := provisioning.CheckPath("local.path", pv.Spec.Local.Path); err != nil {
		return image{}, err
	}
	path := filepath.Clean(pv.Spec.Local.Path)
	image, err := p.imageIn(filepath.Dir(path), pv.Name)
	if err != nil {
		return image, fmt.Errorf("local.path: %w", err)
	}
	if image.path() != path {
		return image, volume.Errorf(volume.ErrInvalid, "local.path %s is not where it was provisioned, which is %s", path, image.path())
	}
	return image, nil
}
