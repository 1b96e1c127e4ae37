// SPDX-License-Identifier: Apache-2.0

package localissuer

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/volumekit/volumekit/volume"
)

// DefaultIssuer is who issues tokens unless Options name another: the one of a cluster that was set up in the usual way.
const DefaultIssuer = "https://kubernetes.default.svc.cluster.local"

// Options say how tokens are issued. The zero value is usable.
type Options struct {
	// Key signs: an ECDSA key on P-256, P-384 or P-521, an RSA key of 2048 bits or more, or an Ed25519 key, in memory or not. Nil
	// stands for a new ECDSA key on P-256 that lives as long as the issuer: tokens that are left from before cannot be checked
	// any more then.
	Key crypto.Signer

	// Issuer is the URL that the tokens say they come from, and their audience where none is asked for. Empty stands for
	// DefaultIssuer.
	Issuer string

	// Clock tells when a token is issued. Nil stands for the real one.
	Clock clock.PassiveClock

	// ServiceAccounts finds a service account, or gives an error that matches volume.ErrNotFound; the method of that name of an
	// objects.Store does. Nil stands for one that finds none. The service account "default" is in every namespace, found or not.
	ServiceAccounts func(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error)

	// NodeName is said in tokens that are bound to a pod, empty for no node.
	NodeName types.NodeName
}

// Issuer is a [volume.TokenSource]. Its methods may be called at the same time.
type Issuer struct {
	signer          *signer
	issuer          string
	clock           clock.PassiveClock
	serviceAccounts func(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error)
	nodeName        types.NodeName
}

var _ volume.TokenSource = (*Issuer)(nil)

// New returns an issuer. A key of another sort than those of [Options] gives an error that matches [volume.ErrInvalid].
func New(options Options) (*Issuer, error) {
	key := options.Key
	if key == nil {
		generated, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("make a key for service account tokens: %w", err)
		}
		key = generated
	}
	signer, err := newSigner(key)
	if err != nil {
		return nil, err
	}
	issuer := &Issuer{
		signer: signer, issuer: options.Issuer, clock: options.Clock, serviceAccounts: options.ServiceAccounts, nodeName: options.NodeName,
	}
	if issuer.issuer == "" {
		issuer.issuer = DefaultIssuer
	}
	if issuer.clock == nil {
		issuer.clock = clock.RealClock{}
	}
	return issuer, nil
}

// ServiceAccountToken issues a token for the audiences, the time and the object that the request names. The request that is
// returned is a copy whose defaults are filled in: one audience, the issuer; one hour. A time of less than ten minutes or more
// than 2^32 seconds, and an object without a name or a UID give errors that match [volume.ErrInvalid]; an object that is neither a
// Pod nor a Secret nor a Node, and attestations, [volume.ErrNotSupported].
//
// The token names the UID of the service account and of the object as far as they are known: there is nobody here who would
// have given them one.
func (i *Issuer) ServiceAccountToken(
	ctx context.Context, namespace, serviceAccount string, request *authenticationv1.TokenRequest,
) (*authenticationv1.TokenRequest, error) {
	account, err := i.account(ctx, namespace, serviceAccount)
	if err != nil {
		return nil, err
	}
	what := "token for ServiceAccount " + namespace + "/" + serviceAccount
	filled := request.DeepCopy()
	if err := i.fillIn(what, account, filled); err != nil {
		return nil, err
	}
	now := i.clock.Now().Truncate(time.Second)
	expires := now.Add(time.Duration(*filled.Spec.ExpirationSeconds) * time.Second)
	claims, err := i.claims(what, account, filled, now, expires)
	if err != nil {
		return nil, err
	}
	token := jwt.NewWithClaims(i.signer, claims)
	token.Header["kid"] = i.signer.keyID
	signed, err := token.SignedString(i.signer.key)
	if err != nil {
		return nil, fmt.Errorf("sign a %s: %w", what, err)
	}
	filled.CreationTimestamp = metav1.NewTime(now)
	filled.Status = authenticationv1.TokenRequestStatus{Token: signed, ExpirationTimestamp: metav1.NewTime(expires)}
	return filled, nil
}
