// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// makeMountPoints makes the directories in the volume on which containers mount other volumes: they could not make them themselves,
// since the volume is read-only.
func (m *mounter) makeMountPoints() error {
	places := mountPointsInside(m.pod, m.name)
	if len(places) == 0 {
		return nil
	}
	root, err := os.OpenRoot(m.path)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, place := range places {
		if _, err := root.Stat(place); err == nil {
			continue // be it a file: that can be mounted on too
		}
		if err := root.MkdirAll(place, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// mountPointsInside lists the places in a volume of the pod, relative to it, on which containers mount other volumes.
func mountPointsInside(pod *v1.Pod, name string) []string {
	var places []string
	visit := func(mounts []v1.VolumeMount) {
		for i := range mounts {
			if mounts[i].Name != name || mounts[i].SubPath != "" || mounts[i].SubPathExpr != "" {
				continue
			}
			within := path.Join("/", mounts[i].MountPath) + "/"
			for j := range mounts {
				if place, inside := strings.CutPrefix(path.Join("/", mounts[j].MountPath), within); inside {
					places = append(places, place)
				}
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		visit(pod.Spec.InitContainers[i].VolumeMounts)
	}
	for i := range pod.Spec.Containers {
		visit(pod.Spec.Containers[i].VolumeMounts)
	}
	for i := range pod.Spec.EphemeralContainers {
		visit(pod.Spec.EphemeralContainers[i].VolumeMounts)
	}
	return places
}
