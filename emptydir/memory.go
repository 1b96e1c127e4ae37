// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// podMemoryLimit returns the limit in bytes that the kubelet writes to the memory cgroup of the pod, 0 if it writes none.
func podMemoryLimit(pod *v1.Pod) int64 {
	if !hasMemoryLimit(pod) {
		return 0
	}
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
	return bytesOf(limits[v1.ResourceMemory])
}

// hasMemoryLimit reports whether the memory of the pod is bounded: by a limit of its own, or because that of every
// container is, init containers among them.
func hasMemoryLimit(pod *v1.Pod) bool {
	if pod.Spec.Resources != nil && !pod.Spec.Resources.Limits.Memory().IsZero() {
		return true
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if containers[i].Resources.Limits.Memory().IsZero() {
				return false
			}
		}
	}
	return true
}
