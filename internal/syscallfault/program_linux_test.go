// SPDX-License-Identifier: Apache-2.0

package syscallfault

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
)

// programEnv makes this binary one of the programs, which the tests supervise.
const programEnv = "SYSCALLFAULT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if name := os.Getenv(programEnv); name != "" {
		if err := programs(name)(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(mountns.Main(m))
}

// programs returns what the program of that name does in a directory.
func programs(name string) func(dir string) error {
	return map[string]func(string) error{
		"change":     changeStepByStep,
		"look":       lookAround,
		"side":       sideBySide,
		"parent":     func(dir string) error { return program("change", dir).Run() },
		"daemon":     startDaemon,
		"sleep":      func(string) error { select {} },
		"mount":      mountAround,
		"environ":    printEnviron,
		"descriptor": func(string) error { _, err := os.NewFile(4, "").WriteString("told"); return err },
	}[name]
}

// program is a run of this binary.
func program(name, dir string) *exec.Cmd {
	path, err := os.Executable() // for the supervisor's stub /proc/self/exe would be itself
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(path, dir)
	cmd.Env = append(os.Environ(), programEnv+"="+name,
		"GORACE=atexit_sleep_ms=0") // with -race a program would wait for a second at its end
	return cmd
}

// changeStepByStep makes one change after the other.
func changeStepByStep(dir string) error {
	var d int
	for _, step := range []func() error{
		func() error { return os.Mkdir(dir+"/a", 0o750) },
		func() (err error) { d, err = unix.Open(dir+"/a", unix.O_PATH, 0); return err },
		func() (err error) { return unix.Mkdirat(d, "b", 0o750) },
		func() error { return unix.Symlinkat("elsewhere", d, "link") },
		func() error { return writeFile(dir + "/a/file") },
		func() error { return unix.Fchownat(d, "", os.Getuid(), os.Getgid(), unix.AT_EMPTY_PATH) },
		func() error { return os.Rename(dir+"/a/file", dir+"/a/b/file") },
		func() error { return unix.Unlinkat(d, "link", 0) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.WriteString("text"); err != nil {
		return err
	}
	if err := file.Chmod(0o640); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return file.Close()
}

// lookAround changes nothing.
func lookAround(dir string) error {
	if _, err := os.ReadDir(dir); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if _, err := null.WriteString("nothing"); err != nil {
		return err
	}
	d, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY})
	if err != nil {
		return err
	}
	if err := unix.Flock(d, unix.LOCK_EX); err != nil {
		return err
	}
	if _, err := unix.OpenTree(d, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLOEXEC); err != nil {
		return err
	}
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		return err
	}
	if _, err := unix.Write(pipe[1], []byte("nothing")); err != nil {
		return err
	}
	fmt.Println("looked around")
	return nil
}

const (
	goroutines    = 8
	changesEach   = 50
	allSideBySide = goroutines * changesEach
)

// sideBySide makes changes on several threads, which signals interrupt all the time.
func sideBySide(dir string) error {
	threads := make(chan int, goroutines)
	done := make(chan struct{})
	var running, signalling sync.WaitGroup
	for i := range goroutines {
		running.Go(func() {
			runtime.LockOSThread()
			threads <- unix.Gettid()
			for j := range changesEach {
				_ = os.Mkdir(filepath.Join(dir, fmt.Sprintf("%d-%d", i, j)), 0o750)
			}
			<-done // the thread is there as long as it gets signals
		})
	}
	signalling.Go(func() {
		var all []int
		for range goroutines {
			all = append(all, <-threads)
		}
		for left := allSideBySide; left > 0; {
			for _, thread := range all {
				_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG) // which the Go runtime ignores
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				return
			}
			left = allSideBySide - len(entries)
		}
		close(done)
	})
	running.Wait()
	signalling.Wait()
	return nil
}

// startDaemon leaves a process behind that holds the standard streams.
func startDaemon(dir string) error {
	cmd := program("sleep", dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Start()
}

// mountAround mounts in each of the two ways.
func mountAround(dir string) error {
	if err := unix.Mount("source", dir, "tmpfs", unix.MS_NOSUID, "size=4096"); err != nil {
		return err
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	if err := unix.Close(tree); err != nil {
		return err
	}
	if err := unix.Unmount(dir, 0); err != nil {
		return err
	}
	return unix.Unmount(dir, unix.MNT_DETACH)
}

func printEnviron(string) error {
	wd, err := os.Getwd()
	fmt.Println(os.Args[0], wd, os.Getenv("SYSCALLFAULT_TEST_VARIABLE"))
	return err
}
