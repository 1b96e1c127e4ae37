// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/volume"
)

// prepare returns checked copies of the objects.
func prepare(objects []runtime.Object) (map[volume.Reference]runtime.Object, error) {
	entries := make(map[volume.Reference]runtime.Object, len(objects))
	for _, object := range objects {
		ref, ok := referenceTo(object)
		if !ok {
			return nil, volume.Errorf(volume.ErrNotSupported, "a store of objects that volumes depend on holds no %s", kindOf(object))
		}
		object = object.DeepCopyObject()
		if err := check(ref, object); err != nil {
			return nil, err
		}
		entries[ref] = object
	}
	return entries, nil
}

// referenceTo returns under what the object is kept; ok is false for one that is not held here.
func referenceTo(object runtime.Object) (ref volume.Reference, ok bool) {
	if value := reflect.ValueOf(object); !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil() {
		return volume.Reference{}, false
	}
	switch o := object.(type) {
	case *v1.Secret:
		ref = reference(volume.KindSecret, o)
	case *v1.ConfigMap:
		ref = reference(volume.KindConfigMap, o)
	case *v1.PersistentVolume:
		ref = reference(volume.KindPersistentVolume, o)
	case *v1.PersistentVolumeClaim:
		ref = reference(volume.KindPersistentVolumeClaim, o)
	case *v1.Node:
		ref = reference(kindNode, o)
	case *v1.ServiceAccount:
		ref = reference(kindServiceAccount, o)
	case *storagev1.StorageClass:
		ref = reference(kindStorageClass, o)
	case *certificatesv1.ClusterTrustBundle:
		ref = reference(volume.KindClusterTrustBundle, o)
	default:
		return volume.Reference{}, false
	}
	return ref, true
}

func reference(kind volume.ObjectKind, object metav1.Object) volume.Reference {
	return volume.Reference{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}

func kindOf(object runtime.Object) string {
	if value := reflect.ValueOf(object); value.IsValid() && (value.Kind() != reflect.Pointer || !value.IsNil()) {
		if kind := object.GetObjectKind().GroupVersionKind(); !kind.Empty() {
			return fmt.Sprintf("%s of %s", kind.Kind, kind.GroupVersion())
		}
	}
	return fmt.Sprintf("%T", object)
}

// isNamespaced reports whether objects of the kind are in namespaces. The kind is one that the store holds.
func isNamespaced(kind volume.ObjectKind) bool {
	switch kind {
	case volume.KindSecret, volume.KindConfigMap, volume.KindPersistentVolumeClaim, kindServiceAccount:
		return true
	}
	return false
}

// check reports what an API server would refuse, and merges the stringData of a Secret.
func check(ref volume.Reference, object runtime.Object) error {
	name := validation.NameIsDNSSubdomain
	var err error
	switch o := object.(type) {
	case *v1.Secret:
		mergeStringData(o)
		err = checkKeys(ref, o.Data, nil)
	case *v1.ConfigMap:
		err = checkKeys(ref, o.BinaryData, o.Data)
	case *v1.PersistentVolume:
		err = checkClaimRef(ref, o.Spec.ClaimRef)
	case *certificatesv1.ClusterTrustBundle:
		name = func(name string, prefix bool) []string { return checkBundleName(o.Spec.SignerName, name, prefix) }
	}
	meta := object.(metav1.ObjectMetaAccessor).GetObjectMeta()
	if meta.GetName() == "" {
		return volume.Errorf(volume.ErrInvalid, "%s %q: it has no name", ref.Kind, meta.GetNamespace()+"/")
	}
	if problems := validation.ValidateObjectMetaAccessor(meta, isNamespaced(ref.Kind), name, field.NewPath("metadata")); len(problems) > 0 {
		return volume.Errorf(volume.ErrInvalid, "%s: %w", ref, problems.ToAggregate())
	}
	return err
}

func mergeStringData(secret *v1.Secret) {
	if len(secret.StringData) > 0 && secret.Data == nil {
		secret.Data = make(map[string][]byte, len(secret.StringData))
	}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
}

// maxDataBytes is how large the values of a Secret or a ConfigMap are together at most, which is what an API server takes.
const maxDataBytes = v1.MaxSecretSize

// checkKeys checks the data of a Secret or a ConfigMap. No value is ever part of the error.
func checkKeys(ref volume.Reference, binary map[string][]byte, text map[string]string) error {
	size := 0
	for key, value := range binary {
		size += len(value)
		if _, twice := text[key]; twice {
			return volume.Errorf(volume.ErrInvalid, "%s: the key %.64q is in both data and binaryData", ref, key)
		}
	}
	for _, value := range text {
		size += len(value)
	}
	for _, key := range slices.Concat(slices.Sorted(maps.Keys(binary)), slices.Sorted(maps.Keys(text))) {
		if problems := utilvalidation.IsConfigMapKey(key); len(problems) > 0 {
			return volume.Errorf(volume.ErrInvalid, "%s: the key %.64q: %s", ref, key, strings.Join(problems, "; "))
		}
	}
	if size > maxDataBytes {
		return volume.Errorf(volume.ErrInvalid, "%s: its values have %d bytes, more than the %d that it may have", ref, size, maxDataBytes)
	}
	return nil
}

// checkClaimRef refuses half a reference, which would name no claim and yet keep the volume from every other one.
func checkClaimRef(ref volume.Reference, claim *v1.ObjectReference) error {
	if claim != nil && (claim.Name == "" || claim.Namespace == "") {
		return volume.Errorf(volume.ErrInvalid, "%s: spec.claimRef needs both a namespace and a name, and has %q and %q", ref, claim.Namespace, claim.Name)
	}
	return nil
}

// checkBundleName is for the name of a ClusterTrustBundle, which begins with that of its signer if it has one.
func checkBundleName(signer, name string, prefix bool) []string {
	if signer == "" {
		return validation.NameIsDNSSubdomain(name, prefix)
	}
	begin := strings.ReplaceAll(signer, "/", ":") + ":"
	rest, ok := strings.CutPrefix(name, begin)
	if !ok {
		return []string{fmt.Sprintf("must begin with %q, as its signer is %q", begin, signer)}
	}
	return validation.NameIsDNSSubdomain(rest, prefix)
}

// checkChange refuses other content for what is immutable.
func checkChange(ref volume.Reference, before, now runtime.Object) error {
	same := true
	switch before := before.(type) {
	case *v1.Secret:
		now := now.(*v1.Secret)
		if isTrue(before.Immutable) && !otherUID(before.UID, now.UID) {
			same = isTrue(now.Immutable) && before.Type == now.Type && maps.EqualFunc(before.Data, now.Data, bytes.Equal)
		}
	case *v1.ConfigMap:
		now := now.(*v1.ConfigMap)
		if isTrue(before.Immutable) && !otherUID(before.UID, now.UID) {
			same = isTrue(now.Immutable) && maps.Equal(before.Data, now.Data) && maps.EqualFunc(before.BinaryData, now.BinaryData, bytes.Equal)
		}
	}
	if !same {
		return volume.Errorf(volume.ErrInvalid, "%s is immutable: its content cannot be changed, nor that it is immutable; remove it first", ref)
	}
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }
