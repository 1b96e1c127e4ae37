// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/objects"
	"github.com/volumekit/volumekit/objects/localissuer"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// canary is in every secret.
const canary = "canary-of-the-secret"

// newHost returns a host with an object of each kind.
func newHost(t *testing.T, root string) volume.Host {
	t.Helper()
	store := objects.NewStore()
	require.NoError(t, store.Set(
		configMapOf(map[string]string{"nginx.conf": "server {}", "empty": ""}),
		secretOf(map[string]string{"password": canary, "tls.crt": "certificate"}),
	))
	tokens, err := localissuer.New(localissuer.Options{})
	require.NoError(t, err)
	return store.Fill(volume.Host{Root: root, Tokens: tokens})
}

func configMapOf(data map[string]string) *v1.ConfigMap {
	object := &v1.ConfigMap{Data: data}
	object.Namespace, object.Name = "default", "settings"
	return object
}

func secretOf(data map[string]string) *v1.Secret {
	object := &v1.Secret{StringData: data}
	object.Namespace, object.Name = "default", "credentials"
	return object
}

// plugin returns the plugin of New that has the source.
func plugin(options Options, source volume.SourceType) volume.VolumePlugin {
	for _, p := range New(options) {
		if p.(*Plugin).source == source {
			return p
		}
	}
	panic("no such plugin")
}

func specOf(source v1.VolumeSource) *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{Name: "files", VolumeSource: source})
}

func settings(change ...func(*v1.ConfigMapVolumeSource)) v1.VolumeSource {
	source := &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}
	for _, f := range change {
		f(source)
	}
	return v1.VolumeSource{ConfigMap: source}
}

func projection(sources ...v1.VolumeProjection) v1.VolumeSource {
	return v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: sources}}
}

// apiAccess is what a cluster adds to every pod.
func apiAccess() v1.VolumeSource {
	return projection(
		v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](3607)}},
		v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}},
		v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "credentials"},
			Items: []v1.KeyToPath{{Key: "password", Path: "below/password", Mode: ptr.To[int32](0o400)}}}},
		v1.VolumeProjection{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{
			{Path: "namespace", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}},
	)
}

func TestConformance(t *testing.T) {
	bad := func(name string, source v1.VolumeSource, mentions ...string) volumetest.InvalidCase {
		return volumetest.InvalidCase{Name: name, Spec: specOf(source), Mentions: mentions}
	}
	downward := func(item v1.DownwardAPIVolumeFile) v1.VolumeSource {
		return v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{item}}}
	}
	for _, of := range []struct {
		source  volume.SourceType
		spec    v1.VolumeSource
		invalid []volumetest.InvalidCase
	}{
		{volume.SourceConfigMap, settings(), []volumetest.InvalidCase{
			bad("mode", settings(func(s *v1.ConfigMapVolumeSource) { s.DefaultMode = ptr.To[int32](0o1777) }), "configMap.defaultMode", "01777"),
			bad("user", settings(func(s *v1.ConfigMapVolumeSource) { s.DefaultUser = ptr.To[int64](-1) }), "configMap.defaultUser", "-1"),
			bad("name", settings(func(s *v1.ConfigMapVolumeSource) { s.Name = "../x" }), "configMap", "../x"),
			bad("path that leads outside", settings(func(s *v1.ConfigMapVolumeSource) { s.Items = []v1.KeyToPath{{Key: "a", Path: "../x"}} }), "../x"),
			bad("absolute path", settings(func(s *v1.ConfigMapVolumeSource) { s.Items = []v1.KeyToPath{{Key: "a", Path: "/x"}} }), "/x"),
			bad("item's mode", settings(func(s *v1.ConfigMapVolumeSource) {
				s.Items = []v1.KeyToPath{{Key: "a", Path: "x", Mode: ptr.To[int32](-1)}}
			}), "items[0].mode"),
		}},
		{volume.SourceSecret, v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "credentials"}}, nil},
		{volume.SourceDownwardAPI, downward(v1.DownwardAPIVolumeFile{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}}), []volumetest.InvalidCase{
			bad("neither", downward(v1.DownwardAPIVolumeFile{Path: "x"}), "items[0]", "fieldRef"),
			bad("field", downward(v1.DownwardAPIVolumeFile{Path: "x", FieldRef: &v1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}), "spec.nodeName"),
			bad("resource", downward(v1.DownwardAPIVolumeFile{Path: "x", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.gpu"}}), "limits.gpu"),
		}},
		{volume.SourceProjected, apiAccess(), []volumetest.InvalidCase{
			bad("no source", projection(v1.VolumeProjection{}), "projected.sources[0]"),
			bad("one path twice", projection(
				v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
				v1.VolumeProjection{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{
					{Path: "token", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}}), `"token"`),
			bad("short-lived token", projection(v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{
				Path: "token", ExpirationSeconds: ptr.To[int64](599)}}), "expirationSeconds", "599"),
			bad("bundles of nobody", projection(v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Path: "ca.crt"}}), "clusterTrustBundle", "signerName"),
			bad("key type", projection(v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{
				SignerName: "example.com/signer", KeyType: "DSA", KeyPath: "key"}}), "podCertificate.keyType", "DSA"),
		}},
	} {
		t.Run(of.source.String(), func(t *testing.T) {
			for _, options := range []Options{{}, {OnDisk: true}} {
				name := "tmpfs"
				if options.OnDisk {
					name = "on disk"
				} else if runtime.GOOS != "linux" {
					continue
				}
				t.Run(name, func(t *testing.T) {
					volumetest.Run(t, volumetest.Config{
						New:      func() volume.VolumePlugin { return plugin(options, of.source) },
						Host:     func(root string) volume.Host { return newHost(t, root) },
						Cases:    []volumetest.Case{{Name: "files", Spec: specOf(of.spec), Mounts: !options.OnDisk}},
						Invalid:  of.invalid,
						Canaries: []string{canary},
					})
				})
			}
		})
	}
}
