// SPDX-License-Identifier: Apache-2.0

// Package emptydir serves the emptyDir volumes of pods: directories that are empty when the pod starts and gone when it
// is. The plugin is the kubelet's "kubernetes.io/empty-dir", with its directories.
//
// What the fields of the source do:
//
//   - medium "": a directory on the file system that holds the host's root. It works without root, on every system.
//   - medium Memory: a tmpfs. Its size is the smaller of sizeLimit and the pod's memory limit, as the kubelet writes it to
//     the pod's cgroup: there is one only if every container declares one, or the pod itself. With neither, and with a
//     sizeLimit of 0, the tmpfs has the size that the kernel gives it, half of the memory; the kubelet, which knows what
//     pods may use on its node, takes that. The pages are not swapped out where the kernel can do that (Linux 6.4, and
//     not in a user namespace).
//   - medium HugePages, HugePages-<size>: a hugetlbfs. The page size is the one that the pod's containers, init containers
//     among them, or the pod itself ask for; if they ask for several, the medium has to name one of them.
//   - sizeLimit: the kernel enforces it on Memory and HugePages, rounded up to pages (the kubelet ignores it for
//     HugePages). For medium "" it is reported by the metrics and, unless [Options].HardLimits is set, enforced by nobody: where
//     Kubernetes evicts a pod whose volume has outgrown it, the embedder has to.
//   - mode: the permissions of the volume's directory, whatever the umask. Without it they are 0777, on Memory 01777.
//     With an fsGroup, that is the group, and 02770 is added to the permissions, so that the group can do everything and
//     files inherit it.
//
// Memory and HugePages, and [Options], exist on Linux only and need CAP_SYS_ADMIN.
//
// One process works on the volumes below a root at a time.
package emptydir
