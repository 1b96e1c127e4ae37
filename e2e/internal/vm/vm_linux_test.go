// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// actEnv makes this binary, which the tests run in guests, do one thing.
const actEnv = "VM_TEST_ACT"

func TestMain(m *testing.M) {
	switch os.Getenv(actEnv) {
	case "":
		goleak.VerifyTestMain(m)
	case "tell":
		device, _ := os.Readlink("/dev/disk/small")
		sectors, _ := os.ReadFile("/sys/class/block/" + filepath.Base(device) + "/size")
		fmt.Printf("user %d was told %q\tthe disk has %s sectors\n", os.Getuid(), os.Args[1:], strings.TrimSpace(string(sectors)))
	case "fail":
		fmt.Println("it went wrong")
		os.Exit(7)
	case "hang":
		select {}
	}
}

// begin builds what runs in a guest that has nothing but a kernel, or skips the test.
func begin(t *testing.T, act string) (*Built, Guest) {
	built, err := Build(t.Context(), Image{})
	if errors.Is(err, ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "act")
	require.NoError(t, build(t.Context(), ".", "test", "-c", "-o", program, "."))
	return built, Guest{Program: program, Env: []string{actEnv + "=" + act}}
}

func TestAProgramRunsAsRootWithItsArgumentsAndDisks(t *testing.T) {
	built, guest := begin(t, "tell")
	guest.Args, guest.Disks = []string{"one", "two"}, map[string]int64{"large": 5 << 20, "small": 1 << 20}
	result, err := built.run(t.Context(), t.TempDir(), guest)
	require.NoError(t, err, result.Kernel)
	assert.Equal(t, "user 0 was told [\"one\" \"two\"]\tthe disk has 2048 sectors\n", result.Output)
	assert.Zero(t, result.Status)
}

func TestTheExitStatusIsTheProgramsOwn(t *testing.T) {
	built, guest := begin(t, "fail")
	result, err := built.run(t.Context(), t.TempDir(), guest)
	require.NoError(t, err, result.Kernel)
	assert.Equal(t, "it went wrong\n", result.Output)
	assert.Equal(t, 7, result.Status)
}

func TestAMachineIsKilledWhenItsContextEnds(t *testing.T) {
	built, guest := begin(t, "hang")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	result, err := built.run(ctx, t.TempDir(), guest)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, -1, result.Status)
}
