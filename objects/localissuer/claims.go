// SPDX-License-Identifier: Apache-2.0

package localissuer

import (
	"time"

	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/volumekit/volumekit/volume"
)

// claims are what a token says.
type claims struct {
	jwt.RegisteredClaims
	Kubernetes kubernetesClaims `json:"kubernetes.io"`
}

type kubernetesClaims struct {
	Namespace      string       `json:"namespace"`
	ServiceAccount namedObject  `json:"serviceaccount"`
	Pod            *namedObject `json:"pod,omitempty"`
	Secret         *namedObject `json:"secret,omitempty"`
	Node           *namedObject `json:"node,omitempty"`
}

type namedObject struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid,omitempty"`
}

func (i *Issuer) claims(
	what string, account *v1.ServiceAccount, request *authenticationv1.TokenRequest, now, expires time.Time,
) (*claims, error) {
	c := &claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer:    i.issuer,
			Subject:   "system:serviceaccount:" + account.Namespace + ":" + account.Name,
			Audience:  request.Spec.Audiences,
			ExpiresAt: jwt.NewNumericDate(expires),
			NotBefore: jwt.NewNumericDate(now),
			IssuedAt:  jwt.NewNumericDate(now),
			ID:        string(uuid.NewUUID()),
		},
		Kubernetes: kubernetesClaims{
			Namespace:      account.Namespace,
			ServiceAccount: namedObject{Name: account.Name, UID: account.UID},
		},
	}
	bound := request.Spec.BoundObjectRef
	if bound == nil {
		return c, nil
	}
	if bound.Name == "" || bound.UID == "" {
		return nil, volume.Errorf(volume.ErrInvalid, "%s: spec.boundObjectRef needs a name and a UID, and has %q and %q", what, bound.Name, bound.UID)
	}
	object := &namedObject{Name: bound.Name, UID: bound.UID}
	switch kind := schema.FromAPIVersionAndKind(bound.APIVersion, bound.Kind); {
	case kind.Group == "" && kind.Kind == "Pod":
		c.Kubernetes.Pod = object
		if i.nodeName != "" {
			c.Kubernetes.Node = &namedObject{Name: string(i.nodeName)}
		}
	case kind.Group == "" && kind.Kind == "Secret":
		c.Kubernetes.Secret = object
	case kind.Group == "" && kind.Kind == "Node":
		c.Kubernetes.Node = object
	default:
		return nil, volume.Errorf(volume.ErrNotSupported, "%s: spec.boundObjectRef names a %q of %q, and has to name a Pod, a Secret or a Node of v1", what, bound.Kind, bound.APIVersion)
	}
	return c, nil
}
