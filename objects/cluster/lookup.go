// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// Secret returns the Secret.
func (c *Cluster) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	return find[*v1.Secret](ctx, c, volume.Reference{Kind: volume.KindSecret, Namespace: namespace, Name: name})
}

// ConfigMap returns the ConfigMap.
func (c *Cluster) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return find[*v1.ConfigMap](ctx, c, volume.Reference{Kind: volume.KindConfigMap, Namespace: namespace, Name: name})
}

// PersistentVolumeClaim returns the claim.
func (c *Cluster) PersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return find[*v1.PersistentVolumeClaim](ctx, c, volume.Reference{Kind: volume.KindPersistentVolumeClaim, Namespace: namespace, Name: name})
}

// PersistentVolume returns the volume.
func (c *Cluster) PersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	return find[*v1.PersistentVolume](ctx, c, volume.Reference{Kind: volume.KindPersistentVolume, Name: name})
}

// Node returns the node. One that does not exist gives an error that matches [volume.ErrNotFound].
func (c *Cluster) Node(ctx context.Context, name types.NodeName) (*v1.Node, error) {
	return find[*v1.Node](ctx, c, volume.Reference{Kind: kindNode, Name: string(name)})
}

// find returns the object from its watch, or else from the API server.
func find[T object](ctx context.Context, c *Cluster, ref volume.Reference) (T, error) {
	var none T
	if !isComplete(ref) {
		return none, volume.Errorf(volume.ErrInvalid, "%s %q is not the name of one object", ref.Kind, ref.Namespace+"/"+ref.Name)
	}
	if err := ctx.Err(); err != nil {
		return none, volume.Errorf(volume.ErrUncertain, "get %s: %w", ref, context.Cause(ctx))
	}
	var found object
	var err error
	if e := c.use(ref); e != nil {
		found, err = e.find(ctx, c)
	} else {
		found, err = c.ask(ctx, ref)
	}
	if err != nil {
		return none, err
	}
	return found.(T), nil
}

// ask gets the object from the API server.
func (c *Cluster) ask(ctx context.Context, ref volume.Reference) (object, error) {
	requests, _ := requestsFor(c.client, ref.Kind, ref.Namespace)
	found, err := requests.get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, wrap(err, "get "+ref.String(), ref.Name)
	}
	return found, nil
}
