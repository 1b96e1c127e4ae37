// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/volumekit/volumekit/volume"
)

// keysPart is the keys of a ConfigMap or a Secret as files.
type keysPart struct {
	field           string
	kind            volume.ObjectKind
	namespace, name string
	items           []v1.KeyToPath
	optional        bool
	defaults        defaults

	// served tells whether the host has such objects, and get returns the values of one.
	served func(volume.Host) bool
	get    func(ctx context.Context, host volume.Host, namespace, name string) (map[string]string, error)
}

func newConfigMapPart(field, namespace, name string, items []v1.KeyToPath, optional *bool, d defaults) *keysPart {
	return &keysPart{field: field, kind: volume.KindConfigMap, namespace: namespace, name: name, items: items, optional: isTrue(optional), defaults: d,
		served: func(h volume.Host) bool { return h.ConfigMaps != nil },
		get: func(ctx context.Context, host volume.Host, namespace, name string) (map[string]string, error) {
			object, err := host.ConfigMaps.ConfigMap(ctx, namespace, name)
			if err == nil && object == nil {
				err = errNothing
			}
			if err != nil {
				return nil, err
			}
			values := make(map[string]string, len(object.Data)+len(object.BinaryData))
			for key, value := range object.Data {
				values[key] = value
			}
			for key, value := range object.BinaryData {
				values[key] = string(value)
			}
			return values, nil
		}}
}

func newSecretPart(field, namespace, name string, items []v1.KeyToPath, optional *bool, d defaults) *keysPart {
	return &keysPart{field: field, kind: volume.KindSecret, namespace: namespace, name: name, items: items, optional: isTrue(optional), defaults: d,
		served: func(h volume.Host) bool { return h.Secrets != nil },
		get: func(ctx context.Context, host volume.Host, namespace, name string) (map[string]string, error) {
			object, err := host.Secrets.Secret(ctx, namespace, name)
			if err == nil && object == nil {
				err = errNothing
			}
			if err != nil {
				return nil, err
			}
			values := make(map[string]string, len(object.Data))
			for key, value := range object.Data {
				values[key] = string(value)
			}
			return values, nil
		}}
}

// errNothing is about a source that breaks its contract.
var errNothing = errors.New("its source has returned neither an object nor an error")

func isTrue(b *bool) bool { return b != nil && *b }

func (p *keysPart) reference() volume.Reference {
	return volume.Reference{Kind: p.kind, Namespace: p.namespace, Name: p.name}
}

func (p *keysPart) references() []volume.Reference { return []volume.Reference{p.reference()} }

func (p *keysPart) paths() []string {
	paths := make([]string, len(p.items))
	for i := range p.items {
		paths[i] = p.items[i].Path
	}
	return paths
}

func (p *keysPart) check() error {
	var errs []error
	if problems := validation.IsDNS1123Subdomain(p.name); len(problems) > 0 {
		errs = append(errs, volume.Errorf(volume.ErrInvalid, "%s names the %s %.253q: %s", p.field, p.kind, p.name, strings.Join(problems, "; ")))
	}
	for i := range p.items {
		item := fmt.Sprintf("%s.items[%d]", p.field, i)
		errs = append(errs, checkMode(item+".mode", p.items[i].Mode), checkUser(item+".user", p.items[i].User))
		if p.items[i].Key == "" {
			errs = append(errs, volume.Errorf(volume.ErrInvalid, "%s has no key", item))
		}
	}
	return errors.Join(errs...)
}

func (p *keysPart) collect(ctx context.Context, c *collection) error {
	if !p.served(c.host) {
		return volume.Errorf(volume.ErrNotSupported, "%s needs %s, and the host has no source of %ss", p.field, p.reference(), p.kind)
	}
	values, err := p.get(ctx, c.host, p.namespace, p.name)
	if errors.Is(err, volume.ErrNotFound) {
		if p.optional {
			return nil
		}
		return volume.Errorf(volume.ErrNotFound, "%s does not exist", p.reference())
	}
	if err != nil {
		return fmt.Errorf("get %s: %w", p.reference(), err)
	}
	if len(p.items) == 0 {
		return p.collectAll(values, c)
	}
	var errs []error
	for i := range p.items {
		item := &p.items[i]
		value, ok := values[item.Key]
		if ok {
			c.put(item.Path, value, p.defaults.modeOf(item.Mode), p.defaults.userOf(item.User))
		} else if !p.optional {
			errs = append(errs, volume.Errorf(volume.ErrNotFound, "%s has no key %.253q", p.reference(), item.Key))
		}
	}
	return errors.Join(errs...)
}

func (p *keysPart) collectAll(values map[string]string, c *collection) error {
	var errs []error
	for key, value := range values {
		if problems := validation.IsConfigMapKey(key); len(problems) > 0 {
			errs = append(errs, volume.Errorf(volume.ErrInvalid, "%s has the key %.253q: %s", p.reference(), key, strings.Join(problems, "; ")))
			continue
		}
		c.put(key, value, p.defaults.modeOf(nil), p.defaults.user)
	}
	return errors.Join(errs...)
}
