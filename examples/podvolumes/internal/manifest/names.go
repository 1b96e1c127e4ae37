// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

const (
	// suffixLetters and suffixLength are those of the random part of generated names in Kubernetes.
	suffixLetters = "bcdfghjklmnpqrstvwxz2456789"
	suffixLength  = 5

	// maxBase is to how many bytes Kubernetes cuts a name before it appends the random part, so that the whole is not
	// longer than a DNS label.
	maxBase = 63 - suffixLength
)

// uidSpace is the name space of the UIDs that are made from names.
var uidSpace = uuid.MustParse("5b0a6c0e-7f4b-5e0c-9a55-0d6f3c1f8a27")

// podUID returns the UID of a pod that has none.
func podUID(namespace, name string) types.UID {
	return types.UID(uuid.NewSHA1(uidSpace, []byte(namespace+"/"+name)).String())
}

// identify fills in the namespace, the name and, for what owns pods, the UID of an object, and returns its metadata.
func (l *loader) identify(kind string, typed runtime.Object) (*metav1.ObjectMeta, error) {
	accessor, ok := typed.(metav1.ObjectMetaAccessor)
	if !ok {
		return nil, fmt.Errorf("kind %s has no metadata", kind)
	}
	meta, ok := accessor.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok {
		return nil, fmt.Errorf("kind %s has no metadata", kind)
	}
	if meta.Namespace == "" {
		meta.Namespace = metav1.NamespaceDefault
	}
	if meta.Name == "" {
		if meta.GenerateName == "" {
			return nil, errors.New("has no metadata.name")
		}
		key := kind + "/" + meta.Namespace + "/" + meta.GenerateName
		meta.Name = cut(meta.GenerateName) + suffix(fmt.Sprintf("%s/%d", key, l.generated[key]))
		l.generated[key]++
	}
	if meta.UID == "" && kind != "Pod" {
		meta.UID = types.UID(uuid.NewSHA1(uidSpace, []byte(kind+"/"+meta.Namespace+"/"+meta.Name)).String())
	}
	return meta, nil
}

// checkIdentity refuses what could not be part of a path, by the rules that the API server has for the kind. The names that
// are made from a name that passes pass too.
func checkIdentity(kind string, meta *metav1.ObjectMeta) error {
	if problems := validation.ValidateNamespaceName(meta.Namespace, false); len(problems) > 0 {
		return badName("metadata.namespace", meta.Namespace, problems)
	}
	valid := validation.NameIsDNSSubdomain
	if kind == "StatefulSet" {
		valid = validation.NameIsDNSLabel
	}
	if problems := valid(meta.Name, false); len(problems) > 0 {
		return badName("metadata.name", meta.Name, problems)
	}
	if kind == "Pod" && meta.UID != "" {
		return volume.CheckPodUID(meta.UID)
	}
	return nil
}

func badName(what, name string, problems []string) error {
	return fmt.Errorf("%s %q: %s", what, abbreviate(name), strings.Join(problems, "; "))
}

// namer makes the names of the pods of one object, all different.
type namer struct {
	kind, namespace, name string

	taken map[string]bool
}

func newNamer(kind string, meta *metav1.ObjectMeta) *namer {
	return &namer{kind: kind, namespace: meta.Namespace, name: meta.Name, taken: make(map[string]bool)}
}

// generate returns base with the suffix of the pod with the ordinal i. Pods are to be named by rising ordinal, so that
// the name of each depends on none that comes after it.
func (n *namer) generate(base string, i int64) string {
	base = cut(base)
	key := fmt.Sprintf("%s/%s/%s/%d", n.kind, n.namespace, n.name, i)
	for name := base + suffix(key); ; name = base + suffix(key) {
		if !n.taken[name] {
			n.taken[name] = true
			return name
		}
		key += "/again"
	}
}

func cut(base string) string {
	return base[:min(len(base), maxBase)]
}

// suffix returns five characters that depend on key only.
func suffix(key string) string {
	sum := sha256.Sum256([]byte(key))
	rest := binary.BigEndian.Uint64(sum[:])
	var letters [suffixLength]byte
	for i := range letters {
		letters[i] = suffixLetters[rest%uint64(len(suffixLetters))]
		rest /= uint64(len(suffixLetters))
	}
	return string(letters[:])
}
