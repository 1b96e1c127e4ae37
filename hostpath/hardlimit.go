// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"context"
	"errors"
	"io/fs"
	"os"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/hardlimit"
	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// annotationHardLimit is on a PersistentVolume whose capacity the kernel enforces.
const annotationHardLimit = "volumekit.io/hard-limit"

// parameterHardLimit is the parameter of a StorageClass that asks for that.
const parameterHardLimit = "hardLimit"

// isLimited reports whether the capacity of the volume, which this plugin has provisioned, is enforced. pv may be nil.
func (p *Plugin) isLimited(pv *v1.PersistentVolume) bool {
	return pv != nil && pv.Annotations[annotationHardLimit] == "true" && provisioning.CheckProvisionedBy(pv, p.provisioner) == nil
}

// limitOptions are those of a directory that is limited to the capacity of its volume.
func (p *Plugin) limitOptions(pv *v1.PersistentVolume) hardlimit.Options {
	capacity := pv.Spec.Capacity[v1.ResourceStorage]
	return hardlimit.Options{Bytes: uint64(capacity.Value()), Mounter: p.host.Mounter, Exec: p.host.Exec}
}

// limit has the kernel enforce the capacity of a volume whose directory was just provisioned, or found to be.
func (p *Plugin) limit(ctx context.Context, pv *v1.PersistentVolume, parameters parameters) error {
	options := p.limitOptions(pv)
	options.Prepare = func(root *os.File) error {
		// The mode last: chown takes away some of its bits.
		return errors.Join(root.Chown(parameters.uid, parameters.gid), root.Chmod(fileMode(parameters.mode)))
	}
	_, err := hardlimit.Apply(ctx, pv.Spec.HostPath.Path, options)
	return volumedir.LimitError(parameterHardLimit, err)
}

// fileMode returns the mode with the bits of chmod(2).
func fileMode(bits uint32) fs.FileMode {
	mode := fs.FileMode(bits & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if bits&bit != 0 {
			mode |= flag
		}
	}
	return mode
}

// unlimit takes away what enforces the limit of a volume that is being deleted, with what is in it if that is an image.
func (p *Plugin) unlimit(ctx context.Context, pv *v1.PersistentVolume, l location) error {
	if !p.isLimited(pv) {
		return nil
	}
	if err := hardlimit.Remove(ctx, l.path(), p.limitOptions(pv)); err != nil {
		return volumedir.LimitError(parameterHardLimit, volumedir.WhyInUse(p.host.Mounter, l.path(), err))
	}
	return nil
}

// limitedMounter is the Mounter of a directory whose volume's capacity the kernel enforces. After a reboot an image has to be
// mounted again.
type limitedMounter struct {
	*mounter
	plugin *Plugin
	pv     *v1.PersistentVolume
}

var _ volume.MetricsProvider = (*limitedMounter)(nil)

func (m *limitedMounter) SetUp(ctx context.Context, options volume.SetUpOptions) error {
	if err := m.mounter.SetUp(ctx, options); err != nil {
		return err
	}
	_, err := hardlimit.Apply(ctx, m.Path(), m.plugin.limitOptions(m.pv))
	return volumedir.LimitError(parameterHardLimit, err)
}

func (m *limitedMounter) Presence(ctx context.Context) (volume.Presence, error) {
	presence, err := m.mounter.Presence(ctx)
	if presence != volume.Present {
		return presence, err
	}
	found, err := hardlimit.Find(ctx, m.Path(), "")
	if err != nil {
		return volume.Unknown, err
	}
	if !found.Enforced() {
		return volume.Absent, nil
	}
	return volume.Present, nil
}

// Metrics tells how full the directory is, without counting its files.
func (m *limitedMounter) Metrics(ctx context.Context) (volume.Metrics, error) {
	capacity := m.pv.Spec.Capacity[v1.ResourceStorage]
	return volumedir.LimitedMetrics(ctx, m.Path(), "", m.plugin.host.Clock.Now(), capacity.Value())
}
