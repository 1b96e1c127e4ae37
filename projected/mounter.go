// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"errors"
	"io/fs"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/atomicwriter"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// mounter makes one volume, and keeps it up to date.
type mounter struct {
	plugin  *Plugin
	path    string
	pod     *v1.Pod
	name    string
	content *content

	refreshTime time.Time
}

var (
	_ volume.Refresher       = (*mounter)(nil)
	_ volume.MetricsProvider = (*mounter)(nil)
)

func (m *mounter) Path() string { return m.path }

func (m *mounter) Attributes() volume.Attributes {
	return volume.Attributes{ReadOnly: true, Managed: true, SELinuxRelabel: true}
}

func (m *mounter) References() []volume.Reference { return m.content.references() }

func (m *mounter) RefreshTime() time.Time { return m.refreshTime }

func (m *mounter) SetUp(ctx context.Context, options volume.SetUpOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	known := m.plugin.memory.of(volumeKey{m.pod.UID, m.name})
	c := &collection{host: m.plugin.host, pod: m.pod, dir: m.path, options: options, credentials: known.credentials, files: make(atomicwriter.Payload)}
	if err := m.content.collect(ctx, c); err != nil {
		return err
	}
	if err := c.files.Check(); err != nil {
		return volume.Errorf(volume.ErrInvalid, "%w", err)
	}
	directories := directoriesFor(options.FSGroup)
	m.refreshTime = c.refreshTime
	if known.directory != "" && known.payload.Equal(c.files) && sameDirectories(known.directories, directories) && m.shows(known.directory) {
		return nil
	}
	if err := m.plugin.makeDirectory(ctx, m.path, options.FSGroup); err != nil {
		return err
	}
	return m.write(ctx, known, c.files, directories)
}

// shows reports whether the directory is the one with the volume's files.
func (m *mounter) shows(directory string) bool {
	current, err := atomicwriter.Current(m.path)
	return err == nil && current == directory
}

func (m *mounter) write(ctx context.Context, known *remembered, files atomicwriter.Payload, directories atomicwriter.Directories) error {
	// What was there is known, but after a restart of the program.
	var there atomicwriter.Payload
	if known.directory != "" && sameDirectories(known.directories, directories) && m.shows(known.directory) {
		there = known.payload
	}
	known.directory = ""
	if there != nil || !atomicwriter.Holds(m.path, files, directories) {
		if err := atomicwriter.Write(ctx, m.path, files, there, directories); err != nil {
			return volumedir.Exhausted(volumedir.InUse(err))
		}
	} else if err := atomicwriter.Tidy(ctx, m.path, files); err != nil {
		return err
	}
	if err := m.makeMountPoints(); err != nil {
		return err
	}
	current, err := atomicwriter.Current(m.path)
	if err != nil {
		return err
	}
	known.payload, known.directories, known.directory = files, directories, current
	return nil
}

func (m *mounter) Presence(ctx context.Context) (volume.Presence, error) {
	if err := ctx.Err(); err != nil {
		return volume.Unknown, err
	}
	there, err := m.plugin.look(ctx, m.path)
	if err != nil {
		return volume.Unknown, err
	}
	if !there {
		return volume.Absent, nil
	}
	_, err = abandon.Run(ctx, func() (string, error) { return atomicwriter.Current(m.path) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return volume.Absent, nil
	case err != nil:
		return volume.Unknown, err
	}
	return volume.Present, nil
}

// directoriesFor returns who may use the directories of files: with a group, which may read, what the kubelet makes of 0755.
func directoriesFor(group *int64) atomicwriter.Directories {
	if group == nil {
		return atomicwriter.Directories{Mode: 0o755}
	}
	return atomicwriter.Directories{Mode: 0o755 | fs.ModeSetgid, Group: group}
}

func sameDirectories(a, b atomicwriter.Directories) bool {
	return a.Mode == b.Mode && (a.Group == b.Group || a.Group != nil && b.Group != nil && *a.Group == *b.Group)
}
