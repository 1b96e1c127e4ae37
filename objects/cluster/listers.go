// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	certificateslisters "k8s.io/client-go/listers/certificates/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/volumekit/volumekit/volume"
)

// Listers are those of informers that a program has for other reasons. All but Synced may be nil: what would need one gives an
// error that matches [volume.ErrNotSupported]. They tell of no changes: what volumes depend on is looked at from time to time.
type Listers struct {
	// Synced reports whether all informers have: until then, what is not there gives an error that matches volume.ErrUncertain
	// instead of volume.ErrNotFound. Required; a program that waits for its informers first returns true.
	Synced func() bool

	// The listers, each for what its kind is.
	Secrets                corelisters.SecretLister
	ConfigMaps             corelisters.ConfigMapLister
	PersistentVolumeClaims corelisters.PersistentVolumeClaimLister
	PersistentVolumes      corelisters.PersistentVolumeLister
	Nodes                  corelisters.NodeLister
	ClusterTrustBundles    certificateslisters.ClusterTrustBundleLister
}

// Listed is the source that [FromListers] returns. Its methods may be called at the same time.
type Listed struct {
	listers Listers
}

var (
	_ volume.SecretSource      = (*Listed)(nil)
	_ volume.ConfigMapSource   = (*Listed)(nil)
	_ volume.ClaimSource       = (*Listed)(nil)
	_ volume.NodeSource        = (*Listed)(nil)
	_ volume.TrustBundleSource = (*Listed)(nil)
)

// FromListers returns a source on listers.
func FromListers(listers Listers) *Listed {
	return &Listed{listers}
}

// Fill returns the host with this as the source of what it has no source of yet, as far as there is a lister.
func (l *Listed) Fill(host volume.Host) volume.Host {
	if host.Secrets == nil && l.listers.Secrets != nil {
		host.Secrets = l
	}
	if host.ConfigMaps == nil && l.listers.ConfigMaps != nil {
		host.ConfigMaps = l
	}
	if host.TrustBundles == nil && l.listers.ClusterTrustBundles != nil {
		host.TrustBundles = l
	}
	if host.Claims == nil && l.listers.PersistentVolumeClaims != nil && l.listers.PersistentVolumes != nil {
		host.Claims = l
	}
	if host.Nodes == nil && l.listers.Nodes != nil {
		host.Nodes = l
	}
	return host
}

// Secret returns the Secret.
func (l *Listed) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	ref := volume.Reference{Kind: volume.KindSecret, Namespace: namespace, Name: name}
	if l.listers.Secrets == nil {
		return nil, noLister(ref.Kind)
	}
	return listed(l, ref, l.listers.Secrets.Secrets(namespace).Get)
}

// ConfigMap returns the ConfigMap.
func (l *Listed) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	ref := volume.Reference{Kind: volume.KindConfigMap, Namespace: namespace, Name: name}
	if l.listers.ConfigMaps == nil {
		return nil, noLister(ref.Kind)
	}
	return listed(l, ref, l.listers.ConfigMaps.ConfigMaps(namespace).Get)
}

// PersistentVolumeClaim returns the claim.
func (l *Listed) PersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	ref := volume.Reference{Kind: volume.KindPersistentVolumeClaim, Namespace: namespace, Name: name}
	if l.listers.PersistentVolumeClaims == nil {
		return nil, noLister(ref.Kind)
	}
	return listed(l, ref, l.listers.PersistentVolumeClaims.PersistentVolumeClaims(namespace).Get)
}

// PersistentVolume returns the volume.
func (l *Listed) PersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	ref := volume.Reference{Kind: volume.KindPersistentVolume, Name: name}
	if l.listers.PersistentVolumes == nil {
		return nil, noLister(ref.Kind)
	}
	return listed(l, ref, l.listers.PersistentVolumes.Get)
}

// Node returns the node.
func (l *Listed) Node(_ context.Context, name types.NodeName) (*v1.Node, error) {
	ref := volume.Reference{Kind: kindNode, Name: string(name)}
	if l.listers.Nodes == nil {
		return nil, noLister(ref.Kind)
	}
	return listed(l, ref, l.listers.Nodes.Get)
}

// ClusterTrustBundle returns the bundle.
func (l *Listed) ClusterTrustBundle(_ context.Context, name string) (*certificatesv1.ClusterTrustBundle, error) {
	ref := volume.Reference{Kind: volume.KindClusterTrustBundle, Name: name}
	if l.listers.ClusterTrustBundles == nil {
		return nil, noLister(ref.Kind)
	}
	return listed(l, ref, l.listers.ClusterTrustBundles.Get)
}

// ClusterTrustBundles returns the bundles of the signer whose labels match. A nil selector matches nothing.
func (l *Listed) ClusterTrustBundles(_ context.Context, signerName string, selector labels.Selector) ([]*certificatesv1.ClusterTrustBundle, error) {
	if l.listers.ClusterTrustBundles == nil {
		return nil, noLister(volume.KindClusterTrustBundle)
	}
	if selector == nil {
		return nil, nil
	}
	if !l.listers.Synced() {
		return nil, volume.Errorf(volume.ErrUncertain, "the ClusterTrustBundles of the signer %s are not all known yet: the informers have not synced", signerName)
	}
	all, err := l.listers.ClusterTrustBundles.List(selector)
	if err != nil {
		return nil, fmt.Errorf("list ClusterTrustBundles: %w", err)
	}
	var found []*certificatesv1.ClusterTrustBundle
	for _, bundle := range all {
		if bundle.Spec.SignerName == signerName {
			found = append(found, bundle)
		}
	}
	return found, nil
}

// listed looks in the lister. That the informers have synced is asked first: they may do so while it looks.
func listed[T any](l *Listed, ref volume.Reference, get func(name string) (T, error)) (T, error) {
	synced := l.listers.Synced()
	found, err := get(ref.Name)
	switch {
	case err == nil:
		return found, nil
	case !apierrors.IsNotFound(err):
		return found, fmt.Errorf("find %s: %w", ref, err)
	case !synced:
		return found, volume.Errorf(volume.ErrUncertain, "whether there is a %s is not known yet: the informers have not synced", ref)
	}
	return found, volume.Errorf(volume.ErrNotFound, "there is no %s", ref)
}

func noLister(kind volume.ObjectKind) error {
	return volume.Errorf(volume.ErrNotSupported, "there is no lister for objects of kind %s", kind)
}
