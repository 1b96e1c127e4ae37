// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/volume"
)

// maxLinks is how many symbolic links Linux follows in one path, see path_resolution(7).
const maxLinks = 40

// place is where a path leads.
type place struct {
	// path has no symbolic links. What does not exist stands in it as it was written.
	path string

	// missing is the first directory of path, or path itself, that does not exist; empty if everything exists.
	missing string

	// link and target are the symbolic link that leads to what is missing, and what it holds; empty if the path leads
	// there by itself.
	link, target string
}

// notFound says that something is missing.
func (p place) notFound() error {
	if p.link != "" {
		return volume.Errorf(volume.ErrNotFound, "%q is a symbolic link to %q, where nothing is: %w", p.link, p.target, syscall.ENOENT)
	}
	return volume.Errorf(volume.ErrNotFound, "%q does not exist: %w", p.missing, syscall.ENOENT)
}

// resolve follows the symbolic links of an absolute path as far as it exists. The error names the element that cannot be
// passed: what is no directory, or a directory that denies search.
//
// It goes by paths: somebody who changes links at the same time can make the answer wrong, but not make it hold a link
// that was one all along.
func resolve(path string) (place, error) {
	w := walk{whole: path}
	w.begin(path)
	for w.rest != "" {
		if err := w.step(); err != nil {
			return place{}, err
		}
	}
	return w.at, nil
}

const separator = string(filepath.Separator)

// walk is resolve on its way.
type walk struct {
	whole    string
	at       place
	rest     string // still to be walked from there
	followed []followedLink
	changes  int // links that have vanished while they were being read
}

type followedLink struct {
	link, target string
	behind       int // bytes of the path behind the link: while at least as many are left, the walk is in the target
}

// begin goes to the root of an absolute path.
func (w *walk) begin(path string) {
	volumeName := filepath.VolumeName(path)
	w.at.path = volumeName + separator
	w.rest = filepath.FromSlash(path[len(volumeName):])
}

// step walks one element.
func (w *walk) step() error {
	var name string
	name, w.rest, _ = strings.Cut(w.rest, separator)
	switch {
	case name == "" || name == ".":
		return nil
	case name == ".." && w.at.missing != "":
		return w.at.notFound()
	case name == "..": // in the target of a link
		w.at.path = filepath.Dir(w.at.path)
		return nil
	}
	parent, next := w.at.path, filepath.Join(w.at.path, name)
	w.at.path = next
	if w.at.missing != "" {
		return nil
	}
	info, err := os.Lstat(next)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		w.miss(next)
		return nil
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("directory %q may not be searched: %w", parent, err)
	case err != nil:
		return err
	case info.Mode().Type() == fs.ModeSymlink:
		return w.follow(parent, next)
	case !info.IsDir() && strings.Trim(w.rest, separator) != "":
		return volume.Errorf(volume.ErrInvalid, "%q is a %s: %w", next, thing(info.Mode()), syscall.ENOTDIR)
	}
	return nil
}

// miss notes that nothing is at path, and which link has led there.
func (w *walk) miss(path string) {
	w.at.missing = path
	for _, f := range w.followed {
		if len(w.rest) >= f.behind {
			w.at.link, w.at.target = f.link, f.target
		}
	}
}

func (w *walk) follow(parent, link string) error {
	if len(w.followed) == maxLinks {
		return volume.Errorf(volume.ErrInvalid, "%q leads through more than %d symbolic links: %w", w.whole, maxLinks, syscall.ELOOP)
	}
	target, err := os.Readlink(link)
	if (errors.Is(err, syscall.EINVAL) || errors.Is(err, fs.ErrNotExist)) && w.changes < maxAttempts {
		w.changes++ // it is no link any more: look again
		w.at.path, w.rest = parent, filepath.Base(link)+separator+w.rest
		return nil
	}
	if err != nil {
		return err
	}
	w.followed = append(w.followed, followedLink{link: link, target: target, behind: len(w.rest)})
	behind := w.rest
	if filepath.IsAbs(target) {
		w.begin(target)
	} else {
		w.at.path, w.rest = parent, filepath.FromSlash(target)
	}
	w.rest += separator + behind
	return nil
}
