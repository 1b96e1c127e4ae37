// SPDX-License-Identifier: Apache-2.0

package localissuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha256" // crypto.SHA256
	_ "crypto/sha512" // crypto.SHA384 and crypto.SHA512
	"encoding/asn1"
	"fmt"
	"math/big"

	"github.com/golang-jwt/jwt/v5"

	"github.com/volumekit/volumekit/volume"
)

// signer is a jwt.SigningMethod for a key that need not be in memory, which those of the library ask for.
type signer struct {
	key    crypto.Signer
	keyID  string
	alg    string
	hash   crypto.Hash // 0 for a key that takes the message itself
	public jsonWebKey
}

var _ jwt.SigningMethod = (*signer)(nil)

// minRSABits is the least that the standard asks for.
const minRSABits = 2048

func newSigner(key crypto.Signer) (*signer, error) {
	s := &signer{key: key}
	switch public := key.Public().(type) {
	case *ecdsa.PublicKey:
		switch public.Curve.Params().BitSize {
		case 256:
			s.alg, s.hash = "ES256", crypto.SHA256
		case 384:
			s.alg, s.hash = "ES384", crypto.SHA384
		case 521:
			s.alg, s.hash = "ES512", crypto.SHA512
		default:
			return nil, volume.Errorf(volume.ErrInvalid, "a key for service account tokens is on %s, and has to be on P-256, P-384 or P-521", public.Curve.Params().Name)
		}
	case *rsa.PublicKey:
		if public.N.BitLen() < minRSABits {
			return nil, volume.Errorf(volume.ErrInvalid, "an RSA key for service account tokens has %d bits, and needs %d", public.N.BitLen(), minRSABits)
		}
		s.alg, s.hash = "RS256", crypto.SHA256
	case ed25519.PublicKey:
		s.alg = "EdDSA"
	default:
		return nil, volume.Errorf(volume.ErrInvalid, "a key for service account tokens is %T, and has to be of ECDSA, RSA or Ed25519", public)
	}
	var err error
	if s.public, err = newJSONWebKey(key.Public(), s.alg); err != nil {
		return nil, volume.Errorf(volume.ErrInvalid, "the key for service account tokens: %w", err)
	}
	s.keyID = s.public.KeyID
	return s, nil
}

// Alg returns what the header of a token calls the algorithm.
func (s *signer) Alg() string { return s.alg }

// Sign returns the signature of the text. The key is the signer's own.
func (s *signer) Sign(text string, _ any) ([]byte, error) {
	message := []byte(text)
	if s.hash != 0 {
		hash := s.hash.New()
		hash.Write(message)
		message = hash.Sum(nil)
	}
	signature, err := s.key.Sign(rand.Reader, message, s.hash)
	public, ok := s.key.Public().(*ecdsa.PublicKey)
	if err != nil || !ok {
		return signature, err
	}
	// Tokens have the two numbers one after the other, where Go has them in ASN.1.
	var numbers struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(signature, &numbers); err != nil {
		return nil, fmt.Errorf("the key made no ECDSA signature: %w", err)
	}
	size := (public.Curve.Params().BitSize + 7) / 8
	joined := make([]byte, 2*size)
	numbers.R.FillBytes(joined[:size])
	numbers.S.FillBytes(joined[size:])
	return joined, nil
}

// Verify is there for the interface.
func (s *signer) Verify(string, []byte, any) error {
	return volume.Errorf(volume.ErrNotSupported, "tokens are not checked by who issues them")
}
