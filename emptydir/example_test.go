// SPDX-License-Identifier: Apache-2.0

package emptydir_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/volume"
)

func Example() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)

	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "d4b7b2a6-54a1-4d37-8b8f-3f5a2f1c8e11"},
		Spec: v1.PodSpec{Volumes: []v1.Volume{{
			Name:         "scratch",
			VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
		}}},
	}
	plugins := []volume.VolumePlugin{emptydir.New(emptydir.Options{})}
	mgr, err := volume.NewVolumePluginMgr(ctx, volume.Host{Root: root}, plugins)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer mgr.Close()

	spec := volume.NewSpecFromVolume(&pod.Spec.Volumes[0])
	plugin, err := mgr.FindPluginBySpec(spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	mounter, err := plugin.NewMounter(spec, pod)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := mounter.SetUp(ctx, volume.SetUpOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	below, _ := filepath.Rel(root, mounter.Path())
	fmt.Println(filepath.ToSlash(below))

	unmounter, err := plugin.NewUnmounter("scratch", pod.UID)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := unmounter.TearDown(ctx, volume.TearDownOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	presence, err := mounter.Presence(ctx)
	fmt.Println(presence, err)
	// Output:
	// pods/d4b7b2a6-54a1-4d37-8b8f-3f5a2f1c8e11/volumes/kubernetes.io~empty-dir/scratch
	// absent <nil>
}
