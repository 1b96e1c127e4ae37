// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	typed "k8s.io/client-go/kubernetes/typed/certificates/v1"

	"github.com/volumekit/volumekit/volume"
)

// watchAgain is how long it is waited after a watch has ended before there is another.
const watchAgain = time.Second

// PodCertificate makes the request and waits until it is issued, denied or failed. An error that matches [volume.ErrUncertain] says
// that it may have been made, or may still be issued.
func (c *Cluster) PodCertificate(ctx context.Context, request *certificatesv1.PodCertificateRequest) (*certificatesv1.PodCertificateRequest, error) {
	if request.Namespace == "" {
		return nil, volume.Errorf(volume.ErrInvalid, "PodCertificateRequest %q has no namespace", request.Name)
	}
	request, err := c.withUIDs(ctx, request)
	if err != nil {
		return nil, err
	}
	client := c.client.CertificatesV1().PodCertificateRequests(request.Namespace)
	made, err := client.Create(ctx, request, metav1.CreateOptions{})
	if err != nil {
		return nil, wrap(err, fmt.Sprintf("make a PodCertificateRequest for pod %s/%s", request.Namespace, request.Spec.PodName), "")
	}
	for {
		decided, err := awaitDecision(ctx, client, made)
		switch {
		case err == nil:
			return decided, nil
		case ctx.Err() != nil:
			return nil, volume.Errorf(volume.ErrUncertain, "PodCertificateRequest %s/%s was made, but is not issued yet: %w", made.Namespace, made.Name, context.Cause(ctx))
		case errors.Is(err, volume.ErrNotFound):
			return nil, fmt.Errorf("PodCertificateRequest %s/%s was deleted before it was issued", made.Namespace, made.Name)
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchAgain):
		}
	}
}

// withUIDs returns the request with the UIDs of its service account and its node, as far as it does not have them.
func (c *Cluster) withUIDs(ctx context.Context, request *certificatesv1.PodCertificateRequest) (*certificatesv1.PodCertificateRequest, error) {
	request = request.DeepCopy()
	if spec := &request.Spec; spec.ServiceAccountUID == "" {
		account, err := c.client.CoreV1().ServiceAccounts(request.Namespace).Get(ctx, spec.ServiceAccountName, metav1.GetOptions{})
		if err != nil {
			return nil, wrap(err, fmt.Sprintf("get service account %s/%s", request.Namespace, spec.ServiceAccountName), spec.ServiceAccountName)
		}
		spec.ServiceAccountUID = account.UID
	}
	if spec := &request.Spec; spec.NodeUID == "" {
		node, err := c.client.CoreV1().Nodes().Get(ctx, string(spec.NodeName), metav1.GetOptions{})
		if err != nil {
			return nil, wrap(err, fmt.Sprintf("get node %s", spec.NodeName), string(spec.NodeName))
		}
		spec.NodeUID = node.UID
	}
	return request, nil
}

// awaitDecision watches the request for as long as one watch lasts. The request is always looked at first.
func awaitDecision(
	ctx context.Context, client typed.PodCertificateRequestInterface, made *certificatesv1.PodCertificateRequest,
) (*certificatesv1.PodCertificateRequest, error) {
	what := fmt.Sprintf("await PodCertificateRequest %s/%s", made.Namespace, made.Name)
	now, err := client.Get(ctx, made.Name, metav1.GetOptions{})
	if err != nil {
		return nil, wrap(err, what, made.Name)
	}
	if now.UID != made.UID {
		return nil, volume.Errorf(volume.ErrNotFound, "%s: it is another one", what)
	}
	if isDecided(now) {
		return now, nil
	}
	// A node may watch no others than its own.
	selector := fields.Set{metav1.ObjectNameField: made.Name}
	if made.Spec.NodeName != "" {
		selector["spec.nodeName"] = string(made.Spec.NodeName)
	}
	watching, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: selector.AsSelector().String(), ResourceVersion: now.ResourceVersion})
	if err != nil {
		return nil, wrap(err, what, "")
	}
	defer watching.Stop()
	for event := range watching.ResultChan() {
		now, ok := event.Object.(*certificatesv1.PodCertificateRequest)
		switch {
		case !ok || now.UID != made.UID:
		case event.Type == watch.Deleted:
			return nil, volume.Errorf(volume.ErrNotFound, "%s: it was deleted", what)
		case isDecided(now):
			return now, nil
		}
	}
	return nil, volume.Errorf(volume.ErrUncertain, "%s: the watch has ended", what)
}

func isDecided(request *certificatesv1.PodCertificateRequest) bool {
	for _, condition := range request.Status.Conditions {
		switch condition.Type {
		case certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
			certificatesv1.PodCertificateRequestConditionTypeFailed:
			if condition.Status == metav1.ConditionTrue {
				return true
			}
		}
	}
	return false
}
