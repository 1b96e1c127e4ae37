// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBinary builds the tests of a package of volumekit, given as a path in its module such as "./internal/mounter", with build
// tags, as a program that runs in any guest. It returns the path.
//
// The go command does not know that the result of the calling test depends on that package: run it with -count=1.
func TestBinary(ctx context.Context, t testing.TB, pkg string, tags ...string) string {
	t.Helper()
	e2e, err := moduleDir(ctx)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), filepath.Base(pkg)+".test")
	if err := build(ctx, filepath.Dir(e2e), "test", "-c", "-tags", strings.Join(tags, ","), "-o", path, pkg); err != nil {
		t.Fatal(err)
	}
	return path
}

// buildInit builds the guest's first process into a folder, and returns its path.
func buildInit(ctx context.Context, dir string) (string, error) {
	e2e, err := moduleDir(ctx)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "init")
	return path, build(ctx, e2e, "build", "-o", path, "./internal/vm/init")
}

func build(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// moduleDir is the folder of the module of the tests.
func moduleDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module of the tests: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}
