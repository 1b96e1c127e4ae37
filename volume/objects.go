// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// SecretSource finds Secrets. A Secret that does not exist gives an error that matches [ErrNotFound].
type SecretSource interface {
	// Secret returns the Secret, which the caller does not change.
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// ConfigMapSource finds ConfigMaps. A ConfigMap that does not exist gives an error that matches [ErrNotFound].
type ConfigMapSource interface {
	// ConfigMap returns the ConfigMap, which the caller does not change.
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
}

// TokenSource issues service account tokens.
type TokenSource interface {
	// ServiceAccountToken returns the request with its status filled in. Every call issues a token: who needs one for long keeps
	// it until it is due to be renewed. A service account that does not exist gives an error that matches [ErrNotFound].
	ServiceAccountToken(ctx context.Context, namespace, serviceAccount string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
}

// ClaimSource finds claims and the volumes that they are bound to. What does not exist gives an error that matches
// [ErrNotFound].
type ClaimSource interface {
	// PersistentVolumeClaim returns the claim, which the caller does not change.
	PersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error)

	// PersistentVolume returns the volume, which the caller does not change.
	PersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error)
}

// NodeSource finds nodes.
type NodeSource interface {
	// Node returns the node, which the caller does not change.
	Node(ctx context.Context, name types.NodeName) (*v1.Node, error)
}

// TrustBundleSource finds ClusterTrustBundles.
type TrustBundleSource interface {
	// ClusterTrustBundle returns the bundle of that name, which the caller does not change. One that does not exist gives an
	// error that matches [ErrNotFound].
	ClusterTrustBundle(ctx context.Context, name string) (*certificatesv1.ClusterTrustBundle, error)

	// ClusterTrustBundles returns the bundles of a signer whose labels match, in any order, none if there are none. The caller
	// does not change them.
	ClusterTrustBundles(ctx context.Context, signerName string, selector labels.Selector) ([]*certificatesv1.ClusterTrustBundle, error)
}

// PodCertificateSource has certificates issued to pods.
type PodCertificateSource interface {
	// PodCertificate makes the request, waits for its signer, and returns it with its status filled in: issued, denied or
	// failed. Until then it blocks; when ctx ends first the error says so, and the request may still be issued. The UIDs of the
	// service account and of the node, which who asks may not know, are filled in if the request does not have them.
	PodCertificate(ctx context.Context, request *certificatesv1.PodCertificateRequest) (*certificatesv1.PodCertificateRequest, error)
}

// ObjectKind is the kind of an object that a volume can depend on.
type ObjectKind string

// The kinds that a [Reference] can have.
const (
	KindConfigMap             ObjectKind = "ConfigMap"
	KindSecret                ObjectKind = "Secret"
	KindClusterTrustBundle    ObjectKind = "ClusterTrustBundle"
	KindPersistentVolume      ObjectKind = "PersistentVolume"
	KindPersistentVolumeClaim ObjectKind = "PersistentVolumeClaim"
)

// Reference names an object that a volume depends on. It may not exist.
type Reference struct {
	// Kind is what the object is.
	Kind ObjectKind

	// Namespace is empty for a kind that has none.
	Namespace string

	// Name is empty for all objects of the kind in the namespace.
	Name string
}

// String returns the kind and the name: "ConfigMap shop/settings".
func (r Reference) String() string {
	if r.Namespace == "" {
		return string(r.Kind) + " " + r.Name
	}
	return string(r.Kind) + " " + r.Namespace + "/" + r.Name
}

// Watcher is a source of objects that can tell when one of them changes.
type Watcher interface {
	// Watch has changed called whenever the object may have changed, appeared or gone, at any time after Watch was called; ok is
	// false if the source does not know objects of that kind. changed returns at once, may be called by any goroutine, and is not
	// called any more once stop has returned. The object that the source returns after the call is the new one. Neither Watch nor
	// stop waits for anything but calls of changed.
	Watch(ref Reference, changed func()) (stop func(), ok bool)
}

// Watch is [Watcher] for the sources of the host: ok is false if the source of such objects cannot be watched, or there is none.
func (h Host) Watch(ref Reference, changed func()) (stop func(), ok bool) {
	var source any
	switch ref.Kind {
	case KindConfigMap:
		source = h.ConfigMaps
	case KindSecret:
		source = h.Secrets
	case KindClusterTrustBundle:
		source = h.TrustBundles
	case KindPersistentVolume, KindPersistentVolumeClaim:
		source = h.Claims
	}
	watcher, ok := source.(Watcher)
	if !ok {
		return nil, false
	}
	return watcher.Watch(ref, changed)
}
