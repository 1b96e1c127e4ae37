// SPDX-License-Identifier: Apache-2.0

// Package descent walks up and down a directory tree that somebody else may be changing at the same time.
//
// A path is never looked up twice. Each step down opens one name in a directory that is already open, and refuses
// symbolic links and mount points; each step up goes to a directory that is still open, or that is opened again and
// recognised. So a walk stays in the tree, and in the mount, that it was begun in, whatever is renamed, replaced or
// mounted meanwhile. It holds a fixed number of descriptors however deep the tree is, and no path is ever built for a
// system call, so the depth is not limited by PATH_MAX either.
//
// It needs openat2(2), which Linux has since 5.6. On other systems the package is empty.
package descent
