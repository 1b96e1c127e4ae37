// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/volume"
)

// ServiceAccountToken has the API server issue a token.
func (c *Cluster) ServiceAccountToken(
	ctx context.Context, namespace, serviceAccount string, request *authenticationv1.TokenRequest,
) (*authenticationv1.TokenRequest, error) {
	if namespace == "" || serviceAccount == "" {
		return nil, volume.Errorf(volume.ErrInvalid, "ServiceAccount %q is not the name of one object", namespace+"/"+serviceAccount)
	}
	issued, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return nil, wrap(err, "request a token for ServiceAccount "+namespace+"/"+serviceAccount, "")
	}
	return issued, nil
}
