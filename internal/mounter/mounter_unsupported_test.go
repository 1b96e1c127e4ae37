// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mounter

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEachMethodSaysThatItIsUnsupported(t *testing.T) {
	m, dir := New(), t.TempDir()
	for name, call := range map[string]func() error{
		"Mount":                 func() error { return m.Mount(dir, dir, "", []string{"bind"}) },
		"Unmount":               func() error { return m.Unmount(dir) },
		"UnmountWithForce":      func() error { return m.UnmountWithForce(dir, 0) },
		"IsMountPoint":          func() error { _, err := m.IsMountPoint(dir); return err },
		"IsLikelyNotMountPoint": func() error { _, err := m.IsLikelyNotMountPoint(dir); return err },
		"List":                  func() error { _, err := m.List(); return err },
		"GetMountRefs":          func() error { _, err := m.GetMountRefs(dir); return err },
	} {
		assert.ErrorIs(t, call(), errors.ErrUnsupported, name)
	}
}
