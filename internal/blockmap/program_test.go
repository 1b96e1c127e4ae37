// SPDX-License-Identifier: Apache-2.0

package blockmap

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/mounter"
)

// programEnv makes this binary a program that maps or unmaps a device.
const programEnv = "BLOCKMAP_TEST_PROGRAM"

type task struct {
	Unmap   bool
	Mapping Mapping
}

func isProgram() bool { return os.Getenv(programEnv) != "" }

func program() int {
	var t task
	err := json.Unmarshal([]byte(os.Getenv(programEnv)), &t)
	switch {
	case err != nil:
	case t.Unmap:
		err = Unmap(context.Background(), mounter.New(), t.Mapping)
	default:
		_, err = Map(context.Background(), mounter.New(), t.Mapping)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	return 0
}

func programFor(tb testing.TB, t task) *exec.Cmd {
	tb.Helper()
	text, err := json.Marshal(t)
	require.NoError(tb, err)
	path, err := os.Executable()
	require.NoError(tb, err)
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), programEnv+"="+string(text), "GORACE=atexit_sleep_ms=0")
	return cmd
}
