// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Origin says where an object stands. What is not known is zero.
type Origin struct {
	// File is the path as it was given, or found in a directory that was given; "-" is standard input.
	File string

	// Document is the number of the document in the file, from 1; 0 for what concerns the file as a whole.
	Document int

	// Line is the line of the file on which the document begins, from 1, comments before it not counted.
	Line int

	// Item is the object's place in a list, "items[3]"; empty for an object that is a document.
	Item string

	// Kind, Namespace and Name are the object's own. An object that is read has a namespace here, unless its kind has
	// none, even if it is only that which the API server would give it.
	Kind, Namespace, Name string
}

// String is one line such as "web.yaml: document 2 (line 14): Deployment default/web". Whatever the manifest brings is
// quoted where it is not plain text.
func (o Origin) String() string {
	var b strings.Builder
	switch o.File {
	case "-":
		b.WriteString("standard input")
	default:
		b.WriteString(plain(o.File))
	}
	if o.Document > 0 {
		fmt.Fprintf(&b, ": document %d", o.Document)
	}
	if o.Line > 0 {
		fmt.Fprintf(&b, " (line %d)", o.Line)
	}
	if o.Item != "" {
		fmt.Fprintf(&b, ", %s", o.Item)
	}
	if o.Kind == "" && o.Name == "" {
		return b.String()
	}
	b.WriteString(":")
	if o.Kind != "" {
		b.WriteString(" " + plain(o.Kind))
	}
	switch {
	case o.Name != "" && o.Namespace != "":
		b.WriteString(" " + plain(o.Namespace+"/"+o.Name))
	case o.Name != "":
		b.WriteString(" " + plain(o.Name))
	}
	return b.String()
}

// Error is what is wrong with one file, document or object. An object with several faults has several, up to a hundred.
type Error struct {
	Origin

	// Err is the fault. Never nil.
	Err error
}

// Error is one line: the origin, then the fault.
func (e *Error) Error() string {
	return e.Origin.String() + ": " + oneLine(e.Err.Error())
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// maxShown is how many bytes of a name from a manifest a message repeats: one more than the longest valid name, so that
// what is wrong with a longer one is still to be seen.
const maxShown = 254

// abbreviate cuts a name that is too long to be one. What quotes the result shows where it ends.
func abbreviate(s string) string {
	if len(s) > maxShown {
		return s[:maxShown] + "…"
	}
	return s
}

// plain returns s as it is if it is readable, else quoted, and in both cases cut.
func plain(s string) string {
	s = abbreviate(s)
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(s)
	}
	return s
}

// oneLine makes one line of the messages of libraries, which may have several, or repeat what a manifest holds.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' || !unicode.IsPrint(r) }), " ")
}

// fieldError is a fault of one field.
type fieldError struct {
	// path is the field's from the document's root, "spec.containers[0].image".
	path string

	// line is the field's in the file, 0 if not known.
	line int

	what string
}

func (e *fieldError) Error() string {
	if e.line > 0 {
		return fmt.Sprintf("%s (line %d)", e.what, e.line)
	}
	return e.what
}
