// SPDX-License-Identifier: Apache-2.0

// Package volumekit is the front page of the volume layer of Kubernetes as a library. It has no code; the packages are:
//
//   - volume: the contracts (VolumePlugin, Mounter, Attacher, Provisioner and their kin), Spec, Host, and VolumePluginMgr,
//     which holds the plugins and finds the one that serves a volume.
//   - volumemanager: gives pods their volumes, tells the containers' mounts, and takes the volumes away, again and again until
//     it is so, also after a crash; volumemanager/statushttp shows what it does.
//   - plugins: the built-in plugins in one call; each is a package of its own: emptydir, hostpath, blockdev (local directories,
//     devices and images of devices), and projected (config maps, secrets, the downward API, tokens).
//   - objects: where plugins and the manager get the objects that pods name, in memory; below it objects/directory follows a
//     directory of manifests, objects/cluster asks an API server, objects/localissuer issues tokens without one.
//   - volume/volumetest: a conformance suite for plugins, fakes, and helpers for tests that mount.
//   - examples/podvolumes: a program that does all of this for Kubernetes manifests; examples/embed: the least code that does.
//
// A program that runs pods says which it wants; one that sees to each pod itself calls SetUpPod and TearDownPod:
//
//	host := objects.NewStore().Fill(volume.Host{Root: "/var/lib/agent"}) // which Set gives config maps, secrets and claims
//	mgr, err := volume.NewVolumePluginMgr(ctx, host, plugins.Default())
//	manager, err := volumemanager.New(ctx, mgr, volumemanager.Options{})
//	go manager.Run(ctx)
//	err = manager.SetPods(ctx, pods)
//	mounts, err := manager.ContainerMounts(ctx, pod.UID, "nginx") // Mount.OCI is what a container runtime takes
//
// A program that uses plugins on its own terms finds the one for a volume, and asks for a capability:
//
//	plugin, err := mgr.FindPluginBySpec(volume.NewSpecFromVolume(&pod.Spec.Volumes[0]))
//	mounter, err := plugin.NewMounter(spec, pod)
//	err = mounter.SetUp(ctx, volume.SetUpOptions{})
//	provisionable, err := volume.Find[volume.ProvisionableVolumePlugin](mgr, spec)
//
// Somebody who writes a plugin has its tests run the conformance suite:
//
//	func TestConformance(t *testing.T) {
//		volumetest.Run(t, volumetest.Config{New: func() volume.VolumePlugin { return myplugin.New() }, Cases: cases})
//	}
package volumekit
