// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// mounter binds a volume into one pod: a directory, or what MountDevice has mounted.
type mounter struct {
	plugin      *Plugin
	source      source
	path        string // in the pod's tree
	deviceMount string
	readOnly    bool
}

var _ volume.MetricsProvider = (*mounter)(nil)

func (m *mounter) Path() string { return m.path }

// Attributes has FSGroupWalk: there may be any number of files from before the pod.
func (m *mounter) Attributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.readOnly, FSGroupWalk: !m.readOnly, SELinuxRelabel: !m.readOnly}
}

// target is the directory that is bound.
func (m *mounter) target(ctx context.Context) (string, place, error) {
	found, err := m.source.find(ctx)
	if err != nil {
		return "", found, err
	}
	if found.kind == directory {
		return found.path, found, m.source.checkBindable()
	}
	return m.deviceMount, found, nil
}

func (m *mounter) SetUp(ctx context.Context, options volume.SetUpOptions) error {
	target, found, err := m.target(ctx)
	if err != nil {
		return err
	}
	mounted, err := m.plugin.isMountPoint(ctx, m.path)
	if err != nil {
		return err
	}
	if mounted {
		is, err := m.shows(ctx, m.path, found)
		switch {
		case err != nil:
			return err
		case !is:
			return volume.Errorf(volume.ErrInUse, "something else than the volume is mounted at %s: tear the volume down first", m.path)
		}
		return m.ensureReadOnly(ctx)
	}
	if found.kind != directory {
		is, err := m.plugin.showsPlace(ctx, target, found)
		if err != nil {
			return err
		}
		if !is {
			return volume.Errorf(volume.ErrNotFound, "%s is not mounted at %s: that comes first", found.path, target)
		}
	}
	err = volumedir.WithParents(m.path, func() error { return os.Mkdir(m.path, 0o750) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return volumedir.Exhausted(err)
	}
	return m.plugin.mount(ctx, target, m.path, "", m.bindOptions(found.kind))
}

// bindOptions are those of the bind mount. What the file system was mounted with, it has from there.
func (m *mounter) bindOptions(k kind) []string {
	options := []string{"bind"}
	if k == directory {
		options = append(options, m.source.mountOptions...)
	}
	if m.readOnly && !slices.Contains(options, "ro") {
		options = append(options, "ro")
	}
	return options
}

// shows reports whether what is mounted at path is the volume.
func (m *mounter) shows(ctx context.Context, path string, found place) (bool, error) {
	if found.kind != directory {
		return m.plugin.showsPlace(ctx, path, found)
	}
	return abandon.Run(ctx, func() (bool, error) {
		info, err := os.Lstat(path)
		return err == nil && os.SameFile(info, found.info), err
	})
}

// ensureReadOnly makes a mount read-only that a crash left before it was.
func (m *mounter) ensureReadOnly(ctx context.Context) error {
	if !m.readOnly {
		return nil
	}
	is, err := isReadOnly(ctx, m.path)
	if err != nil || is {
		return err
	}
	return m.plugin.mount(ctx, "", m.path, "", []string{"remount", "bind", "ro"})
}

func (m *mounter) Presence(ctx context.Context) (volume.Presence, error) {
	mounted, err := m.plugin.isMountPoint(ctx, m.path)
	switch {
	case err != nil:
		return volume.Unknown, err
	case !mounted:
		return volume.Absent, nil
	}
	found, err := m.source.find(ctx)
	if errors.Is(err, volume.ErrNotFound) {
		return volume.Unknown, err // what is mounted may be what was there
	}
	if err != nil {
		return volume.Unknown, err
	}
	is, err := m.shows(ctx, m.path, found)
	if err == nil && is && m.readOnly {
		is, err = isReadOnly(ctx, m.path)
	}
	switch {
	case err != nil:
		return volume.Unknown, err
	case is:
		return volume.Present, nil
	}
	return volume.Absent, nil
}

// Metrics tells how full the file system is. Of a directory the files are counted.
func (m *mounter) Metrics(ctx context.Context) (volume.Metrics, error) {
	found, err := m.source.find(ctx)
	if err != nil {
		return volume.Metrics{}, err
	}
	return volumedir.Metrics(ctx, m.path, m.plugin.host.Clock.Now(), found.kind != directory)
}

// unmounter takes a volume away from one pod.
type unmounter struct {
	plugin *Plugin
	path   string
}

func (u *unmounter) Path() string { return u.path }

// TearDown unmounts, and removes the mount point. What is bound is the pod's alone, whatever it shows.
func (u *unmounter) TearDown(ctx context.Context, options volume.TearDownOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return volumedir.TakeAway(ctx, u.plugin.host.Mounter, u.plugin.unmounter, u.path, options.Warnf)
}
