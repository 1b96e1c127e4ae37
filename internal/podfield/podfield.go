// SPDX-License-Identifier: Apache-2.0

// Package podfield reads the fields of a pod that its containers can be told, by the paths that fieldRef names.
package podfield

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/volumekit/volumekit/volume"
)

// Metadata returns a field of the pod's metadata that is one text: the name, the namespace, the UID, a label or an annotation, which
// is empty if it is not there. ok is false for another field. The error matches [volume.ErrInvalid]: a key is none, or the version of
// the reference is not v1.
func Metadata(pod *v1.Pod, ref *v1.ObjectFieldSelector) (value string, ok bool, err error) {
	if ref.APIVersion != "" && ref.APIVersion != "v1" {
		return "", false, volume.Errorf(volume.ErrInvalid, "fieldRef has the apiVersion %.64q, not v1", ref.APIVersion)
	}
	switch ref.FieldPath {
	case "metadata.name":
		return pod.Name, true, nil
	case "metadata.namespace":
		return pod.Namespace, true, nil
	case "metadata.uid":
		return string(pod.UID), true, nil
	}
	if key, ok := subscript(ref.FieldPath, "metadata.labels"); ok {
		value, err = valueOf(pod.Labels, key, key)
		return value, true, err
	}
	if key, ok := subscript(ref.FieldPath, "metadata.annotations"); ok {
		value, err = valueOf(pod.Annotations, key, strings.ToLower(key))
		return value, true, err
	}
	return "", false, nil
}

// subscript returns KEY of FIELD['KEY'].
func subscript(path, field string) (key string, ok bool) {
	rest, begins := strings.CutPrefix(path, field+"['")
	key, ends := strings.CutSuffix(rest, "']")
	return key, begins && ends
}

// valueOf returns "" for a key that is missing. Checked is the key as it has to be a qualified name.
func valueOf(of map[string]string, key, checked string) (string, error) {
	if problems := validation.IsQualifiedName(checked); len(problems) > 0 {
		return "", volume.Errorf(volume.ErrInvalid, "fieldRef has the key %.128q: %s", key, strings.Join(problems, "; "))
	}
	return of[key], nil
}
