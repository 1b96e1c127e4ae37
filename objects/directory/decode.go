// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/volumekit/volumekit/volume"
)

// manifest is one object of a file.
type manifest struct {
	key    key
	object runtime.Object
}

// decoder takes a file apart.
type decoder struct {
	namespace string
	manifests []manifest
	ignored   []error
	faults    []error
}

// decode returns the objects of a file, those that are passed over, and what is wrong. No value of a Secret is in an error.
func decode(path string, content []byte, namespace string) (manifests []manifest, ignored, faults []error) {
	d := &decoder{namespace: namespace}
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for number := 1; ; number++ {
		where := fmt.Sprintf("%s: document %d", path, number)
		document, err := documents.Read()
		if err == io.EOF {
			return d.manifests, d.ignored, d.faults
		}
		if err != nil {
			d.fail(where, errors.New(`"---" has to stand alone on its line`)) // the error quotes the line
			return d.manifests, d.ignored, d.faults
		}
		if utilyaml.IsJSONBuffer(document) && d.values(where, document) {
			continue
		}
		d.document(where, document)
	}
}

func (d *decoder) fail(where string, err error) {
	d.faults = append(d.faults, volume.Errorf(volume.ErrInvalid, "%s: %w", where, err))
}

// values takes in JSON, one value after another; it does nothing and returns false if the text is something else.
func (d *decoder) values(where string, text []byte) bool {
	var values []json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if err == io.EOF {
			break
		}
		if err != nil {
			return false
		}
		values = append(values, value)
	}
	for _, value := range values {
		d.object(where, value, schema.GroupVersionKind{})
	}
	return true
}

// endOfDocument matches the marker of YAML that the reader does not part documents at; what follows it would be lost.
var endOfDocument = regexp.MustCompile(`(?m)^\.\.\.[ \t\r]*$`)

// document takes in one of YAML.
func (d *decoder) document(where string, text []byte) {
	if at := endOfDocument.FindIndex(text); at != nil && len(bytes.TrimSpace(text[at[1]:])) > 0 {
		d.fail(where, errors.New(`another document begins behind "...": begin it with "---"`))
		return
	}
	value, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		d.fail(where, errors.New(wordYAML(err)))
		return
	}
	if string(value) != "null" {
		d.object(where, value, schema.GroupVersionKind{})
	}
}

// wordYAML returns what the library says unless that may quote a value, which may be a secret.
func wordYAML(err error) string {
	message := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	for quoting, instead := range map[string]string{
		"map key":         "a key of a mapping is neither text nor a number",
		"anchor":          "an alias or an anchor is wrong; text that begins with * or & has to be in quotes",
		"cannot ":         "a value does not have the type that its tag names",
		"not valid UTF-8": "the text is not valid UTF-8",
	} {
		if strings.Contains(message, quoting) {
			return "it is not valid YAML: " + instead
		}
	}
	return "it is not valid YAML: " + strings.TrimPrefix(message, "yaml: ")
}

// header is what every object has.
type header struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

// list is any list, its items still text.
type list struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ListMeta   `json:"metadata"`
	Items           []json.RawMessage `json:"items"`
}

// object takes in one object, or a list of them. In a list for one kind, objects need not say that they are of it.
func (d *decoder) object(where string, text []byte, kind schema.GroupVersionKind) {
	var head header
	if err := json.Unmarshal(text, &head); err != nil {
		d.fail(where, errors.New("it is not an object with apiVersion, kind and metadata"))
		return
	}
	if head.Kind != "" || head.APIVersion != "" || kind.Empty() {
		kind = head.GroupVersionKind()
	}
	if kind.Kind == "" || kind.Version == "" {
		d.fail(where, errors.New("it has to have both apiVersion and kind"))
		return
	}
	name := strings.TrimPrefix(head.Metadata.Namespace+"/"+head.Metadata.Name, "/")
	where = strings.TrimSpace(fmt.Sprintf("%s: %s %s", where, kind.Kind, name))
	object := newObject(kind)
	of, isList := strings.CutSuffix(kind.Kind, "List")
	switch {
	case object != nil:
		d.decodeObject(where, text, kind, object)
	case isList && of == "" && kind.Group == "", isList && newObject(kind.GroupVersion().WithKind(of)) != nil:
		var items list
		if !d.strictly(where, text, &items) {
			return
		}
		var each schema.GroupVersionKind
		if of != "" {
			each = kind.GroupVersion().WithKind(of)
		}
		for i, item := range items.Items {
			d.object(fmt.Sprintf("%s: items[%d]", where, i), item, each)
		}
	default:
		d.ignored = append(d.ignored, volume.Errorf(volume.ErrNotSupported, "%s is passed over: no volume depends on objects of kind %s of %s", where, kind.Kind, kind.GroupVersion()))
	}
}

// newObject returns an empty object of the kind, or nil for a kind that a store does not hold.
func newObject(kind schema.GroupVersionKind) runtime.Object {
	switch kind {
	case v1.SchemeGroupVersion.WithKind("Secret"):
		return &v1.Secret{}
	case v1.SchemeGroupVersion.WithKind("ConfigMap"):
		return &v1.ConfigMap{}
	case v1.SchemeGroupVersion.WithKind("PersistentVolume"):
		return &v1.PersistentVolume{}
	case v1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"):
		return &v1.PersistentVolumeClaim{}
	case v1.SchemeGroupVersion.WithKind("Node"):
		return &v1.Node{}
	case v1.SchemeGroupVersion.WithKind("ServiceAccount"):
		return &v1.ServiceAccount{}
	case storagev1.SchemeGroupVersion.WithKind("StorageClass"):
		return &storagev1.StorageClass{}
	case certificatesv1.SchemeGroupVersion.WithKind("ClusterTrustBundle"):
		return &certificatesv1.ClusterTrustBundle{}
	}
	return nil
}

func (d *decoder) decodeObject(where string, text []byte, kind schema.GroupVersionKind, object runtime.Object) {
	if !d.strictly(where, text, object) {
		return
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	meta := object.(metav1.ObjectMetaAccessor).GetObjectMeta()
	switch kind.Kind {
	case "Secret", "ConfigMap", "PersistentVolumeClaim", "ServiceAccount":
		if meta.GetNamespace() == "" {
			meta.SetNamespace(d.namespace)
		}
	}
	d.manifests = append(d.manifests, manifest{key{kind.Kind, meta.GetNamespace(), meta.GetName()}, object})
}

// strictly fills into from the text. Everything that does not fit is a fault.
func (d *decoder) strictly(where string, text []byte, into any) bool {
	unfit, err := strictjson.UnmarshalStrict(text, into)
	if err != nil {
		unfit = []error{err}
	}
	for _, err := range unfit {
		d.fail(where, err)
	}
	return len(unfit) == 0
}
