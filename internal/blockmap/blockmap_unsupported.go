// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package blockmap

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/volume"
)

// Map returns [errors.ErrUnsupported].
func Map(context.Context, mount.Interface, Mapping) (loopdev.Device, error) {
	return loopdev.Device{}, errors.ErrUnsupported
}

// Unmap returns [errors.ErrUnsupported].
func Unmap(context.Context, mount.Interface, Mapping) error { return errors.ErrUnsupported }

// Mapped returns [errors.ErrUnsupported].
func Mapped(context.Context, Mapping) (volume.Presence, error) {
	return volume.Unknown, errors.ErrUnsupported
}

// Pods returns none.
func Pods(string) ([]types.UID, error) { return nil, nil }
