// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/volumekit/volumekit/internal/mounter"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"github.com/volumekit/volumekit/volumemanager"
)

const (
	soakPods   = 500 // of four volumes each
	soakCycles = 20  // of setting all up and tearing all down
	soakKills  = 30  // during the first cycles
	soakWhole  = 5   // cycles at the end, of one process
)

// soakEnv tells a process that TestSoak has started what to do: the root, a seed, and the cycle to begin with.
const soakEnv = "VOLUMEKIT_TEST_SOAK"

func TestSoakOfManyPodsWithKillsAndFaultsLeavesNothing(t *testing.T) {
	mountns.RequirePrivate(t)
	root := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	cycle, kills := 0, 0
	for cycle < soakCycles {
		kill := 0
		if cycle < soakCycles-soakWhole && kills < soakKills {
			kill = 1 + random.IntN(3000)
		}
		killed := false
		cycle, killed = soakOnce(t, root, random.Int(), cycle, kill)
		if killed {
			kills++
		}
	}
	t.Log("killed", kills, "times")
	assert.Positive(t, kills)
	left, err := mountinfo.GetMounts(mountinfo.PrefixFilter(root))
	require.NoError(t, err)
	assert.Empty(t, left)
	pods, err := os.ReadDir(filepath.Join(root, "pods"))
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	assert.Empty(t, pods)
}

// soakOnce runs a process from the cycle on, which is killed after so many events, or never. It returns the first cycle that
// was not finished.
func soakOnce(t *testing.T, root string, seed, cycle, kill int) (reached int, killed bool) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestSoakProcess$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %s", soakEnv, seed, cycle, root))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	events := 0
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch line := lines.Text(); {
		case line == "event":
			if events++; events == kill {
				require.NoError(t, cmd.Process.Kill())
				killed = true
			}
		case strings.HasPrefix(line, "finished cycle "):
			cycle, err = strconv.Atoi(strings.TrimPrefix(line, "finished cycle "))
			require.NoError(t, err)
			cycle++
		default:
			said = append(said, line)
		}
	}
	if err := cmd.Wait(); !killed {
		require.NoError(t, err, strings.Join(said, "\n"))
	}
	return cycle, killed
}

// TestSoakProcess is what the soak runs and kills. By itself it has nothing to do.
func TestSoakProcess(t *testing.T) {
	var seed uint64
	var cycle int
	var root string
	if _, err := fmt.Sscan(os.Getenv(soakEnv), &seed, &cycle, &root); err != nil {
		return
	}
	host := volume.Host{Root: root, Mounter: randomlyFailing(seed)}
	mgr, err := volume.NewVolumePluginMgr(t.Context(), host, plugins.Default())
	require.NoError(t, err)
	defer mgr.Close()
	manager, err := volumemanager.New(t.Context(), mgr, volumemanager.Options{
		Backoff: wait.Backoff{Duration: time.Millisecond, Factor: 2, Steps: 8, Cap: 100 * time.Millisecond}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- manager.Run(ctx) }()
	events := manager.Events(ctx, 100_000)
	go func() {
		for range events {
			fmt.Println("event")
		}
	}()
	var first usage
	for i := cycle; i < soakCycles; i++ {
		soakCycle(t, manager)
		if now := measure(t); i == cycle {
			first = now
		} else if i == soakCycles-1 {
			assert.LessOrEqual(t, now.descriptors, first.descriptors)
			assert.LessOrEqual(t, now.goroutines, first.goroutines)
			// The runtime keeps the threads of what was done at the same time, which is more where the machine is slow. One for
			// each fault would be many hundreds.
			assert.LessOrEqual(t, now.threads, first.threads+200)
		}
		fmt.Println("finished cycle", i)
	}
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, manager.Close())
}

// soakCycle has all pods set up, and torn down.
func soakCycle(t *testing.T, manager *volumemanager.Manager) {
	var pods []*v1.Pod
	for i := range soakPods {
		host := hostPath("host", "/etc")
		pods = append(pods, withSubPath(pod(fmt.Sprintf("pod-%d", i), emptyDir("disk"), memory("memory"), memory("parts"), host), "parts", "a"))
	}
	require.NoError(t, manager.SetPods(t.Context(), pods))
	for _, p := range pods {
		_, err := manager.WaitForPod(t.Context(), p.UID)
		require.NoError(t, err)
		mounts, err := manager.ContainerMounts(t.Context(), p.UID, "main")
		require.NoError(t, err)
		require.Len(t, mounts, 5)
	}
	events := manager.Events(t.Context(), 100_000)
	require.NoError(t, manager.SetPods(t.Context(), nil))
	for len(manager.Status().Pods) > 0 {
		next(t, events, func(e volumemanager.Event) bool { return e.Operation == volumemanager.OperationRemove })
	}
}

// randomlyFailing mounts and unmounts, but for one time in fifty.
func randomlyFailing(seed uint64) *volumetest.FaultyMounter {
	faulty := volumetest.NewFaultyMounter(mounter.New())
	random := rand.New(rand.NewPCG(seed, seed))
	var mu sync.Mutex
	hook := func(volumetest.MountCall) error {
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(50) == 0 {
			return []error{unix.EIO, unix.EBUSY, unix.ENOMEM, unix.EMFILE}[random.IntN(4)]
		}
		return nil
	}
	faulty.Inject(hook, hook)
	return faulty
}

// usage is what must not grow.
type usage struct{ descriptors, goroutines, threads int }

func measure(t *testing.T) usage {
	count := func(dir string) int {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		return len(entries)
	}
	runtime.GC() // closes what was dropped
	return usage{descriptors: count("/proc/self/fd"), goroutines: runtime.NumGoroutine(), threads: count("/proc/self/task")}
}
