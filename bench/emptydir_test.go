// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	kvolume "k8s.io/kubernetes/pkg/volume"
	kemptydir "k8s.io/kubernetes/pkg/volume/emptydir"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/volume"
)

func TestSameAnswerSizeOfTmpfs(t *testing.T) {
	for name, test := range map[string]struct {
		sizeLimit string
		pod       v1.PodSpec
	}{
		"nothing is limited":                            {pod: v1.PodSpec{Containers: containers("")}},
		"there are no containers":                       {},
		"a size limit alone":                            {sizeLimit: "1Mi", pod: v1.PodSpec{Containers: containers("")}},
		"a size limit that is no multiple of a page":    {sizeLimit: "5001", pod: v1.PodSpec{Containers: containers("")}},
		"a size limit with a fraction of a byte":        {sizeLimit: "4096500m", pod: v1.PodSpec{Containers: containers("")}},
		"the containers' limits alone":                  {pod: v1.PodSpec{Containers: containers("64Mi", "32Mi")}},
		"a size limit below those of the containers":    {sizeLimit: "10Mi", pod: v1.PodSpec{Containers: containers("64Mi", "32Mi")}},
		"a size limit above those of the containers":    {sizeLimit: "1Gi", pod: v1.PodSpec{Containers: containers("64Mi", "32Mi")}},
		"a size limit of 0, the containers are limited": {sizeLimit: "0", pod: v1.PodSpec{Containers: containers("64Mi", "32Mi")}},
		"a size limit of 0, nothing else is limited":    {sizeLimit: "0", pod: v1.PodSpec{Containers: containers("")}},
		"one of two containers is limited":              {pod: v1.PodSpec{Containers: containers("64Mi", "")}},
		"a limit of 0 is none":                          {pod: v1.PodSpec{Containers: containers("64Mi", "0")}},
		"an init container with more than the others":   {pod: v1.PodSpec{InitContainers: containers("1Gi"), Containers: containers("64Mi", "32Mi")}},
		"an init container with less than the others":   {pod: v1.PodSpec{InitContainers: containers("1Mi"), Containers: containers("64Mi", "32Mi")}},
		"an init container without a limit":             {pod: v1.PodSpec{InitContainers: containers(""), Containers: containers("64Mi", "32Mi")}},
		"a sidecar adds to the others":                  {pod: v1.PodSpec{InitContainers: sidecars("16Mi"), Containers: containers("64Mi")}},
		"a sidecar before a large init container":       {pod: v1.PodSpec{InitContainers: append(sidecars("16Mi"), containers("100Mi")...), Containers: containers("64Mi")}},
		"a limit of the pod, none of its containers":    {pod: v1.PodSpec{Resources: limit("48Mi"), Containers: containers("", "")}},
		"a limit of the pod below those of containers":  {pod: v1.PodSpec{Resources: limit("48Mi"), Containers: containers("32Mi", "32Mi")}},
		"a limit of the pod above those of containers":  {pod: v1.PodSpec{Resources: limit("1Gi"), Containers: containers("32Mi", "")}},
		"overhead is added to limits":                   {pod: v1.PodSpec{Overhead: memory("8Mi"), Containers: containers("64Mi")}},
		"overhead without limits":                       {pod: v1.PodSpec{Overhead: memory("8Mi"), Containers: containers("")}},
		"overhead beside a limit of the pod":            {pod: v1.PodSpec{Overhead: memory("8Mi"), Resources: limit("48Mi"), Containers: containers("")}},
		"requests are not limits":                       {pod: v1.PodSpec{Containers: []v1.Container{{Name: "a", Resources: v1.ResourceRequirements{Requests: memory("64Mi")}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			sameTmpfs(t, test.sizeLimit, test.pod)
		})
	}
}

func TestSameAnswerSizeOfTmpfsOfRandomPods(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 37))
	sizes := []string{"", "0", "4Ki", "1Mi", "3M", "64Mi", "96Mi", "1Gi"}
	pick := func() string { return sizes[random.IntN(len(sizes))] }
	some := func(make func(...string) []v1.Container) []v1.Container {
		var limits []string
		for range random.IntN(3) {
			limits = append(limits, pick())
		}
		return make(limits...)
	}
	for i := range 100 {
		pod := v1.PodSpec{InitContainers: append(some(sidecars), some(containers)...), Containers: some(containers)}
		if random.IntN(4) == 0 {
			pod.Resources = limit(pick())
		}
		if random.IntN(4) == 0 {
			pod.Overhead = memory("8Mi")
		}
		sizeLimit := pick()
		ok := t.Run(fmt.Sprint(i), func(t *testing.T) { sameTmpfs(t, sizeLimit, pod) })
		if !ok {
			t.Logf("sizeLimit %q, pod %s", sizeLimit, pod.String())
		}
	}
}

func TestSameAnswerPermissionsOfTheDirectory(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.EmptyDirVolumeMode, true)
	groups := []*int64{nil, new(int64(0))}
	if everyGroupIsMapped(t) {
		groups = append(groups, new(int64(1234)))
	}
	for _, group := range groups {
		for _, mode := range []*int32{nil, new(int32(0)), new(int32(0o700)), new(int32(0o755)), new(int32(0o1777))} {
			t.Run(fmt.Sprintf("mode %s, fsGroup %s", show("%#o", mode), show("%d", group)), func(t *testing.T) {
				vol := emptyDirVolume()
				vol.EmptyDir.Mode = mode
				samePermissions(t, vol, group)
			})
		}
		t.Run(fmt.Sprintf("tmpfs, fsGroup %s", show("%d", group)), func(t *testing.T) {
			vol := emptyDirVolume()
			vol.EmptyDir.Medium = v1.StorageMediumMemory
			samePermissions(t, vol, group)
		})
	}
}

func TestSameAnswerPageSize(t *testing.T) {
	const both, two, one = "both", "2Mi", "1Gi"
	ask := func(size string) []v1.Container {
		requests := v1.ResourceList{}
		for _, s := range []string{two, one} {
			if size == s || size == both {
				requests[v1.ResourceName(v1.ResourceHugePagesPrefix+s)] = resource.MustParse("2Gi")
			}
		}
		return []v1.Container{{Name: "asks-" + size, Resources: v1.ResourceRequirements{Requests: requests, Limits: requests}}}
	}
	for _, medium := range []v1.StorageMedium{"HugePages", "HugePages-2Mi", "HugePages-1Gi", "HugePages-2M", "HugePages-", "HugePages-x", "Hugepages"} {
		for name, spec := range map[string]v1.PodSpec{
			"nobody asks":                            {Containers: ask("")},
			"a container asks for 2Mi":               {Containers: ask(two)},
			"a container asks for both":              {Containers: ask(both)},
			"one asks for 2Mi, another for 1Gi":      {Containers: append(ask(two), ask(one)...)},
			"an init container asks for 1Gi":         {Containers: ask(""), InitContainers: ask(one)},
			"an init container for 1Gi, one for 2Mi": {Containers: ask(two), InitContainers: ask(one)},
			"the pod asks for 2Mi":                   {Containers: ask(""), Resources: &ask(two)[0].Resources},
		} {
			t.Run(fmt.Sprintf("%s, %s", medium, name), func(t *testing.T) {
				vol := emptyDirVolume()
				vol.EmptyDir.Medium = medium
				pod := testPod()
				pod.Spec = spec
				// A fake mounter, since the machine may lack pages of one size.
				theirs, ours := mount.NewFakeMounter(nil), mount.NewFakeMounter(nil)
				_, theirErr := setUpTheirs(t, vol, pod, theirs, nil)
				_, ourErr := setUpOurs(t, vol, pod, ours, nil)
				assert.Equal(t, theirErr == nil, ourErr == nil, "k8s.io/kubernetes: %v; volumekit: %v", theirErr, ourErr)
				assert.Equal(t, pageSizes(t, theirs), pageSizes(t, ours))
			})
		}
	}
}

// sameTmpfs compares the options that the kernel shows for the tmpfs. Where nothing is limited, the peer takes the node's
// allocatable memory as the size, which a program that is not a kubelet does not know: volumekit leaves it to the kernel.
func sameTmpfs(t *testing.T, sizeLimit string, spec v1.PodSpec) {
	vol := emptyDirVolume()
	vol.EmptyDir.Medium = v1.StorageMediumMemory
	if sizeLimit != "" {
		vol.EmptyDir.SizeLimit = new(resource.MustParse(sizeLimit))
	}
	pod := testPod()
	pod.Spec = spec
	theirs, err := setUpTheirs(t, vol, pod, newPeerMounter(), nil)
	require.NoError(t, err)
	ours, err := setUpOurs(t, vol, pod, newOurMounter(), nil)
	require.NoError(t, err)
	wanted := slices.DeleteFunc(superOptions(t, theirs), func(option string) bool { return option == "size=1073741824k" })
	assert.Equal(t, wanted, superOptions(t, ours))
}

func samePermissions(t *testing.T, vol *v1.Volume, fsGroup *int64) {
	theirs, err := setUpTheirs(t, vol, testPod(), newPeerMounter(), fsGroup)
	require.NoError(t, err)
	ours, err := setUpOurs(t, vol, testPod(), newOurMounter(), fsGroup)
	require.NoError(t, err)
	type permissions struct {
		mode fs.FileMode
		gid  uint32
	}
	of := func(path string) permissions {
		info, err := os.Stat(path)
		require.NoError(t, err)
		return permissions{info.Mode(), info.Sys().(*syscall.Stat_t).Gid}
	}
	assert.Equal(t, of(theirs), of(ours))
}

// setUpTheirs returns where the peer's plugin set the volume up, and takes it down when the test ends.
func setUpTheirs(t *testing.T, vol *v1.Volume, pod *v1.Pod, m mount.Interface, fsGroup *int64) (string, error) {
	plugin := kemptydir.ProbeVolumePlugins()[0]
	require.NoError(t, plugin.Init(newPeerHost(t.TempDir(), m)))
	mounter, err := plugin.NewMounter(kvolume.NewSpecFromVolume(vol), pod)
	if err != nil {
		return "", err
	}
	t.Cleanup(func() {
		unmounter, err := plugin.NewUnmounter(vol.Name, pod.UID)
		require.NoError(t, err)
		assert.NoError(t, unmounter.TearDown())
	})
	return mounter.GetPath(), mounter.SetUp(kvolume.MounterArgs{FsGroup: fsGroup})
}

// setUpOurs does the same with ours.
func setUpOurs(t *testing.T, vol *v1.Volume, pod *v1.Pod, m mount.Interface, fsGroup *int64) (string, error) {
	plugin := emptydir.New(emptydir.Options{})
	host, err := volume.Host{Root: t.TempDir(), Mounter: m}.Complete()
	require.NoError(t, err)
	require.NoError(t, plugin.Init(t.Context(), host))
	mounter, err := plugin.NewMounter(volume.NewSpecFromVolume(vol), pod)
	if err != nil {
		return "", err
	}
	t.Cleanup(func() {
		unmounter, err := plugin.NewUnmounter(vol.Name, pod.UID)
		require.NoError(t, err)
		assert.NoError(t, unmounter.TearDown(context.Background(), volume.TearDownOptions{}))
	})
	return mounter.Path(), mounter.SetUp(t.Context(), volume.SetUpOptions{FSGroup: fsGroup})
}

func superOptions(t *testing.T, path string) []string {
	t.Helper()
	infos, err := mount.ParseMountInfo("/proc/self/mountinfo")
	require.NoError(t, err)
	for _, info := range infos {
		if info.MountPoint == path {
			return slices.Sorted(slices.Values(info.SuperOptions))
		}
	}
	require.Fail(t, "not mounted", path)
	return nil
}

// pageSizes returns the page sizes, in bytes, of what was mounted with m.
func pageSizes(t *testing.T, m *mount.FakeMounter) []int64 {
	t.Helper()
	var sizes []int64
	for _, point := range m.MountPoints {
		for _, option := range point.Opts {
			if value, ok := strings.CutPrefix(option, "pagesize="); ok {
				size, err := resource.ParseQuantity(value)
				require.NoError(t, err)
				sizes = append(sizes, size.Value())
			}
		}
	}
	return sizes
}

func containers(limits ...string) []v1.Container {
	var cs []v1.Container
	for i, l := range limits {
		c := v1.Container{Name: fmt.Sprintf("c%d", i)}
		if l != "" {
			c.Resources.Limits = memory(l)
		}
		cs = append(cs, c)
	}
	return cs
}

func sidecars(limits ...string) []v1.Container {
	cs := containers(limits...)
	for i := range cs {
		cs[i].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	}
	return cs
}

func limit(amount string) *v1.ResourceRequirements {
	if amount == "" {
		return &v1.ResourceRequirements{}
	}
	return &v1.ResourceRequirements{Limits: memory(amount)}
}

func memory(amount string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceMemory: resource.MustParse(amount)}
}

func show[T any](format string, p *T) string {
	if p == nil {
		return "absent"
	}
	return fmt.Sprintf(format, *p)
}

// everyGroupIsMapped is false in the user namespace that an ordinary user runs the tests in.
func everyGroupIsMapped(t *testing.T) bool {
	t.Helper()
	content, err := os.ReadFile("/proc/self/gid_map")
	require.NoError(t, err)
	var inside, outside, count uint64
	_, err = fmt.Sscan(string(content), &inside, &outside, &count)
	require.NoError(t, err)
	return count > 1234
}
