// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lines keeps what is written to it, and tells of each line that it is there.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{} // closed, and replaced, with each write
}

func newLines() *lines { return &lines{more: make(chan struct{})} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.text.Write(p)
}

// await waits until there is something that matches, and returns it.
func (l *lines) await(t *testing.T, pattern string) []string {
	t.Helper()
	expression := regexp.MustCompile(`(?m)` + pattern)
	for {
		l.mu.Lock()
		found, more := expression.FindStringSubmatch(l.text.String()), l.more
		text := l.text.String()
		l.mu.Unlock()
		if found != nil {
			return found
		}
		select {
		case <-more:
		case <-t.Context().Done():
			require.Fail(t, "never said", "%s, but:\n%s", pattern, text)
		}
	}
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// running is a run of the program that goes on.
type running struct {
	out, complaints *lines
	url             string
	stop            func() (status int)
}

// start runs "podvolumes run" for the directory of manifests until the test ends, or it is stopped.
func start(t *testing.T, dir, root string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{out: newLines(), complaints: newLines()}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"run", "-f", dir, "-root", root, "-listen", "127.0.0.1:0"}, streams{in: strings.NewReader(""), out: r.out, err: r.complaints})
	}()
	r.stop = sync.OnceValue(func() int {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { r.stop() })
	r.url = r.out.await(t, `^manifests in .* state at (http://127\.0\.0\.1:\d+/)$`)[1]
	return r
}

// write puts a manifest in its place at once.
func write(t *testing.T, path, manifest string) {
	t.Helper()
	unfinished := filepath.Join(t.TempDir(), "manifest")
	require.NoError(t, os.WriteFile(unfinished, []byte(manifest), 0o600))
	require.NoError(t, os.Rename(unfinished, path))
}

func TestRunFollowsTheManifestsOfADirectory(t *testing.T) {
	dir, root := filepath.Join(t.TempDir(), "manifests"), t.TempDir()
	r := start(t, dir, root)
	r.complaints.await(t, `manifests: .*no such file`) // and it waits for the directory
	require.NoError(t, os.Mkdir(dir, 0o755))
	write(t, filepath.Join(dir, "web.yaml"), twoVolumes)
	r.out.await(t, `^default/web cache: set up in`)
	r.out.await(t, `^default/web etc: set up in`)
	file := filepath.Join(root, "pods/web-uid/volumes/kubernetes.io~empty-dir/cache/file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	write(t, filepath.Join(dir, "web.yaml"), strings.Replace(twoVolumes, "  volumes:\n", "  volumes:\n    - {name: more, emptyDir: {}}\n", 1))
	r.out.await(t, `^default/web more: set up in`)
	assert.FileExists(t, file)

	assert.Equal(t, allWell, r.stop(), r.complaints)
	assert.FileExists(t, file, "the volumes stay")
	r = start(t, dir, root)
	r.out.await(t, `^default/web: recover in`)
	r.out.await(t, `^default/web cache: set up in`)
	assert.FileExists(t, file, "and are taken over")

	require.NoError(t, os.Remove(filepath.Join(dir, "web.yaml")))
	r.out.await(t, `^default/web: remove in`)
	assert.Equal(t, allWell, r.stop())
	requireNoFile(t, root)
}

func TestAManifestThatCannotBeReadTakesNothingAway(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "web.yaml"), twoVolumes)
	requireWell(t, strings.ReplaceAll(twoVolumes, "web", "left"), "up", "-f", "-", "-root", root)
	write(t, filepath.Join(dir, "bad.yaml"), "kind: Nonsense")
	r := start(t, dir, root)
	r.complaints.await(t, `bad\.yaml.*`)
	r.complaints.await(t, `what no manifest wants stays until .*bad\.yaml can be read`)
	r.out.await(t, `^default/web cache: set up in`)
	assert.NotContains(t, r.out.String(), "default/left: remove")

	require.NoError(t, os.Remove(filepath.Join(dir, "bad.yaml")))
	r.out.await(t, `^default/left: remove in`)

	write(t, filepath.Join(dir, "web.yaml"), "\n")
	r.complaints.await(t, `web\.yaml is empty.*what it held before stays in force`)
	write(t, filepath.Join(dir, "web.yaml"), "{")
	r.complaints.await(t, `web\.yaml.*what it held before stays in force`)
	write(t, filepath.Join(dir, "again.yaml"), strings.ReplaceAll(twoVolumes, "name: web", "name: web2"))
	r.complaints.await(t, `pod default/web2 stands in .*again|again\.yaml.*web`)
	assert.NotContains(t, r.out.String(), "default/web: remove")
	assert.Equal(t, allWell, r.stop())
	requireWell(t, "", "down", "-all", "-root", root)
}

func TestTheDirectoryMayBeALinkThatIsReplaced(t *testing.T) {
	root, base := t.TempDir(), t.TempDir()
	dir := filepath.Join(base, "current")
	for _, version := range []string{"one", "two"} {
		require.NoError(t, os.Mkdir(filepath.Join(base, version), 0o755))
		write(t, filepath.Join(base, version, "pod.yaml"), strings.ReplaceAll(twoVolumes, "web", version))
	}
	require.NoError(t, os.Symlink("one", dir))
	r := start(t, dir, root)
	r.out.await(t, `^default/one cache: set up in`)
	require.NoError(t, os.Symlink("two", dir+".new"))
	require.NoError(t, os.Rename(dir+".new", dir))
	r.out.await(t, `^default/two cache: set up in`)
	r.out.await(t, `^default/one: remove in`)
	assert.Equal(t, allWell, r.stop())
	requireWell(t, "", "down", "-all", "-root", root)
}

func TestTheDirectoryMayBeNamedFromWhereTheProgramRuns(t *testing.T) {
	root := t.TempDir()
	t.Chdir(t.TempDir())
	r := start(t, "manifests", root)
	require.NoError(t, os.Mkdir("manifests", 0o755))
	write(t, "manifests/web.yaml", twoVolumes)
	r.out.await(t, `^default/web cache: set up in`)
	require.NoError(t, os.RemoveAll("manifests"))
	r.complaints.await(t, `manifests: .*the pods that it held stay`)
	require.NoError(t, os.Mkdir("manifests", 0o755))
	r.out.await(t, `^default/web: remove in`)
	assert.Equal(t, allWell, r.stop())
	requireNoFile(t, root)
}

func TestWhoIsBusyBesideTheDirectoryPutsNothingOff(t *testing.T) {
	base, root := t.TempDir(), t.TempDir()
	dir := filepath.Join(base, "manifests")
	require.NoError(t, os.Mkdir(dir, 0o755))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(filepath.Join(base, "busy"), nil, 0o600)
				_ = os.WriteFile(filepath.Join(dir, ".busy"), nil, 0o600)
			}
		}
	}()
	r := start(t, dir, root)
	write(t, filepath.Join(dir, "web.yaml"), twoVolumes)
	r.out.await(t, `^default/web cache: set up in`)
	close(stop)
	<-stopped
	assert.Equal(t, allWell, r.stop())
	requireWell(t, "", "down", "-all", "-root", root)
}

func TestRunShowsItsStateToTheMachineItself(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "web.yaml"), twoVolumes)
	r := start(t, dir, root)
	r.out.await(t, `^default/web cache: set up in`)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path, host string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+path, nil)
		require.NoError(t, err)
		request.Host = host
		answer, err := client.Do(request)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(body)
	}
	for path, holds := range map[string]string{"": "default/web", "state": `"name":"cache"`, "metrics": "volumekit_", "healthz": "ok"} {
		status, body := get(path, "")
		assert.Equal(t, http.StatusOK, status, path)
		assert.Contains(t, strings.ReplaceAll(body, `": "`, `":"`), holds, path)
	}
	status, body := get("state", "evil.example:80")
	assert.Equal(t, http.StatusMisdirectedRequest, status)
	assert.NotContains(t, body, "cache")

	second, _, complaints := podvolumes(t, "", "run", "-f", dir, "-root", root, "-listen", "127.0.0.1:0")
	assert.Equal(t, notServed, second)
	assert.Contains(t, complaints, "is in use by another volume manager")
	assert.Equal(t, allWell, r.stop())
	requireWell(t, "", "down", "-all", "-root", root)
}

func TestRunRefusesWhatItCannotDo(t *testing.T) {
	for says, args := range map[string][]string{
		"which directory":                 {},
		"use a loopback address":          {"-f", "x", "-listen", "0.0.0.0:80"},
		"is not of the form":              {"-f", "x", "-listen", "80"},
		"to the machine itself only":      {"-f", "x", "-listen", "example.com:80"},
		`unexpected argument "manifests"`: {"manifests"},
		"-f DIR, once":                    {"-f", "-"},
	} {
		status, _, complaints := podvolumes(t, "", append([]string{"run", "-root", t.TempDir()}, args...)...)
		assert.Equal(t, wrongUse, status)
		assert.Contains(t, complaints, says)
	}
}
