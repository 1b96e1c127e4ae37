// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
)

// mounter makes one volume. It holds nothing that changes.
type mounter struct {
	plugin   *Plugin
	path     string
	wanted   request
	readOnly bool
}

var _ volume.MetricsProvider = (*mounter)(nil)

func (m *mounter) Path() string { return m.path }

func (m *mounter) Attributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.readOnly, Managed: true, SELinuxRelabel: true}
}

func (m *mounter) SetUp(ctx context.Context, options volume.SetUpOptions) error {
	owner, err := m.wanted.ownership(options.FSGroup)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.wanted.medium == v1.StorageMediumDefault {
		return m.setUpDirectory(ctx, owner)
	}
	return m.setUpFileSystem(ctx, owner)
}

func (m *mounter) Presence(ctx context.Context) (volume.Presence, error) {
	if err := ctx.Err(); err != nil {
		return volume.Unknown, err
	}
	there, limited, err := m.lookForLimit()
	if err != nil {
		return volume.Unknown, err
	}
	switch {
	case there == absent:
		return volume.Absent, nil
	case limited:
		return m.limitedPresence(ctx, there)
	case there == unmounted:
		if m.isMount() {
			return volume.Absent, nil
		}
		return volume.Present, nil
	}
	if err := m.verify(ctx, there); err != nil {
		return volume.Unknown, err
	}
	return volume.Present, nil
}

// isMount reports whether the volume is a mount, rather than a directory only.
func (m *mounter) isMount() bool {
	return m.wanted.medium != v1.StorageMediumDefault || len(m.plugin.flags) > 0
}

// verify returns an error that says what is mounted at the path, where there is a mount, unless it is what SetUp mounts.
// It matches [volume.ErrInUse] if that is known.
func (m *mounter) verify(ctx context.Context, there state) error {
	shown, err := m.plugin.identify(ctx, m.path, there, m.kind())
	if err != nil {
		return err
	}
	if shown.kind != m.kind() && (shown.kind != image || m.kind() != selfBind) {
		return volume.Errorf(volume.ErrInUse,
			"%s is mounted on %s, which should be %s: unmount it", shown.what, m.path, m.describe())
	}
	if shown.pageSize != 0 && shown.pageSize != m.wanted.pageSize {
		return volume.Errorf(volume.ErrInUse, "the hugetlbfs on %s has pages of %s instead of %s: tear the volume down first",
			m.path, formatPageSize(shown.pageSize), formatPageSize(m.wanted.pageSize))
	}
	for _, flag := range m.plugin.flags {
		if shown.flags != nil && !slices.Contains(shown.flags, flag) {
			return volume.Errorf(volume.ErrInUse, "%s is mounted without %s: tear the volume down first", m.path, flag)
		}
	}
	return nil
}

// kind is what may be mounted on the volume's path.
func (m *mounter) kind() mountKind {
	switch m.wanted.medium {
	case v1.StorageMediumMemory:
		return tmpfs
	case v1.StorageMediumHugePages:
		return hugetlbfs
	}
	return selfBind
}

// describe says what should be at the volume's path.
func (m *mounter) describe() string {
	if !m.isMount() {
		return "a directory"
	}
	return "a " + m.kind().String()
}
