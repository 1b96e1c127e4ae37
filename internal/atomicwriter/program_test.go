// SPDX-License-Identifier: Apache-2.0

package atomicwriter

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// programEnv makes this binary a program that writes the payload after into a directory, which is to be killed.
const programEnv = "ATOMICWRITER_TEST_DIR"

func isProgram() bool { return os.Getenv(programEnv) != "" }

func program() int {
	if err := Write(context.Background(), os.Getenv(programEnv), after, before, Directories{Mode: 0o755}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	return 0
}

func programFor(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), programEnv+"="+dir, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// before and after have names in common, and each has some of its own.
var (
	before = Payload{
		"same":      {Data: "1", Mode: 0o644},
		"changed":   {Data: "before", Mode: 0o600},
		"gone":      {Data: "1", Mode: 0o644},
		"dir/gone":  {Data: "1", Mode: 0o644},
		"old/below": {Data: "1", Mode: 0o644},
	}
	after = Payload{
		"same":        {Data: "1", Mode: 0o644},
		"changed":     {Data: "after", Mode: 0o640},
		"new":         {Data: "1", Mode: 0o644},
		"dir/new":     {Data: "1", Mode: 0o400},
		"fresh/a/b/c": {Data: "1", Mode: 0o644},
	}
)
