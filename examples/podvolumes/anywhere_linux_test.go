// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/syscallfault"
)

// The kinds of volumes, each as the volumes of a pod whose container mounts "data". HOST is a directory of the machine.
var anywhereKinds = []struct{ name, volumes, mount, objects string }{
	{name: "emptyDir on disk", volumes: `[{name: data, emptyDir: {}}]`},
	{name: "emptyDir on disk, of which the container gets a part", volumes: `[{name: data, emptyDir: {}}]`, mount: ", subPath: a/b"},
	{name: "emptyDir in memory", volumes: `[{name: data, emptyDir: {medium: Memory, sizeLimit: 1Mi}}]`},
	{name: "emptyDir of huge pages", volumes: `[{name: data, emptyDir: {medium: HugePages}}]`},
	{name: "hostPath that is there", volumes: `[{name: data, hostPath: {path: HOST}}]`},
	{name: "hostPath that makes a directory", volumes: `[{name: data, hostPath: {path: HOST/made, type: DirectoryOrCreate}}]`},
	{name: "hostPath that makes a file", volumes: `[{name: data, hostPath: {path: HOST/made, type: FileOrCreate}}]`},
	{name: "files and a claim", volumes: `[{name: data, projected: {sources: [{configMap: {name: settings}}, {secret: {name: db, items: [{key: password, path: below/password, mode: 256}]}},
		{downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}]}}, {name: claimed, persistentVolumeClaim: {claimName: claimed}}]`, objects: `
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a.conf: "1", b.conf: "2"}}
---
{apiVersion: v1, kind: Secret, metadata: {name: db}, stringData: {password: canary}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: HOST}, claimRef: {namespace: default, name: claimed}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claimed}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`},
	{name: "three volumes", volumes: `[{name: data, emptyDir: {}}, {name: fast, emptyDir: {medium: Memory}}, {name: host, hostPath: {path: HOST}}]`},
}

// The commands that change something, and what comes before them.
var anywhereCommands = []struct {
	name  string
	args  []string
	after func(t *testing.T, w *world)
}{
	{name: "up", args: []string{"up", "-f", "-"}},
	{name: "up again", args: []string{"up", "-f", "-"}, after: setUpAndUse},
	{name: "down", args: []string{"down", "-all"}, after: setUpAndUse},
}

func TestACommandThatIsDisturbedAnywhereEndsWellWhenItIsRunAgain(t *testing.T) {
	mountns.RequirePrivate(t)
	program := filepath.Join(t.TempDir(), "podvolumes")
	build(t, program)
	supervisor := syscallfault.New(t)
	for i, kind := range anywhereKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(kind.volumes, "HugePages") {
				requireHugePages(t)
			}
			manifest := strings.NewReplacer("VOLUMES", kind.volumes, "MOUNT", "name: data, mountPath: /data"+kind.mount).Replace(anywherePod) + kind.objects
			for _, command := range anywhereCommands {
				a := &anywhere{program: program, supervisor: supervisor, manifest: manifest, args: command.args, after: command.after, rotation: i}
				t.Run(command.name, func(t *testing.T) {
					a.undisturbed(t)
					t.Run("looked at", a.lookedAt)
					t.Run("killed", a.killed)
					if command.name == "up" {
						t.Run("killed and not run again", a.killedForGood)
					}
					t.Run("failing", a.failing)
				})
			}
		})
	}
}

// requireHugePages skips the test where the kernel has no pages of the size that the pod asks for. None has to be free.
func requireHugePages(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/sys/kernel/mm/hugepages/hugepages-2048kB"); err != nil {
		t.Skip("needs huge pages of 2 MiB: ", err)
	}
}

const anywherePod = `
apiVersion: v1
kind: Pod
metadata: {name: web, uid: web-uid}
spec:
  containers:
    - name: nginx
      resources: {limits: {hugepages-2Mi: 2Mi}}
      volumeMounts: [{MOUNT}]
  volumes: VOLUMES
`

// anywhere is a command that is disturbed anywhere.
type anywhere struct {
	program    string
	supervisor *syscallfault.Supervisor
	manifest   string
	args       []string
	after      func(*testing.T, *world)
	rotation   int // of the errors, see failing

	end state // that of a command that is not disturbed
}

// undisturbed finds out what the end is.
func (a *anywhere) undisturbed(t *testing.T) {
	w := a.newWorld(t)
	w.requireWell(t, a.args...)
	a.end = w.state(t)
	w.requireDown(t)
}

// lookedAt wants looking to change nothing.
func (a *anywhere) lookedAt(t *testing.T) {
	w := a.newWorld(t)
	ended := w.supervised(t, nil, "status")
	assert.Empty(t, ended.calls)
	w.requireDown(t)
}

// eachChange disturbs the command at one change after the other, each time in a world of its own, until it ends before. next
// goes on from there. Only the command that is disturbed runs under supervision, as a process of its own: what comes
// before and after runs in this one. It returns how many changes there are.
func (a *anywhere) eachChange(t *testing.T, verdict func(n int) syscallfault.Verdict, next func(t *testing.T, w *world, ended ended)) int {
	for n, disturbed := 0, true; ; n++ {
		t.Run(fmt.Sprintf("change %d", n), func(t *testing.T) {
			disturbed = false
			w := a.newWorld(t)
			ended := w.supervised(t, func(i int, _ syscallfault.Call) syscallfault.Verdict {
				if i == n {
					return verdict(n)
				}
				return syscallfault.Continue()
			}, a.args...)
			if disturbed = n < len(ended.calls); disturbed {
				t.Logf("disturbed at %v", ended.calls[n])
				next(t, w, ended)
			} else {
				require.Equal(t, allWell, ended.status.ExitCode(), ended.complaints)
			}
			w.requireDown(t)
		})
		if !disturbed {
			return n
		}
	}
}

// requireAgain wants the same command to succeed now, with the end that there is without disturbance.
func (w *world) requireAgain(t *testing.T) {
	t.Helper()
	w.requireWell(t, w.args...)
	assert.Equal(t, w.end, w.state(t), "once it has been run again")
}

// world is a root and what a pod finds on the machine.
type world struct {
	*anywhere
	dir, root, host string
}

func (a *anywhere) newWorld(t *testing.T) *world {
	dir := t.TempDir()
	w := &world{anywhere: a, dir: dir, root: filepath.Join(dir, "root"), host: filepath.Join(dir, "host")}
	require.NoError(t, os.Mkdir(w.root, 0o755))
	require.NoError(t, os.Mkdir(w.host, 0o755))
	t.Cleanup(func() { // where the program did not
		for _, mount := range w.mounts(t) {
			_ = unix.Unmount(mount.Mountpoint, unix.MNT_DETACH)
		}
	})
	if a.after != nil {
		a.after(t, w)
	}
	return w
}

// setUpAndUse sets the pod up and has its containers write, where they can.
func setUpAndUse(t *testing.T, w *world) {
	w.requireWell(t, "up", "-f", "-")
	for _, volume := range w.status(t)[0].Volumes {
		deep := filepath.Join(volume["path"].(string), "written/by/the/container")
		if !strings.HasPrefix(deep, w.root) || os.MkdirAll(filepath.Dir(deep), 0o755) != nil {
			continue
		}
		_ = os.WriteFile(deep, []byte("text"), 0o600) // a hugetlbfs cannot be written to
	}
}

// ended is what is known of a supervised run of the program.
type ended struct {
	calls      []syscallfault.Call
	status     *os.ProcessState
	complaints string
}

func (w *world) supervised(t *testing.T, decide func(int, syscallfault.Call) syscallfault.Verdict, args ...string) ended {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), w.program, append(args, "-root", w.root)...)
	cmd.Stdin = strings.NewReader(w.stdin())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	calls, err := w.supervisor.Run(cmd, decide)
	require.NoError(t, err)
	return ended{calls: calls, status: cmd.ProcessState, complaints: stderr.String()}
}

func (w *world) stdin() string { return strings.ReplaceAll(w.manifest, "HOST", w.host) }

// requireWell wants the command to succeed without a word.
func (w *world) requireWell(t *testing.T, args ...string) {
	t.Helper()
	requireWell(t, w.stdin(), append(args, "-root", w.root)...)
}

// requireDown wants nothing to be left in the root once all pods are taken away.
func (w *world) requireDown(t *testing.T) {
	t.Helper()
	w.requireWell(t, "down", "-all")
	requireNoFile(t, w.root)
	require.Empty(t, w.mounts(t))
}

// requireExplained wants everything in the root to belong to a pod that is recorded, and status to tell of nothing else.
func (w *world) requireExplained(t *testing.T) {
	t.Helper()
	explained := map[string]bool{}
	for _, dir := range w.glob(t, "pods/*") {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		explained[dir] = slices.ContainsFunc(entries, isRecord)
		foreign := slices.DeleteFunc(slices.Clone(entries), isUnfinishedRecord)
		assert.True(t, explained[dir] || len(foreign) == 0, "no record explains %v in %s", entries, dir)
	}
	for _, mount := range w.mounts(t) {
		assert.True(t, slices.ContainsFunc(w.glob(t, "pods/*"), func(dir string) bool {
			return explained[dir] && strings.HasPrefix(mount.Mountpoint, dir+"/")
		}), "no record explains the mount at %s", mount.Mountpoint)
	}
	for _, path := range w.glob(t, "*") {
		assert.Contains(t, []string{"pods"}, filepath.Base(path), "what is in the root")
	}
	for _, pod := range w.status(t) {
		assert.Equal(t, "web-uid", pod.UID)
	}
}

// isRecord knows the record of a pod by its name: it tells that the directory is a pod's, whatever it tells of the pod.
func isRecord(entry fs.DirEntry) bool {
	return slices.Contains([]string{"volumekit.json", "volumekit.leaving.json"}, entry.Name())
}

// isUnfinishedRecord knows what a crash leaves of writing a record.
func isUnfinishedRecord(entry fs.DirEntry) bool { return strings.HasPrefix(entry.Name(), ".") }

func (w *world) glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(w.root, pattern))
	require.NoError(t, err)
	return paths
}

// status is what the program tells of the pods, which has to be something.
func (w *world) status(t *testing.T) []statusOfPod {
	t.Helper()
	status, out, complaints := podvolumes(t, "", "status", "-o", "json", "-root", w.root)
	require.Contains(t, []int{allWell, notServed}, status, complaints)
	var report struct{ Pods []statusOfPod }
	require.NoError(t, json.Unmarshal([]byte(out), &report), out)
	for _, pod := range report.Pods {
		for _, volume := range pod.Volumes {
			delete(volume, "usage") // other programs use the disk too
		}
	}
	return report.Pods
}

type statusOfPod struct {
	Namespace, Name, UID, Error string
	Volumes, Containers         []map[string]any
}

// mounts are those in the world.
func (w *world) mounts(t *testing.T) []*mountinfo.Info {
	t.Helper()
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(w.dir))
	require.NoError(t, err)
	return mounts
}

// state is what can be seen of a world, without what differs from one world to the other.
type state struct {
	Status string
	Files  []string
	Mounts []string
}

// worldReplacer takes out of a text what differs from one world to another.
type worldReplacer struct{ dir string }

var timedDirectory = regexp.MustCompile(`\.\.\d{4}(_\d\d){5}\.\d{9}`)

func (r worldReplacer) Replace(text string) string {
	return timedDirectory.ReplaceAllString(strings.ReplaceAll(text, r.dir, "DIR"), "..TIME")
}

func (w *world) state(t *testing.T) state {
	t.Helper()
	var s state
	own := worldReplacer{w.dir}
	text, err := json.MarshalIndent(w.status(t), "", "  ")
	require.NoError(t, err)
	s.Status = own.Replace(string(text))
	for _, m := range w.mounts(t) {
		s.Mounts = append(s.Mounts, own.Replace(strings.Join([]string{m.Mountpoint, m.Root, m.FSType, m.Source, m.Options, m.VFSOptions, m.Optional}, " ")))
	}
	slices.Sort(s.Mounts)
	require.NoError(t, filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		line := fmt.Sprintf("%s %v %d:%d", own.Replace(path), info.Mode(), stat.Uid, stat.Gid)
		if info.Mode().IsRegular() && !isRecord(entry) {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", content)
		}
		s.Files = append(s.Files, line)
		return nil
	}))
	return s
}
