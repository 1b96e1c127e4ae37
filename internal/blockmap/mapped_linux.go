// SPDX-License-Identifier: Apache-2.0

package blockmap

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/volume"
)

// Mapped tells whether the device is mapped for the pod: bound, held, and linked to.
func Mapped(ctx context.Context, m Mapping) (volume.Presence, error) {
	state, err := m.state()
	if err != nil {
		return volume.Unknown, err
	}
	if !state.bound {
		return volume.Absent, nil
	}
	target, err := os.Readlink(m.link())
	if errors.Is(err, fs.ErrNotExist) {
		return volume.Absent, nil
	}
	if err != nil {
		return volume.Unknown, err
	}
	switch number, err := numberOf(target); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, volume.ErrInvalid), err == nil && number != state.number:
		return volume.Absent, nil
	case err != nil:
		return volume.Unknown, err
	}
	name, err := m.lockName()
	if err != nil {
		return volume.Unknown, err
	}
	held, err := m.locks(ctx, name)
	switch {
	case err != nil:
		return volume.Unknown, err
	case !slices.ContainsFunc(held, func(lock loopdev.Device) bool { return lock.Backing == state.id }):
		return volume.Absent, nil
	}
	return volume.Present, nil
}

// Pods lists the pods that the device of a volume is, or may be, mapped for.
func Pods(globalMapPath string) ([]types.UID, error) {
	entries, err := os.ReadDir(globalMapPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var pods []types.UID
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasPrefix(name, ".") {
			pods = append(pods, types.UID(name))
		}
	}
	return pods, nil
}
