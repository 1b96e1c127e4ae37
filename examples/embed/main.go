// SPDX-License-Identifier: Apache-2.0

// Command embed gives one pod its volumes below one directory, shows the mounts, and takes them away.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
	v1 "k8s.io/api/core/v1"
)

func run(ctx context.Context, root string) error {
	mgr, err := volume.NewVolumePluginMgr(ctx, volume.Host{Root: root}, plugins.Default())
	if err != nil {
		return err
	}
	defer mgr.Close()
	manager, err := volumemanager.New(ctx, mgr, volumemanager.Options{})
	if err != nil {
		return err
	}
	pod := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{{Name: "cache"}}}} // a volume without a source is an emptyDir
	pod.Namespace, pod.Name, pod.UID = "default", "web", "1"
	pod.Spec.Containers = []v1.Container{{Name: "nginx", VolumeMounts: []v1.VolumeMount{{Name: "cache", MountPath: "/var/cache"}}}}
	status, err := manager.SetUpPod(ctx, pod)
	fmt.Printf("%+v\n", status.Containers)
	return errors.Join(err, manager.TearDownPod(ctx, pod.UID), manager.Close())
}

func main() {
	if err := run(context.Background(), "/tmp/volumekit-embed"); err != nil {
		log.Fatal(err)
	}
}
