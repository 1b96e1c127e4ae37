// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/internal/hardlimit"
	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

var _ volume.ExpandableVolumePlugin = (*Plugin)(nil)

// NewExpander returns an Expander of what a Provisioner of the same options has made. With hardLimit the limit is raised, also while
// the directory is in use; without it nothing enforces the size, and only the PersistentVolume has to change.
func (p *Plugin) NewExpander() (volume.Expander, error) { return expander{p}, nil }

type expander struct{ plugin *Plugin }

// Expand raises the limit of a directory, see [Plugin.NewExpander].
func (e expander) Expand(ctx context.Context, spec *volume.Spec, size resource.Quantity) (volume.ExpandResult, error) {
	none := volume.ExpandResult{}
	pv := spec.PersistentVolume
	if pv == nil || pv.Spec.HostPath == nil {
		return none, errNoSource(spec)
	}
	if err := provisioning.CheckProvisionedBy(pv, e.plugin.provisioner); err != nil {
		return none, fmt.Errorf("not expanding PersistentVolume %s: %w", pv.Name, err)
	}
	if has := pv.Spec.Capacity[v1.ResourceStorage]; size.Cmp(has) <= 0 {
		return volume.ExpandResult{Size: has}, nil
	}
	if e.plugin.isLimited(pv) {
		options := e.plugin.limitOptions(pv)
		options.Bytes = uint64(size.Value())
		if err := raiseLimit(ctx, pv.Spec.HostPath.Path, options); err != nil {
			return none, fmt.Errorf("raise the limit of PersistentVolume %s to %s: %w", pv.Name, size.String(), volumedir.LimitError(parameterHardLimit, err))
		}
	}
	return volume.ExpandResult{Size: size}, nil
}

func raiseLimit(ctx context.Context, path string, options hardlimit.Options) error {
	found, err := hardlimit.Find(ctx, path, "")
	if err != nil {
		return err
	}
	if found.Kind == hardlimit.Image && !found.Mounted {
		_, err := hardlimit.Apply(ctx, path, options) // it grows when it is mounted
		return err
	}
	return hardlimit.Grow(ctx, path, options)
}
