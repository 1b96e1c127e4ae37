// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// programEnv makes this binary a program that applies the ownership of the tests to a volume, which is to be killed.
const programEnv = "OWNERSHIP_TEST_VOLUME"

func isProgram() bool { return os.Getenv(programEnv) != "" }

func program() int {
	if _, err := Apply(context.Background(), os.Getenv(programEnv), Options{Group: testGroup, OnRootMismatch: true}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	return 0
}

func programFor(t *testing.T, volume string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), programEnv+"="+volume, "GORACE=atexit_sleep_ms=0")
	return cmd
}
