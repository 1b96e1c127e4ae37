// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"cmp"
	"slices"
)

// registry is a set of plugins, indexed for lookups. It never changes: registering makes a new one.
type registry struct {
	byName   map[string]*registration
	bySource [sourceTypes]candidates
}

// registration is a plugin that was added; its address tells it from another one of the same name.
type registration struct {
	plugin VolumePlugin
}

// candidates are the plugins that list one type of source.
type candidates struct {
	anyDriver []VolumePlugin
	byDriver  map[string][]VolumePlugin
}

func newRegistry(byName map[string]*registration) *registry {
	r := &registry{byName: byName}
	for _, plugin := range r.plugins() {
		for _, source := range plugin.Sources() {
			c := &r.bySource[source.Type]
			if source.Driver == "" {
				c.anyDriver = append(c.anyDriver, plugin)
				continue
			}
			if c.byDriver == nil {
				c.byDriver = make(map[string][]VolumePlugin)
			}
			c.byDriver[source.Driver] = append(c.byDriver[source.Driver], plugin)
		}
	}
	return r
}

// plugins lists them in the order of their names.
func (r *registry) plugins() []VolumePlugin {
	plugins := make([]VolumePlugin, 0, len(r.byName))
	for _, registered := range r.byName {
		plugins = append(plugins, registered.plugin)
	}
	slices.SortFunc(plugins, func(a, b VolumePlugin) int { return cmp.Compare(a.Name(), b.Name()) })
	return plugins
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
	return Errorf(ErrNotSupported, "source %s is not served yet: no plugin for it is registered", source)
}
