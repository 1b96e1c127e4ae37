// SPDX-License-Identifier: Apache-2.0

package hardlimit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
	"k8s.io/utils/exec"

	"github.com/volumekit/volumekit/internal/mounter"
)

// Apply gives dir, which is there, the limit, and returns what enforces it. What has it already is left alone. Where the limit is
// another one than before, a project quota is changed; an image is grown when it is not mounted (see [Grow]), and never shrunk.
//
// A directory that has files can be given a project quota, not an image: the error matches [ErrInUse] then. It matches
// [errors.ErrUnsupported] if the kind that Only asks for is not to be had, and program.ErrNotFound if mkfs.ext4 is not installed.
func Apply(ctx context.Context, dir string, o Options) (Kind, error) {
	if o.Bytes == 0 {
		return None, fmt.Errorf("limit %s: the limit is 0", dir)
	}
	o = o.complete(dir)
	found, err := find(ctx, dir, o.Image)
	if err != nil {
		return None, err
	}
	if found.Kind == None {
		switch hidden, err := isHidden(ctx, dir); {
		case err != nil:
			return None, err
		case hidden:
			return None, somethingElse(dir)
		}
		if found.Kind, err = o.choose(dir); err != nil {
			return None, err
		}
	}
	switch found.Kind {
	case Project:
		err = applyProject(dir, o.Bytes)
	case Image:
		err = o.applyImage(ctx, dir, found)
	}
	if err != nil {
		return None, fmt.Errorf("limit %s: %w", dir, err)
	}
	return found.Kind, nil
}

func (o Options) complete(dir string) Options {
	if o.Image == "" {
		o.Image = ImagePath(dir)
	}
	if o.Mounter == nil {
		o.Mounter = mounter.New()
	}
	if o.Exec == nil {
		o.Exec = exec.New()
	}
	return o
}

// choose returns the kind of a directory that has no limit.
func (o Options) choose(dir string) (Kind, error) {
	err := supported(dir)
	switch {
	case o.Only == Image:
		return Image, nil
	case err == nil:
		return Project, nil
	case o.Only == Project || !errors.Is(err, errors.ErrUnsupported):
		return None, fmt.Errorf("limit %s: %w", dir, err)
	}
	return Image, nil
}

// Find tells which limit dir has. The image's path is that of [Options]. A directory that is absent may still have an image.
func Find(ctx context.Context, dir, image string) (Limit, error) {
	if image == "" {
		image = ImagePath(dir)
	}
	return find(ctx, dir, image)
}

func find(ctx context.Context, dir, image string) (Limit, error) {
	for _, i := range []struct {
		path     string
		complete bool
	}{{image, true}, {newPath(image), false}} {
		switch exists, err := isFile(i.path); {
		case err != nil:
			return Limit{}, err
		case exists:
			_, mounted, err := mountedImage(ctx, dir, i.path)
			return Limit{Kind: Image, Complete: i.complete, Mounted: mounted}, err
		}
	}
	hidden, err := isHidden(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return Limit{}, nil
	}
	if hidden || err != nil {
		return Limit{}, err
	}
	_, own, complete, err := projectOf(dir)
	switch {
	case err == nil && !own, errors.Is(err, fs.ErrNotExist), errors.Is(err, errors.ErrUnsupported),
		errors.Is(err, fs.ErrPermission): // who may not even open it would have had to limit it
		return Limit{}, nil
	}
	return Limit{Kind: Project, Complete: complete}, err
}

// isFile tells whether there is a regular file. Anything else there is an error.
func isFile(path string) (bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file but %s: %w", path, info.Mode(), ErrInUse)
	}
	return err == nil, err
}
