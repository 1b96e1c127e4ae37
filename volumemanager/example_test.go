// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

func Example() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	mgr, err := volume.NewVolumePluginMgr(ctx, volume.Host{Root: root}, plugins.Default())
	if err != nil {
		panic(err)
	}
	defer mgr.Close()
	manager, err := volumemanager.New(ctx, mgr, volumemanager.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = manager.Close() }()

	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "shop", "web-0", "13ad5320"
	pod.Spec.Volumes = []v1.Volume{
		{Name: "cache", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "models", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "models:1"}}},
	}
	pod.Spec.Containers = []v1.Container{{Name: "nginx", VolumeMounts: []v1.VolumeMount{
		{Name: "cache", MountPath: "/var/cache", ReadOnly: true},
		{Name: "models", MountPath: "/models"},
	}}}

	// What cannot be served is an error; the rest is there all the same.
	status, err := manager.SetUpPod(ctx, pod)
	fmt.Println(err)
	for _, mount := range status.Containers[0].Mounts {
		oci := mount.OCI()
		fmt.Println(strings.TrimPrefix(oci.Source, root), oci.Destination, oci.Options)
	}
	fmt.Println(manager.TearDownPod(ctx, pod.UID))
	// Output:
	// set up volume "models" of pod shop/web-0: source image is not served here, since no plugin for it is registered: a container runtime mounts it, which has the images: have that do it, or copy the files to an emptyDir volume in an init container that runs the image
	// /pods/13ad5320/volumes/kubernetes.io~empty-dir/cache /var/cache [rbind rprivate ro]
	// <nil>
}
