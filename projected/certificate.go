// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/volume"
)

// certificatePart is a key, and the certificate that a signer issues for it to the pod, as files.
type certificatePart struct {
	field    string
	index    int // among the volume's sources
	source   *v1.PodCertificateProjection
	defaults defaults
}

const (
	defaultCertificateSeconds = 24 * 3600
	minCertificateSeconds     = 3600
	maxCertificateSeconds     = 91 * 24 * 3600
)

// keyTypes make keys.
var keyTypes = map[string]func() (crypto.Signer, error){
	"RSA3072":   func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 3072) },
	"RSA4096":   func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 4096) },
	"ECDSAP256": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
	"ECDSAP384": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) },
	"ECDSAP521": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) },
	"ED25519": func() (crypto.Signer, error) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	},
}

func (p *certificatePart) references() []volume.Reference { return nil }

func (p *certificatePart) paths() []string {
	var paths []string
	for _, path := range []string{p.source.CredentialBundlePath, p.source.KeyPath, p.source.CertificateChainPath} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

func (p *certificatePart) check() error {
	errs := []error{checkUser(p.field+".user", p.source.User)}
	refuse := func(format string, args ...any) {
		errs = append(errs, volume.Errorf(volume.ErrInvalid, p.field+format, args...))
	}
	if p.source.SignerName == "" {
		refuse(" has no signerName")
	}
	if keyTypes[p.source.KeyType] == nil {
		refuse(".keyType %.64q is none of RSA3072, RSA4096, ECDSAP256, ECDSAP384, ECDSAP521 and ED25519", p.source.KeyType)
	}
	if len(p.paths()) == 0 {
		refuse(" has none of credentialBundlePath, keyPath and certificateChainPath")
	}
	if seconds := p.seconds(); seconds < minCertificateSeconds || seconds > maxCertificateSeconds {
		refuse(".maxExpirationSeconds %d is not between %d and %d", seconds, minCertificateSeconds, maxCertificateSeconds)
	}
	return errors.Join(errs...)
}

func (p *certificatePart) seconds() int32 {
	if p.source.MaxExpirationSeconds == nil {
		return defaultCertificateSeconds
	}
	return *p.source.MaxExpirationSeconds
}

// certificateRequest is what a certificate is asked for with.
type certificateRequest struct {
	signer, keyType, account string
	seconds                  int32
}

// What the files of a certificate show.
const (
	keyFile   = "key"
	chainFile = "chain"
)

// keyBlock is the PEM type of a key in PKCS #8.
const keyBlock = "PRIVATE KEY"

func (p *certificatePart) collect(ctx context.Context, c *collection) error {
	if c.host.PodCertificates == nil {
		return volume.Errorf(volume.ErrNotSupported, "%s needs a certificate, and the host has no source of pod certificates", p.field)
	}
	wanted := certificateRequest{signer: p.source.SignerName, keyType: p.source.KeyType, account: accountOf(c.pod), seconds: p.seconds()}
	issued, err := c.credential(p.index, wanted, "certificate of signer "+wanted.signer,
		func() *credential { return certificateOnDisk(c, p, wanted) },
		func() (*credential, error) { return p.request(ctx, c, wanted) })
	if err != nil {
		return fmt.Errorf("%s: %w", p.field, err)
	}
	for path, data := range map[string]string{
		p.source.CredentialBundlePath: issued.files[keyFile] + issued.files[chainFile],
		p.source.KeyPath:              issued.files[keyFile],
		p.source.CertificateChainPath: issued.files[chainFile],
	} {
		if path != "" {
			c.putPrivate(path, data, p.defaults, p.source.User)
		}
	}
	return nil
}

// request makes a key and has a certificate issued for it.
func (p *certificatePart) request(ctx context.Context, c *collection, wanted certificateRequest) (*credential, error) {
	key, err := keyTypes[wanted.keyType]()
	if err != nil {
		return nil, fmt.Errorf("make a key of type %s: %w", wanted.keyType, err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key of type %s: %w", wanted.keyType, err)
	}
	// The signature proves that who asks has the key.
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("sign the request: %w", err)
	}
	request := &certificatesv1.PodCertificateRequest{}
	request.Namespace, request.GenerateName = c.pod.Namespace, "req-"
	request.Spec = certificatesv1.PodCertificateRequestSpec{
		SignerName:                wanted.signer,
		PodName:                   c.pod.Name,
		PodUID:                    c.pod.UID,
		ServiceAccountName:        wanted.account,
		NodeName:                  c.host.NodeName,
		MaxExpirationSeconds:      ptr.To(wanted.seconds),
		StubPKCS10Request:         stub,
		UnverifiedUserAnnotations: maps.Clone(p.source.UserAnnotations),
	}
	answer, err := c.host.PodCertificates.PodCertificate(ctx, request)
	if err != nil {
		return nil, err
	}
	return newCertificate(c, wanted, key, string(pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der})), answer)
}

// newCertificate takes a signer's answer.
func newCertificate(c *collection, wanted certificateRequest, key crypto.Signer, keyText string, answer *certificatesv1.PodCertificateRequest) (*credential, error) {
	if answer == nil {
		return nil, errors.New("there is no answer")
	}
	for _, condition := range answer.Status.Conditions {
		if condition.Type == certificatesv1.PodCertificateRequestConditionTypeDenied || condition.Type == certificatesv1.PodCertificateRequestConditionTypeFailed {
			return nil, fmt.Errorf("the request is %s (%s): %s", strings.ToLower(condition.Type), condition.Reason, condition.Message)
		}
	}
	chain, leaf, err := certificatesOf(answer.Status.CertificateChain)
	if err != nil {
		return nil, err
	}
	if !isKeyOf(key, leaf) {
		return nil, errors.New("the certificate is that of another key")
	}
	issued := &credential{of: wanted, files: map[string]string{keyFile: keyText, chainFile: chain}, expires: leaf.NotAfter}
	if at := answer.Status.BeginRefreshAt; at != nil {
		issued.renewFrom = at.Time
	} else {
		now := c.host.Clock.Now()
		issued.renewFrom = renewalOf(now, leaf.NotAfter.Sub(now))
	}
	return issued, nil
}

func isKeyOf(key crypto.Signer, certificate *x509.Certificate) bool {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(certificate.PublicKey)
}

// certificatesOf returns the certificates of a chain without anything between them, and the first one.
func certificatesOf(text string) (chain string, leaf *x509.Certificate, err error) {
	var b strings.Builder
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			return "", nil, errors.New("the certificate chain holds what is no certificate")
		}
		if leaf == nil {
			leaf = certificate
		}
		b.Write(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
	}
	if leaf == nil {
		return "", nil, errors.New("the answer has no certificate")
	}
	return b.String(), leaf, nil
}
