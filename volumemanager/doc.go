// SPDX-License-Identifier: Apache-2.0

// Package volumemanager gives pods their volumes on a node, tells what a container runtime has to mount, and takes the volumes
// away again. It can be left running for years, and be killed at any moment.
//
// A program says which pods it wants, and the manager closes the difference to what is there:
//
//	manager, err := volumemanager.New(ctx, plugins, volumemanager.Options{Containers: runtime})
//	go manager.Run(ctx)
//	err = manager.SetPods(ctx, pods)                                 // all that are wanted
//	status, err := manager.WaitForPod(ctx, pod.UID)                  // until its volumes are there
//	mounts, err := manager.ContainerMounts(ctx, pod.UID, "nginx")    // each time that the container starts
//	err = manager.RemovePod(pod.UID)                                 // its volumes go once its containers are gone
//
// A program that sees to each pod itself takes the simple way:
//
//	status, err := manager.SetUpPod(ctx, pod)
//	for _, container := range status.Containers {
//		// hand container.Mounts[i].OCI() to the runtime
//	}
//	err = manager.TearDownPod(ctx, pod.UID)
//
// A volume whose device is shared by the node's pods is attached and mounted, or as a raw device prepared, for the first of them, and
// taken away with the last; that is recorded below plugins/volumekit.io. The manager attaches by itself, as a kubelet does that has
// no attach/detach controller.
//
// Everything is below the root of the plugins' [volume.Host], in the kubelet's layout. Before the first side effect of a pod's
// volumes a record of them is on disk, pods/UID/volumekit.json, and it is removed last; so after a crash [Manager.Run] and
// SetUpPod go on from what is there, and TearDownPod needs nothing but the root. See [Inspect] for what is there,
// [Manager.Status] and [Manager.Events] for what a manager does about it.
package volumemanager
