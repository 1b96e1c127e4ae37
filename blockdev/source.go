// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/volume"
)

// source is a PersistentVolume's source, checked.
type source struct {
	name         string // the PersistentVolume's
	path         string
	fsType       string // empty: what is there, ext4 where nothing is
	mountOptions []string
	readOnly     bool // for all pods
}

// localOf returns the local source of spec, nil if it has none.
func localOf(spec *volume.Spec) *v1.LocalVolumeSource {
	if spec == nil || spec.PersistentVolume == nil {
		return nil
	}
	return spec.PersistentVolume.Spec.Local
}

func errNoSource(spec *volume.Spec) error {
	return volume.Errorf(volume.ErrInvalid, "volume %q is no PersistentVolume with a local source", spec.Name())
}

func isBlock(spec *volume.Spec) bool {
	mode := spec.PersistentVolume.Spec.VolumeMode
	return mode != nil && *mode == v1.PersistentVolumeBlock
}

// checkSpec checks the whole source.
func checkSpec(spec *volume.Spec) (source, error) {
	local := localOf(spec)
	if local == nil {
		return source{}, errNoSource(spec)
	}
	pv := spec.PersistentVolume
	s := source{name: pv.Name, path: local.Path, mountOptions: mountOptionsOf(pv)}
	if err := provisioning.CheckPath("local.path", local.Path); err != nil {
		return source{}, err
	}
	if local.FSType != nil {
		s.fsType = *local.FSType
	}
	if isBlock(spec) {
		switch {
		case s.fsType != "":
			return source{}, volume.Errorf(volume.ErrInvalid, "local.fsType %q has no effect on a raw device (volumeMode Block): remove it", s.fsType)
		case len(s.mountOptions) > 0:
			return source{}, volume.Errorf(volume.ErrInvalid, "mountOptions have no effect on a raw device (volumeMode Block): remove them")
		}
	} else if !slices.Contains([]string{"", "ext4", "ext3", "ext2", "xfs", "btrfs"}, s.fsType) {
		return source{}, volume.Errorf(volume.ErrNotSupported, "local.fsType %q is none of ext4, xfs, btrfs, ext3 and ext2", s.fsType)
	}
	s.readOnly = saysReadOnly(s.mountOptions) || slices.Equal(pv.Spec.AccessModes, []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany})
	return s, nil
}

// mountOptionsOf returns the mount options of a PersistentVolume; the annotation is the older way of giving them.
func mountOptionsOf(pv *v1.PersistentVolume) []string {
	given := pv.Spec.MountOptions
	if annotated := pv.Annotations[v1.MountOptionAnnotation]; annotated != "" {
		given = []string{annotated}
	}
	var options []string
	for _, option := range given {
		options = append(options, splitOptions(option)...)
	}
	return options
}

// splitOptions splits at commas outside of quotes: Kubernetes joins the options with commas, so that one element may hold several.
func splitOptions(text string) []string {
	quoted := false
	return strings.FieldsFunc(text, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ',' && !quoted
	})
}

// saysReadOnly reports what the last of "ro" and "rw" says, as mount does.
func saysReadOnly(options []string) (is bool) {
	for _, option := range options {
		is = option == "ro" || is && option != "rw"
	}
	return is
}

// bindable are the mount options that a directory can have, which is bound.
var bindable = []string{"ro", "rw", "nosuid", "suid", "nodev", "dev", "noexec", "exec", "noatime", "relatime", "strictatime", "nodiratime", "nosymfollow"}

// checkBindable refuses mount options that only a file system can have.
func (s source) checkBindable() error {
	for _, option := range s.mountOptions {
		if !slices.Contains(bindable, option) {
			return volume.Errorf(volume.ErrNotSupported, "%s is a directory, which is bound: the mount option %q has no effect on it; it can have %s",
				s.path, option, strings.Join(bindable, ", "))
		}
	}
	return nil
}
