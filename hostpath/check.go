// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
)

// maxAttempts bounds how often something is begun anew because somebody else changed the host meanwhile.
const maxAttempts = 100

// check is what a hostPath asks of the host. It may outlive the call that began it: a path on a server that is down holds a
// goroutine until the server answers. So nothing changes it.
type check struct {
	path    string
	kind    v1.HostPathType
	allowed allowList
	create  bool // make what is missing, if the kind says so
}

// checked is what the host has answered.
type checked struct {
	path     string // to hand out
	readOnly bool   // because the allow-list says so
}

// needed reports whether the host has to be asked at all.
func (c *check) needed() bool {
	return c.kind != v1.HostPathUnset || c.allowed != nil
}

// settle checks, creates what is missing, and checks again: whoever creates it first, what counts is what is there.
//
// Each start of a pod pays for it, in a goroutine that begins with a small stack: what is not needed for a path that is in
// order is in functions of its own, so that the stack need not grow.
func (c *check) settle() (checked, error) {
	found, missing, err := c.look()
	if err == nil {
		return found, nil
	}
	if !missing || !c.create || !kinds[c.kind].create {
		return checked{}, err
	}
	return c.createAndSettle(found.path)
}

func (c *check) createAndSettle(path string) (checked, error) {
	for attempt := 1; ; attempt++ {
		if err := c.make(path); err != nil {
			return checked{}, err
		}
		found, missing, err := c.look()
		switch {
		case err == nil:
			return found, nil
		case !missing:
			return checked{}, err
		case attempt == maxAttempts:
			return checked{}, fmt.Errorf("it vanishes as often as it is created: %w", err)
		}
		path = found.path
	}
}

// look checks once. If missing is true, nothing is there and it could be made at found.path.
func (c *check) look() (found checked, missing bool, err error) {
	if c.allowed != nil {
		return c.lookWhereAllowed()
	}
	mode, err := stat(c.path)
	if err == nil && mode == kinds[c.kind].mode {
		return checked{path: c.path}, false, nil
	}
	missing, err = c.explain(mode, err)
	return checked{path: c.path}, missing, err
}

func (c *check) lookWhereAllowed() (found checked, missing bool, err error) {
	for attempt := 1; ; attempt++ {
		where, err := resolve(c.path)
		if err != nil {
			return checked{}, false, c.wrap(err)
		}
		readOnly, err := c.allowed.admit(where.path)
		if err != nil {
			return checked{}, false, c.wrap(err)
		}
		found := checked{path: where.path, readOnly: readOnly}
		if c.kind == v1.HostPathUnset {
			return found, false, nil
		}
		mode, err := statNoLinks(where.path)
		if err == nil && mode == kinds[c.kind].mode {
			return found, false, nil
		}
		// A link, or a file in the place of a directory, has appeared since the path was resolved.
		if (errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR)) && attempt < maxAttempts {
			continue
		}
		missing, err := c.explain(mode, err)
		return found, missing, err
	}
}

// explain turns the answer of stat into an error that says what is wrong. It reports whether nothing is there that would
// be in the way of making it.
func (c *check) explain(mode fs.FileMode, err error) (missing bool, _ error) {
	switch {
	case err == nil:
		return false, &TypeError{Path: c.path, Want: c.kind, Found: thing(mode)}
	case errors.Is(err, fs.ErrNotExist):
		where, resolveErr := resolve(c.path)
		if resolveErr != nil {
			return false, c.wrap(resolveErr)
		}
		if where.missing != "" {
			err = where.notFound()
		}
		return where.link == "", c.wrap(err)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ELOOP):
		// The error is about one of the directories on the way; say which.
		if _, resolveErr := resolve(c.path); resolveErr != nil {
			err = resolveErr
		}
	case errors.Is(err, syscall.ENAMETOOLONG):
		err = volume.Errorf(volume.ErrInvalid, "%w", err)
	}
	return false, c.wrap(err)
}

// make makes what is missing at path. That somebody else has made something there meanwhile is no error here.
func (c *check) make(path string) error {
	follow := c.allowed == nil
	var err error
	if kinds[c.kind].mode == fs.ModeDir {
		err = makeDirs(path, follow)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a parent has vanished again
		}
	} else {
		err = makeFile(path, 0o644, follow)
		if errors.Is(err, fs.ErrNotExist) {
			err = volume.Errorf(volume.ErrNotFound, "the directory of the file does not exist, and type %s does not make it: %w", c.kind, err)
		}
	}
	switch {
	case err == nil, errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, syscall.ELOOP) && !follow:
		return nil // a link has appeared on the way
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		err = volume.Errorf(volume.ErrExhausted, "%w", err)
	}
	return c.wrap(err)
}

func (c *check) wrap(err error) error {
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		err = fmt.Errorf("%w (it needs root, or the permission)", err)
	}
	return fmt.Errorf("hostPath %q of type %q: %w", c.path, c.kind, err)
}
