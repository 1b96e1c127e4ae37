// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// checkPodLinks refuses a pod whose directories are symbolic links. The root may be one, but below it somebody who may write
// there could lead what is removed to anywhere.
func checkPodLinks(host volume.Host, uid types.UID) error {
	return refuseLinks(host.PodsDir(), host.PodDir(uid), host.PodVolumesDir(uid), podDevicesDir(host, uid), host.PodSubpathsDir(uid))
}

// checkVolumeLinks does the same for the directory of a volume.
func checkVolumeLinks(host volume.Host, uid types.UID, id volumeID) error {
	return refuseLinks(filepath.Dir(host.PodVolumeDir(uid, id.Plugin, id.Name)))
}

func refuseLinks(paths ...string) error {
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSymlink {
			return volume.Errorf(volume.ErrInvalid, "%s is a symbolic link, which only the root directory may be: nothing is done through it", path)
		}
	}
	return nil
}
