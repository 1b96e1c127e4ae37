// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/volume"
)

// trustBundlePart is the certificates of trust bundles as a file.
type trustBundlePart struct {
	field    string
	source   *v1.ClusterTrustBundleProjection
	defaults defaults
}

func (p *trustBundlePart) references() []volume.Reference {
	ref := volume.Reference{Kind: volume.KindClusterTrustBundle}
	if p.source.Name != nil {
		ref.Name = *p.source.Name
	}
	return []volume.Reference{ref}
}

func (p *trustBundlePart) paths() []string { return []string{p.source.Path} }

func (p *trustBundlePart) check() error {
	errs := []error{checkUser(p.field+".user", p.source.User)}
	switch {
	case (p.source.Name == nil) == (p.source.SignerName == nil):
		errs = append(errs, volume.Errorf(volume.ErrInvalid, "%s has not just one of name and signerName", p.field))
	case p.source.Name != nil && p.source.LabelSelector != nil:
		errs = append(errs, volume.Errorf(volume.ErrInvalid, "%s has a labelSelector, which goes with signerName only", p.field))
	}
	if _, err := metav1.LabelSelectorAsSelector(p.source.LabelSelector); err != nil {
		errs = append(errs, volume.Errorf(volume.ErrInvalid, "%s.labelSelector: %w", p.field, err))
	}
	return errors.Join(errs...)
}

func (p *trustBundlePart) collect(ctx context.Context, c *collection) error {
	if c.host.TrustBundles == nil {
		return volume.Errorf(volume.ErrNotSupported, "%s needs a ClusterTrustBundle, and the host has no source of them", p.field)
	}
	bundles, err := p.bundles(ctx, c.host.TrustBundles)
	if err != nil {
		return fmt.Errorf("%s: %w", p.field, err)
	}
	text, err := join(bundles)
	if err != nil {
		return fmt.Errorf("%s: %w", p.field, err)
	}
	if text == "" && !isTrue(p.source.Optional) {
		return volume.Errorf(volume.ErrNotFound, "%s: %s", p.field, p.missing())
	}
	c.putPrivate(p.source.Path, text, p.defaults, p.source.User)
	return nil
}

func (p *trustBundlePart) missing() string {
	if p.source.Name != nil {
		return fmt.Sprintf("ClusterTrustBundle %.253q does not exist", *p.source.Name)
	}
	return fmt.Sprintf("no ClusterTrustBundle of signer %.253q matches the labelSelector", *p.source.SignerName)
}

// bundles returns those that are asked for, none if there are none.
func (p *trustBundlePart) bundles(ctx context.Context, source volume.TrustBundleSource) ([]*certificatesv1.ClusterTrustBundle, error) {
	if p.source.Name == nil {
		selector, err := metav1.LabelSelectorAsSelector(p.source.LabelSelector) // nil matches nothing, {} everything
		if err != nil {
			return nil, err
		}
		return source.ClusterTrustBundles(ctx, *p.source.SignerName, selector)
	}
	bundle, err := source.ClusterTrustBundle(ctx, *p.source.Name)
	if errors.Is(err, volume.ErrNotFound) {
		return nil, nil
	}
	if err == nil && bundle == nil {
		err = errNothing
	}
	if err != nil {
		return nil, fmt.Errorf("get ClusterTrustBundle %q: %w", *p.source.Name, err)
	}
	return []*certificatesv1.ClusterTrustBundle{bundle}, nil
}

// join returns the certificates of the bundles, each once, in an order that depends on nothing but the certificates.
func join(bundles []*certificatesv1.ClusterTrustBundle) (string, error) {
	blocks := make(map[string]string)
	for _, bundle := range bundles {
		rest := []byte(bundle.Spec.TrustBundle)
		for {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			if block.Type != "CERTIFICATE" {
				return "", volume.Errorf(volume.ErrInvalid, "ClusterTrustBundle %q holds something other than certificates", bundle.Name)
			}
			if _, err := x509.ParseCertificate(block.Bytes); err != nil {
				return "", volume.Errorf(volume.ErrInvalid, "ClusterTrustBundle %q holds a certificate that cannot be read: %w", bundle.Name, err)
			}
			sum := sha256.Sum256(block.Bytes)
			blocks[hex.EncodeToString(sum[:])] = string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
		}
	}
	keys := make([]string, 0, len(blocks))
	for key := range blocks {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, key := range keys {
		b.WriteString(blocks[key])
	}
	return b.String(), nil
}
