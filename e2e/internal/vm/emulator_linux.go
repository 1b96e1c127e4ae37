// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

const qemu = "qemu-system-x86_64"

// emulator is a command that runs qemu.
type emulator struct {
	args []string
	env  []string
}

// findEmulator returns the emulator that is installed, or else the one in the folder, into which it is unpacked first if it is not
// there.
func findEmulator(ctx context.Context, apt *packages, dir string) (emulator, error) {
	if path, err := exec.LookPath(qemu); err == nil {
		return emulator{args: []string{path}}, nil
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := unpackEmulator(ctx, apt, dir); err != nil {
			return emulator{}, err
		}
	}
	// Its libraries are its own, and so is what loads them.
	loaders, err := filepath.Glob(filepath.Join(dir, "lib*", "*", "ld-linux-x86-64.so.2"))
	if err != nil || len(loaders) == 0 {
		return emulator{}, errors.Join(err, errors.New("the unpacked emulator has no ld-linux-x86-64.so.2"))
	}
	libraries := filepath.Join(dir, "lib", "x86_64-linux-gnu") + ":" + filepath.Join(dir, "usr", "lib", "x86_64-linux-gnu")
	for _, more := range []string{"pulseaudio", "blas", "lapack"} {
		libraries += ":" + filepath.Join(dir, "usr", "lib", "x86_64-linux-gnu", more)
	}
	return emulator{
		args: []string{loaders[0], "--library-path", libraries, filepath.Join(dir, "usr", "bin", qemu),
			"-L", filepath.Join(dir, "usr", "share", "qemu"), "-L", filepath.Join(dir, "usr", "share", "seabios")},
		env: []string{"QEMU_MODULE_DIR=" + filepath.Join(dir, "usr", "lib", "x86_64-linux-gnu", "qemu")},
	}, nil
}

func unpackEmulator(ctx context.Context, apt *packages, dir string) error {
	work, err := os.MkdirTemp(filepath.Dir(dir), "new")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := apt.unpack(ctx, work, []string{"qemu-system-x86"}, nil); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(work, "usr", "share", "doc")); err != nil {
		return err
	}
	return os.Rename(work, dir)
}
