// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/volume"
)

// tokenPart is a token of the pod's service account as a file.
type tokenPart struct {
	field    string
	index    int // among the volume's sources
	source   *v1.ServiceAccountTokenProjection
	defaults defaults
}

const (
	defaultTokenSeconds = 3600
	minTokenSeconds     = 600
	maxTokenSeconds     = 1 << 32

	// What was issued is renewed when this part of its life, or this time, is over, as the kubelet does with tokens.
	renewalPart = 0.8
	renewalAge  = 24 * time.Hour

	// renewalJitter is how much earlier it may be, so that not all are renewed at once.
	renewalJitter = 10 * time.Second
)

// noAccount is the service account of a pod that names none.
const noAccount = "default"

func accountOf(pod *v1.Pod) string {
	if pod.Spec.ServiceAccountName == "" {
		return noAccount
	}
	return pod.Spec.ServiceAccountName
}

func (p *tokenPart) references() []volume.Reference { return nil }

func (p *tokenPart) paths() []string { return []string{p.source.Path} }

func (p *tokenPart) check() error {
	errs := []error{checkUser(p.field+".user", p.source.User)}
	if seconds := p.seconds(); seconds < minTokenSeconds || seconds > maxTokenSeconds {
		errs = append(errs, volume.Errorf(volume.ErrInvalid, "%s.expirationSeconds %d is not between %d and %d", p.field, seconds, minTokenSeconds, maxTokenSeconds))
	}
	return errors.Join(errs...)
}

func (p *tokenPart) seconds() int64 {
	if p.source.ExpirationSeconds == nil {
		return defaultTokenSeconds
	}
	return *p.source.ExpirationSeconds
}

// tokenRequest is what a token is asked for with: who asks with another one needs another token.
type tokenRequest struct {
	account, audience string
	seconds           int64
}

func (p *tokenPart) collect(ctx context.Context, c *collection) error {
	if c.host.Tokens == nil {
		return volume.Errorf(volume.ErrNotSupported, "%s needs a token, and the host has no source of service account tokens", p.field)
	}
	wanted := tokenRequest{account: accountOf(c.pod), audience: p.source.Audience, seconds: p.seconds()}
	token, err := c.credential(p.index, wanted, "token of service account "+c.pod.Namespace+"/"+wanted.account,
		func() *credential { return tokenOnDisk(c, p.source.Path, wanted) },
		func() (*credential, error) { return requestToken(ctx, c, wanted) })
	if err != nil {
		return fmt.Errorf("%s: %w", p.field, err)
	}
	c.putPrivate(p.source.Path, token.files[tokenFile], p.defaults, p.source.User)
	return nil
}

// tokenFile names what the file of a token shows.
const tokenFile = "token"

func requestToken(ctx context.Context, c *collection, wanted tokenRequest) (*credential, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(wanted.seconds),
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: c.pod.Name, UID: c.pod.UID},
	}}
	if wanted.audience != "" {
		request.Spec.Audiences = []string{wanted.audience}
	}
	asked := c.host.Clock.Now()
	answer, err := c.host.Tokens.ServiceAccountToken(ctx, c.pod.Namespace, wanted.account, request)
	if err != nil {
		return nil, err
	}
	if answer == nil || answer.Status.Token == "" {
		return nil, errors.New("the answer has no token")
	}
	expires := answer.Status.ExpirationTimestamp.Time
	if expires.IsZero() {
		expires = asked.Add(time.Duration(wanted.seconds) * time.Second)
	}
	return &credential{of: wanted, files: map[string]string{tokenFile: answer.Status.Token}, expires: expires,
		renewFrom: renewalOf(asked, expires.Sub(asked))}, nil
}

// renewalOf returns when something is to be renewed that was issued to live so long.
func renewalOf(issued time.Time, life time.Duration) time.Time {
	return issued.Add(min(time.Duration(float64(life)*renewalPart), renewalAge) - rand.N(renewalJitter))
}

// credential returns what was issued for a source of the volume: what is remembered, or found on disk after a restart of the program,
// unless it is time to renew it. While that is valid, a renewal that fails is a warning. what says what it is.
func (c *collection) credential(index int, of any, what string, find func() *credential, request func() (*credential, error)) (*credential, error) {
	now := c.host.Clock.Now()
	known := c.credentials[index]
	switch {
	case known == nil:
		if known = find(); known != nil {
			c.credentials[index] = known
		}
	case known.of != of:
		known = nil
	}
	if known != nil && now.Before(known.renewFrom) {
		c.refreshAt(known.renewFrom)
		return known, nil
	}
	fresh, err := request()
	switch {
	case err == nil:
		c.credentials[index] = fresh
		c.refreshAt(fresh.renewFrom)
		return fresh, nil
	case known != nil && now.Before(known.expires):
		c.options.Warnf("the %s cannot be renewed, and expires at %s: %v", what, known.expires.UTC().Format(time.RFC3339), err)
		c.refreshAt(now.Add(min(renewalRetry, known.expires.Sub(now))))
		return known, nil
	}
	return nil, fmt.Errorf("get a %s: %w", what, err)
}

// renewalRetry is how long after a renewal that failed the next one is tried.
const renewalRetry = 30 * time.Second
