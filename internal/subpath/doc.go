// SPDX-License-Identifier: Apache-2.0

// Package subpath shows a part of a volume, a volumeMount's subPath, at a path of its own, from which a container runtime
// mounts it.
//
// What is in a volume belongs to its containers, which may replace a directory by a symbolic link to the host's at any
// moment. So the part is resolved beneath a descriptor of the volume's root and is mounted by descriptor: what was
// resolved is what is shown. A runtime that were given VOLUME/SUBPATH would look the path up again.
//
// It needs open_tree(2) and openat2(2), which Linux has since 5.2 and 5.6. On other systems every call gives an error that
// matches [errors.ErrUnsupported].
package subpath
