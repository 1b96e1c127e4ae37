// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/volumekit/volumekit/volume"
)

// kindNode is a kind that volumes do not refer to.
const kindNode volume.ObjectKind = "Node"

// object is any object of the API.
type object interface {
	runtime.Object
	metav1.Object
}

// requests are those that are made for one kind in one namespace.
type requests struct {
	empty object
	get   func(ctx context.Context, name string, options metav1.GetOptions) (object, error)
	list  func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	watch func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// typedClient is what the clients for single kinds have in common.
type typedClient[T object, L runtime.Object] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

func requestsOf[T object, L runtime.Object](empty T, client typedClient[T, L]) requests {
	return requests{
		empty: empty,
		get: func(ctx context.Context, name string, options metav1.GetOptions) (object, error) {
			found, err := client.Get(ctx, name, options)
			if err != nil {
				return nil, err // not the empty object that comes with it
			}
			return found, nil
		},
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		watch: client.Watch,
	}
}

// requestsFor returns the requests for objects that are found one by one; ok is false for other kinds.
func requestsFor(client kubernetes.Interface, kind volume.ObjectKind, namespace string) (r requests, ok bool) {
	switch kind {
	case volume.KindSecret:
		return requestsOf(&v1.Secret{}, client.CoreV1().Secrets(namespace)), true
	case volume.KindConfigMap:
		return requestsOf(&v1.ConfigMap{}, client.CoreV1().ConfigMaps(namespace)), true
	case volume.KindPersistentVolumeClaim:
		return requestsOf(&v1.PersistentVolumeClaim{}, client.CoreV1().PersistentVolumeClaims(namespace)), true
	case volume.KindPersistentVolume:
		return requestsOf(&v1.PersistentVolume{}, client.CoreV1().PersistentVolumes()), true
	case kindNode:
		return requestsOf(&v1.Node{}, client.CoreV1().Nodes()), true
	}
	return requests{}, false
}

// isNamespaced is for the kinds of requestsFor.
func isNamespaced(kind volume.ObjectKind) bool {
	return kind != volume.KindPersistentVolume && kind != kindNode
}

// isComplete reports whether the reference is to one object of the kinds of requestsFor. Without a name, a watch would be one for
// all objects there are.
func isComplete(ref volume.Reference) bool {
	return ref.Name != "" && (ref.Namespace != "") == isNamespaced(ref.Kind)
}
