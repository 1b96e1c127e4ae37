// SPDX-License-Identifier: Apache-2.0

// Package hostpath serves hostPath volumes: a file or directory of the host as it is, for pods and in PersistentVolumes.
//
// # Serving
//
// As in the kubelet, nothing is mounted: the volume is at the path that its source names, and SetUp only checks the
// source's type, or creates what DirectoryOrCreate and FileOrCreate ask for. With the type "" (or none) SetUp makes no
// system call on the path, so it answers at once even if the path is on a server that is down. The other checks end with
// their context; the error then matches [volume.ErrUncertain].
//
//	type               what may be there     if nothing is there
//	""                 anything              is not looked at
//	Directory          a directory           error
//	DirectoryOrCreate  a directory           made, with its parents, mode 0755
//	File               a regular file        error
//	FileOrCreate       a regular file        an empty one is made, mode 0644; its parent must exist
//	Socket             a Unix socket         error
//	CharDevice         a character device    error
//	BlockDevice        a block device        error
//
// Symbolic links are followed, as the container runtime does when it mounts the path, but nothing is created through a link
// that leads nowhere. What is created belongs to the user that the program runs as, and has the mode above whatever the
// umask. The owner, group and mode of what exists are never changed: a pod's fsGroup has no effect, which SetUp says
// through [volume.SetUpOptions].Warn.
//
// Errors tell apart: nothing is there (matches fs.ErrNotExist and [volume.ErrNotFound]), something else is there
// ([TypeError]), a parent is no directory (matches syscall.ENOTDIR and [volume.ErrInvalid]), and no permission (matches
// fs.ErrPermission).
//
// # The allow-list
//
// [Options].AllowedPaths limits where hostPath volumes may lead, once every symbolic link is followed. The Mounter's Path is
// then the path that was checked: absolute and free of symbolic links at the time of SetUp. What is created is created
// without following a link that has appeared since (on Linux). With the type "" the path is resolved all the same, which
// takes system calls, but need not exist.
//
// What the list cannot do is to hold the host still until the container runtime mounts that path: whoever may write to a
// directory on the way, such as a container that has mounted it, may put a symbolic link in its place in between, and the
// runtime follows it. So an allow-list binds pods only where none of them can write to a directory that another hostPath
// goes through; allow such places with ReadOnly. Calling Presence immediately before the path is used makes the gap small,
// not nothing.
//
// # Provisioning
//
// [Options].BasePaths lets the plugin make directories for claims, and delete them. See [Plugin.NewProvisioner] for the
// parameters of a StorageClass, and [Plugin.NewDeleter] for what is never deleted.
package hostpath
