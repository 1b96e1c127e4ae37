// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Image says what a guest has beside its kernel. Guests with the same one share it.
type Image struct {
	// Packages are Debian packages, which are unpacked with all that they depend on, and not configured: no script of theirs
	// runs.
	Packages []string

	// Without are the beginnings of names of packages that are not unpacked, though others depend on them.
	Without []string

	// Modules are the kernel modules that are loaded when the guest has booted, after those that they depend on. What is built
	// in may be among them.
	Modules []string
}

// layout is changed with what is made of an image, so that one made before is not taken.
const layout = "2"

// Built is an image that is there.
type Built struct {
	dir      string // with the files kernel, initrd and modules
	emulator emulator
}

// ErrUnavailable is matched by an error that says that this machine cannot make an image.
var ErrUnavailable = errors.New("no virtual machine")

// Build returns the image, and makes it first if it is not in the cache, which takes seconds and what has to be downloaded, about
// 40 MB. Tests of several packages may call it at the same time: one makes it and the others wait. The error matches
// [ErrUnavailable] if the machine is no Debian, or of another architecture than amd64.
func Build(ctx context.Context, image Image) (*Built, error) {
	if runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("%w: made for amd64 only", ErrUnavailable)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	cache = filepath.Join(cache, "volumekit-e2e")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, filepath.Join(cache, "vm.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	apt := &packages{dir: filepath.Join(cache, "apt")}
	defer apt.clean()

	found, err := findEmulator(ctx, apt, filepath.Join(cache, "qemu"))
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	dir := filepath.Join(cache, "vm-"+image.digest())
	built := &Built{dir: dir, emulator: found}
	if _, err := os.Stat(dir); err == nil {
		return built, nil
	}
	work, err := os.MkdirTemp(cache, "new")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := image.make(ctx, apt, work); err != nil {
		return nil, fmt.Errorf("image of a virtual machine: %w", err)
	}
	return built, os.Rename(filepath.Join(work, "image"), dir)
}

func (i Image) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q %q", layout, i.Packages, i.Without, i.Modules))
	return hex.EncodeToString(sum[:8])
}

// make makes the image in the folder "image" of work.
func (i Image) make(ctx context.Context, apt *packages, work string) error {
	root, kernel, to := filepath.Join(work, "root"), filepath.Join(work, "kernel"), filepath.Join(work, "image")
	for _, dir := range []string{root, kernel, to} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := apt.unpack(ctx, root, i.Packages, i.Without); err != nil {
		return err
	}
	if err := apt.unpackKernel(ctx, kernel); err != nil {
		return err
	}
	kernels, err := filepath.Glob(filepath.Join(kernel, "boot", "vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		return fmt.Errorf("the package of the kernel has the kernels %q, %w", kernels, err)
	}
	if err := os.Rename(kernels[0], filepath.Join(to, "kernel")); err != nil {
		return err
	}
	modules, err := modulesOf(ctx, kernel, i.Modules)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(to, "initrd"))
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	if err := i.fill(newArchive(out), root, modules); err != nil {
		return err
	}
	return out.Close()
}

// fill writes the guest's file system, but for what differs between guests with the same image.
func (i Image) fill(a *archive, root string, modules []string) error {
	for _, dir := range []string{"dev", "proc", "sys", "run", "mnt", "root", "etc", "var"} {
		a.dir(dir, 0o755)
	}
	a.dir("tmp", 0o777|0o1000)
	for _, name := range topLinks {
		a.dir("usr/"+name, 0o755)
		a.link(name, "usr/"+name)
	}
	a.device("dev/console", 0o600, 5, 1) // the kernel opens it before there is a /dev
	for name, content := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
		"etc/group":  "root:x:0:\nnogroup:x:65534:\n",
		"etc/hosts":  "127.0.0.1 localhost\n",
	} {
		if err := a.file(name, 0o644, int64(len(content)), strings.NewReader(content)); err != nil {
			return err
		}
	}
	err := a.tree(root, func(name string) bool {
		return slices.Contains([]string{"etc/passwd", "etc/group", "etc/hosts", "usr/share/doc", "usr/share/man", "usr/share/locale",
			"usr/share/info", "usr/share/i18n", "usr/share/lintian"}, name)
	})
	if err != nil {
		return err
	}
	for n, module := range modules {
		if err := a.copy(fmt.Sprintf("vm/modules/%03d.ko", n), module); err != nil {
			return err
		}
	}
	return a.close()
}

// lock waits until nobody else makes an image, also if ctx ends meanwhile.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		_ = file.Close()
		return nil, err
	}
	for {
		if err = unix.Flock(int(file.Fd()), unix.LOCK_EX); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}
