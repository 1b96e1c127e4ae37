// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

// bundle is a container of runc whose root has nothing but busybox.
type bundle struct {
	t          *testing.T
	dir, state string
}

func newBundle(t *testing.T, mounts []volumemanager.Mount) *bundle {
	b := &bundle{t: t, dir: t.TempDir(), state: t.TempDir()}
	for _, dir := range []string{"rootfs/bin", "rootfs/proc", "rootfs/dev"} {
		require.NoError(t, os.MkdirAll(filepath.Join(b.dir, dir), 0o755))
	}
	busybox, err := exec.LookPath("busybox")
	require.NoError(t, err)
	program, err := os.ReadFile(busybox)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "rootfs/bin/busybox"), program, 0o755))
	require.NoError(t, os.Symlink("busybox", filepath.Join(b.dir, "rootfs/bin/sh")))

	spec := specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: "rootfs"},
		Process: &specs.Process{Cwd: "/", Env: []string{"PATH=/bin"}},
		Mounts:  []specs.Mount{{Destination: "/proc", Type: "proc", Source: "proc"}},
		Linux: &specs.Linux{
			// Where the root is mounted from outside stays visible, so that mounts made there later can reach the container.
			RootfsPropagation: "rslave",
			Namespaces:        []specs.LinuxNamespace{{Type: specs.MountNamespace}, {Type: specs.PIDNamespace}},
		},
	}
	for _, mount := range mounts {
		spec.Mounts = append(spec.Mounts, mount.OCI())
	}
	b.write(spec)
	return b
}

func (b *bundle) write(spec specs.Spec) {
	config, err := json.Marshal(spec)
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(b.dir, "config.json"), config, 0o600))
}

// command returns runc with the script as the container's process. Without limits there is no need of a cgroup, which this
// machine may not let runc make: that is what "rootless" asks of it.
func (b *bundle) command(name, script string) *exec.Cmd {
	b.t.Helper()
	var spec specs.Spec
	config, err := os.ReadFile(filepath.Join(b.dir, "config.json"))
	require.NoError(b.t, err)
	require.NoError(b.t, json.Unmarshal(config, &spec))
	spec.Process.Args = []string{"sh", "-c", script}
	b.write(spec)
	return exec.CommandContext(b.t.Context(), "runc", "--root", b.state, "--rootless", "true", "run", "--bundle", b.dir, name)
}

// sh runs the script in a container, and returns what it wrote.
func (b *bundle) sh(script string) string {
	b.t.Helper()
	out, err := b.command("test", script).CombinedOutput()
	require.NoError(b.t, err, string(out))
	return string(out)
}

func TestTheMountsReachAContainerOfRunc(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	// What is mounted on the host later reaches a container only from a shared mount.
	host := t.TempDir()
	require.NoError(t, unix.Mount(host, host, "", unix.MS_BIND, ""))
	require.NoError(t, unix.Mount("", host, "", unix.MS_SHARED, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(host, unix.MNT_DETACH)) })
	for _, dir := range []string{"below", "later"} {
		require.NoError(t, os.Mkdir(filepath.Join(host, dir), 0o755))
	}
	require.NoError(t, unix.Mount("below", filepath.Join(host, "below"), "tmpfs", 0, ""))

	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "web", "web-uid"
	pod.Spec.Volumes = []v1.Volume{
		{Name: "disk", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("1Mi"))}}},
		{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: host}}},
	}
	pod.Spec.Containers = []v1.Container{{Name: "main", VolumeMounts: []v1.VolumeMount{
		{Name: "disk", MountPath: "/disk"},
		{Name: "disk", MountPath: "/disk/part", SubPath: "some/part"},
		{Name: "disk", MountPath: "/noexec", BindMountOptions: []string{"noexec"}},
		{Name: "memory", MountPath: "/memory"},
		{Name: "host", MountPath: "/readonly", ReadOnly: true},
		{Name: "host", MountPath: "/rro", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyEnabled)},
		{Name: "host", MountPath: "/follows", MountPropagation: ptr.To(v1.MountPropagationHostToContainer)},
		{Name: "host", MountPath: "/private"},
	}}}
	mgr, err := volume.NewVolumePluginMgr(t.Context(), volume.Host{Root: t.TempDir()}, plugins.Default())
	require.NoError(t, err)
	defer mgr.Close()
	manager, err := volumemanager.New(t.Context(), mgr, volumemanager.Options{})
	require.NoError(t, err)
	defer func() { _ = manager.Close() }()
	status, err := manager.SetUpPod(t.Context(), pod)
	require.NoError(t, err)
	mounts, err := manager.ContainerMounts(t.Context(), pod.UID, "main")
	require.NoError(t, err)
	b := newBundle(t, mounts)
	disk := status.Volumes[0].Path

	b.sh("echo hello >/disk/file; echo part >/disk/part/file")
	for file, text := range map[string]string{"file": "hello\n", "some/part/file": "part\n"} {
		written, err := os.ReadFile(filepath.Join(disk, file))
		require.NoError(t, err)
		assert.Equal(t, text, string(written), file)
	}
	assert.Regexp(t, `tmpfs +1024 `, b.sh("busybox df -k /memory"))
	assert.Contains(t, b.sh("busybox touch /readonly/file 2>&1 || true"), "Read-only file system")
	b.sh("busybox touch /readonly/below/file")
	assert.Contains(t, b.sh("busybox touch /rro/below/file 2>&1 || true"), "Read-only file system")
	assert.Contains(t, b.sh("busybox cp /bin/busybox /disk/true; /disk/true && (/noexec/true 2>&1 || true)"), "Permission denied")

	// The container runs while something is mounted on the host, and says when it runs and what it sees then.
	for _, pipe := range []string{"ready", "go"} {
		require.NoError(t, unix.Mkfifo(filepath.Join(disk, pipe), 0o600))
	}
	var out bytes.Buffer
	running := b.command("long", "echo >/disk/ready; read x </disk/go; busybox ls /follows/later; echo -; busybox ls /private/later")
	running.Stdout, running.Stderr = &out, &out
	require.NoError(t, running.Start())
	_, err = os.ReadFile(filepath.Join(disk, "ready"))
	require.NoError(t, err)
	later := filepath.Join(host, "later")
	require.NoError(t, unix.Mount("later", later, "tmpfs", 0, ""))
	require.NoError(t, os.WriteFile(filepath.Join(later, "seen"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(disk, "go"), []byte("\n"), 0o600))
	require.NoError(t, running.Wait(), &out)
	assert.Equal(t, "seen\n-\n", out.String())

	require.NoError(t, unix.Unmount(later, 0))
	require.NoError(t, unix.Unmount(filepath.Join(host, "below"), 0))
	require.NoError(t, manager.TearDownPod(t.Context(), pod.UID))
	left, err := os.ReadDir(b.state)
	require.NoError(t, err)
	assert.Empty(t, left, "containers")
}
