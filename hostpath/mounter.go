// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
)

// mounter is the Mounter of one hostPath.
type mounter struct {
	stuck    *stuck
	check    check
	path     string // the source's, until an allow-list has told where it leads
	readOnly bool
	asked    bool // for read-only, by the spec
}

func newMounter(p *Plugin, source *v1.HostPathVolumeSource, readOnly bool) *mounter {
	return &mounter{
		stuck: &p.stuck,
		check: check{path: source.Path, kind: kindOf(source), allowed: p.allowed},
		path:  source.Path,
		asked: readOnly,
		// Which entry of the allow-list applies is not known before the path is resolved.
		readOnly: readOnly || p.allowed.anyReadOnly(),
	}
}

// Path returns the path as the source gives it. If there is an allow-list, SetUp and Presence replace it by the path that
// they have checked, in which symbolic links are resolved.
func (m *mounter) Path() string { return m.path }

// Attributes returns ReadOnly if the spec asks for it or an allow-list does: in the latter case it is true until SetUp or
// Presence has found out which entry of the list applies. The volume's files belong to the host, so they are neither
// managed nor relabelled.
func (m *mounter) Attributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.readOnly}
}

// SetUp checks the path, or creates what is to be there, see the package documentation.
func (m *mounter) SetUp(ctx context.Context, options volume.SetUpOptions) error {
	if m.check.needed() {
		found, err := m.ask(ctx, true)
		if err != nil {
			return err
		}
		m.use(found)
	}
	if options.FSGroup != nil {
		options.Warnf("fsGroup %d has no effect on the hostPath %q: what is on the host keeps its owner, group and mode, and what is created for the volume belongs to the user that creates it", *options.FSGroup, m.check.path)
	}
	return nil
}

// Presence checks the path without creating anything. With the type "" and no allow-list the answer is Present, without a
// system call.
func (m *mounter) Presence(ctx context.Context) (volume.Presence, error) {
	if !m.check.needed() {
		return volume.Present, nil
	}
	found, err := m.ask(ctx, false)
	switch {
	case err == nil:
		m.use(found)
		return volume.Present, nil
	case errors.Is(err, volume.ErrUncertain):
		return volume.Unknown, err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, volume.ErrInvalid):
		// Nothing is there, or not what should be. SetUp tells which.
		return volume.Absent, nil
	}
	return volume.Unknown, err
}

// ask asks the host until ctx ends.
func (m *mounter) ask(ctx context.Context, create bool) (checked, error) {
	c := m.check
	c.create = create
	return await(ctx, m.stuck, "check hostPath", c.path, c.settle)
}

func (m *mounter) use(found checked) {
	m.path = found.path
	m.readOnly = m.asked || found.readOnly
}
