// SPDX-License-Identifier: Apache-2.0

package volumedir

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/removal"
	"github.com/volumekit/volumekit/volume"
)

// Recycle removes all that is in the directory of a PersistentVolume, beneath a descriptor of it: no symbolic link is followed, and
// what is mounted in it stays, which is an error that matches [volume.ErrInUse] and names it. It refuses a volume whose reclaim policy
// is not Recycle, and a directory that cannot be meant: the root directory, or one that holds the root of the host.
func Recycle(ctx context.Context, root string, pv *v1.PersistentVolume, dir string) error {
	if policy := pv.Spec.PersistentVolumeReclaimPolicy; policy != v1.PersistentVolumeReclaimRecycle {
		return volume.Errorf(volume.ErrInvalid, "PersistentVolume %s has the reclaim policy %q, not Recycle: nothing is removed", pv.Name, policy)
	}
	dir, err := abandon.Run(ctx, func() (string, error) { return filepath.EvalSymlinks(dir) })
	if err != nil {
		return fmt.Errorf("recycle PersistentVolume %s: %w", pv.Name, err)
	}
	root = Resolve(root)
	if dir == "/" || dir == root || strings.HasPrefix(root, dir+"/") {
		return volume.Errorf(volume.ErrInvalid, "PersistentVolume %s is %s, which holds what this program keeps: nothing is removed", pv.Name, dir)
	}
	if err := removal.InMount(ctx, dir); err != nil {
		return fmt.Errorf("recycle PersistentVolume %s: %w", pv.Name, InUse(err))
	}
	return nil
}
