// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/volume"
)

const mebi = 1 << 20

// limiting returns requirements with a memory limit.
func limiting(memory string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}}
}

// withInit adds an init container, with policy Always a sidecar.
func withInit(pod *v1.Pod, policy *v1.ContainerRestartPolicy, resources v1.ResourceRequirements) *v1.Pod {
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{Name: "init", RestartPolicy: policy, Resources: resources})
	return pod
}

// withResources sets the resources of the pod itself.
func withResources(pod *v1.Pod, resources v1.ResourceRequirements) *v1.Pod {
	pod.Spec.Resources = &resources
	return pod
}

func TestTheMemoryLimitOfAPodIsThatOfItsCgroup(t *testing.T) {
	overhead := newPod(limiting("64Mi"))
	overhead.Spec.Overhead = v1.ResourceList{v1.ResourceMemory: resource.MustParse("8Mi")}
	requests := newPod(limiting("64Mi"), v1.ResourceRequirements{Requests: limiting("32Mi").Limits})
	for name, test := range map[string]struct {
		pod  *v1.Pod
		want int64
	}{
		"no containers":                              {newPod(), 0},
		"no limits":                                  {newPod(v1.ResourceRequirements{}), 0},
		"the containers' limits are added":           {newPod(limiting("64Mi"), limiting("32Mi")), 96 * mebi},
		"one container without a limit":              {newPod(limiting("64Mi"), v1.ResourceRequirements{}), 0},
		"one container with a limit of 0":            {newPod(limiting("64Mi"), limiting("0")), 0},
		"one container with a request only":          {requests, 0},
		"an init container that needs more":          {withInit(newPod(limiting("64Mi")), nil, limiting("80Mi")), 80 * mebi},
		"an init container that needs less":          {withInit(newPod(limiting("64Mi")), nil, limiting("8Mi")), 64 * mebi},
		"an init container without a limit":          {withInit(newPod(limiting("64Mi")), nil, v1.ResourceRequirements{}), 0},
		"a sidecar is added":                         {withInit(newPod(limiting("64Mi")), ptr.To(v1.ContainerRestartPolicyAlways), limiting("16Mi")), 80 * mebi},
		"a limit of the pod replaces the sum":        {withResources(newPod(limiting("64Mi")), limiting("200Mi")), 200 * mebi},
		"a limit of the pod needs none of its parts": {withResources(newPod(v1.ResourceRequirements{}), limiting("200Mi")), 200 * mebi},
		"a CPU limit of the pod says nothing": {withResources(newPod(v1.ResourceRequirements{}), v1.ResourceRequirements{
			Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")},
		}), 0},
		"the overhead is added":    {overhead, 72 * mebi},
		"more than a number holds": {newPod(limiting("10Ei")), math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, podMemoryLimit(test.pod))
		})
	}
}

func TestTheSizeOfAVolume(t *testing.T) {
	limited, unlimited := newPod(limiting("64Mi"), limiting("32Mi")), newPod(v1.ResourceRequirements{})
	asks := newPod(asking("hugepages-2Mi"))
	asks.Spec.Containers[0].Resources.Limits[v1.ResourceMemory] = resource.MustParse("1Mi")
	for name, test := range map[string]struct {
		medium v1.StorageMedium
		limit  string
		pod    *v1.Pod
		want   int64
	}{
		"memory, no sizeLimit":                         {"Memory", "", limited, 96 * mebi},
		"memory, a smaller sizeLimit":                  {"Memory", "10Mi", limited, 10 * mebi},
		"memory, a larger sizeLimit":                   {"Memory", "1Gi", limited, 96 * mebi},
		"memory, a sizeLimit of 0":                     {"Memory", "0", limited, 96 * mebi},
		"memory, a sizeLimit of 0 and no limits":       {"Memory", "0", unlimited, 0},
		"memory, nothing":                              {"Memory", "", unlimited, 0},
		"memory, a sizeLimit only":                     {"Memory", "10Mi", unlimited, 10 * mebi},
		"memory, a part of a byte":                     {"Memory", "1m", unlimited, 1},
		"memory, more than a number holds":             {"Memory", "1000Ei", unlimited, math.MaxInt64},
		"disk, a sizeLimit":                            {"", "10Mi", limited, 10 * mebi},
		"disk, memory limits":                          {"", "", limited, 0},
		"huge pages, no sizeLimit":                     {"HugePages", "", asks, 0},
		"huge pages, a sizeLimit is rounded up":        {"HugePages", "3Mi", asks, 4 * mebi},
		"huge pages, a sizeLimit of one byte":          {"HugePages-2Mi", "1", asks, 2 * mebi},
		"huge pages, a sizeLimit that needs no change": {"HugePages", "4Mi", asks, 4 * mebi},
		"huge pages, more than a number holds":         {"HugePages", "1000Ei", asks, math.MaxInt64 / (2 * mebi) * (2 * mebi)},
	} {
		t.Run(name, func(t *testing.T) {
			requireMedium(t, test.medium)
			source := &v1.EmptyDirVolumeSource{Medium: test.medium}
			if test.limit != "" {
				source.SizeLimit = ptr.To(resource.MustParse(test.limit))
			}
			wanted, err := newRequest(source, test.pod)
			require.NoError(t, err)
			assert.Equal(t, test.want, wanted.size)
		})
	}
}

// requireMedium skips the test where there is no such medium.
func requireMedium(t *testing.T, medium v1.StorageMedium) {
	t.Helper()
	if medium != "" && !haveMounts {
		t.Skip("there is only one medium on this system")
	}
}

func TestThePageSizeIsWhatThePodAsksFor(t *testing.T) {
	both := newPod(asking("hugepages-2Mi"), asking("hugepages-1Gi"))
	for name, test := range map[string]struct {
		medium v1.StorageMedium
		pod    *v1.Pod
		want   int64
	}{
		"one size":                           {"HugePages", newPod(asking("hugepages-2Mi")), 2 * mebi},
		"one size, named":                    {"HugePages-2Mi", newPod(asking("hugepages-2Mi")), 2 * mebi},
		"one size, named in another way":     {"HugePages-2048Ki", newPod(asking("hugepages-2Mi")), 2 * mebi},
		"one size twice":                     {"HugePages", newPod(asking("hugepages-2Mi"), asking("hugepages-2048Ki")), 2 * mebi},
		"two sizes, one of them named":       {"HugePages-1Gi", both, 1024 * mebi},
		"an init container asks":             {"HugePages", withInit(newPod(v1.ResourceRequirements{}), nil, asking("hugepages-1Gi")), 1024 * mebi},
		"the pod itself asks":                {"HugePages", withResources(newPod(v1.ResourceRequirements{}), asking("hugepages-1Gi")), 1024 * mebi},
		"a limit is enough":                  {"HugePages", newPod(v1.ResourceRequirements{Limits: asking("hugepages-2Mi").Limits}), 2 * mebi},
		"other resources are not in the way": {"HugePages", newPod(asking("hugepages-2Mi", "memory", "example.com/hugepages-4Mi")), 2 * mebi},
		"the name of the resource is what counts": {"HugePages", newPod(v1.ResourceRequirements{
			Requests: v1.ResourceList{"hugepages-2Mi": resource.MustParse("0")},
		}), 2 * mebi},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := hugePageSize(test.medium, test.pod)
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestAPageSizeThatIsOpenOrThatNobodyAsksForIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		medium   v1.StorageMedium
		pod      *v1.Pod
		mentions []string
	}{
		"nobody asks for any":                   {"HugePages", newPod(limiting("64Mi")), []string{"no container"}},
		"nobody asks for the named one":         {"HugePages-1Gi", newPod(asking("hugepages-2Mi")), []string{"HugePages-1Gi", "2Mi"}},
		"two containers ask for different ones": {"HugePages", newPod(asking("hugepages-2Mi"), asking("hugepages-1Gi")), []string{"2Mi, 1Gi", "HugePages-2Mi"}},
		"an init container asks for another":    {"HugePages", withInit(newPod(asking("hugepages-2Mi")), nil, asking("hugepages-1Gi")), []string{"2Mi, 1Gi"}},
		"no size after the dash":                {"HugePages-", newPod(asking("hugepages-2Mi")), []string{"HugePages-"}},
		"no size":                               {"HugePages-large", newPod(asking("hugepages-2Mi")), []string{"HugePages-large"}},
		"a size of 0":                           {"HugePages-0", newPod(asking("hugepages-2Mi")), []string{"HugePages-0", "not positive"}},
		"a resource without a size":             {"HugePages", newPod(asking("hugepages-large")), []string{"hugepages-large"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newRequest(&v1.EmptyDirVolumeSource{Medium: test.medium}, test.pod)
			require.ErrorIs(t, err, volume.ErrInvalid)
			for _, text := range test.mentions {
				assert.ErrorContains(t, err, text)
			}
		})
	}
}

func TestOtherMediaAndValuesAreRefusedByName(t *testing.T) {
	for name, test := range map[string]struct {
		source   v1.EmptyDirVolumeSource
		mentions []string
	}{
		"medium":                      {v1.EmptyDirVolumeSource{Medium: "Tape"}, []string{"emptyDir.medium", `"Tape"`, `""`, `"Memory"`, `"HugePages"`, `"HugePages-<size>"`}},
		"medium in lower case":        {v1.EmptyDirVolumeSource{Medium: "memory"}, []string{"emptyDir.medium", `"memory"`}},
		"medium that begins well":     {v1.EmptyDirVolumeSource{Medium: "HugePages2Mi"}, []string{"emptyDir.medium", `"HugePages2Mi"`}},
		"mode with the setgid bit":    {v1.EmptyDirVolumeSource{Mode: ptr.To[int32](0o2775)}, []string{"emptyDir.mode", "02775"}},
		"mode below zero":             {v1.EmptyDirVolumeSource{Mode: ptr.To[int32](-1)}, []string{"emptyDir.mode", "-01"}},
		"sizeLimit below zero":        {v1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("-5Mi"))}, []string{"emptyDir.sizeLimit", "-5Mi"}},
		"sizeLimit below zero, a bit": {v1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("-1m"))}, []string{"emptyDir.sizeLimit", "-1m"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newRequest(&test.source, newPod())
			require.ErrorIs(t, err, volume.ErrInvalid)
			for _, text := range test.mentions {
				assert.ErrorContains(t, err, text)
			}
		})
	}
}

func TestAnFSGroupThatIsNoGroupIsRefused(t *testing.T) {
	for _, group := range []int64{-1, math.MinInt64, math.MaxUint32, math.MaxInt32 + 1} {
		_, err := request{}.ownership(&group)
		require.ErrorIs(t, err, volume.ErrInvalid)
		assert.ErrorContains(t, err, "fsGroup")
	}
}
