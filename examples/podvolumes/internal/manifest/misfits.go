// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
)

// misfits returns the values in raw that cannot be decoded into a t, each with its path. The decoder itself names no
// index, and no field at all where a type such as a quantity decodes itself; it stops at the first of those, too.
func misfits(t reflect.Type, raw json.RawMessage, path string) []*fieldError {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	whole := func() []*fieldError {
		err := kjson.UnmarshalCaseSensitivePreserveInts(raw, reflect.New(t).Interface())
		if err == nil {
			return nil
		}
		return []*fieldError{{path: path, what: misfit(path, err)}}
	}
	if decodesItself(t) {
		return whole()
	}
	var faults []*fieldError
	switch t.Kind() {
	case reflect.Struct:
		var fields map[string]json.RawMessage
		if kjson.UnmarshalCaseSensitivePreserveInts(raw, &fields) != nil {
			return whole()
		}
		for name, field := range fieldsOf(t) {
			if value, found := fields[name]; found {
				faults = append(faults, misfits(field, value, join(path, name))...)
			}
		}
	case reflect.Map:
		var values map[string]json.RawMessage
		if kjson.UnmarshalCaseSensitivePreserveInts(raw, &values) != nil {
			return whole()
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			faults = append(faults, misfits(t.Elem(), values[key], join(path, key))...)
		}
	case reflect.Slice:
		var values []json.RawMessage
		if t.Elem().Kind() == reflect.Uint8 || kjson.UnmarshalCaseSensitivePreserveInts(raw, &values) != nil {
			return whole()
		}
		for i, value := range values {
			faults = append(faults, misfits(t.Elem(), value, fmt.Sprintf("%s[%d]", path, i))...)
		}
	default:
		return whole()
	}
	return faults
}

func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// fieldsOf yields the JSON names and types of a struct's fields in their order, those of inlined structs included.
func fieldsOf(t reflect.Type) iter.Seq2[string, reflect.Type] {
	return func(yield func(string, reflect.Type) bool) {
		for i := range t.NumField() {
			field := t.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if field.Anonymous && name == "" {
				for name, inlined := range fieldsOf(field.Type) {
					if !yield(name, inlined) {
						return
					}
				}
			} else if name != "" && name != "-" && !yield(name, field.Type) {
				return
			}
		}
	}
}

// misfit words why a value cannot be decoded, for somebody who thinks in YAML and not in Go.
func misfit(path string, err error) string {
	wrongType, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return fmt.Sprintf("field %q: %v", path, err)
	}
	var (
		is     = map[string]string{"object": "a mapping", "array": "a list", "bool": "a boolean", "string": "text", "number": "a number"}[wrongType.Value]
		wants  string
		remedy string
	)
	if is == "" {
		// A number that does not fit is in Value.
		is = "the " + wrongType.Value
	}
	switch kind := wrongType.Type.Kind(); kind {
	case reflect.String:
		wants = "text"
		if wrongType.Value == "number" || wrongType.Value == "bool" {
			remedy = "; quote it"
		}
	case reflect.Bool:
		wants = "a boolean"
	case reflect.Slice, reflect.Array:
		wants = "a list"
	case reflect.Map, reflect.Struct:
		wants = "a mapping"
	case reflect.Float32, reflect.Float64:
		wants = "a number"
	default:
		wants = fmt.Sprintf("a whole number (%s)", kind)
	}
	return fmt.Sprintf("field %q is %s, must be %s%s", path, is, wants, remedy)
}
