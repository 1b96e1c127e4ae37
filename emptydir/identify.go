// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"
	"fmt"

	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/hardlimit"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// mountKind is a kind of mount that the plugin makes.
type mountKind int

const (
	foreign mountKind = iota
	tmpfs
	hugetlbfs
	selfBind
	image
)

// String returns the name of the file system.
func (k mountKind) String() string {
	switch k {
	case tmpfs:
		return "tmpfs"
	case hugetlbfs:
		return "hugetlbfs"
	case selfBind:
		return "bind mount of the directory onto itself"
	case image:
		return "file system in the volume's image"
	}
	return "foreign mount"
}

// mounted is what is mounted at a path.
type mounted struct {
	kind mountKind

	// what describes it.
	what string

	// pageSize is that of a hugetlbfs in bytes, 0 if it is not known.
	pageSize int64

	// flags are those of [Options] that it has, nil if they are not known.
	flags []string
}

// identify tells what is mounted at path, where look or stateOf has found a mount. On a root that is itself on a tmpfs a
// directory bound onto itself is both of what it can be; it is what is wanted then. The mount table is read only if it is
// nothing that the plugin makes.
func (p *Plugin) identify(ctx context.Context, path string, there state, wanted mountKind) (mounted, error) {
	if there == listed {
		return p.identifyByTable(path)
	}
	shown, err := statMount(ctx, path)
	if err != nil {
		return mounted{}, p.noAnswer(ctx, path, err)
	}
	if shown.kind == foreign || wanted == selfBind {
		// What is mounted may be on a server that does not answer.
		onto, err := abandon.Run(ctx, func() (bool, error) { return isSelfBind(path), nil })
		if err != nil {
			return mounted{}, p.noAnswer(ctx, path, err)
		}
		if onto {
			shown.kind = selfBind
		}
	}
	if shown.kind == foreign {
		switch is, err := hardlimit.Mounted(ctx, path, imagePath(path)); {
		case err != nil:
			return mounted{}, p.noAnswer(ctx, path, err)
		case is:
			shown.kind = image
		}
	}
	if shown.kind == foreign {
		return p.identifyByTable(path)
	}
	shown.what = "a " + shown.kind.String()
	return shown, nil
}

// noAnswer says what is mounted at path that does not tell what it is. What the plugin mounts always does, so it is
// somebody else's, unless it had no time.
func (p *Plugin) noAnswer(ctx context.Context, path string, err error) error {
	what := "something"
	if found, err := p.identifyByTable(path); err == nil {
		what = found.what
	}
	err = fmt.Errorf("%s is mounted on %s, and does not answer: %w", what, path, err)
	if ctx.Err() != nil {
		return err
	}
	return volume.Errorf(volume.ErrInUse, "%w", err)
}

// identifyByTable tells what the mounter's table says is mounted at path.
func (p *Plugin) identifyByTable(path string) (mounted, error) {
	table, err := p.host.Mounter.List()
	if err != nil {
		return mounted{}, fmt.Errorf("read the mount table to find out what is mounted on %s: %w", path, err)
	}
	path = volumedir.Resolve(path)
	var top *mount.MountPoint
	for i := range table {
		if table[i].Path == path {
			top = &table[i]
		}
	}
	if top == nil {
		return mounted{what: "something that is not in the mount table"}, nil
	}
	found := mounted{what: fmt.Sprintf("%s (%s)", top.Device, top.Type)}
	switch {
	case top.Type == tmpfs.String():
		found.kind = tmpfs
	case top.Type == hugetlbfs.String():
		found.kind = hugetlbfs
	case top.Device == path:
		found.kind = selfBind
	}
	return found, nil
}
