// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/volume"
)

// tokens is a source of tokens that counts, and fails on request.
type tokens struct {
	volume.TokenSource
	requests []authenticationv1.TokenRequestSpec
	err      error
}

func (s *tokens) ServiceAccountToken(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	s.requests = append(s.requests, request.Spec)
	if s.err != nil {
		return nil, s.err
	}
	return s.TokenSource.ServiceAccountToken(ctx, namespace, account, request)
}

func newTokenRig(t *testing.T) (*rig, *tokens, *clocktesting.FakeClock) {
	now := clocktesting.NewFakeClock(time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC))
	source := &tokens{}
	r := newRig(t, func(h *volume.Host) { h.Clock = now }, withTokens(t), func(h *volume.Host) {
		source.TokenSource = h.Tokens
		h.Tokens = source
	})
	return r, source, now
}

func account(seconds int64, audience string) v1.VolumeSource {
	return projection(v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds, Audience: audience}})
}

func TestATokenIsAskedForOnceAndRenewedBeforeItExpires(t *testing.T) {
	for _, test := range []struct {
		lifetime, renewed time.Duration
	}{{time.Hour, 48 * time.Minute}, {10 * time.Minute, 8 * time.Minute}, {7 * 24 * time.Hour, 24 * time.Hour}} {
		t.Run(test.lifetime.String(), func(t *testing.T) {
			r, source, now := newTokenRig(t)
			begun := now.Now()
			spec := account(int64(test.lifetime.Seconds()), "vault")
			m := r.mounter(spec).(volume.Refresher)
			require.NoError(t, m.SetUp(t.Context(), volume.SetUpOptions{}))
			first := files(t, m.Path())["token"]
			require.Len(t, source.requests, 1)
			assert.Equal(t, []string{"vault"}, source.requests[0].Audiences)
			assert.Equal(t, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "uid-web-0"}, source.requests[0].BoundObjectRef)
			at := m.RefreshTime()
			assert.WithinRange(t, at, begun.Add(test.renewed-renewalJitter), begun.Add(test.renewed))

			now.SetTime(begun.Add(test.renewed - renewalJitter - time.Second))
			require.NoError(t, m.SetUp(t.Context(), volume.SetUpOptions{}))
			assert.Len(t, source.requests, 1)
			r.restart()
			m = r.mounter(spec).(volume.Refresher)
			require.NoError(t, m.SetUp(t.Context(), volume.SetUpOptions{}))
			assert.Len(t, source.requests, 1, "a restart of the program is no reason to ask again")
			assert.Equal(t, first, files(t, m.Path())["token"])

			now.SetTime(begun.Add(test.renewed))
			require.NoError(t, m.SetUp(t.Context(), volume.SetUpOptions{}))
			assert.Len(t, source.requests, 2)
			assert.NotEqual(t, first, files(t, m.Path())["token"])
			assert.True(t, m.RefreshTime().After(now.Now()))
		})
	}
}

func TestATokenGoesWithItsVolume(t *testing.T) {
	r, source, _ := newTokenRig(t)
	spec := account(3600, "")
	first := files(t, r.setUp(spec))["token"]
	u, err := r.plugins[volume.SourceProjected].NewUnmounter("files", r.pod.UID)
	require.NoError(t, err)
	require.NoError(t, u.TearDown(t.Context(), volume.TearDownOptions{}))
	assert.NotEqual(t, first, files(t, r.setUp(spec))["token"])
	assert.Len(t, source.requests, 2)
}

func TestATokenThatCannotBeRenewedIsKeptAsLongAsItIsValid(t *testing.T) {
	r, source, now := newTokenRig(t)
	m := r.mounter(account(3600, "")).(volume.Refresher)
	require.NoError(t, m.SetUp(t.Context(), volume.SetUpOptions{}))
	first := files(t, m.Path())["token"]
	source.err = errors.New("the server is away")
	now.Step(50 * time.Minute)
	var warnings []string
	options := volume.SetUpOptions{Warn: func(message string) { warnings = append(warnings, message) }}
	require.NoError(t, m.SetUp(t.Context(), options))
	assert.Equal(t, []string{"the token of service account default/default cannot be renewed, and expires at 2026-12-01T11:00:00Z: the server is away"}, warnings)
	assert.Equal(t, first, files(t, m.Path())["token"])
	assert.Equal(t, now.Now().Add(renewalRetry), m.RefreshTime())

	now.Step(11 * time.Minute)
	err := m.SetUp(t.Context(), volume.SetUpOptions{})
	require.EqualError(t, err, "projected.sources[0].serviceAccountToken: get a token of service account default/default: the server is away")
	source.err = nil
	require.NoError(t, m.SetUp(t.Context(), volume.SetUpOptions{}))
	assert.NotEqual(t, first, files(t, m.Path())["token"])
}

func TestATokenIsNotUsedForWhatItWasNotIssuedFor(t *testing.T) {
	for name, change := range map[string]func(r *rig, source *v1.VolumeSource){
		"another audience": func(_ *rig, source *v1.VolumeSource) { *source = account(3600, "other") },
		"another account":  func(r *rig, _ *v1.VolumeSource) { r.pod.Spec.ServiceAccountName = "robot" },
		"another pod":      func(r *rig, _ *v1.VolumeSource) { r.pod.UID = "uid-of-another" },
	} {
		t.Run(name, func(t *testing.T) {
			r, source, _ := newTokenRig(t)
			source.TokenSource = anyAccount{source.TokenSource}
			spec := account(3600, "vault")
			dir := r.setUp(spec)
			change(r, &spec)
			if r.pod.UID == "uid-of-another" { // whose volume somebody has copied
				r.restart()
				moved := r.mounter(spec).Path()
				copyTree(t, dir, moved)
			} else {
				r.restart()
			}
			r.setUp(spec)
			assert.Len(t, source.requests, 2)
		})
	}
}

// anyAccount issues the tokens of the default account to everybody.
type anyAccount struct{ volume.TokenSource }

func (s anyAccount) ServiceAccountToken(ctx context.Context, namespace, _ string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	return s.TokenSource.ServiceAccountToken(ctx, namespace, "default", request)
}

// authority is a signer of certificates.
type authority struct {
	key      crypto.Signer
	root     *x509.Certificate
	now      func() time.Time
	requests []*certificatesv1.PodCertificateRequest
	deny     string
}

func newAuthority(t *testing.T, now func() time.Time) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: now(), NotAfter: now().Add(10000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	root, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{key: key, root: root, now: now}
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.root.Raw}))
}

func (a *authority) PodCertificate(_ context.Context, request *certificatesv1.PodCertificateRequest) (*certificatesv1.PodCertificateRequest, error) {
	a.requests = append(a.requests, request)
	answer := request.DeepCopy()
	if a.deny != "" {
		answer.Status.Conditions = []metav1.Condition{{Type: "Denied", Status: "True", Reason: a.deny, Message: "use another key"}}
		return answer, nil
	}
	stub, err := x509.ParseCertificateRequest(request.Spec.StubPKCS10Request)
	if err == nil {
		err = stub.CheckSignature()
	}
	if err != nil {
		return nil, err
	}
	until := a.now().Add(time.Duration(*request.Spec.MaxExpirationSeconds) * time.Second)
	template := &x509.Certificate{SerialNumber: big.NewInt(int64(len(a.requests) + 1)), Subject: pkix.Name{CommonName: request.Spec.PodName}, NotBefore: a.now(), NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, a.root, stub.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	answer.Status.CertificateChain = "comment\n" + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"a": "b"}, Bytes: der})) + "\n" + a.pem()
	answer.Status.NotBefore, answer.Status.NotAfter = ptr.To(metav1.NewTime(a.now())), ptr.To(metav1.NewTime(until))
	answer.Status.BeginRefreshAt = ptr.To(metav1.NewTime(a.now().Add(30 * time.Minute)))
	return answer, nil
}

func TestACertificateIsIssuedForAKeyOfThePodAndRenewed(t *testing.T) {
	for keyType := range keyTypes {
		t.Run(keyType, func(t *testing.T) {
			now := clocktesting.NewFakeClock(time.Now().Truncate(time.Second))
			signer := newAuthority(t, now.Now)
			r := newRig(t, func(h *volume.Host) { h.Clock, h.PodCertificates, h.NodeName = now, signer, "node-a" })
			r.pod.Spec.ServiceAccountName = "web"
			source := projection(v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{SignerName: "example.com/signer", KeyType: keyType,
				MaxExpirationSeconds: ptr.To[int32](3600), CredentialBundlePath: "bundle.pem", KeyPath: "key.pem", CertificateChainPath: "chain.pem",
				UserAnnotations: map[string]string{"example.com/a": "b"}}})
			m := r.mounter(source).(volume.Refresher)
			require.NoError(t, m.SetUp(t.Context(), volume.SetUpOptions{}))
			got := files(t, m.Path())
			assert.Equal(t, got["key.pem"]+got["chain.pem"], got["bundle.pem"])
			pair, err := tls.X509KeyPair([]byte(got["bundle.pem"]), []byte(got["bundle.pem"]))
			require.NoError(t, err, "key and certificate belong together")
			assert.Equal(t, "web-0", pair.Leaf.Subject.CommonName)
			assert.Len(t, pair.Certificate, 2)
			assert.NotContains(t, got["chain.pem"], "comment")
			assert.NotContains(t, got["chain.pem"], "a: b")
			request := signer.requests[0]
			assert.Equal(t, "default", request.Namespace)
			assert.Equal(t, []string{"example.com/signer", "web-0", "uid-web-0", "web", "node-a"},
				[]string{request.Spec.SignerName, request.Spec.PodName, string(request.Spec.PodUID), request.Spec.ServiceAccountName, string(request.Spec.NodeName)})
			assert.Equal(t, map[string]string{"example.com/a": "b"}, request.Spec.UnverifiedUserAnnotations)
			assert.Equal(t, now.Now().Add(30*time.Minute).Unix(), m.RefreshTime().Unix())

			now.Step(29 * time.Minute)
			r.setUp(source)
			assert.Len(t, signer.requests, 1)
			now.Step(time.Minute)
			r.setUp(source)
			assert.Len(t, signer.requests, 2, "when the signer wants it")
			renewed := files(t, m.Path())["key.pem"]
			assert.NotEqual(t, got["key.pem"], renewed)

			signer.deny = "Restarting"
			r.restart()
			r.setUp(source)
			assert.Len(t, signer.requests, 3, "when the signer wants the next one is not known after a restart")
			assert.Equal(t, renewed, files(t, m.Path())["key.pem"], "it is still valid")
		})
	}
}

func TestACertificateThatIsDeniedSaysWhy(t *testing.T) {
	signer := newAuthority(t, time.Now)
	signer.deny = "UnsupportedKeyType"
	r := newRig(t, func(h *volume.Host) { h.PodCertificates = signer })
	err := r.mounter(projection(v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{SignerName: "example.com/signer", KeyType: "ED25519",
		KeyPath: "key.pem"}})).SetUp(t.Context(), volume.SetUpOptions{})
	assert.EqualError(t, err, "projected.sources[0].podCertificate: get a certificate of signer example.com/signer: "+
		"the request is denied (UnsupportedKeyType): use another key")
}

func TestTrustBundlesAreUnitedInAnOrderThatStays(t *testing.T) {
	var authorities []string
	for range 3 {
		authorities = append(authorities, newAuthority(t, time.Now).pem())
	}
	bundle := func(name, signer, label, text string) *certificatesv1.ClusterTrustBundle {
		b := &certificatesv1.ClusterTrustBundle{}
		b.Name, b.Spec.SignerName, b.Spec.TrustBundle, b.Labels = name, signer, text, map[string]string{"stage": label}
		return b
	}
	const signer = "example.com/signer"
	all := []*certificatesv1.ClusterTrustBundle{
		bundle("example.com:signer:a", signer, "live", authorities[0]+authorities[1]),
		bundle("example.com:signer:b", signer, "live", "text\n"+authorities[1]),
		bundle("example.com:signer:c", signer, "test", authorities[2]),
		bundle("plain", "", "", authorities[2]),
	}
	chosen := func(p v1.ClusterTrustBundleProjection) v1.VolumeSource {
		p.Path = "ca.crt"
		return projection(v1.VolumeProjection{ClusterTrustBundle: &p})
	}
	for name, test := range map[string]struct {
		source v1.ClusterTrustBundleProjection
		want   []string
		says   string
	}{
		"by name":            {v1.ClusterTrustBundleProjection{Name: ptr.To("plain")}, authorities[2:], ""},
		"by label":           {v1.ClusterTrustBundleProjection{SignerName: ptr.To(signer), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "live"}}}, authorities[:2], ""},
		"all of a signer":    {v1.ClusterTrustBundleProjection{SignerName: ptr.To(signer), LabelSelector: &metav1.LabelSelector{}}, authorities, ""},
		"no selector":        {v1.ClusterTrustBundleProjection{SignerName: ptr.To(signer)}, nil, "no ClusterTrustBundle of signer \"example.com/signer\" matches the labelSelector"},
		"none":               {v1.ClusterTrustBundleProjection{Name: ptr.To("other")}, nil, `ClusterTrustBundle "other" does not exist`},
		"none, but optional": {v1.ClusterTrustBundleProjection{Name: ptr.To("other"), Optional: ptr.To(true)}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for _, b := range all {
				require.NoError(t, r.store.Set(b))
			}
			m := r.mounter(chosen(test.source))
			err := m.SetUp(t.Context(), volume.SetUpOptions{})
			if test.says != "" {
				require.ErrorIs(t, err, volume.ErrNotFound)
				require.ErrorContains(t, err, test.says)
				return
			}
			require.NoError(t, err)
			got := files(t, m.Path())["ca.crt"]
			assert.ElementsMatch(t, test.want, certificates(got))
			first, err := filepath.EvalSymlinks(filepath.Join(m.Path(), "..data"))
			require.NoError(t, err)
			slices.Reverse(all)
			for _, b := range all {
				r.store.Remove(b)
				require.NoError(t, r.store.Set(b))
			}
			require.NoError(t, m.SetUp(t.Context(), volume.SetUpOptions{}))
			again, err := filepath.EvalSymlinks(filepath.Join(m.Path(), "..data"))
			require.NoError(t, err)
			assert.Equal(t, first, again, "nothing was written")
		})
	}
}

func TestATrustBundleThatHoldsMoreThanCertificatesIsRefused(t *testing.T) {
	for name, block := range map[string]*pem.Block{
		"holds something other than certificates": {Type: "PRIVATE KEY", Bytes: []byte(canary)},
		"holds a certificate that cannot be read": {Type: "CERTIFICATE", Bytes: []byte("x")},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			b := &certificatesv1.ClusterTrustBundle{}
			b.Name, b.Spec.TrustBundle = "bundle", string(pem.EncodeToMemory(block))
			require.NoError(t, r.store.Set(b))
			err := r.mounter(projection(v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: ptr.To("bundle"), Path: "ca"}})).
				SetUp(t.Context(), volume.SetUpOptions{})
			require.ErrorIs(t, err, volume.ErrInvalid)
			assert.ErrorContains(t, err, name)
			assert.NotContains(t, err.Error(), canary)
		})
	}
}

// certificates parts what a file of certificates holds.
func certificates(text string) []string {
	var all []string
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return all
		}
		all = append(all, string(pem.EncodeToMemory(block)))
	}
}
