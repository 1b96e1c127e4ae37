// SPDX-License-Identifier: Apache-2.0

// Package directory fills an [objects.Store] from a directory of manifests and keeps it as the directory is:
//
//	store := objects.NewStore()
//	dir := directory.New("/etc/edge/objects", store, directory.Options{Report: func(err error) { log.Print(err) }})
//	if err := dir.Load(ctx); err != nil {
//		return err
//	}
//	go dir.Run(ctx)
//
// The files whose names end in .yaml, .yml or .json are read, those of folders in the directory and those whose names begin with
// a dot are not. A file holds any number of objects of the kinds that the store holds, lists of them included. Each is read
// strictly: a field that the kind does not have, or one that stands there twice, is a fault. Objects without a namespace are in
// the one that [Options] name.
//
// A file counts as a whole. One with a fault, or that is empty or half written, stands for what it stood for when it had none; and
// while there is a file of which that was never known, nothing is removed, because what is missing may be in it. An object in two
// files is the one of the file whose name comes first. A directory that cannot be read, or is not there, changes nothing.
package directory
