// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"maps"
	"slices"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	informers "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/volumekit/volumekit/internal/callback"
	"github.com/volumekit/volumekit/volume"
)

// bundles are all ClusterTrustBundles of the cluster, of which there are few, and which anybody may read.
type bundles struct {
	informer cache.SharedIndexInformer
	started  bool // guarded by the mu of the cluster

	mu      sync.Mutex
	watches map[string]map[*callback.Callback]struct{} // by the bundle's name, "" for all of them
}

const bySigner = "signer"

func newBundles(client kubernetes.Interface) *bundles {
	b := &bundles{watches: make(map[string]map[*callback.Callback]struct{})}
	b.informer = informers.NewClusterTrustBundleInformer(client, 0, cache.Indexers{bySigner: func(item any) ([]string, error) {
		return []string{item.(*certificatesv1.ClusterTrustBundle).Spec.SignerName}, nil
	}})
	// Neither call fails before the informer has been started and stopped.
	_, _ = b.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: b.tell,
		UpdateFunc: func(before, now any) {
			if !isSame(before.(object), now.(object)) {
				b.tell(now)
			}
		},
		DeleteFunc: func(item any) {
			if gone, ok := item.(cache.DeletedFinalStateUnknown); ok {
				item = gone.Obj
			}
			b.tell(item)
		},
	})
	return b
}

// startBundles begins to watch them. mu is locked.
func (c *Cluster) startBundles() {
	if c.bundles.started || c.closed {
		return
	}
	c.bundles.started = true
	c.watching.Go(func() { c.bundles.informer.RunWithContext(c.ctx) })
}

// useBundles begins to watch them, and reports whether what is known of them may be used.
func (c *Cluster) useBundles() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.live[volume.KindClusterTrustBundle] {
		return false
	}
	c.startBundles()
	return c.bundles.informer.HasSynced()
}

// ClusterTrustBundle returns the bundle.
func (c *Cluster) ClusterTrustBundle(ctx context.Context, name string) (*certificatesv1.ClusterTrustBundle, error) {
	if name == "" {
		return nil, volume.Errorf(volume.ErrInvalid, "a ClusterTrustBundle has a name")
	}
	if c.useBundles() {
		if found, ok, err := c.bundles.informer.GetStore().GetByKey(name); err == nil && ok {
			return found.(*certificatesv1.ClusterTrustBundle), nil
		}
	}
	found, err := c.client.CertificatesV1().ClusterTrustBundles().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, wrap(err, "get ClusterTrustBundle "+name, name)
	}
	return found, nil
}

// ClusterTrustBundles returns the bundles of the signer whose labels match. A nil selector matches nothing.
func (c *Cluster) ClusterTrustBundles(ctx context.Context, signerName string, selector labels.Selector) ([]*certificatesv1.ClusterTrustBundle, error) {
	if selector == nil {
		return nil, nil
	}
	var found []*certificatesv1.ClusterTrustBundle
	if c.useBundles() {
		items, err := c.bundles.informer.GetIndexer().ByIndex(bySigner, signerName)
		for _, item := range items {
			if bundle := item.(*certificatesv1.ClusterTrustBundle); selector.Matches(labels.Set(bundle.Labels)) {
				found = append(found, bundle)
			}
		}
		if err == nil && len(found) > 0 {
			return found, nil
		}
	}
	list, err := c.client.CertificatesV1().ClusterTrustBundles().List(ctx, metav1.ListOptions{
		LabelSelector: selector.String(),
		FieldSelector: fields.OneTermEqualSelector("spec.signerName", signerName).String(),
	})
	if err != nil {
		return nil, wrap(err, "list the ClusterTrustBundles of the signer "+signerName, "")
	}
	found = nil
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return found, nil
}

// watch has w told of the bundle of that name, or of all.
func (b *bundles) watch(name string, w *callback.Callback) (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watches[name] == nil {
		b.watches[name] = make(map[*callback.Callback]struct{})
	}
	b.watches[name][w] = struct{}{}
	return func() {
		b.forget(name, w)
		w.Stop()
	}
}

func (b *bundles) forget(name string, w *callback.Callback) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watches[name], w)
	if len(b.watches[name]) == 0 {
		delete(b.watches, name)
	}
}

// tell calls those who watch the bundle.
func (b *bundles) tell(item any) {
	bundle, ok := item.(*certificatesv1.ClusterTrustBundle)
	if !ok {
		return
	}
	b.mu.Lock()
	told := slices.Concat(slices.Collect(maps.Keys(b.watches[bundle.Name])), slices.Collect(maps.Keys(b.watches[""])))
	b.mu.Unlock()
	for _, w := range told {
		w.Call()
	}
}
