// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/internal/subpath"
	"github.com/volumekit/volumekit/volume"
)

func TestASubPathIsReturnedAsItIs(t *testing.T) {
	for _, path := range []string{"", "a", "a/b//c", ".", "$(NAME)", "$$"} {
		rendered, err := renderSubPath(t.Context(), volume.Host{}, &v1.Pod{}, &v1.Container{}, &v1.VolumeMount{SubPath: path})
		require.NoError(t, err)
		assert.Equal(t, path, rendered)
	}
}

func TestAnExpressionIsRenderedAsInKubernetes(t *testing.T) {
	for name, test := range map[string]struct {
		expression string
		env        []v1.EnvVar
		from       []v1.EnvFromSource
		want       string
	}{
		"without a reference":              {"a/b", nil, nil, "a/b"},
		"a reference":                      {"$(A)", env("A", "x"), nil, "x"},
		"references and text":              {"a-$(A)/$(B).log", env("A", "x", "B", "y"), nil, "a-x/y.log"},
		"an escaped reference":             {"$$(A)", env("A", "x"), nil, "$(A)"},
		"an escaped dollar and a variable": {"$$$(A)", env("A", "x"), nil, "$x"},
		"dollars that mean nothing":        {"$a/$/b$", nil, nil, "$a/$/b$"},
		"a reference without an end":       {"$(A/b", env("A", "x"), nil, "$(A/b"},
		"a reference inside a reference":   {"$($(A))", env("$(A", "x"), nil, "x)"},
		"what is rendered is not rendered": {"$(A)", env("A", "$$(B)", "B", "x"), nil, "$(B)"},
		"a variable of a variable":         {"$(C)", env("A", "x", "B", "$(A)/y", "C", "$(B)/z"), nil, "x/y/z"},
		"a later variable is not seen":     {"$(A)", env("A", "$(B)", "B", "x"), nil, "$(B)"},
		"a nested one that is not there":   {"$(A)", env("A", "$(NONE)"), nil, "$(NONE)"},
		"a nested one that is empty":       {"a$(A)", env("E", "", "A", "$(E)b"), nil, "ab"},
		"the last definition counts":       {"$(A)", env("A", "x", "A", "y"), nil, "y"},
		"but not for those in between":     {"$(B)", env("A", "x", "B", "$(A)", "A", "y"), nil, "x"},
		"a variable made of its old value": {"$(A)", env("A", "x", "A", "$(A)y", "A", "$(A)z"), nil, "xyz"},

		"metadata.name":              {"$(A)", field("metadata.name"), nil, "pod-name"},
		"metadata.namespace":         {"$(A)", field("metadata.namespace"), nil, "ns"},
		"metadata.uid":               {"$(A)", field("metadata.uid"), nil, "uid-1"},
		"a label":                    {"$(A)", field("metadata.labels['example.com/app']"), nil, "label-value"},
		"an annotation":              {"$(A)", field("metadata.annotations['Example.com/Key']"), nil, "annotation-value"},
		"spec.nodeName":              {"$(A)", field("spec.nodeName"), nil, "host-node"},
		"spec.host":                  {"$(A)", field("spec.host"), nil, "host-node"},
		"spec.serviceAccountName":    {"$(A)", field("spec.serviceAccountName"), nil, "account"},
		"status.podIP":               {"$(A)", field("status.podIP"), nil, "10.0.0.1"},
		"status.podIPs":              {"$(A)", field("status.podIPs"), nil, "10.0.0.1,fd00::1"},
		"status.hostIP":              {"$(A)", field("status.hostIP"), nil, "192.168.0.1"},
		"status.hostIPs":             {"$(A)", field("status.hostIPs"), nil, "192.168.0.1"},
		"a field with an apiVersion": {"$(A)", []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}}, nil, "pod-name"},
		"a variable made of a field": {"$(B)", append(field("metadata.name"), env("B", "logs/$(A)")...), nil, "logs/pod-name"},

		"a key of a ConfigMap":                      {"$(A)", fromConfigMap("map", "key", nil), nil, "map-value"},
		"an optional key that is missing":           {"$(A)", append(env("A", "x"), fromConfigMap("map", "none", new(true))...), nil, "x"},
		"an optional Secret that is missing":        {"$(A)", append(env("A", "x"), fromSecret("none", "key", new(true))...), nil, "x"},
		"all keys of a ConfigMap":                   {"$(key)", nil, []v1.EnvFromSource{configMapEnv("", "map", nil)}, "map-value"},
		"the last source counts":                    {"$(key)", nil, []v1.EnvFromSource{secretEnv("", "secret", nil), configMapEnv("", "map", nil)}, "map-value"},
		"env counts more than envFrom":              {"$(key)", env("key", "x"), []v1.EnvFromSource{configMapEnv("", "map", nil)}, "x"},
		"env may be made of envFrom":                {"$(key)", env("key", "$(key)/x"), []v1.EnvFromSource{configMapEnv("", "map", nil)}, "map-value/x"},
		"an optional source that is missing":        {"$(key)", nil, []v1.EnvFromSource{configMapEnv("", "map", nil), configMapEnv("", "none", new(true)), secretEnv("", "none", new(true))}, "map-value"},
		"a missing source with another prefix":      {"$(key)", nil, []v1.EnvFromSource{configMapEnv("", "map", nil), secretEnv("P_", "none", nil)}, "map-value"},
		"what is not referred to need not be there": {"$(Z)", append(append(append(env("Z", "x"), fromSecret("none", "key", nil)...), resourceField()...), field("nonsense")...), []v1.EnvFromSource{secretEnv("", "none", nil)}, "x"},
		"a variable of a service's name":            {"$(WEB_SERVICE_HOST)", env("WEB_SERVICE_HOST", "x"), nil, "x"},
	} {
		t.Run(name, func(t *testing.T) {
			rendered, err := render(t.Context(), test.expression, test.env, test.from)
			require.NoError(t, err)
			assert.Equal(t, test.want, rendered)
		})
	}
}

func TestAnExpressionThatCannotBeRenderedIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		expression string
		env        []v1.EnvVar
		from       []v1.EnvFromSource
		kind       error
		says       string
	}{
		"an unknown variable":              {"a/$(NONE)", env("A", "x"), nil, volume.ErrInvalid, `"NONE" is not set`},
		"an empty variable":                {"a/$(E)", env("E", ""), nil, volume.ErrInvalid, `"E" is empty`},
		"a reference without a name":       {"a/$()", nil, nil, volume.ErrInvalid, `"" is not set`},
		"a label that the pod lacks":       {"$(A)", field("metadata.labels['none']"), nil, volume.ErrInvalid, `"A" is empty`},
		"a label that is no label":         {"$(A)", field("metadata.labels['a b']"), nil, volume.ErrInvalid, `"a b"`},
		"all labels":                       {"$(A)", field("metadata.labels"), nil, volume.ErrInvalid, `"metadata.labels"`},
		"a field that is none for env":     {"$(A)", field("status.phase"), nil, volume.ErrInvalid, `"status.phase"`},
		"a nested field":                   {"$(B)", append(field("nonsense"), env("B", "$(A)")...), nil, volume.ErrInvalid, `variable "B": variable "A": fieldRef names "nonsense"`},
		"a field of another version":       {"$(A)", []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v2", FieldPath: "metadata.name"}}}}, nil, volume.ErrInvalid, "v2"},
		"a resourceFieldRef":               {"$(A)", resourceField(), nil, volume.ErrNotSupported, "resourceFieldRef"},
		"a fileKeyRef":                     {"$(A)", []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{}}}}, nil, volume.ErrNotSupported, "fileKeyRef"},
		"a service's variable":             {"$(WEB_SERVICE_HOST)", nil, nil, volume.ErrNotSupported, "WEB_SERVICE_HOST"},
		"a nested service's variable":      {"$(A)", env("A", "$(WEB_PORT_80_TCP_ADDR)"), nil, volume.ErrNotSupported, "WEB_PORT_80_TCP_ADDR"},
		"a value and a valueFrom":          {"$(A)", []v1.EnvVar{{Name: "A", Value: "canary", ValueFrom: field("metadata.name")[0].ValueFrom}}, nil, volume.ErrInvalid, "both"},
		"a valueFrom of two sources":       {"$(A)", []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{}, FileKeyRef: &v1.FileKeySelector{}}}}, nil, volume.ErrInvalid, "2 sources"},
		"a valueFrom of no source":         {"$(A)", []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{}}}, nil, volume.ErrInvalid, "0 sources"},
		"a ConfigMap that is missing":      {"$(A)", fromConfigMap("none", "key", nil), nil, volume.ErrNotFound, "ConfigMap ns/none"},
		"a Secret that is missing":         {"$(A)", fromSecret("none", "key", new(false)), nil, volume.ErrNotFound, "Secret ns/none"},
		"a ConfigMap without the key":      {"$(A)", fromConfigMap("map", "none", nil), nil, volume.ErrNotFound, `ns/map has no key "none"`},
		"a Secret without the key":         {"$(A)", fromSecret("secret", "none", nil), nil, volume.ErrNotFound, `ns/secret has no key "none"`},
		"optional and missing":             {"$(A)", fromSecret("none", "key", new(true)), nil, volume.ErrInvalid, `"A" is not set`},
		"a source that is missing":         {"$(key)", nil, []v1.EnvFromSource{configMapEnv("", "map", nil), secretEnv("", "none", nil)}, volume.ErrNotFound, `"key" may come from envFrom: get Secret ns/none`},
		"a source of two kinds":            {"$(key)", nil, []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{}, SecretRef: &v1.SecretEnvSource{}}}, volume.ErrInvalid, "both"},
		"a source of no kind":              {"$(key)", nil, []v1.EnvFromSource{{}}, volume.ErrInvalid, "neither"},
		"a source that cannot be asked":    {"$(A)", fromSecret("broken", "key", new(true)), nil, errBroken, "Secret ns/broken"},
		"empty by the sources":             {"$(A)", env("A", "x", "A", ""), nil, volume.ErrInvalid, `"A" is empty`},
		"absolute afterwards":              {"$(A)", env("A", "/canary"), nil, volume.ErrInvalid, "absolute"},
		"out of the volume afterwards":     {"a/$(A)/../b", env("A", "../.."), nil, volume.ErrInvalid, `".."`},
		"dots put together":                {".$(A)", env("A", "."), nil, volume.ErrInvalid, `".."`},
		"a NUL afterwards":                 {"a/$(A)", env("A", "canary\x00"), nil, volume.ErrInvalid, "NUL"},
		"a long name afterwards":           {"a/$(A)", env("A", strings.Repeat("canary", 50)), nil, volume.ErrInvalid, "300 bytes"},
		"a long path afterwards":           {"$(A)", env("A", strings.Repeat("canary/", 600)), nil, volume.ErrInvalid, "4095 bytes"},
		"a value of a Secret":              {"a/$(A)", fromSecret("secret", "key", nil), nil, volume.ErrNotSupported, "Secret ns/secret"},
		"a value of a Secret in envFrom":   {"$(P_key)", nil, []v1.EnvFromSource{secretEnv("P_", "secret", nil)}, volume.ErrNotSupported, "Secret ns/secret"},
		"values that double over and over": {"$(A40)", doubling(40), nil, volume.ErrInvalid, "4095 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render(t.Context(), test.expression, test.env, test.from)
			require.ErrorIs(t, err, test.kind)
			assert.ErrorContains(t, err, test.says)
			assert.ErrorContains(t, err, `volume "data" in container "main"`)
			assert.NotContains(t, err.Error(), "canary")
		})
	}
}

func TestWhatTheHostAndThePodDoNotTellIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		env  []v1.EnvVar
		from []v1.EnvFromSource
		kind error
		says string
	}{
		"no source of ConfigMaps":            {fromConfigMap("map", "key", new(true)), nil, volume.ErrNotSupported, "ConfigMap ns/map"},
		"no source of Secrets":               {fromSecret("secret", "key", new(true)), nil, volume.ErrNotSupported, "Secret ns/secret"},
		"no source of ConfigMaps in envFrom": {nil, []v1.EnvFromSource{configMapEnv("", "map", nil)}, volume.ErrNotSupported, "ConfigMap ns/map"},
		"no source of Secrets in envFrom":    {nil, []v1.EnvFromSource{secretEnv("", "secret", nil)}, volume.ErrNotSupported, "Secret ns/secret"},
		"no node":                            {field("spec.nodeName"), nil, volume.ErrNotFound, "spec.nodeName"},
		"no IP of the pod":                   {field("status.podIP"), nil, volume.ErrNotFound, "status.podIP"},
		"no IPs of the host":                 {field("status.hostIPs"), nil, volume.ErrNotFound, "status.hostIPs"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "ns"}}
			c := &v1.Container{Name: "main", Env: test.env, EnvFrom: test.from}
			_, err := renderSubPath(t.Context(), volume.Host{}, pod, c, &v1.VolumeMount{Name: "data", SubPathExpr: "$(A)"})
			require.ErrorIs(t, err, test.kind)
			assert.ErrorContains(t, err, test.says)
		})
	}
}

func TestTheNodeOfThePodCountsMoreThanTheHosts(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{NodeName: "pod-node"}}
	c := &v1.Container{Env: field("spec.nodeName")}
	rendered, err := renderSubPath(t.Context(), volume.Host{NodeName: "host-node"}, pod, c, &v1.VolumeMount{SubPathExpr: "$(A)"})
	require.NoError(t, err)
	assert.Equal(t, "pod-node", rendered)
}

func TestAnUnusableSubPathIsRefused(t *testing.T) {
	for name, m := range map[string]v1.VolumeMount{
		"both a subPath and a subPathExpr": {SubPath: "a", SubPathExpr: "a"},
		"absolute":                         {SubPath: "/a"},
		"out of the volume":                {SubPath: "a/../.."},
		"with a NUL":                       {SubPath: "a\x00"},
		"too long":                         {SubPath: strings.Repeat("a/", 2100)},
	} {
		t.Run(name, func(t *testing.T) {
			m.Name = "data"
			_, err := renderSubPath(t.Context(), volume.Host{}, &v1.Pod{}, &v1.Container{Name: "main"}, &m)
			require.ErrorIs(t, err, volume.ErrInvalid)
			assert.ErrorContains(t, err, `volume "data" in container "main"`)
		})
	}
}

func FuzzAnExpressionNeverRendersToAPathThatLeavesTheVolume(f *testing.F) {
	for _, seed := range [][2]string{
		{"a/$(A)", "b"}, {"$(A)/..", "."}, {"$$(A)", "/"}, {"$(key)/$(A)", "$(A)$(key)"}, {"$(", "$()"}, {".$(A)", "."}, {"$(A)", "\x00"}, {"$\xff", "$$$"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, expression, value string) {
		from := []v1.EnvFromSource{secretEnv("", "secret", nil)}
		rendered, err := render(t.Context(), expression, env("A", value), from)
		if err != nil {
			require.NotContains(t, err.Error(), "canary")
			return
		}
		if expression != "" {
			require.NoError(t, subpath.Check(rendered))
		}
		escaped := strings.ReplaceAll(rendered, "$", "$$")
		again, err := render(t.Context(), escaped, nil, nil)
		if err == nil { // it may be too long now
			require.Equal(t, rendered, again)
		}
	})
}

// render renders an expression in a pod and on a host that have everything.
func render(ctx context.Context, expression string, env []v1.EnvVar, from []v1.EnvFromSource) (string, error) {
	host := volume.Host{NodeName: "host-node", ConfigMaps: sourceOfOne{}, Secrets: sourceOfOne{}}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pod-name", Namespace: "ns", UID: "uid-1",
			Labels:      map[string]string{"example.com/app": "label-value"},
			Annotations: map[string]string{"Example.com/Key": "annotation-value"},
		},
		Spec: v1.PodSpec{ServiceAccountName: "account"},
		Status: v1.PodStatus{
			PodIP: "10.0.0.1", PodIPs: []v1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
			HostIP: "192.168.0.1",
		},
	}
	c := &v1.Container{Name: "main", Env: env, EnvFrom: from}
	return renderSubPath(ctx, host, pod, c, &v1.VolumeMount{Name: "data", SubPathExpr: expression})
}

var errBroken = errors.New("the source is broken")

// sourceOfOne has one ConfigMap and one Secret.
type sourceOfOne struct{}

func (sourceOfOne) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	if namespace != "ns" || name != "map" {
		return nil, volume.Errorf(volume.ErrNotFound, "no such ConfigMap")
	}
	return &v1.ConfigMap{Data: map[string]string{"key": "map-value"}}, nil
}

func (sourceOfOne) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	switch {
	case name == "broken":
		return nil, errBroken
	case namespace != "ns" || name != "secret":
		return nil, volume.Errorf(volume.ErrNotFound, "no such Secret")
	}
	return &v1.Secret{Data: map[string][]byte{"key": []byte("canary")}}, nil
}

// env makes variables of names and values.
func env(pairs ...string) []v1.EnvVar {
	var vars []v1.EnvVar
	for i := 0; i < len(pairs); i += 2 {
		vars = append(vars, v1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
	}
	return vars
}

// doubling makes variables of which the last one, A and n, has the length 2 to the power of n.
func doubling(n int) []v1.EnvVar {
	vars := env("A0", "a")
	for i := range n {
		before := "$(A" + strconv.Itoa(i) + ")"
		vars = append(vars, v1.EnvVar{Name: "A" + strconv.Itoa(i+1), Value: before + before})
	}
	return vars
}

func field(path string) []v1.EnvVar {
	return []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}}}
}

func resourceField() []v1.EnvVar {
	return []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.cpu"}}}}
}

func fromConfigMap(name, key string, optional *bool) []v1.EnvVar {
	ref := &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: optional}
	return []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: ref}}}
}

func fromSecret(name, key string, optional *bool) []v1.EnvVar {
	ref := &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: optional}
	return []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{SecretKeyRef: ref}}}
}

func configMapEnv(prefix, name string, optional *bool) v1.EnvFromSource {
	return v1.EnvFromSource{Prefix: prefix, ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: name}, Optional: optional}}
}

func secretEnv(prefix, name string, optional *bool) v1.EnvFromSource {
	return v1.EnvFromSource{Prefix: prefix, SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: name}, Optional: optional}}
}
