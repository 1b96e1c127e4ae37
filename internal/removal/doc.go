// SPDX-License-Identifier: Apache-2.0

// Package removal removes directory trees that somebody else may still be changing, without ever leaving them.
//
// A volume that is taken down was writable for a container, which may have left anything in it, and may have a process
// that goes on replacing directories by symbolic links to the host's. And somebody may have mounted a file system in
// it, whose content is not the volume's. So on Linux nothing beneath a volume is looked up by path, no symbolic link is
// followed, and nothing that is mounted is entered or removed: it is left whole and reported in a [MountedError].
//
// Linux 5.6 or later is needed, for openat2(2); on an older kernel, and under a seccomp filter that hides the call, a
// directory that is not empty is not removed, and the error says that the function is not implemented.
//
// On other systems the package is a thin layer over [os.RemoveAll], which follows no symbolic links either, but does not
// look at mounts.
package removal
