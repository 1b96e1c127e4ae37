// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/objects"
	"github.com/volumekit/volumekit/volume"
)

func secretText(name, value string) string {
	return "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\nstringData: {key: \"" + value + "\"}\n"
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// value returns what the secret holds, "" if it is not there.
func value(store *objects.Store, name string) string {
	secret, err := store.Secret(context.Background(), "default", name)
	if err != nil {
		return ""
	}
	return string(secret.Data["key"])
}

func TestADirectoryIsReadFileByFile(t *testing.T) {
	path := t.TempDir()
	store := objects.NewStore()
	require.NoError(t, store.Set(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}))
	dir := New(path, store, Options{})
	steps := []struct {
		name string
		do   func()
		a, b string
		want []string // in the error, none if empty
	}{
		{"two files, and what is none", func() {
			write(t, filepath.Join(path, "a.yaml"), secretText("a", "1"))
			write(t, filepath.Join(path, "b.yml"), secretText("b", "1"))
			write(t, filepath.Join(path, ".a.yaml.swp"), secretText("c", "1"))
			write(t, filepath.Join(path, ".c.yaml"), secretText("c", "1"))
			write(t, filepath.Join(path, "README"), "x")
			write(t, filepath.Join(path, "folder.yaml", "c.yaml"), secretText("c", "1"))
		}, "1", "1", nil},
		{"one changes", func() { write(t, filepath.Join(path, "a.yaml"), secretText("a", "2")) }, "2", "1", nil},
		{"one is half written", func() { write(t, filepath.Join(path, "a.yaml"), secretText("a", "3")+"stringData: {") }, "2", "1", []string{"a.yaml", "stays in force"}},
		{"one has an unknown field", func() { write(t, filepath.Join(path, "a.yaml"), secretText("a", "3")+"x: 1\n") }, "2", "1", []string{"a.yaml", `"x"`}},
		{"one has a name that is none", func() {
			write(t, filepath.Join(path, "a.yaml"), secretText("a", "3")+"---\n"+secretText("A", "3"))
		}, "2", "1", []string{"a.yaml", "Secret default/A", "metadata.name"}},
		{"one holds an object twice", func() {
			write(t, filepath.Join(path, "a.yaml"), secretText("a", "3")+"---\n"+secretText("a", "4"))
		}, "2", "1", []string{"a.yaml", "twice"}},
		{"one is empty", func() { write(t, filepath.Join(path, "a.yaml"), "") }, "2", "1", []string{"a.yaml", "empty"}},
		{"one is gone, and a new one half there", func() {
			require.NoError(t, os.Rename(filepath.Join(path, "a.yaml"), filepath.Join(path, "new.yaml")))
		}, "2", "1", []string{"new.yaml", "stay until"}},
		{"it is whole", func() { write(t, filepath.Join(path, "new.yaml"), secretText("b", "9")) }, "", "1", []string{"new.yaml", "b.yml too, which counts"}},
		{"the first goes", func() { require.NoError(t, os.Remove(filepath.Join(path, "b.yml"))) }, "", "9", nil},
		{"the directory is away", func() { require.NoError(t, os.Rename(path, path+".old")) }, "", "9", []string{path, "no such file"}},
		{"it is a file", func() { write(t, path, "") }, "", "9", []string{path, "not a directory"}},
		{"another takes its place", func() {
			require.NoError(t, os.Remove(path))
			write(t, filepath.Join(path, "x.json"), `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"stringData":{"key":"7"}}`)
		}, "7", "", nil},
	}
	for _, step := range steps {
		step.do()
		err := dir.Load(t.Context())
		if len(step.want) == 0 {
			require.NoError(t, err, step.name)
		}
		for _, want := range step.want {
			require.ErrorContains(t, err, want, step.name)
		}
		assert.Equal(t, step.a, value(store, "a"), step.name)
		assert.Equal(t, step.b, value(store, "b"), step.name)
		assert.Empty(t, value(store, "c"), step.name)
		_, err = store.Node(t.Context(), "mine")
		require.NoError(t, err, step.name)
	}
}

func TestOneImmutableObjectDoesNotHoldUpTheOthers(t *testing.T) {
	path := t.TempDir()
	store := objects.NewStore()
	dir := New(path, store, Options{})
	write(t, filepath.Join(path, "a.yaml"), secretText("a", "1")+"immutable: true\n")
	write(t, filepath.Join(path, "b.yaml"), secretText("b", "1"))
	require.NoError(t, dir.Load(t.Context()))
	write(t, filepath.Join(path, "a.yaml"), secretText("a", "hush")+"immutable: true\n")
	write(t, filepath.Join(path, "b.yaml"), secretText("b", "2"))
	for range 2 {
		err := dir.Load(t.Context())
		require.ErrorContains(t, err, "Secret default/a is immutable")
		assert.NotContains(t, err.Error(), "hush")
		assert.Equal(t, "1", value(store, "a"))
		assert.Equal(t, "2", value(store, "b"))
	}
	require.NoError(t, os.Rename(filepath.Join(path, "a.yaml"), filepath.Join(path, "a.away")))
	require.NoError(t, dir.Load(t.Context()))
	require.NoError(t, os.Rename(filepath.Join(path, "a.away"), filepath.Join(path, "a.yaml")))
	require.NoError(t, dir.Load(t.Context()))
	assert.Equal(t, "hush", value(store, "a"))
}

func TestOtherKindsArePassedOverAndReportedOnce(t *testing.T) {
	path := t.TempDir()
	write(t, filepath.Join(path, "a.yaml"), "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n---\n"+secretText("a", "1"))
	f := follow(t, path)
	f.becomes("a", "1")
	write(t, filepath.Join(path, "b.yaml"), secretText("b", "1"))
	f.becomes("b", "1")
	require.Len(t, f.all(), 1)
	assert.ErrorIs(t, f.all()[0], volume.ErrNotSupported)
	assert.ErrorContains(t, f.all()[0], "Service web")
	require.NoError(t, f.dir.Load(t.Context()))
	assert.Len(t, f.dir.Faults(), 1)
}

// followed is a directory that is being followed.
type followed struct {
	t     *testing.T
	store *objects.Store
	dir   *Directory
	told  chan struct{}

	mu     sync.Mutex
	faults []error
}

func follow(t *testing.T, path string) *followed {
	f := &followed{t: t, store: objects.NewStore(), told: make(chan struct{}, 1)}
	tell := func() {
		select {
		case f.told <- struct{}{}:
		default:
		}
	}
	stop, ok := f.store.Watch(volume.Reference{Kind: volume.KindSecret}, tell)
	require.True(t, ok)
	f.dir = New(path, f.store, Options{Report: func(err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.faults = append(f.faults, err)
		tell()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { f.dir.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait(); stop() })
	return f
}

func (f *followed) all() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]error{}, f.faults...)
}

// becomes waits until the secret holds that, "" for gone.
func (f *followed) becomes(name, want string) {
	f.t.Helper()
	f.until(func() bool { return value(f.store, name) == want }, "%s is not %q but %q: %v", name, want, value(f.store, name), f.all())
}

// reports waits for a fault that holds the text.
func (f *followed) reports(want string) {
	f.t.Helper()
	f.until(func() bool {
		for _, fault := range f.all() {
			if strings.Contains(fault.Error(), want) {
				return true
			}
		}
		return false
	}, "nothing with %q is reported", want)
}

func (f *followed) until(done func() bool, message string, args ...any) {
	f.t.Helper()
	// Less than lookAnyway, so that what is seen is what was told.
	timeout := time.After(lookAnyway / 2)
	for !done() {
		select {
		case <-f.told:
		case <-timeout:
			f.t.Fatalf(message, args...)
		}
	}
}

func TestFilesAreFollowed(t *testing.T) {
	path := t.TempDir()
	f := follow(t, path)
	at := filepath.Join(path, "a.yaml")
	write(t, at, secretText("a", "1"))
	f.becomes("a", "1")
	write(t, at, secretText("a", "2"))
	f.becomes("a", "2")
	write(t, at, "apiVersion: v1\nkind")
	f.reports("a.yaml")
	assert.Equal(t, "2", value(f.store, "a"))
	write(t, filepath.Join(path, ".a.new"), secretText("a", "3"))
	require.NoError(t, os.Rename(filepath.Join(path, ".a.new"), at))
	f.becomes("a", "3")
	require.NoError(t, os.Remove(at))
	f.becomes("a", "")
}

func TestADirectoryThatIsReplacedIsFollowed(t *testing.T) {
	parent := t.TempDir()
	path := filepath.Join(parent, "objects")
	f := follow(t, path)
	f.reports("no such file")
	write(t, filepath.Join(parent, "new", "a.yaml"), secretText("a", "1"))
	require.NoError(t, os.Rename(filepath.Join(parent, "new"), path))
	f.becomes("a", "1")
	require.NoError(t, os.Rename(path, filepath.Join(parent, "old")))
	write(t, filepath.Join(parent, "new", "a.yaml"), secretText("a", "2"))
	require.NoError(t, os.Rename(filepath.Join(parent, "new"), path))
	f.becomes("a", "2")
	write(t, filepath.Join(path, "b.yaml"), secretText("b", "1"))
	f.becomes("b", "1")
}

func TestAVolumeOfAConfigMapIsFollowed(t *testing.T) {
	path := t.TempDir()
	version := func(name, value string) {
		write(t, filepath.Join(path, name, "a.yaml"), secretText("a", value))
		require.NoError(t, os.Symlink(name, filepath.Join(path, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(path, "..data_tmp"), filepath.Join(path, "..data")))
	}
	version("..1", "1")
	require.NoError(t, os.Symlink("..data/a.yaml", filepath.Join(path, "a.yaml")))
	f := follow(t, path)
	f.becomes("a", "1")
	version("..2", "2")
	f.becomes("a", "2")
}

func TestALinkThatLeadsToAnotherDirectoryIsFollowed(t *testing.T) {
	parent := t.TempDir()
	path := filepath.Join(parent, "current")
	point := func(name string) {
		require.NoError(t, os.Symlink(name, filepath.Join(parent, "tmp")))
		require.NoError(t, os.Rename(filepath.Join(parent, "tmp"), path))
	}
	write(t, filepath.Join(parent, "1", "a.yaml"), secretText("a", "1"))
	write(t, filepath.Join(parent, "2", "a.yaml"), secretText("a", "2"))
	point("1")
	f := follow(t, path)
	f.becomes("a", "1")
	point("2")
	f.becomes("a", "2")
	write(t, filepath.Join(parent, "2", "a.yaml"), secretText("a", "3"))
	f.becomes("a", "3")
}
