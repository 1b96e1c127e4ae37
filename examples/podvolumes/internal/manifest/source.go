// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/volumekit/volumekit/internal/abandon"
)

// extensions are those of the files that are read in a directory: kubectl's.
var extensions = []string{".json", ".yaml", ".yml"}

// path takes in what the user named.
func (l *loader) path(ctx context.Context, path string) {
	if path == "-" {
		l.stdin(ctx)
		return
	}
	files, err := abandon.Run(ctx, func() ([]string, error) { return filesAt(path) })
	if err != nil {
		l.fail(Origin{File: path}, withoutPath(err))
		return
	}
	for _, file := range files {
		l.file(ctx, file)
	}
}

func (l *loader) stdin(ctx context.Context) {
	origin := Origin{File: "-"}
	switch {
	case l.opts.Stdin == nil:
		l.fail(origin, errors.New("there is no standard input to read"))
	case l.stdinRead:
		l.fail(origin, errors.New("was named twice, but can be read only once"))
	default:
		l.stdinRead = true
		l.read(ctx, "-", &contextReader{ctx: ctx, r: l.opts.Stdin})
	}
}

func (l *loader) file(ctx context.Context, name string) {
	// Opening a named pipe waits for its writer.
	f, err := abandon.Run(ctx, func() (*os.File, error) { return os.Open(name) })
	if err != nil {
		l.fail(Origin{File: name}, withoutPath(err))
		return
	}
	defer f.Close()
	l.read(ctx, name, &contextReader{ctx: ctx, r: f})
}

// filesAt returns path if it is a file, else the manifests in it.
func filesAt(path string) ([]string, error) {
	if path == "" {
		return nil, errors.New("the path is empty")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if !slices.Contains(extensions, filepath.Ext(entry.Name())) {
			continue
		}
		file := filepath.Join(path, entry.Name())
		// A symbolic link counts as what it leads to, and a dangling one is an error when it is read.
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			continue
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("the directory holds no file that ends in %s, %s or %s", extensions[0], extensions[1], extensions[2])
	}
	return files, nil
}

// withoutPath takes the path out of an error of package os, since [Error] names the file already.
func withoutPath(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return fmt.Errorf("%s: %w", pathErr.Op, pathErr.Err)
	}
	return err
}

// contextReader ends a read when its context ends. It is of no use after that.
type contextReader struct {
	ctx context.Context
	r   io.Reader
	buf []byte
}

func (c *contextReader) Read(p []byte) (int, error) {
	// An abandoned read must not write into the caller's memory.
	if len(c.buf) < len(p) {
		c.buf = make([]byte, len(p))
	}
	buf := c.buf[:len(p)]
	n, err := abandon.Run(c.ctx, func() (int, error) { return c.r.Read(buf) })
	copy(p, buf[:n])
	return n, withoutPath(err)
}
