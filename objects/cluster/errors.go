// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/volume"
)

// wrap returns the error with what was being done and its kind. name is that of the object whose absence is what "not found"
// means, empty for any that the API server names.
func wrap(err error, what, name string) error {
	var status apierrors.APIStatus
	switch {
	case !errors.As(err, &status):
		// Nobody knows whether the request arrived.
		return volume.Errorf(volume.ErrUncertain, "%s: %w", what, err)
	case apierrors.IsNotFound(err):
		if saysNotFound(status.Status(), name) {
			return volume.Errorf(volume.ErrNotFound, "%s: %w", what, err)
		}
		return volume.Errorf(volume.ErrUncertain, "%s: the API server does not serve such objects, or it was not the API server that answered: %w", what, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return volume.Errorf(volume.ErrInvalid, "%s: %w", what, err)
	case apierrors.IsMethodNotSupported(err):
		return volume.Errorf(volume.ErrNotSupported, "%s: %w", what, err)
	case apierrors.IsTimeout(err), status.Status().Code >= http.StatusInternalServerError, status.Status().Code == 0:
		return volume.Errorf(volume.ErrUncertain, "%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// saysNotFound tells the API server's answer about an object from one about a path that nobody serves, such as a proxy gives.
func saysNotFound(status metav1.Status, name string) bool {
	details := status.Details
	if details == nil || details.Name == "" || name != "" && details.Name != name {
		return false
	}
	for _, cause := range details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return false
		}
	}
	return true
}
