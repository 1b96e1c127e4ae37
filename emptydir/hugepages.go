// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/volume"
)

// hugePageSize returns the page size in bytes of a volume whose medium is HugePages or HugePages-<size>.
func hugePageSize(medium v1.StorageMedium, pod *v1.Pod) (int64, error) {
	asked, err := askedPageSizes(pod)
	if err != nil {
		return 0, err
	}
	size, named := strings.CutPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix))
	if !named {
		switch len(asked) {
		case 0:
			return 0, volume.Errorf(volume.ErrInvalid, "emptyDir.medium is %q, but no container asks for huge pages", medium)
		case 1:
			return asked[0], nil
		}
		return 0, volume.Errorf(volume.ErrInvalid,
			`emptyDir.medium is %q, but the containers ask for pages of several sizes: %s; it has to name one, as in "HugePages-%s"`,
			medium, formatPageSizes(asked), formatPageSize(asked[0]))
	}
	wanted, err := parsePageSize(size)
	if err != nil {
		return 0, volume.Errorf(volume.ErrInvalid, "emptyDir.medium is %.64q, which names no page size: %w", medium, err)
	}
	if !slices.Contains(asked, wanted) {
		return 0, volume.Errorf(volume.ErrInvalid,
			"emptyDir.medium is %q, but no container asks for huge pages of that size (they ask for: %s)",
			medium, formatPageSizes(asked))
	}
	return wanted, nil
}

// askedPageSizes returns, in ascending order, the sizes in bytes of the huge pages that the pod or its containers ask for.
// As with the kubelet it is the name of the resource that counts, not the amount. In a pod that comes from an API server
// requests are the same as limits; in one that was read from a file they may be missing.
func askedPageSizes(pod *v1.Pod) ([]int64, error) {
	lists := []v1.ResourceList{}
	if pod.Spec.Resources != nil {
		lists = append(lists, pod.Spec.Resources.Requests, pod.Spec.Resources.Limits)
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			lists = append(lists, containers[i].Resources.Requests, containers[i].Resources.Limits)
		}
	}
	sizes := make(map[int64]struct{})
	for _, list := range lists {
		for name := range list {
			size, isHugePages := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
			if !isHugePages {
				continue
			}
			bytes, err := parsePageSize(size)
			if err != nil {
				return nil, volume.Errorf(volume.ErrInvalid, "resource %.64q names no page size: %w", name, err)
			}
			sizes[bytes] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(sizes)), nil
}

func parsePageSize(text string) (int64, error) {
	size, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, err
	}
	if size.Sign() <= 0 {
		return 0, volume.Errorf(volume.ErrInvalid, "%s is not positive", &size)
	}
	return bytesOf(size), nil
}

func formatPageSizes(sizes []int64) string {
	texts := make([]string, len(sizes))
	for i, size := range sizes {
		texts[i] = formatPageSize(size)
	}
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, ", ")
}

// formatPageSize writes a size as Kubernetes does, "2Mi".
func formatPageSize(bytes int64) string {
	return resource.NewQuantity(bytes, resource.BinarySI).String()
}

// hugePagesDir has a directory for each size of huge pages that the kernel has, "hugepages-2048kB":
// https://docs.kernel.org/admin-guide/mm/hugetlbpage.html
const hugePagesDir = "/sys/kernel/mm/hugepages"

// kernelPageSizes returns, in ascending order, the sizes in bytes of the huge pages that the kernel has.
func kernelPageSizes() []int64 {
	entries, err := os.ReadDir(hugePagesDir)
	if err != nil {
		return nil // a kernel without huge pages
	}
	var sizes []int64
	for _, entry := range entries {
		kilobytes := strings.TrimSuffix(strings.TrimPrefix(entry.Name(), "hugepages-"), "kB")
		if size, err := strconv.ParseInt(kilobytes, 10, 64); err == nil {
			sizes = append(sizes, size<<10)
		}
	}
	slices.Sort(sizes)
	return sizes
}
