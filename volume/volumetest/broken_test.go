// SPDX-License-Identifier: Apache-2.0

package volumetest_test

import (
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// playBroken tells a process that it shall run the suite on a broken plugin, rather than look how that ends.
const playBroken = "VOLUMETEST_PLAY_BROKEN"

// brokenCase is a plugin that breaks a rule.
type brokenCase struct {
	// name says what it does wrong.
	name string

	// config has the plugin.
	config func(*testing.T) volumetest.Config

	// fails is the subtest that has to fail, and says a part of what it has to say.
	fails, says string

	// after is another subtest of the same volume that has to run before, if any.
	after string
}

// TestTheSuiteFailsABrokenPlugin runs the suite on plugins that each break one rule, in a process of its own, since a test
// that fails fails those around it.
func TestTheSuiteFailsABrokenPlugin(t *testing.T) {
	if os.Getenv(playBroken) != "" {
		for _, broken := range brokenCases() {
			t.Run(broken.name, func(t *testing.T) {
				volumetest.RunOnly(t, broken.config(t), path.Base(broken.fails), broken.after)
			})
		}
		return
	}
	mountns.RequirePrivate(t)
	said, output := playAllBroken(t)
	for _, broken := range brokenCases() {
		t.Run(broken.name, func(t *testing.T) {
			failed := strings.Contains(output, "--- FAIL: "+t.Name()+"/"+broken.fails+" ")
			assert.True(t, failed, "%s has not failed, but has said: %s", broken.fails, said[t.Name()])
			assert.Contains(t, said[t.Name()], broken.says)
		})
	}
}

func TestEveryRuleHasAPluginThatBreaksIt(t *testing.T) {
	broken := make(map[string]bool)
	for _, c := range brokenCases() {
		broken[path.Base(c.fails)] = true
	}
	for _, rule := range volumetest.Rules() {
		assert.True(t, broken[rule], "no plugin in brokenCases breaks %s", rule)
	}
}

// playAllBroken returns what a process prints that runs this test for broken plugins, by the name of the plugin's subtest
// what it says, and in all of it which subtests failed.
func playAllBroken(t *testing.T) (said map[string]string, all string) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), playBroken+"=1")
	output, err := cmd.CombinedOutput()
	require.Error(t, err, "the suite has to fail")
	said = make(map[string]string)
	plugin := ""
	for line := range strings.Lines(string(output)) {
		// Subtests of subtests have another slash in their names.
		if name, ok := strings.CutPrefix(line, "=== RUN   "+t.Name()+"/"); ok && !strings.Contains(name, "/") {
			plugin = t.Name() + "/" + strings.TrimSuffix(name, "\n")
		}
		said[plugin] += line
	}
	return said, string(output)
}

// brokenPlugin is a FakePlugin but for what is set.
type brokenPlugin struct {
	*volumetest.FakePlugin
	host volume.Host

	name       func() string
	init       func(context.Context, volume.Host) error
	volumeName func(*volume.Spec) (string, error)
	newMounter func(*volume.Spec, *v1.Pod) (volume.Mounter, error)

	// mounter and unmounter change what is returned.
	mounter   func(*brokenMounter)
	unmounter func(*brokenUnmounter)
}

type brokenMounter struct {
	volume.Mounter
	plugin     *brokenPlugin
	spec       *volume.Spec
	pod        *v1.Pod
	path       func() string
	attributes *volume.Attributes
	setUp      func(context.Context, volume.SetUpOptions) error
	presence   func(context.Context) (volume.Presence, error)
	metrics    func(context.Context) (volume.Metrics, error)
}

type brokenUnmounter struct {
	volume.Unmounter
	plugin   *brokenPlugin
	name     string
	podUID   types.UID
	tearDown func(context.Context, volume.TearDownOptions) error
}

func (p *brokenPlugin) Name() string {
	if p.name != nil {
		return p.name()
	}
	return p.FakePlugin.Name()
}

func (p *brokenPlugin) Init(ctx context.Context, host volume.Host) error {
	p.host = host
	if p.init != nil {
		if err := p.init(ctx, host); err != nil {
			return err
		}
	}
	return p.FakePlugin.Init(ctx, host)
}

func (p *brokenPlugin) VolumeName(spec *volume.Spec) (string, error) {
	if p.volumeName != nil {
		return p.volumeName(spec)
	}
	return p.FakePlugin.VolumeName(spec)
}

func (p *brokenPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	newMounter := p.FakePlugin.NewMounter
	if p.newMounter != nil {
		newMounter = p.newMounter
	}
	mounter, err := newMounter(spec, pod)
	if err != nil || p.mounter == nil {
		return mounter, err
	}
	broken := &brokenMounter{Mounter: mounter, plugin: p, spec: spec, pod: pod}
	p.mounter(broken)
	if broken.metrics != nil {
		return &brokenMeter{broken}, nil
	}
	return broken, nil
}

func (p *brokenPlugin) NewUnmounter(name string, podUID types.UID) (volume.Unmounter, error) {
	unmounter, err := p.FakePlugin.NewUnmounter(name, podUID)
	if p.unmounter == nil {
		return unmounter, err
	}
	broken := &brokenUnmounter{Unmounter: unmounter, plugin: p, name: name, podUID: podUID}
	if err != nil {
		broken.Unmounter = nil
	}
	p.unmounter(broken)
	if broken.Unmounter == nil && broken.tearDown == nil {
		return nil, err
	}
	return broken, nil
}

func (m *brokenMounter) Path() string {
	if m.path != nil {
		return m.path()
	}
	return m.Mounter.Path()
}

func (m *brokenMounter) Attributes() volume.Attributes {
	if m.attributes != nil {
		return *m.attributes
	}
	return m.Mounter.Attributes()
}

func (m *brokenMounter) SetUp(ctx context.Context, options volume.SetUpOptions) error {
	if m.setUp != nil {
		return m.setUp(ctx, options)
	}
	return m.Mounter.SetUp(ctx, options)
}

func (m *brokenMounter) Presence(ctx context.Context) (volume.Presence, error) {
	if m.presence != nil {
		return m.presence(ctx)
	}
	return m.Mounter.Presence(ctx)
}

type brokenMeter struct{ *brokenMounter }

func (m *brokenMeter) Metrics(ctx context.Context) (volume.Metrics, error) { return m.metrics(ctx) }

func (u *brokenUnmounter) Path() string {
	if u.Unmounter == nil {
		return ""
	}
	return u.Unmounter.Path()
}

func (u *brokenUnmounter) TearDown(ctx context.Context, options volume.TearDownOptions) error {
	if u.tearDown != nil {
		return u.tearDown(ctx, options)
	}
	return u.Unmounter.TearDown(ctx, options)
}

// broken returns a config whose plugins are as change has made them. The case's name is "volume".
func broken(change func(*brokenPlugin)) func(*testing.T) volumetest.Config {
	return brokenConfig(change, func(*volumetest.Config) {})
}

// brokenTmpfs is broken with a plugin that mounts.
func brokenTmpfs(change func(*brokenPlugin)) func(*testing.T) volumetest.Config {
	return broken(func(p *brokenPlugin) {
		p.Tmpfs = true
		change(p)
	})
}

func brokenConfig(change func(*brokenPlugin), adapt func(*volumetest.Config)) func(*testing.T) volumetest.Config {
	return func(*testing.T) volumetest.Config {
		config := volumetest.Config{
			New: func() volume.VolumePlugin {
				p := &brokenPlugin{FakePlugin: &volumetest.FakePlugin{}}
				change(p)
				return p
			},
			Cases:     []volumetest.Case{{Name: "volume", Spec: emptyDirSpec()}},
			CallLimit: time.Second,
		}
		adapt(&config)
		return config
	}
}

// brokenMounting changes the Mounters of the plugin.
func brokenMounting(change func(*brokenMounter)) func(*brokenPlugin) {
	return func(p *brokenPlugin) { p.mounter = change }
}

// brokenUnmounting changes the Unmounters of the plugin.
func brokenUnmounting(change func(*brokenUnmounter)) func(*brokenPlugin) {
	return func(p *brokenPlugin) { p.unmounter = change }
}

func nothing(*brokenPlugin) {}

// counter counts the calls that all instances get.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

func emptyDirectory(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return err
}
