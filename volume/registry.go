// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"cmp"
	"maps"
	"slices"
)

// registry is a set of plugins, indexed for lookups. It never changes: registering makes a new one.
type registry struct {
	byName   map[string]*registration
	bySource [sourceTypes]candidates

	// replaced is closed when another registry takes this one's place.
	replaced chan struct{}
}

// registration is a plugin that was added, with what it said of itself then. Its address tells it from another one of the
// same name.
type registration struct {
	plugin  VolumePlugin
	name    string
	sources []Source
}

// candidates are the plugins that list one type of source.
type candidates struct {
	anyDriver []VolumePlugin
	byDriver  map[string][]VolumePlugin
}

func newRegistry(byName map[string]*registration) *registry {
	r := &registry{byName: byName, replaced: make(chan struct{})}
	for _, registered := range r.sorted() {
		for _, source := range registered.sources {
			c := &r.bySource[source.Type]
			if source.Driver == "" {
				c.anyDriver = append(c.anyDriver, registered.plugin)
				continue
			}
			if c.byDriver == nil {
				c.byDriver = make(map[string][]VolumePlugin)
			}
			c.byDriver[source.Driver] = append(c.byDriver[source.Driver], registered.plugin)
		}
	}
	return r
}

// newRegistration asks the plugin, once, what it says of itself, and reports what is wrong with that.
func newRegistration(plugin VolumePlugin) (*registration, error) {
	if plugin == nil {
		return nil, Errorf(ErrInvalid, "a plugin is nil")
	}
	r := &registration{plugin: plugin, name: plugin.Name()}
	if err := checkPluginName(r.name); err != nil {
		return nil, err
	}
	sources := slices.Clone(plugin.Sources())
	if len(sources) == 0 {
		return nil, Errorf(ErrInvalid, "plugin %s lists no source that it serves", r.name)
	}
	for _, source := range sources {
		switch {
		case source.Type <= SourceSeveral || source.Type >= sourceTypes:
			return nil, Errorf(ErrInvalid, "plugin %s lists a source that does not exist: %s", r.name, source)
		case source.Driver != "" && source.Type != SourceCSI && source.Type != SourceFlexVolume:
			return nil, Errorf(ErrInvalid, "plugin %s lists the source %s, but only csi and flexVolume have drivers", r.name, source)
		case source.Driver != "" && slices.Contains(sources, Source{Type: source.Type}):
			// Every driver is this one too.
		case !slices.Contains(r.sources, source):
			r.sources = append(r.sources, source)
		}
	}
	return r, nil
}

// plugins lists them in the order of their names.
func (r *registry) plugins() []VolumePlugin {
	plugins := make([]VolumePlugin, 0, len(r.byName))
	for _, registered := range r.sorted() {
		plugins = append(plugins, registered.plugin)
	}
	return plugins
}

func (r *registry) sorted() []*registration {
	return slices.SortedFunc(maps.Values(r.byName), func(a, b *registration) int { return cmp.Compare(a.name, b.name) })
}

// find returns the one plugin that serves spec.
func (r *registry) find(spec *Spec) (VolumePlugin, error) {
	source := spec.Source()
	c := &r.bySource[source.Type]
	found, other := match(c.anyDriver, spec)
	if source.Driver != "" && other == nil {
		foundByDriver, second := match(c.byDriver[source.Driver], spec)
		switch {
		case found == nil:
			found, other = foundByDriver, second
		case foundByDriver != nil:
			other = foundByDriver
		}
	}
	if found == nil || other != nil {
		return nil, r.explain(source, found, other)
	}
	return found, nil
}

// match returns the first two of the plugins that support spec.
func match(plugins []VolumePlugin, spec *Spec) (first, second VolumePlugin) {
	for _, plugin := range plugins {
		if !plugin.CanSupport(spec) {
			continue
		}
		if first != nil {
			return first, plugin
		}
		first = plugin
	}
	return first, nil
}

func (r *registry) explain(source Source, found, other VolumePlugin) error {
	switch {
	case other != nil:
		return Errorf(ErrInvalid, "source %s is served by two plugins, %s and %s: remove one of them", source, found.Name(), other.Name())
	case source.Type == SourceNone:
		return Errorf(ErrInvalid, "no source is set that Kubernetes 1.37 knows")
	case source.Type == SourceSeveral:
		return Errorf(ErrInvalid, "more than one source is set")
	case len(r.bySource[source.Type].anyDriver) > 0 || len(r.bySource[source.Type].byDriver[source.Driver]) > 0:
		return Errorf(ErrNotSupported, "the plugins for source %s cannot serve it as it is written", source)
	}
	return Errorf(ErrNotSupported, "source %s is not served here, since no plugin for it is registered: %s", source, instead[source.Type])
}
