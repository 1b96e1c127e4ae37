// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/volumekit/volumekit/volume"
)

// Options say how objects are found. The zero value is usable.
type Options struct {
	// Linger is how long an object is still watched when nobody has asked for it or watched it any more. 0 stands for
	// DefaultLinger.
	Linger time.Duration

	// Live are kinds that are not watched but asked for each time. The node authorizer of Kubernetes lets a node get claims and
	// volumes, but not watch them: a program with the rights of a kubelet names KindPersistentVolumeClaim and
	// KindPersistentVolume here.
	Live []volume.ObjectKind
}

// DefaultLinger is more than there is between two looks at a volume that is in use.
const DefaultLinger = 5 * time.Minute

// Cluster finds objects at an API server. It is every source of a [volume.Host]. Its methods may be called at the same time.
type Cluster struct {
	client  kubernetes.Interface
	linger  time.Duration
	live    map[volume.ObjectKind]bool
	bundles *bundles

	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	closed   bool
	entries  map[volume.Reference]*entry
	watching sync.WaitGroup
}

var (
	_ volume.SecretSource         = (*Cluster)(nil)
	_ volume.ConfigMapSource      = (*Cluster)(nil)
	_ volume.TokenSource          = (*Cluster)(nil)
	_ volume.ClaimSource          = (*Cluster)(nil)
	_ volume.NodeSource           = (*Cluster)(nil)
	_ volume.TrustBundleSource    = (*Cluster)(nil)
	_ volume.PodCertificateSource = (*Cluster)(nil)
	_ volume.Watcher              = (*Cluster)(nil)
)

// New returns a source on a client. Nothing is asked for before the source is. [Cluster.Close] ends what it has begun.
func New(client kubernetes.Interface, options Options) *Cluster {
	if options.Linger == 0 {
		options.Linger = DefaultLinger
	}
	c := &Cluster{
		client: client, linger: options.Linger, bundles: newBundles(client),
		live: make(map[volume.ObjectKind]bool), entries: make(map[volume.Reference]*entry),
	}
	for _, kind := range options.Live {
		c.live[kind] = true
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Fill returns the host with this as the source of everything that it has no source of yet.
func (c *Cluster) Fill(host volume.Host) volume.Host {
	if host.Secrets == nil {
		host.Secrets = c
	}
	if host.ConfigMaps == nil {
		host.ConfigMaps = c
	}
	if host.Tokens == nil {
		host.Tokens = c
	}
	if host.TrustBundles == nil {
		host.TrustBundles = c
	}
	if host.PodCertificates == nil {
		host.PodCertificates = c
	}
	if host.Claims == nil {
		host.Claims = c
	}
	if host.Nodes == nil {
		host.Nodes = c
	}
	return host
}

// Close ends all watches and waits until they have ended; no changed may call it. Afterwards every question goes to the API
// server, and nothing can be watched.
func (c *Cluster) Close() {
	c.mu.Lock()
	c.closed = true
	for ref, e := range c.entries {
		e.disarm()
		delete(c.entries, ref)
	}
	c.mu.Unlock()
	c.cancel()
	c.watching.Wait()
}
