// SPDX-License-Identifier: Apache-2.0

package volumetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// In the tests of a plugin, beside a TestMain that calls Main.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestConformance(t *testing.T)
		volumetest.Run(t, volumetest.Config{
			New: func() volume.VolumePlugin { return &volumetest.FakePlugin{} },
			Cases: []volumetest.Case{{
				Name: "directory",
				Spec: volume.NewSpecFromVolume(&v1.Volume{
					Name:         "scratch",
					VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
				}),
			}},
		})
	}
}

// A program that uses a plugin has to cope with one that fails.
func ExampleFakePlugin() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(root)
	plugin := &volumetest.FakePlugin{}
	mgr, err := volume.NewVolumePluginMgr(ctx, volume.Host{Root: root}, []volume.VolumePlugin{plugin})
	if err != nil {
		panic(err)
	}
	defer mgr.Close()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	mounter, err := plugin.NewMounter(emptyDirSpec(), pod)
	if err != nil {
		panic(err)
	}

	timeout := volume.Errorf(volume.ErrUncertain, "timed out")
	plugin.Inject(volumetest.SetUp, volumetest.Hooks{After: volumetest.FailTimes(1, timeout)})
	for range 2 {
		err := mounter.SetUp(ctx, volume.SetUpOptions{})
		presence, _ := mounter.Presence(ctx)
		fmt.Println(err, errors.Is(err, volume.ErrUncertain), presence)
	}
	// Output:
	// timed out true present
	// <nil> false present
}

// Plugins come and go when the test says so.
func ExampleFakeProber() {
	ctx := context.Background()
	prober := make(volumetest.FakeProber)
	mgr, err := volume.NewVolumePluginMgr(ctx, volume.Host{Root: "/nonexistent"}, nil, volume.WithProber(prober))
	if err != nil {
		panic(err)
	}
	defer mgr.Close()

	prober <- volumetest.Found(&volumetest.FakePlugin{PluginName: "example.com/driver"})
	if err := mgr.WaitForProbers(ctx); err != nil {
		panic(err)
	}
	fmt.Println(mgr.Plugins()[0].Name())
	// Output: example.com/driver
}
