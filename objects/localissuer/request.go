// SPDX-License-Identifier: Apache-2.0

package localissuer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/volume"
)

// In seconds, the bounds of an API server.
const (
	defaultLife = 60 * 60
	minLife     = 10 * 60
	maxLife     = 1 << 32
)

// account finds the service account.
func (i *Issuer) account(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	problems := append(validation.ValidateNamespaceName(namespace, false), validation.ValidateServiceAccountName(name, false)...)
	if len(problems) > 0 {
		return nil, volume.Errorf(volume.ErrInvalid, "ServiceAccount %.320q: %s", namespace+"/"+name, strings.Join(problems, "; "))
	}
	if i.serviceAccounts != nil {
		account, err := i.serviceAccounts(ctx, namespace, name)
		if err == nil {
			return account, nil
		}
		if !errors.Is(err, volume.ErrNotFound) {
			return nil, fmt.Errorf("find ServiceAccount %s/%s: %w", namespace, name, err)
		}
	}
	if name != "default" {
		return nil, volume.Errorf(volume.ErrNotFound, "there is no ServiceAccount %s/%s", namespace, name)
	}
	return &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, nil
}

// fillIn checks the request, and fills in what it leaves open.
func (i *Issuer) fillIn(what string, account *v1.ServiceAccount, request *authenticationv1.TokenRequest) error {
	if len(request.Spec.Attestations) > 0 {
		return volume.Errorf(volume.ErrNotSupported, "%s: spec.attestations: nothing is attested here", what)
	}
	if request.Name != "" && request.Name != account.Name || request.Namespace != "" && request.Namespace != account.Namespace {
		return volume.Errorf(volume.ErrInvalid, "%s: the request is for %.320q", what, request.Namespace+"/"+request.Name)
	}
	if request.UID != "" && account.UID != "" && request.UID != account.UID {
		return volume.Errorf(volume.ErrInvalid, "%s: the request is for one with the UID %.64q, and this one's is %q", what, request.UID, account.UID)
	}
	request.Name, request.Namespace = account.Name, account.Namespace
	if request.UID == "" {
		request.UID = account.UID
	}
	if len(request.Spec.Audiences) == 0 {
		request.Spec.Audiences = []string{i.issuer}
	}
	if request.Spec.ExpirationSeconds == nil {
		seconds := int64(defaultLife)
		request.Spec.ExpirationSeconds = &seconds
	}
	if seconds := *request.Spec.ExpirationSeconds; seconds < minLife || seconds > maxLife {
		return volume.Errorf(volume.ErrInvalid, "%s: spec.expirationSeconds is %d, and has to be from %d to %d", what, seconds, minLife, maxLife)
	}
	return nil
}
