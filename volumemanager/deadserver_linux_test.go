// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/unmounting"
	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

// deadServer is a plugin of a network file system (an nfs source) whose server dies as soon as it is mounted.
type deadServer struct {
	t         *testing.T
	host      volume.Host
	unmounter *unmounting.Unmounter
	mounted   chan string     // gets the path that was mounted
	answered  <-chan struct{} // is closed when the server, asked once for all, has answered
}

func (p *deadServer) Name() string                              { return "test/dead-server" }
func (p *deadServer) Sources() []volume.Source                  { return []volume.Source{{Type: volume.SourceNFS}} }
func (p *deadServer) CanSupport(*volume.Spec) bool              { return true }
func (p *deadServer) VolumeName(s *volume.Spec) (string, error) { return s.Name(), nil }

func (p *deadServer) Init(_ context.Context, host volume.Host) error {
	p.host, p.unmounter = host, unmounting.New(host.Mounter)
	return nil
}

func (p *deadServer) NewMounter(s *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	return &deadVolume{p, p.host.PodVolumeDir(pod.UID, p.Name(), s.Name())}, nil
}

func (p *deadServer) NewUnmounter(name string, uid types.UID) (volume.Unmounter, error) {
	return &deadVolume{p, p.host.PodVolumeDir(uid, p.Name(), name)}, nil
}

type deadVolume struct {
	*deadServer
	path string
}

func (v *deadVolume) Path() string                  { return v.path }
func (v *deadVolume) Attributes() volume.Attributes { return volume.Attributes{} }

func (v *deadVolume) SetUp(ctx context.Context, _ volume.SetUpOptions) error {
	if there, _ := v.host.Mounter.IsMountPoint(v.path); !there {
		if err := os.MkdirAll(v.path, 0o750); err != nil {
			return err
		}
		mountns.DeadFUSE(v.t, v.path)
		answered := make(chan struct{})
		v.answered = answered
		go func() {
			_, _ = os.Stat(v.path)
			close(answered)
		}()
		v.mounted <- v.path
	}
	select {
	case <-v.answered:
	case <-ctx.Done():
	}
	return volume.Errorf(volume.ErrUncertain, "the server does not answer")
}

func (v *deadVolume) Presence(context.Context) (volume.Presence, error) {
	return volume.Unknown, errors.New("the server does not answer")
}

func (v *deadVolume) TearDown(ctx context.Context, options volume.TearDownOptions) error {
	if there, _ := v.host.Mounter.IsMountPoint(v.path); there {
		step, err := v.unmounter.Unmount(ctx, v.path)
		if err != nil {
			return err
		}
		options.Warnf("unmounted %s", step)
	}
	if err := os.Remove(v.path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// hasty gives no operation much time.
var hasty = volumemanager.Options{Timeout: 300 * time.Millisecond, Backoff: wait.Backoff{Duration: time.Millisecond, Steps: 1}}

func onDeadServer(name string) *v1.Pod {
	return pod(name, v1.Volume{Name: "share", VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "dead", Path: "/"}}})
}

func TestAVolumeOnADeadServerDelaysNobodyAndIsTornDownInTheEnd(t *testing.T) {
	mountns.RequirePrivate(t)
	root := t.TempDir()
	server := &deadServer{t: t, mounted: make(chan string, 1)}
	b := openRigWith(t, hasty, volume.Host{Root: root}, append(plugins.Default(), server)...)
	events := b.Events(t.Context(), 1000)
	b.run()

	require.NoError(t, b.SetPods(t.Context(), []*v1.Pod{onDeadServer("dead"), pod("web", emptyDir("cache"))}))
	path := <-server.mounted
	b.requireReady("uid-web")
	isTimeout := hasFailed("share", volumemanager.OperationSetUp)
	require.Equal(t, volumemanager.OutcomeUncertain, next(t, events, isTimeout).Outcome)
	threads := measure(t)
	for range 5 {
		next(t, events, isTimeout)
	}
	assert.Less(t, measure(t).threads, threads.threads+5, "each retry costs a thread")
	assert.Less(t, measure(t).goroutines, threads.goroutines+5, "each retry costs a goroutine")
	assert.Less(t, runtime.NumGoroutine(), 100)

	// In use, so that it takes more than a plain unmount.
	user, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(user) }()
	require.NoError(t, b.SetPods(t.Context(), []*v1.Pod{pod("web", emptyDir("cache"))}))
	var said []string
	next(t, events, func(e volumemanager.Event) bool {
		if e.Operation == volumemanager.OperationTearDown {
			said = append(said, e.Warnings...)
		}
		return isRemoved("uid-dead")(e)
	})
	assert.Equal(t, []string{"unmounted lazily"}, said)
	assert.NoDirExists(t, path)
}

func TestADeadMountOnAVolumeThatWasLeftBehindHoldsUpNobody(t *testing.T) {
	mountns.RequirePrivate(t)
	root := t.TempDir()
	leave(t, root, plugins.Default(), pod("dead", emptyDir("cache")), pod("web", memory("cache")), pod("other", emptyDir("cache")))
	b := openRigWith(t, hasty, volume.Host{Root: root}, plugins.Default()...)
	require.NoError(t, os.Truncate(b.recordPath("uid-dead"), 0))
	path := b.plugins.Host().PodVolumeDir("uid-dead", "kubernetes.io/empty-dir", "cache")
	mountns.DeadFUSE(t, path)
	events := b.Events(t.Context(), 1000)
	b.run()
	require.NoError(t, b.SetPods(t.Context(), nil))
	gone := 0
	next(t, events, func(e volumemanager.Event) bool {
		if e.Operation == volumemanager.OperationRemove {
			gone++
		}
		return gone == 2
	})
	failed := next(t, b.Events(t.Context(), 1000), hasFailed("cache", volumemanager.OperationTearDown))
	assert.ErrorContains(t, failed.Err, "is mounted on "+path)
	require.NoError(t, unix.Unmount(path, unix.MNT_DETACH))
	next(t, events, isRemoved("uid-dead"))
	b.requireEmpty()
}
