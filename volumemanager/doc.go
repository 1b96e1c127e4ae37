// SPDX-License-Identifier: Apache-2.0

// Package volumemanager sets up the volumes of pods on a node, tells what a container runtime has to mount, and takes the
// volumes away again.
//
//	manager, err := volumemanager.New(ctx, plugins, volumemanager.Options{})
//	defer manager.Close()
//	status, err := manager.SetUpPod(ctx, pod)
//	for _, container := range status.Containers {
//		// hand container.Mounts[i].OCI() to the runtime
//	}
//	err = manager.TearDownPod(ctx, pod.UID)
//
// Everything is below the root of the plugins' [volume.Host], in the kubelet's layout. Before the first side effect of a
// volume a record of it is on disk, and it is removed last; so after a crash SetUpPod goes on from what is there, and
// TearDownPod needs nothing but the root. See [Inspect] for what is there.
package volumemanager
