// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/podfield"
	"github.com/volumekit/volumekit/internal/subpath"
	"github.com/volumekit/volumekit/volume"
)

// renderSubPath returns the mount's subPath, or its subPathExpr with $(NAME) replaced by the container's environment as
// Kubernetes 1.37 has it, or "" if there is neither. The path is checked; what the volume holds is not looked at.
//
// Only what the expression refers to, directly or through other variables, has to be known here. What is not, such as the
// variables of services, is an error that matches [volume.ErrNotSupported]; what is missing one that matches
// [volume.ErrNotFound]; a mistake in the pod one that matches [volume.ErrInvalid]. Errors name variables and show no value.
func renderSubPath(ctx context.Context, host volume.Host, pod *v1.Pod, c *v1.Container, m *v1.VolumeMount) (string, error) {
	rendered, what := m.SubPath, fmt.Sprintf("subPath %.256q", m.SubPath)
	switch {
	case m.SubPath != "" && m.SubPathExpr != "":
		return "", volume.Errorf(volume.ErrInvalid, "volume %q in container %q has both a subPath and a subPathExpr", m.Name, c.Name)
	case m.SubPath == "" && m.SubPathExpr == "":
		return "", nil
	case m.SubPathExpr != "":
		what = fmt.Sprintf("subPathExpr %.256q", m.SubPathExpr)
		var err error
		if rendered, err = newEnvironment(ctx, host, pod, c).render(m.SubPathExpr); err != nil {
			return "", fmt.Errorf("%s of volume %q in container %q: %w", what, m.Name, c.Name, err)
		}
		what += ", after its variables were replaced,"
	}
	if err := subpath.Check(rendered); err != nil {
		return "", volume.Errorf(volume.ErrInvalid, "%s of volume %q in container %q cannot be used: %w", what, m.Name, c.Name, err)
	}
	return rendered, nil
}

// environment is a container's env and envFrom, of which a variable is worked out when it is asked for.
type environment struct {
	ctx        context.Context
	host       volume.Host
	pod        *v1.Pod
	container  *v1.Container
	known      map[int]variable // by index in env
	configMaps map[string]*v1.ConfigMap
	secrets    map[string]*v1.Secret
}

// variable is a value; not set when it is optional and its source is missing.
type variable struct {
	value string
	set   bool
}

func newEnvironment(ctx context.Context, host volume.Host, pod *v1.Pod, c *v1.Container) *environment {
	return &environment{
		ctx: ctx, host: host, pod: pod, container: c,
		known:      make(map[int]variable),
		configMaps: make(map[string]*v1.ConfigMap),
		secrets:    make(map[string]*v1.Secret),
	}
}

// render replaces the references of a subPathExpr. As in Kubernetes, one to nothing, or to an empty variable, is an error.
func (e *environment) render(expression string) (string, error) {
	return expand(expression, func(name string) (string, error) {
		v, err := e.lookup(name, len(e.container.Env))
		switch {
		case err != nil:
			return "", err
		case !v.set:
			return "", volume.Errorf(volume.ErrInvalid, "variable %.128q is not set in the container's environment", name)
		case v.value == "":
			return "", volume.Errorf(volume.ErrInvalid, "variable %.128q is empty", name)
		}
		return v.value, nil
	})
}

// maxExpanded bounds what references are replaced by: all of it ends up in a path, which can be no longer.
const maxExpanded = 4096

// expand replaces $(NAME) by what lookup says, and $$ by $. Any other $ stays, as do the $( of a name that does not end.
func expand(text string, lookup func(name string) (string, error)) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, rest, isReference := strings.Cut(strings.TrimPrefix(after, "("), ")")
		switch {
		case strings.HasPrefix(after, "$"):
			b.WriteByte('$')
			text = after[1:]
		case isReference && strings.HasPrefix(after, "("):
			value, err := lookup(name)
			if err != nil {
				return "", err
			}
			b.WriteString(value)
			text = rest
		default:
			b.WriteByte('$')
			text = after
		}
		if b.Len() > maxExpanded {
			return "", volume.Errorf(volume.ErrInvalid, "the variables make it longer than the %d bytes that a path can have", maxExpanded-1)
		}
	}
}

// lookup returns a variable as the env entry with index before, or whatever follows the last one, sees it: the last
// definition counts, and those in envFrom come first.
func (e *environment) lookup(name string, before int) (variable, error) {
	for i := before - 1; i >= 0; i-- {
		if e.container.Env[i].Name != name {
			continue
		}
		v, err := e.variable(i)
		if err != nil {
			return variable{}, fmt.Errorf("variable %.128q: %w", name, err)
		}
		if v.set {
			return v, nil
		}
	}
	v, err := e.fromSources(name)
	if err == nil && !v.set && isServiceVariable(name) {
		err = volume.Errorf(volume.ErrNotSupported, "variable %.128q is not set by the container, and the variables of services are not known here", name)
	}
	return v, err
}

// isServiceVariable tells whether Kubernetes may set a variable of this name, to the address or a port of a service.
func isServiceVariable(name string) bool {
	return strings.HasSuffix(name, "_SERVICE_HOST") || strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_PORT_")
}

// variable returns what the env entry with index i sets.
func (e *environment) variable(i int) (variable, error) {
	if v, ok := e.known[i]; ok {
		return v, nil
	}
	entry := &e.container.Env[i]
	var v variable
	var err error
	switch {
	case entry.ValueFrom == nil:
		v.set = true
		v.value, err = expand(entry.Value, func(name string) (string, error) {
			other, err := e.lookup(name, i)
			if err == nil && !other.set {
				return "$(" + name + ")", nil // stays as it is
			}
			return other.value, err
		})
	case entry.Value != "":
		err = volume.Errorf(volume.ErrInvalid, "it has both a value and a valueFrom")
	default:
		v, err = e.valueFrom(entry.ValueFrom)
	}
	if err != nil {
		return variable{}, err
	}
	e.known[i] = v
	return v, nil
}

func (e *environment) valueFrom(source *v1.EnvVarSource) (variable, error) {
	var found []func() (variable, error)
	if ref := source.FieldRef; ref != nil {
		found = append(found, func() (variable, error) {
			value, err := e.field(ref)
			return variable{value, true}, err
		})
	}
	if ref := source.ConfigMapKeyRef; ref != nil {
		found = append(found, func() (variable, error) { return e.configMapKey(ref) })
	}
	if ref := source.SecretKeyRef; ref != nil {
		found = append(found, func() (variable, error) { return e.secretKey(ref) })
	}
	if source.ResourceFieldRef != nil {
		found = append(found, func() (variable, error) { return variable{}, notSupported("resourceFieldRef") })
	}
	if source.FileKeyRef != nil {
		found = append(found, func() (variable, error) { return variable{}, notSupported("fileKeyRef") })
	}
	if len(found) != 1 {
		return variable{}, volume.Errorf(volume.ErrInvalid, "its valueFrom has %d sources that are known, not one", len(found))
	}
	return found[0]()
}

func notSupported(field string) error {
	return volume.Errorf(volume.ErrNotSupported, "%s is not supported in a variable that a subPathExpr refers to", field)
}

// field returns a field of the pod. Those that the pod does not tell yet, and that Kubernetes would, are errors.
func (e *environment) field(ref *v1.ObjectFieldSelector) (string, error) {
	if value, ok, err := podfield.Metadata(e.pod, ref); ok || err != nil {
		return value, err
	}
	known := func(value string) (string, error) {
		if value == "" {
			return "", volume.Errorf(volume.ErrNotFound, "the pod has no %s yet", ref.FieldPath)
		}
		return value, nil
	}
	status := &e.pod.Status
	switch ref.FieldPath {
	case "spec.nodeName", "spec.host": // the latter is its name of old
		if e.pod.Spec.NodeName != "" {
			return e.pod.Spec.NodeName, nil
		}
		return known(string(e.host.NodeName))
	case "spec.serviceAccountName":
		return e.pod.Spec.ServiceAccountName, nil
	case "status.podIP":
		return known(firstOf(podIPs(status)))
	case "status.podIPs":
		return known(strings.Join(podIPs(status), ","))
	case "status.hostIP":
		return known(firstOf(hostIPs(status)))
	case "status.hostIPs":
		return known(strings.Join(hostIPs(status), ","))
	}
	return "", volume.Errorf(volume.ErrInvalid, "fieldRef names %.256q, which is no field that a variable can be set to", ref.FieldPath)
}

func firstOf(ips []string) string {
	if len(ips) == 0 {
		return ""
	}
	return ips[0]
}

func podIPs(status *v1.PodStatus) []string {
	if len(status.PodIPs) == 0 && status.PodIP != "" {
		return []string{status.PodIP}
	}
	ips := make([]string, len(status.PodIPs))
	for i, ip := range status.PodIPs {
		ips[i] = ip.IP
	}
	return ips
}

func hostIPs(status *v1.PodStatus) []string {
	if len(status.HostIPs) == 0 && status.HostIP != "" {
		return []string{status.HostIP}
	}
	ips := make([]string, len(status.HostIPs))
	for i, ip := range status.HostIPs {
		ips[i] = ip.IP
	}
	return ips
}

func (e *environment) configMapKey(ref *v1.ConfigMapKeySelector) (variable, error) {
	configMap, err := e.configMap(ref.Name, ref.Optional)
	if err != nil || configMap == nil {
		return variable{}, err
	}
	value, ok := configMap.Data[ref.Key]
	if !ok && !isTrue(ref.Optional) {
		return variable{}, volume.Errorf(volume.ErrNotFound, "ConfigMap %s/%s has no key %.253q", e.pod.Namespace, ref.Name, ref.Key)
	}
	return variable{value, ok}, nil
}

func (e *environment) secretKey(ref *v1.SecretKeySelector) (variable, error) {
	secret, err := e.secret(ref.Name, ref.Optional)
	if err != nil || secret == nil {
		return variable{}, err
	}
	_, ok := secret.Data[ref.Key]
	if !ok && !isTrue(ref.Optional) {
		return variable{}, volume.Errorf(volume.ErrNotFound, "Secret %s/%s has no key %.253q", e.pod.Namespace, ref.Name, ref.Key)
	}
	return e.secretValue(ref.Name, ok)
}

// secretValue refuses the value of a Secret, if there is one: a path is in the mount table, in records and in errors, for all to
// read. Kubernetes accepts it.
func (e *environment) secretValue(name string, set bool) (variable, error) {
	if set {
		return variable{}, volume.Errorf(volume.ErrNotSupported, "a path cannot hold a value of Secret %s/%s, which anybody could read in it", e.pod.Namespace, name)
	}
	return variable{}, nil
}

// fromSources returns what envFrom sets; the last source that has the name counts.
func (e *environment) fromSources(name string) (variable, error) {
	for i := len(e.container.EnvFrom) - 1; i >= 0; i-- {
		source := &e.container.EnvFrom[i]
		key, ok := strings.CutPrefix(name, source.Prefix)
		if !ok {
			continue
		}
		v, err := e.fromSource(source, key)
		if err != nil {
			return variable{}, fmt.Errorf("variable %.128q may come from envFrom: %w", name, err)
		}
		if v.set {
			return v, nil
		}
	}
	return variable{}, nil
}

func (e *environment) fromSource(source *v1.EnvFromSource, key string) (variable, error) {
	switch {
	case source.ConfigMapRef != nil && source.SecretRef != nil:
		return variable{}, volume.Errorf(volume.ErrInvalid, "an entry has both a configMapRef and a secretRef")
	case source.ConfigMapRef != nil:
		configMap, err := e.configMap(source.ConfigMapRef.Name, source.ConfigMapRef.Optional)
		if err != nil || configMap == nil {
			return variable{}, err
		}
		value, ok := configMap.Data[key]
		return variable{value, ok}, nil
	case source.SecretRef != nil:
		secret, err := e.secret(source.SecretRef.Name, source.SecretRef.Optional)
		if err != nil || secret == nil {
			return variable{}, err
		}
		_, ok := secret.Data[key]
		return e.secretValue(source.SecretRef.Name, ok)
	}
	return variable{}, volume.Errorf(volume.ErrInvalid, "an entry has neither a configMapRef nor a secretRef")
}

// configMap returns nil for one that is optional and missing.
func (e *environment) configMap(name string, optional *bool) (*v1.ConfigMap, error) {
	if configMap, ok := e.configMaps[name]; ok {
		return configMap, nil
	}
	if e.host.ConfigMaps == nil {
		return nil, volume.Errorf(volume.ErrNotSupported, "it needs ConfigMap %s/%s, and the host has no source of ConfigMaps", e.pod.Namespace, name)
	}
	configMap, err := e.host.ConfigMaps.ConfigMap(e.ctx, e.pod.Namespace, name)
	if errors.Is(err, volume.ErrNotFound) && isTrue(optional) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get ConfigMap %s/%s: %w", e.pod.Namespace, name, err)
	}
	e.configMaps[name] = configMap
	return configMap, nil
}

// secret returns nil for one that is optional and missing.
func (e *environment) secret(name string, optional *bool) (*v1.Secret, error) {
	if secret, ok := e.secrets[name]; ok {
		return secret, nil
	}
	if e.host.Secrets == nil {
		return nil, volume.Errorf(volume.ErrNotSupported, "it needs Secret %s/%s, and the host has no source of Secrets", e.pod.Namespace, name)
	}
	secret, err := e.host.Secrets.Secret(e.ctx, e.pod.Namespace, name)
	if errors.Is(err, volume.ErrNotFound) && isTrue(optional) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %s/%s: %w", e.pod.Namespace, name, err)
	}
	e.secrets[name] = secret
	return secret, nil
}

func isTrue(b *bool) bool { return b != nil && *b }
