// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
)

// pluginChecks are about the plugin rather than a volume.
var pluginChecks = []check{
	{name: "NameAndSourcesNeverChange", run: nameAndSourcesNeverChange},
	{name: "AManagerFindsItForEachCase", run: aManagerFindsIt},
	{name: "UnsupportedSpecsAreRefused", run: unsupportedSpecsAreRefused},
	{name: "EmptySourcesDoNotPanic", run: emptySourcesDoNotPanic},
	{name: "InitSaysWhatTheHostLacks", run: initSaysWhatTheHostLacks},
	{name: "InitSucceedsAfterItFailed", run: initSucceedsAfterItFailed},
	{name: "AccessModesAreKnown", run: accessModesAreKnown},
	{name: "CapabilitiesComeWithoutIO", run: capabilitiesComeWithoutIO},
}

func nameAndSourcesNeverChange(c *trial) {
	plugin, other := c.config.New(), c.config.New()
	name, sources := plugin.Name(), slices.Clone(plugin.Sources())
	c.fatalIf(c.call("Init", func() error { return plugin.Init(c.ctx(), c.host) }), "Init")
	for when, p := range map[string]volume.VolumePlugin{"after Init": plugin, "of another instance": other} {
		assert.Equal(c, name, p.Name(), "Name %s", when)
		assert.Equal(c, sources, p.Sources(), "Sources %s", when)
	}
}

func aManagerFindsIt(c *trial) {
	plugin := c.config.New()
	mgr, err := volume.NewVolumePluginMgr(c.ctx(), c.host, []volume.VolumePlugin{plugin})
	require.NoError(c, err, "a manager has to accept what the plugin says of itself")
	defer mgr.Close()
	byName, err := mgr.FindPluginByName(plugin.Name())
	require.NoError(c, err)
	assert.Same(c, plugin, byName)
	for _, subject := range c.config.Cases {
		_, err := mgr.FindPluginBySpec(subject.Spec)
		assert.NoError(c, err, "case %q: Sources has to list its source, and CanSupport to accept it", subject.Name)
	}
	for _, invalid := range c.config.Invalid {
		_, err := mgr.FindPluginBySpec(invalid.Spec)
		assert.NoError(c, err, "case %q: it is for NewMounter to refuse it", invalid.Name)
	}
}

func unsupportedSpecsAreRefused(c *trial) {
	if len(c.config.Unsupported) == 0 {
		c.Log("not tested: Config.Unsupported is empty")
	}
	plugin := c.plugin()
	for _, spec := range c.config.Unsupported {
		assert.False(c, plugin.CanSupport(spec), "CanSupport of volume %q, whose source is %s", spec.Name(), spec.Source())
	}
}

// emptySourcesDoNotPanic gives the plugin each source that it lists with nothing in it, in a pod and in a PersistentVolume:
// CanSupport is asked about both, and the plugin may not expect the one that it knows.
func emptySourcesDoNotPanic(c *trial) {
	plugin := c.plugin()
	for _, source := range plugin.Sources() {
		for _, spec := range emptySpecs(source) {
			supported := false
			_ = c.call("CanSupport", func() error {
				supported = plugin.CanSupport(spec)
				return nil
			})
			if supported {
				_ = c.call("VolumeName", func() error {
					_, err := plugin.VolumeName(spec)
					return err
				})
				_, _ = c.mounterFor(spec, c.pod)
			}
		}
	}
}

// emptySpecs returns the specs that have the source, empty but for its driver.
func emptySpecs(source volume.Source) []*volume.Spec {
	inline := &v1.Volume{Name: "volume"}
	pv := &v1.PersistentVolume{}
	pv.Name = "volume"
	var specs []*volume.Spec
	if setSource(&inline.VolumeSource, source) {
		specs = append(specs, volume.NewSpecFromVolume(inline))
	}
	if setSource(&pv.Spec.PersistentVolumeSource, source) {
		specs = append(specs, volume.NewSpecFromPersistentVolume(pv, false))
	}
	return specs
}

// setSource sets the field of a v1.VolumeSource or v1.PersistentVolumeSource whose name in JSON is that of the source's
// type. It reports whether there is one.
func setSource(sources any, source volume.Source) bool {
	fields := reflect.ValueOf(sources).Elem()
	for i := range fields.NumField() {
		tag, _, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
		if tag != source.Type.String() {
			continue
		}
		value := reflect.New(fields.Field(i).Type().Elem())
		if driver := value.Elem().FieldByName("Driver"); driver.IsValid() && driver.Kind() == reflect.String {
			driver.SetString(source.Driver)
		}
		fields.Field(i).Set(value)
		return true
	}
	return false
}

// hostParts are the parts that a host may lack, and words for them of which an error has to use one.
var hostParts = []struct {
	words []string
	drop  func(*volume.Host)
}{
	{[]string{"secret"}, func(h *volume.Host) { h.Secrets = nil }},
	{[]string{"config map", "configmap"}, func(h *volume.Host) { h.ConfigMaps = nil }},
	{[]string{"token"}, func(h *volume.Host) { h.Tokens = nil }},
	{[]string{"claim"}, func(h *volume.Host) { h.Claims = nil }},
	{[]string{"node source", "nodes"}, func(h *volume.Host) { h.Nodes = nil }},
	{[]string{"node name", "nodename"}, func(h *volume.Host) { h.NodeName = "" }},
}

func initSaysWhatTheHostLacks(c *trial) {
	for _, part := range hostParts {
		host := c.host
		part.drop(&host)
		plugin := c.config.New()
		err := c.call("Init", func() error { return plugin.Init(c.ctx(), host) })
		if err == nil {
			continue // It can do without.
		}
		named := slices.ContainsFunc(part.words, func(word string) bool {
			return strings.Contains(strings.ToLower(err.Error()), word)
		})
		assert.True(c, named, "the host lacks what an error would call %q, but this one does not: %v", part.words, err)
	}
}

func initSucceedsAfterItFailed(c *trial) {
	plugin := c.config.New()
	bare := volume.Host{Root: c.host.Root, Mounter: c.host.Mounter, Exec: c.host.Exec, Clock: c.host.Clock}
	ended, end := context.WithCancel(c.ctx())
	end()
	if err := c.call("Init", func() error { return plugin.Init(ended, bare) }); err == nil {
		return // There is nothing that it lacks, and nothing that it waits for.
	}
	require.NoError(c, c.call("Init", func() error { return plugin.Init(c.ctx(), c.host) }))
	c.instance = plugin
	c.newMounter()
}

func accessModesAreKnown(c *trial) {
	persistent, ok := c.plugin().(volume.PersistentVolumePlugin)
	if !ok {
		for _, subject := range c.config.Cases {
			assert.Nil(c, subject.Spec.PersistentVolume,
				"case %q is a PersistentVolume, so the plugin has to be a PersistentVolumePlugin", subject.Name)
		}
		return
	}
	known := []v1.PersistentVolumeAccessMode{
		v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOncePod,
	}
	assert.NotEmpty(c, persistent.AccessModes())
	assert.Subset(c, known, persistent.AccessModes())
}

// capabilitiesComeWithoutIO asks for what does the work of each capability.
func capabilitiesComeWithoutIO(c *trial) {
	plugin := c.plugin()
	before := takeSnapshot(c, c.dir)
	get := func(what string, f func() error) {
		assert.NoError(c, c.call(what, f), what)
	}
	if p, ok := plugin.(volume.AttachableVolumePlugin); ok {
		get("NewAttacher", func() error { _, err := p.NewAttacher(); return err })
		get("NewDetacher", func() error { _, err := p.NewDetacher(); return err })
	}
	if p, ok := plugin.(volume.DeviceMountableVolumePlugin); ok {
		get("NewDeviceMounter", func() error { _, err := p.NewDeviceMounter(); return err })
		get("NewDeviceUnmounter", func() error { _, err := p.NewDeviceUnmounter(); return err })
	}
	if p, ok := plugin.(volume.ExpandableVolumePlugin); ok {
		get("NewExpander", func() error { _, err := p.NewExpander(); return err })
	}
	if p, ok := plugin.(volume.NodeExpandableVolumePlugin); ok {
		get("NewNodeExpander", func() error { _, err := p.NewNodeExpander(); return err })
	}
	assert.Empty(c, before.changes(takeSnapshot(c, c.dir)), "what has changed on the disk")
}

// invalidCheck is the rule that a volume is refused by name, before anything is touched.
func invalidCheck(invalid InvalidCase) check {
	return check{name: "NewMounterRefusesItByName", run: func(c *trial) {
		c.restart()
		before := takeSnapshot(c, c.dir)
		_, err := c.mounterFor(c.spec, c.pod)
		require.Error(c, err)
		for _, text := range invalid.Mentions {
			assert.ErrorContains(c, err, text)
		}
		c.wantKind(err, volume.ErrInvalid, volume.ErrNotSupported)
		assert.Empty(c, before.changes(takeSnapshot(c, c.dir)), "what has changed on the disk")
	}}
}
