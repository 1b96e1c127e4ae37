// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	kconfigmap "k8s.io/kubernetes/pkg/volume/configmap"
	kvolumeutil "k8s.io/kubernetes/pkg/volume/util"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/objects"
	"github.com/volumekit/volumekit/projected"
	"github.com/volumekit/volumekit/volume"
)

// configMapJobs bring a volume of a ConfigMap with 100 keys of 1 KiB up to date, on a tmpfs. volumekit's half is all of SetUp of
// its plugin. The peer's is making the files' content of the ConfigMap and its atomic writer; what its plugin does on top, to see
// whether the tmpfs is there, is not counted.
func configMapJobs() []job {
	unchanged := func(int) *v1.ConfigMap { return manyKeys("0") }
	oneChanged := func(i int) *v1.ConfigMap { return manyKeys(fmt.Sprint(i % 2)) }
	return []job{
		{
			tag:    "pods",
			name:   "100-key config map, unchanged",
			target: "10x",
			peer:   peerConfigMap(unchanged),
			ours:   ourConfigMap(unchanged),
		},
		{
			tag:    "pods",
			name:   "100-key config map, one key changed",
			target: "2x",
			peer:   peerConfigMap(oneChanged),
			ours:   ourConfigMap(oneChanged),
		},
	}
}

// manyKeys returns a ConfigMap of which one key has the value.
func manyKeys(value string) *v1.ConfigMap {
	c := &v1.ConfigMap{Data: make(map[string]string)}
	c.Namespace, c.Name = testPod().Namespace, "settings"
	for i := range 100 {
		c.Data[fmt.Sprintf("key-%d.conf", i)] = strings.Repeat("x", 1024)
	}
	c.Data["key-50.conf"] = value
	return c
}

func configMapVolume() *v1.Volume {
	return &v1.Volume{Name: "settings", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
		LocalObjectReference: v1.LocalObjectReference{Name: "settings"}, DefaultMode: ptr.To[int32](0o644)}}}
}

func peerConfigMap(configMap func(i int) *v1.ConfigMap) func(*testing.B) {
	return func(b *testing.B) {
		update := newPeerConfigMap(b, tempDirOnTmpfs(b))
		versions := []*v1.ConfigMap{configMap(0), configMap(1)}
		if err := update(versions[1]); err != nil {
			b.Fatal(err)
		}
		for i := 0; b.Loop(); i++ {
			if err := update(versions[i%2]); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// newPeerConfigMap returns what brings the volume in dir up to date.
func newPeerConfigMap(b testing.TB, dir string) func(*v1.ConfigMap) error {
	writer, err := kvolumeutil.NewAtomicWriter(dir, "bench")
	if err != nil {
		b.Fatal(err)
	}
	source := configMapVolume().ConfigMap
	return func(c *v1.ConfigMap) error {
		payload, err := kconfigmap.MakePayload(source.Items, c, source.DefaultMode, nil, false)
		if err != nil {
			return err
		}
		return writer.Write(payload, nil)
	}
}

func ourConfigMap(configMap func(i int) *v1.ConfigMap) func(*testing.B) {
	return func(b *testing.B) {
		update, _ := newOurConfigMap(b, tempDirOnTmpfs(b), projected.Options{})
		versions := []*v1.ConfigMap{configMap(0), configMap(1)}
		if err := update(versions[1]); err != nil {
			b.Fatal(err)
		}
		for i := 0; b.Loop(); i++ {
			if err := update(versions[i%2]); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// newOurConfigMap returns what brings the volume below root up to date, and where that is.
func newOurConfigMap(b testing.TB, root string, options projected.Options) (update func(*v1.ConfigMap) error, dir string) {
	store := objects.NewStore()
	host, err := store.Fill(volume.Host{Root: root}).Complete()
	if err != nil {
		b.Fatal(err)
	}
	plugin := projected.New(options)[0]
	if err := plugin.Init(b.Context(), host); err != nil {
		b.Fatal(err)
	}
	spec, pod := volume.NewSpecFromVolume(configMapVolume()), testPod()
	mounter, err := plugin.NewMounter(spec, pod)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		unmounter, err := plugin.NewUnmounter(spec.Name(), pod.UID)
		if err == nil {
			err = unmounter.TearDown(context.Background(), volume.TearDownOptions{})
		}
		if err != nil {
			b.Error(err)
		}
	})
	return func(c *v1.ConfigMap) error {
		if err := store.Set(c); err != nil {
			return err
		}
		return mounter.SetUp(b.Context(), volume.SetUpOptions{})
	}, filepath.Clean(mounter.Path())
}
