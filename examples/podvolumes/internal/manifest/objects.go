// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// objectKey names an object that volumes come from.
type objectKey struct{ kind, namespace, name string }

// keep adds an object that volumes come from to the result, unless it is there already.
func (l *loader) keep(origin Origin, typed runtime.Object) {
	object, err := meta.Accessor(typed)
	if err != nil {
		l.fail(origin, err)
		return
	}
	if object.GetName() == "" {
		l.fail(origin, fmt.Errorf("field %q: is required", "metadata.name"))
		return
	}
	if isClusterScoped(origin.Kind) {
		if object.GetNamespace() != "" {
			l.fail(origin, fmt.Errorf("field %q: a %s has no namespace", "metadata.namespace", origin.Kind))
			return
		}
	} else if object.GetNamespace() == "" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	key := objectKey{origin.Kind, object.GetNamespace(), object.GetName()}
	if other, taken := l.kept[key]; taken {
		l.fail(origin, fmt.Errorf("it is there already, from %s", l.result.Objects[other].Origin))
		return
	}
	l.kept[key] = len(l.result.Objects)
	l.result.Objects = append(l.result.Objects, Object{Object: typed, Origin: origin})
}

// makeClaims adds the claims that a cluster would make for the pods: those of a StatefulSet's templates, and those of ephemeral
// volumes. A claim that the manifests have is taken as it is.
func (l *loader) makeClaims() {
	for i := range l.result.Pods {
		pod := l.result.Pods[i].Pod
		for _, template := range l.templates[i] {
			claim := &v1.PersistentVolumeClaim{Spec: *template.Spec.DeepCopy()}
			claim.Labels, claim.Annotations = maps.Clone(template.Labels), maps.Clone(template.Annotations)
			if !l.makeClaim(i, claim, template.Name+"-"+pod.Name) {
				return
			}
		}
		for j := range pod.Spec.Volumes {
			volume := &pod.Spec.Volumes[j]
			if volume.Ephemeral == nil || volume.Ephemeral.VolumeClaimTemplate == nil {
				continue
			}
			template := volume.Ephemeral.VolumeClaimTemplate
			claim := &v1.PersistentVolumeClaim{Spec: *template.Spec.DeepCopy()}
			claim.Labels, claim.Annotations = maps.Clone(template.Labels), maps.Clone(template.Annotations)
			claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
			if !l.makeClaim(i, claim, pod.Name+"-"+volume.Name) {
				return
			}
		}
	}
}

// makeClaim returns false if there are too many.
func (l *loader) makeClaim(pod int, claim *v1.PersistentVolumeClaim, name string) bool {
	claim.TypeMeta = metav1.TypeMeta{APIVersion: v1.SchemeGroupVersion.String(), Kind: "PersistentVolumeClaim"}
	claim.Namespace, claim.Name = l.result.Pods[pod].Pod.Namespace, name
	key := objectKey{claim.Kind, claim.Namespace, claim.Name}
	if _, taken := l.kept[key]; taken {
		return true
	}
	origin := l.result.Pods[pod].Origin
	if l.claims++; l.claims > claimsPerPod*l.opts.MaxPods {
		l.fail(origin, fmt.Errorf("its claims are more than the limit of %d: no more are made", claimsPerPod*l.opts.MaxPods))
		return false
	}
	l.kept[key] = len(l.result.Objects)
	l.result.Objects = append(l.result.Objects, Object{Object: claim, Origin: origin, Made: true})
	return true
}

// claimTemplates returns those of a StatefulSet, nil of anything else.
func claimTemplates(typed runtime.Object) []v1.PersistentVolumeClaim {
	set, ok := typed.(*appsv1.StatefulSet)
	if !ok {
		return nil
	}
	if set.Spec.Selector == nil {
		return set.Spec.VolumeClaimTemplates
	}
	templates := slices.Clone(set.Spec.VolumeClaimTemplates)
	for i := range templates { // as in a cluster, what selects the pods selects their claims
		labels := make(map[string]string)
		maps.Copy(labels, templates[i].Labels)
		maps.Copy(labels, set.Spec.Selector.MatchLabels)
		templates[i].Labels = labels
	}
	return templates
}
