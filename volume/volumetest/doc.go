// SPDX-License-Identifier: Apache-2.0

// Package volumetest tests volume plugins, and helps to test what drives them.
//
// # The conformance suite
//
// [Run] takes any plugin and holds it against the contracts of package volume, those of the capabilities included that it
// has. A plugin's tests call it with the volumes that the plugin serves:
//
//	func TestMain(m *testing.M) { os.Exit(volumetest.Main(m)) }
//
//	func TestConformance(t *testing.T) {
//		volumetest.Run(t, volumetest.Config{
//			New: func() volume.VolumePlugin { return scratch.New() },
//			Cases: []volumetest.Case{{
//				Name: "an empty directory",
//				Spec: volume.NewSpecFromVolume(&v1.Volume{
//					Name:         "scratch",
//					VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
//				}),
//			}},
//		})
//	}
//
// Each check is a subtest with a root directory of its own, named by what it wants: -run=/an_empty_directory/SetUpAgain
// repeats one. [Main] gives the test binary a mount namespace of its own as root on Linux; as somebody else, what has to
// mount is skipped. The checks look at the mounts of the namespace and at the goroutines of the process, so nothing may
// run beside them: no t.Parallel.
//
// A check that fails names the rule by its subtest, and what was seen. What was not tested because the Config has nothing
// for it is logged, see go test -v.
//
// What a new plugin most often fails is what a container, or a crash, can do to it: names and pod UIDs have to be checked
// ([volume.CheckName], [volume.CheckPodUID]); a mode has to be set whatever the umask; and os.RemoveAll goes into whatever
// somebody has mounted in the volume, which has to be left alone and reported.
//
// # Fakes
//
// [FakePlugin] is a small plugin that works, records its calls and takes faults. [FakeProber] brings and takes plugins
// when a test says so. [FaultyMounter] makes the n-th mount or unmount fail, before or after it had its effect.
package volumetest
