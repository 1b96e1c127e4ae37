// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/volumekit/volumekit/e2e/internal/vm/job"
)

// Guest is one run of a program in a machine of its own.
type Guest struct {
	// Image is what the machine has.
	Image Image

	// Program is the path of the program on this machine. It is run as root, in an empty directory, and has to be linked
	// statically unless the image has what it needs; see [TestBinary].
	Program string

	// Args and Env are the program's. The environment is nothing but a PATH, HOME and Env.
	Args, Env []string

	// Disks are empty disks by their names, with their sizes in bytes. The program finds one at /dev/disk/NAME.
	Disks map[string]int64

	// Memory is in MiB; 0 stands for 1024.
	Memory int
}

// Result is how the program ended.
type Result struct {
	// Status is the exit status of the program. It is -1 if the machine did not tell one: it failed, or ctx ended.
	Status int

	// Output is what the program wrote, on either stream.
	Output string

	// Kernel is what the kernel wrote.
	Kernel string
}

// Run boots a machine and runs the program in it. The test fails, with all output, if the program ends with another status than
// 0. It is skipped where there can be no machine (see [ErrUnavailable]), unless the environment has CI=true.
//
// When ctx ends the machine is killed.
func Run(ctx context.Context, t testing.TB, guest Guest) Result {
	t.Helper()
	built, err := Build(ctx, guest.Image)
	if errors.Is(err, ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	result, err := built.run(ctx, t.TempDir(), guest)
	if err != nil {
		t.Fatalf("%v\nthe program's output:\n%s\nthe kernel's output:\n%s", err, result.Output, result.Kernel)
	}
	if result.Status != 0 {
		t.Errorf("in the virtual machine: exit status %d\n%s", result.Status, result.Output)
	}
	return result
}

// run runs the guest with its files in the directory dir.
func (b *Built) run(ctx context.Context, dir string, guest Guest) (Result, error) {
	result := Result{Status: -1}
	initrd := filepath.Join(dir, "initrd")
	if err := b.writeInitrd(ctx, initrd, guest); err != nil {
		return result, err
	}
	output, console := filepath.Join(dir, "output"), filepath.Join(dir, "console")
	args := append(b.emulator.args[1:len(b.emulator.args):len(b.emulator.args)],
		"-accel", "tcg,thread=multi", "-machine", "q35,smbus=off,sata=off,usb=off,hpet=off", "-cpu", "max",
		"-smp", "2", "-m", fmt.Sprint(cmp.Or(guest.Memory, 1024)), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", filepath.Join(b.dir, "kernel"), "-initrd", initrd,
		"-append", "console=ttyS0 quiet panic=-1 random.trust_cpu=on mitigations=off nokaslr",
		"-serial", "file:"+console, "-serial", "file:"+output)
	for name, size := range guest.Disks {
		path := filepath.Join(dir, name+".disk")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return result, err
		}
		if err := os.Truncate(path, size); err != nil {
			return result, err
		}
		args = append(args, "-drive", "if=none,format=raw,cache=unsafe,discard=unmap,id="+name+",file="+path,
			"-device", "virtio-blk-pci,drive="+name+",serial="+name)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, b.emulator.args[0], args...)
	cmd.Env = append(os.Environ(), b.emulator.env...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// The kernel sends Pdeathsig when the thread ends that started the process.
	runtime.LockOSThread()
	failed := cmd.Run()
	runtime.UnlockOSThread()

	all, err := os.ReadFile(output)
	if err == nil {
		result.Output, result.Status = job.Split(string(all))
	}
	kernel, _ := os.ReadFile(console)
	result.Kernel = string(kernel)
	switch {
	case ctx.Err() != nil:
		return result, fmt.Errorf("the virtual machine was stopped: %w", context.Cause(ctx))
	case failed != nil:
		return result, fmt.Errorf("the emulator failed: %w: %s", failed, said.String())
	case result.Status < 0:
		return result, fmt.Errorf("the virtual machine ended without telling how the program did: %s", said.String())
	}
	return result, nil
}

// writeInitrd writes the image's file system, and after it what is the guest's own.
func (b *Built) writeInitrd(ctx context.Context, path string, guest Guest) error {
	first, err := buildInit(ctx, filepath.Dir(path))
	if err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	base, err := os.Open(filepath.Join(b.dir, "initrd"))
	if err != nil {
		return err
	}
	defer func() { _ = base.Close() }()
	if _, err := io.Copy(out, base); err != nil {
		return err
	}
	a := newArchive(out)
	if err := a.copy("init", first); err != nil {
		return err
	}
	program := "vm/" + filepath.Base(guest.Program)
	if err := a.copy(program, guest.Program); err != nil {
		return err
	}
	content, err := json.Marshal(job.Job{Program: "/" + program, Args: guest.Args, Env: guest.Env})
	if err != nil {
		return err
	}
	if err := a.file(strings.TrimPrefix(job.File, "/"), 0o600, int64(len(content)), bytes.NewReader(content)); err != nil {
		return err
	}
	if err := a.close(); err != nil {
		return err
	}
	return out.Close()
}
