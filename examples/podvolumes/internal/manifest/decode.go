// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// maxListDepth is how deep lists may lie in lists. Each level is read once more for each that it lies in.
const maxListDepth = 8

// maxObjectBytes is how long an object that is read may be as JSON: the API server accepts no longer request.
const maxObjectBytes = 3 << 20

// maxFaults is how many faults of one object are reported, as many as the strict decoder reports.
const maxFaults = 100

// header is what every object has.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

// headerFields are those of which no object may have two, whatever its kind.
var headerFields = []string{"apiVersion", "kind", "metadata", "metadata.namespace", "metadata.name"}

// list is a v1 List or a typed one, its items still undecoded.
type list struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ListMeta   `json:"metadata"`
	Items           []json.RawMessage `json:"items"`
}

// object is a document or an item of a list in it.
type object struct {
	doc    *document
	origin Origin
	json   []byte

	// path is that of an item from the document's root, else empty.
	path string

	// depth is how many lists the object lies in.
	depth int

	// kind is the object's, or what the list around it makes of its absence.
	kind schema.GroupVersionKind
}

// object takes in an object of any kind. o.kind is the kind that it has if it does not say.
func (l *loader) object(ctx context.Context, o *object) {
	if len(o.json) == 0 || o.json[0] != '{' {
		l.fail(o.origin, errors.New("is not an object with apiVersion and kind"))
		return
	}
	var head header
	if faults := o.decode(&head, kjson.DisallowDuplicateFields); len(faults) > 0 {
		l.failAll(o.origin, faults)
		return
	}
	o.origin.Kind, o.origin.Namespace, o.origin.Name = head.Kind, head.Metadata.Namespace, head.Metadata.Name
	if o.kind.Kind == "" || head.Kind != "" || head.APIVersion != "" {
		kind, err := head.gvk()
		if err != nil {
			l.fail(o.origin, err)
			return
		}
		o.kind = kind
	}
	o.origin.Kind = o.kind.Kind
	if faults := o.repeated(headerFields); len(faults) > 0 {
		l.failAll(o.origin, faults)
		return
	}
	switch typed, what, err := l.kinds.lookUp(o.kind); {
	case err != nil:
		l.fail(o.origin, err)
	case what == podMaker, what == objectForPods:
		if o.origin.Namespace == "" && !isClusterScoped(o.kind.Kind) {
			o.origin.Namespace = metav1.NamespaceDefault
		}
		if len(o.json) > maxObjectBytes {
			l.fail(o.origin, fmt.Errorf("has %d bytes, more than the %d that Kubernetes accepts for one object", len(o.json), maxObjectBytes))
			return
		}
		faults := slices.Concat(o.repeated(nil), o.decode(typed))
		if len(faults) > 0 {
			l.failAll(o.origin, faults)
			return
		}
		if what == podMaker {
			l.expand(o.origin, o.kind, typed)
		} else {
			// An item of a typed list need not say its kind.
			typed.GetObjectKind().SetGroupVersionKind(o.kind)
			l.keep(o.origin, typed)
		}
	case what == listOfObjects:
		l.list(ctx, o)
	default:
		l.ignore(o.origin, "is of no kind that makes pods or volumes")
	}
}

func (l *loader) failAll(origin Origin, faults []*fieldError) {
	slices.SortStableFunc(faults, func(a, b *fieldError) int { return cmp.Compare(a.line, b.line) })
	for _, fault := range faults {
		l.fail(origin, fault)
	}
}

func (l *loader) list(ctx context.Context, o *object) {
	if o.depth >= maxListDepth {
		l.fail(o.origin, fmt.Errorf("lies in more than %d lists", maxListDepth))
		return
	}
	var items list
	if faults := slices.Concat(o.repeated([]string{"items"}), o.decode(&items)); len(faults) > 0 {
		l.failAll(o.origin, faults)
		return
	}
	var itemKind schema.GroupVersionKind
	if name := strings.TrimSuffix(o.kind.Kind, "List"); name != "" {
		itemKind = o.kind.GroupVersion().WithKind(name)
	}
	for i, item := range items.Items {
		if err := ctx.Err(); err != nil {
			l.fail(o.origin, err)
			return
		}
		origin := o.doc.origin
		path := join(o.path, fmt.Sprintf("items[%d]", i))
		origin.Item = path
		l.object(ctx, &object{doc: o.doc, origin: origin, json: item, path: path, depth: o.depth + 1, kind: itemKind})
	}
}

// decode fills into from the object and returns all that does not fit. Unless strict says otherwise, unknown and repeated
// fields do not fit.
func (o *object) decode(into any, strict ...kjson.StrictOption) []*fieldError {
	var faults []*fieldError
	unfit, err := kjson.UnmarshalStrict(o.json, into, strict...)
	for _, err := range unfit {
		path := ""
		var field kjson.FieldError
		if errors.As(err, &field) {
			path = join(o.path, field.FieldPath())
			field.SetFieldPath(path)
		}
		faults = append(faults, &fieldError{path: path, what: err.Error()})
	}
	if err != nil {
		faults = misfits(reflect.TypeOf(into), o.json, o.path)
		if len(faults) == 0 {
			faults = []*fieldError{{path: o.path, what: err.Error()}}
		}
		faults = faults[:min(len(faults), maxFaults)]
	}
	for _, fault := range faults {
		if fault.path != "" {
			fault.line = o.doc.lineOf(fault.path)
		}
	}
	return faults
}

// repeated returns what decode cannot see: the keys that the YAML has twice in this object; if fields is not nil, only
// those of its fields.
func (o *object) repeated(fields []string) []*fieldError {
	var faults []*fieldError
	for _, fault := range o.doc.repeated {
		path := fault.path
		if o.path != "" {
			rest, found := strings.CutPrefix(path, o.path+".")
			if !found {
				continue
			}
			path = rest
		}
		if fields == nil || slices.Contains(fields, path) {
			faults = append(faults, fault)
		}
	}
	return faults
}

func (h *header) gvk() (schema.GroupVersionKind, error) {
	switch {
	case h.Kind == "" && h.APIVersion == "":
		return schema.GroupVersionKind{}, errors.New("has neither apiVersion nor kind")
	case h.Kind == "":
		return schema.GroupVersionKind{}, errors.New("has no kind")
	case h.APIVersion == "":
		return schema.GroupVersionKind{}, errors.New("has no apiVersion")
	}
	gv, err := schema.ParseGroupVersion(h.APIVersion)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("apiVersion %q is not VERSION or GROUP/VERSION", abbreviate(h.APIVersion))
	}
	return gv.WithKind(h.Kind), nil
}

// role is what a kind means here.
type role int

const (
	noPods role = iota
	podMaker
	objectForPods
	listOfObjects
)

// kinds knows the API groups that hold the kinds that make pods, and those that the volumes of pods come from.
type kinds struct {
	scheme *runtime.Scheme
}

func newKinds() kinds {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme,
		storagev1.AddToScheme, certificatesv1.AddToScheme} {
		if err := add(scheme); err != nil {
			// The same types are added in the same order each time.
			panic(err)
		}
	}
	return kinds{scheme: scheme}
}

// lookUp says what the kind means, and returns a new object of it if it is to be read. The error says that there is no such kind,
// or no more.
func (k kinds) lookUp(kind schema.GroupVersionKind) (runtime.Object, role, error) {
	// Groups with a dot are not those of most of these kinds, and custom resources must have one.
	if strings.Contains(kind.Group, ".") && kind.Group != storagev1.GroupName && kind.Group != certificatesv1.GroupName {
		return nil, noPods, nil
	}
	what, version := roleOf(strings.TrimSuffix(kind.Kind, "List"))
	if gv, _ := schema.ParseGroupVersion(version); strings.Contains(kind.Group, ".") && gv.Group != kind.Group {
		return nil, noPods, nil // another kind of these groups
	}
	served := k.scheme.Recognizes(kind)
	switch {
	case served && version != "" && !strings.HasSuffix(kind.Kind, "List"):
		typed, err := k.scheme.New(kind)
		return typed, what, err
	case served && strings.HasSuffix(kind.Kind, "List"):
		return nil, listOfObjects, nil
	case served:
		return nil, noPods, nil
	case version != "":
		return nil, noPods, fmt.Errorf("apiVersion %q has no kind %q in Kubernetes 1.37; use %s", abbreviate(kind.GroupVersion().String()), abbreviate(kind.Kind), version)
	case k.scheme.IsVersionRegistered(kind.GroupVersion()):
		return nil, noPods, fmt.Errorf("apiVersion %q has no kind %q in Kubernetes 1.37", abbreviate(kind.GroupVersion().String()), abbreviate(kind.Kind))
	default:
		return nil, noPods, nil
	}
}

// roleOf returns what a kind means and its apiVersion, which is empty for kinds that are not read.
func roleOf(kind string) (what role, apiVersion string) {
	switch kind {
	case "Pod", "PodTemplate", "ReplicationController":
		return podMaker, v1.SchemeGroupVersion.String()
	case "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet":
		return podMaker, appsv1.SchemeGroupVersion.String()
	case "Job", "CronJob":
		return podMaker, batchv1.SchemeGroupVersion.String()
	case "ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim", "PersistentVolume":
		return objectForPods, v1.SchemeGroupVersion.String()
	case "StorageClass":
		return objectForPods, storagev1.SchemeGroupVersion.String()
	case "ClusterTrustBundle":
		return objectForPods, certificatesv1.SchemeGroupVersion.String()
	default:
		return noPods, ""
	}
}

// isClusterScoped reports whether objects of a kind that is read have no namespace.
func isClusterScoped(kind string) bool {
	return kind == "PersistentVolume" || kind == "StorageClass" || kind == "ClusterTrustBundle"
}
