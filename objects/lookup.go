// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// The kinds that nothing but a Store knows by reference.
const (
	kindNode           volume.ObjectKind = "Node"
	kindServiceAccount volume.ObjectKind = "ServiceAccount"
	kindStorageClass   volume.ObjectKind = "StorageClass"
)

var (
	_ volume.SecretSource      = (*Store)(nil)
	_ volume.ConfigMapSource   = (*Store)(nil)
	_ volume.ClaimSource       = (*Store)(nil)
	_ volume.NodeSource        = (*Store)(nil)
	_ volume.TrustBundleSource = (*Store)(nil)
	_ volume.Watcher           = (*Store)(nil)
)

// Fill returns the host with the store as its source of Secrets, ConfigMaps, trust bundles, claims and nodes, as far as the host
// has none yet.
func (s *Store) Fill(host volume.Host) volume.Host {
	if host.Secrets == nil {
		host.Secrets = s
	}
	if host.ConfigMaps == nil {
		host.ConfigMaps = s
	}
	if host.TrustBundles == nil {
		host.TrustBundles = s
	}
	if host.Claims == nil {
		host.Claims = s
	}
	if host.Nodes == nil {
		host.Nodes = s
	}
	return host
}

// Secret returns the Secret, all of it in its data.
func (s *Store) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	return find[*v1.Secret](s, volume.Reference{Kind: volume.KindSecret, Namespace: namespace, Name: name})
}

// ConfigMap returns the ConfigMap.
func (s *Store) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return find[*v1.ConfigMap](s, volume.Reference{Kind: volume.KindConfigMap, Namespace: namespace, Name: name})
}

// PersistentVolumeClaim returns the claim. One without a spec.volumeName has that filled in if exactly one PersistentVolume names
// the claim in its spec.claimRef: by namespace and name, and by UID where both have one. Of several volumes that do, Kubernetes
// takes the smallest that fits; here nothing is chosen, and the name stays empty. The volume is not compared with what the claim
// asks for, and no status is written.
func (s *Store) PersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	ref := volume.Reference{Kind: volume.KindPersistentVolumeClaim, Namespace: namespace, Name: name}
	s.mu.RLock()
	defer s.mu.RUnlock()
	claim, ok := s.objects[ref].(*v1.PersistentVolumeClaim)
	if !ok {
		return nil, missing(ref)
	}
	return s.bound(ref, claim), nil
}

// PersistentVolume returns the volume.
func (s *Store) PersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	return find[*v1.PersistentVolume](s, volume.Reference{Kind: volume.KindPersistentVolume, Name: name})
}

// Node returns the node. One that is not there gives an error that matches [volume.ErrNotFound].
func (s *Store) Node(_ context.Context, name types.NodeName) (*v1.Node, error) {
	return find[*v1.Node](s, volume.Reference{Kind: kindNode, Name: string(name)})
}

// ServiceAccount returns the service account, which the caller does not change. One that is not there gives an error that matches
// [volume.ErrNotFound].
func (s *Store) ServiceAccount(_ context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	return find[*v1.ServiceAccount](s, volume.Reference{Kind: kindServiceAccount, Namespace: namespace, Name: name})
}

// StorageClass returns the class, which the caller does not change. One that is not there gives an error that matches
// [volume.ErrNotFound].
func (s *Store) StorageClass(_ context.Context, name string) (*storagev1.StorageClass, error) {
	return find[*storagev1.StorageClass](s, volume.Reference{Kind: kindStorageClass, Name: name})
}

// ClusterTrustBundle returns the bundle.
func (s *Store) ClusterTrustBundle(_ context.Context, name string) (*certificatesv1.ClusterTrustBundle, error) {
	return find[*certificatesv1.ClusterTrustBundle](s, volume.Reference{Kind: volume.KindClusterTrustBundle, Name: name})
}

// ClusterTrustBundles returns the bundles of the signer whose labels match. An empty signer stands for the bundles without one. A
// nil selector matches nothing.
func (s *Store) ClusterTrustBundles(_ context.Context, signerName string, selector labels.Selector) ([]*certificatesv1.ClusterTrustBundle, error) {
	if selector == nil {
		return nil, nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []*certificatesv1.ClusterTrustBundle
	for _, bundle := range s.bySigner[signerName] {
		if selector.Matches(labels.Set(bundle.Labels)) {
			found = append(found, bundle)
		}
	}
	return found, nil
}

func find[T any](s *Store, ref volume.Reference) (T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	object, ok := s.objects[ref].(T)
	if !ok {
		return object, missing(ref)
	}
	return object, nil
}

func missing(ref volume.Reference) error {
	return volume.Errorf(volume.ErrNotFound, "there is no %s", ref)
}
