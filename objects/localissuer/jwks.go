// SPDX-License-Identifier: Apache-2.0

package localissuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"math/big"
)

// jsonWebKey is a public key as RFC 7517 and RFC 8037 have it.
type jsonWebKey struct {
	Use       string `json:"use"`
	Type      string `json:"kty"`
	KeyID     string `json:"kid"`
	Algorithm string `json:"alg"`
	Curve     string `json:"crv,omitempty"`
	X         string `json:"x,omitempty"`
	Y         string `json:"y,omitempty"`
	Modulus   string `json:"n,omitempty"`
	Exponent  string `json:"e,omitempty"`
}

// JWKS returns the public key with which tokens are checked, a JSON web key set. A key has the same ID in every issuer.
func (i *Issuer) JWKS() ([]byte, error) {
	return json.Marshal(struct {
		Keys []jsonWebKey `json:"keys"`
	}{[]jsonWebKey{i.signer.public}})
}

func newJSONWebKey(public crypto.PublicKey, algorithm string) (jsonWebKey, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return jsonWebKey{}, err
	}
	digest := sha256.Sum256(der)
	text := base64.RawURLEncoding.EncodeToString
	key := jsonWebKey{Use: "sig", KeyID: text(digest[:]), Algorithm: algorithm}
	switch public := public.(type) {
	case *ecdsa.PublicKey:
		point, err := public.Bytes()
		if err != nil {
			return jsonWebKey{}, err
		}
		// A point is the byte 4 and two numbers of the same size.
		size := (len(point) - 1) / 2
		key.Type, key.Curve, key.X, key.Y = "EC", public.Curve.Params().Name, text(point[1:1+size]), text(point[1+size:])
	case *rsa.PublicKey:
		key.Type, key.Modulus, key.Exponent = "RSA", text(public.N.Bytes()), text(big.NewInt(int64(public.E)).Bytes())
	case ed25519.PublicKey:
		key.Type, key.Curve, key.X = "OKP", "Ed25519", text(public)
	}
	return key, nil
}
