// SPDX-License-Identifier: Apache-2.0

package volume_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/volumekit/volumekit/volume"
)

var kinds = []error{
	volume.ErrUncertain, volume.ErrNotFound, volume.ErrNotSupported, volume.ErrInUse, volume.ErrExhausted, volume.ErrInvalid,
}

func TestErrorfIsOfItsKindAndOfWhatItWraps(t *testing.T) {
	for _, kind := range kinds {
		err := volume.Errorf(kind, "unmount %s: %w", "/path", fs.ErrPermission)
		assert.EqualError(t, err, "unmount /path: "+fs.ErrPermission.Error(), "the kind does not show")
		assert.ErrorIs(t, err, fs.ErrPermission)
		for _, other := range kinds {
			assert.Equal(t, kind == other, errors.Is(err, other), "an error of kind %q is %q", kind, other)
		}
	}
}

func TestErrorfWrapsSeveral(t *testing.T) {
	err := volume.Errorf(volume.ErrInUse, "%w, then %w", fs.ErrExist, volume.Errorf(volume.ErrUncertain, "timeout"))
	for _, target := range []error{volume.ErrInUse, fs.ErrExist, volume.ErrUncertain} {
		assert.ErrorIs(t, err, target)
	}
}

func TestTheKindIsFoundBehindOtherErrors(t *testing.T) {
	err := error(&volume.Error{
		Op: "set up", Volume: "data", Err: fmt.Errorf("mount: %w", volume.Errorf(volume.ErrUncertain, "timeout")),
	})
	assert.ErrorIs(t, errors.Join(errors.New("another"), err), volume.ErrUncertain)
}

func TestAnErrorSaysWhatFailedOnWhat(t *testing.T) {
	cause := errors.New("no space left on device")
	for want, err := range map[string]volume.Error{
		`set up volume "data" of pod default/web (kubernetes.io/empty-dir at /agent/data): no space left on device`: {
			Op: "set up", Volume: "data", Pod: "default/web", Plugin: "kubernetes.io/empty-dir", Path: "/agent/data",
		},
		`set up volume "data" (kubernetes.io/empty-dir): no space left on device`: {
			Op: "set up", Volume: "data", Plugin: "kubernetes.io/empty-dir",
		},
		`tear down volume "data" (at /agent/data): no space left on device`: {
			Op: "tear down", Volume: "data", Path: "/agent/data",
		},
		`recover of pod 1234: no space left on device`: {Op: "recover", Pod: "1234"},
		`recover: no space left on device`:             {Op: "recover"},
	} {
		err.Err = cause
		assert.EqualError(t, &err, want)
		assert.ErrorIs(t, &err, cause)
	}
}
