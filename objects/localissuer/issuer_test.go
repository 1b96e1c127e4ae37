// SPDX-License-Identifier: Apache-2.0

package localissuer

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/objects"
	"github.com/volumekit/volumekit/volume"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 999, time.UTC)

func newIssuer(t *testing.T, options Options) *Issuer {
	t.Helper()
	if options.Clock == nil {
		options.Clock = clocktesting.NewFakePassiveClock(noon)
	}
	issuer, err := New(options)
	require.NoError(t, err)
	return issuer
}

// publicKey reads the one key of a key set as somebody does who knows nothing but its standard.
func publicKey(t *testing.T, issuer *Issuer) (key crypto.PublicKey, id string) {
	t.Helper()
	content, err := issuer.JWKS()
	require.NoError(t, err)
	var set struct{ Keys []map[string]string }
	require.NoError(t, json.Unmarshal(content, &set))
	require.Len(t, set.Keys, 1)
	k := set.Keys[0]
	assert.Equal(t, "sig", k["use"])
	bytes := func(name string) []byte {
		value, err := base64.RawURLEncoding.DecodeString(k[name])
		require.NoError(t, err)
		return value
	}
	switch k["kty"] {
	case "EC":
		curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[k["crv"]]
		key, err = ecdsa.ParseUncompressedPublicKey(curve, append(append([]byte{4}, bytes("x")...), bytes("y")...))
		require.NoError(t, err)
	case "RSA":
		key = &rsa.PublicKey{N: new(big.Int).SetBytes(bytes("n")), E: int(new(big.Int).SetBytes(bytes("e")).Int64())}
	case "OKP":
		key = ed25519.PublicKey(bytes("x"))
	}
	return key, k["kid"]
}

// verified returns the claims of a token whose signature is right.
func verified(t *testing.T, issuer *Issuer, token string) map[string]any {
	t.Helper()
	key, id := publicKey(t, issuer)
	parsed, err := jwt.Parse(token, func(token *jwt.Token) (any, error) {
		assert.Equal(t, id, token.Header["kid"])
		return key, nil
	}, jwt.WithTimeFunc(func() time.Time { return noon }), jwt.WithValidMethods([]string{issuer.signer.alg}))
	require.NoError(t, err)
	return parsed.Claims.(jwt.MapClaims)
}

// onlySigner hides a key as a module of hardware does.
type onlySigner struct{ crypto.Signer }

func TestATokenIsCheckedWithThePublicKey(t *testing.T) {
	made := func(key crypto.Signer, err error) crypto.Signer {
		require.NoError(t, err)
		return key
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		key crypto.Signer
		alg string
	}{
		"none is given":               {nil, "ES256"},
		"P-256":                       {made(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), "ES256"},
		"P-384":                       {made(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)), "ES384"},
		"P-521":                       {made(ecdsa.GenerateKey(elliptic.P521(), rand.Reader)), "ES512"},
		"RSA":                         {made(rsa.GenerateKey(rand.Reader, 2048)), "RS256"},
		"Ed25519":                     {edKey, "EdDSA"},
		"a key that is not in memory": {onlySigner{made(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}, "ES256"},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := newIssuer(t, Options{Key: test.key})
			assert.Equal(t, test.alg, issuer.signer.alg)
			// Numbers of a signature begin with a zero byte now and then.
			for range 20 {
				answer, err := issuer.ServiceAccountToken(t.Context(), "shop", "default", &authenticationv1.TokenRequest{})
				require.NoError(t, err)
				verified(t, issuer, answer.Status.Token)
				_, err = jwt.Parse(answer.Status.Token, func(*jwt.Token) (any, error) { key, _ := publicKey(t, newIssuer(t, Options{})); return key, nil })
				require.Error(t, err, "another issuer's key")
			}
		})
	}
}

func TestAKeyThatIsNotGoodEnoughIsRefused(t *testing.T) {
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	require.NoError(t, err)
	for _, key := range []crypto.Signer{short, curve} {
		_, err := New(Options{Key: key})
		require.ErrorIs(t, err, volume.ErrInvalid)
	}
}

func TestATokenSaysWhatOneOfKubernetesSays(t *testing.T) {
	store := objects.NewStore()
	require.NoError(t, store.Set(&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "robot", UID: "sa-1"}}))
	issuer := newIssuer(t, Options{Issuer: "https://edge.example.com", ServiceAccounts: store.ServiceAccount, NodeName: "node-1"})
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{"vault", "bank"}, ExpirationSeconds: ptr.To[int64](600),
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "pod-1"},
	}}
	asked := request.DeepCopy()
	answer, err := issuer.ServiceAccountToken(t.Context(), "shop", "robot", request)
	require.NoError(t, err)
	assert.Equal(t, asked, request, "the caller's request was changed")
	assert.Equal(t, request.Spec, answer.Spec)
	assert.Equal(t, "shop/robot", answer.Namespace+"/"+answer.Name)
	issued := noon.Truncate(time.Second)
	assert.True(t, answer.Status.ExpirationTimestamp.Equal(ptr.To(metav1.NewTime(issued.Add(600*time.Second)))))
	said := verified(t, issuer, answer.Status.Token)
	assert.NotEmpty(t, said["jti"])
	delete(said, "jti")
	assert.Equal(t, map[string]any{
		"iss": "https://edge.example.com",
		"sub": "system:serviceaccount:shop:robot",
		"aud": []any{"vault", "bank"},
		"iat": float64(issued.Unix()),
		"nbf": float64(issued.Unix()),
		"exp": float64(issued.Unix() + 600),
		"kubernetes.io": map[string]any{
			"namespace":      "shop",
			"serviceaccount": map[string]any{"name": "robot", "uid": "sa-1"},
			"pod":            map[string]any{"name": "web", "uid": "pod-1"},
			"node":           map[string]any{"name": "node-1"},
		},
	}, said)
	again, err := issuer.ServiceAccountToken(t.Context(), "shop", "robot", request)
	require.NoError(t, err)
	assert.NotEqual(t, answer.Status.Token, again.Status.Token, "two tokens have one ID")
}

func TestWhatIsNotAskedForHasItsDefault(t *testing.T) {
	issuer := newIssuer(t, Options{Issuer: "https://edge.example.com"})
	answer, err := issuer.ServiceAccountToken(t.Context(), "shop", "default", &authenticationv1.TokenRequest{})
	require.NoError(t, err)
	assert.Equal(t, []string{"https://edge.example.com"}, answer.Spec.Audiences)
	assert.EqualValues(t, 3600, *answer.Spec.ExpirationSeconds)
	said := verified(t, issuer, answer.Status.Token)
	assert.Equal(t, []any{"https://edge.example.com"}, said["aud"])
	assert.Equal(t, map[string]any{"namespace": "shop", "serviceaccount": map[string]any{"name": "default"}}, said["kubernetes.io"])
}

func TestOnlyDefaultIsThereByItself(t *testing.T) {
	store := objects.NewStore()
	require.NoError(t, store.Set(&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "default", UID: "given"}}))
	for name, find := range map[string]func(context.Context, string, string) (*v1.ServiceAccount, error){"nothing finds any": nil, "a store does": store.ServiceAccount} {
		t.Run(name, func(t *testing.T) {
			issuer := newIssuer(t, Options{ServiceAccounts: find})
			_, err := issuer.ServiceAccountToken(t.Context(), "shop", "robot", &authenticationv1.TokenRequest{})
			require.ErrorIs(t, err, volume.ErrNotFound)
			assert.ErrorContains(t, err, "ServiceAccount shop/robot")
			_, err = issuer.ServiceAccountToken(t.Context(), "office", "default", &authenticationv1.TokenRequest{})
			require.NoError(t, err)
			answer, err := issuer.ServiceAccountToken(t.Context(), "shop", "default", &authenticationv1.TokenRequest{})
			require.NoError(t, err)
			if find != nil {
				assert.EqualValues(t, "given", answer.UID)
			}
		})
	}
	issuer := newIssuer(t, Options{ServiceAccounts: func(context.Context, string, string) (*v1.ServiceAccount, error) { return nil, errors.New("no answer") }})
	_, err := issuer.ServiceAccountToken(t.Context(), "shop", "default", &authenticationv1.TokenRequest{})
	assert.ErrorContains(t, err, "no answer", "whether it is there is not known")
}

func TestARequestThatAnAPIServerRefusesIsRefused(t *testing.T) {
	bound := func(version, kind, name string, uid types.UID) authenticationv1.TokenRequestSpec {
		return authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: version, Kind: kind, Name: name, UID: uid}}
	}
	lasting := func(seconds int64) authenticationv1.TokenRequestSpec {
		return authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}
	}
	issuer := newIssuer(t, Options{})
	for name, test := range map[string]struct {
		spec authenticationv1.TokenRequestSpec
		kind error
		want string
	}{
		"too short":               {lasting(599), volume.ErrInvalid, "spec.expirationSeconds is 599"},
		"too long":                {lasting(1<<32 + 1), volume.ErrInvalid, "spec.expirationSeconds is 4294967297"},
		"negative":                {lasting(-1), volume.ErrInvalid, "spec.expirationSeconds"},
		"the shortest":            {lasting(600), nil, ""},
		"the longest":             {lasting(1 << 32), nil, ""},
		"an object without a UID": {bound("v1", "Pod", "web", ""), volume.ErrInvalid, "spec.boundObjectRef"},
		"an object without name":  {bound("v1", "Pod", "", "1"), volume.ErrInvalid, "spec.boundObjectRef"},
		"another kind":            {bound("apps/v1", "Pod", "web", "1"), volume.ErrNotSupported, "spec.boundObjectRef"},
		"a secret":                {bound("v1", "Secret", "s", "1"), nil, ""},
		"a node":                  {bound("v1", "Node", "n", "1"), nil, ""},
		"an attestation": {
			authenticationv1.TokenRequestSpec{Attestations: map[string]authenticationv1.AttestationValue{"a": nil}}, volume.ErrNotSupported, "spec.attestations",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := issuer.ServiceAccountToken(t.Context(), "shop", "default", &authenticationv1.TokenRequest{Spec: test.spec})
			if test.kind == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, test.kind)
			assert.ErrorContains(t, err, test.want)
			assert.ErrorContains(t, err, "shop/default")
		})
	}
	for _, names := range [][2]string{{"", "default"}, {"shop", ""}, {"shop", "a:b"}, {"a:b", "default"}} {
		_, err := issuer.ServiceAccountToken(t.Context(), names[0], names[1], &authenticationv1.TokenRequest{})
		require.ErrorIs(t, err, volume.ErrInvalid, names)
	}
	_, err := issuer.ServiceAccountToken(t.Context(), "shop", "default", &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Name: "robot"}})
	require.ErrorIs(t, err, volume.ErrInvalid)
}
