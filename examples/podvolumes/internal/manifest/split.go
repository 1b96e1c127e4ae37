// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"go.yaml.in/yaml/v3"
)

// piece is what lies between two separators of a file: a YAML document, or JSON values.
type piece struct {
	// text includes the line of the "---" before it, since a document may begin there. Empty if tooLong.
	text []byte

	// firstLine is the number in the file of the line that text begins with, startLine that of the first which is
	// neither blank nor a comment, 0 if there is none. Both count from 1.
	firstLine, startLine int

	tooLong bool
}

// document is one object in a file.
type document struct {
	origin Origin

	// json is the object.
	json []byte

	// text is what it was made from, and firstLine the number in the file of its first line.
	text      []byte
	firstLine int

	// repeated are the keys that the YAML has twice, which json does not show.
	repeated []*fieldError

	// root is the parsed text, made when a line is first asked for.
	root *yaml.Node
}

var byteOrderMark = []byte("\ufeff")

// split yields the pieces of a file that hold something, and at last the error that ended reading if it was not the
// file's end. A piece of more than maxBytes comes without its text.
//
// A line that begins with "---" or "..." parts documents wherever it stands: YAML allows neither inside a scalar, and JSON has
// no place for them.
func split(r io.Reader, maxBytes int) iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		if mark, _ := in.Peek(2); bytes.Equal(mark, []byte{0xff, 0xfe}) || bytes.Equal(mark, []byte{0xfe, 0xff}) {
			yield(piece{}, errors.New("the text is UTF-16; save it as UTF-8"))
			return
		}
		current := piece{firstLine: 1}
		var (
			line      = 1
			lineStart = true
			comment   bool
		)
		for {
			// A long line comes in several parts.
			part, err := in.ReadSlice('\n')
			if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
				yield(piece{}, err)
				return
			}
			if lineStart {
				comment = false
				if without, found := bytes.CutPrefix(part, byteOrderMark); found && (current.startLine == 0 || isMarker(without, "---")) {
					part = without
				}
				if end := isMarker(part, "..."); end || isMarker(part, "---") {
					if current.startLine > 0 && !yield(current, nil) {
						return
					}
					current = piece{firstLine: line}
					if end {
						part = part[len("..."):]
					}
				}
				// The library knows YAML 1.1 only and refuses a directive of 1.2, whose text it can read all the same.
				if current.startLine == 0 && bytes.HasPrefix(part, []byte("%YAML")) {
					part = append([]byte("#"), part[1:]...)
				}
			}
			if current.startLine == 0 && !comment {
				content := part
				if lineStart && isMarker(part, "---") {
					content = part[3:]
				}
				if content = bytes.TrimLeft(content, " \t\r\n"); len(content) > 0 {
					if comment = content[0] == '#'; !comment {
						current.startLine = line
					}
				}
			}
			if len(current.text)+len(part) > maxBytes {
				current.tooLong, current.text = true, nil
			}
			if !current.tooLong {
				current.text = append(current.text, part...)
			}
			if lineStart = err == nil; lineStart {
				line++
			}
			if err == io.EOF {
				break
			}
		}
		if current.startLine > 0 {
			yield(current, nil)
		}
	}
}

// isMarker reports whether the line has the three characters as YAML's document marker, which white space or nothing
// follows.
func isMarker(line []byte, marker string) bool {
	rest, found := bytes.CutPrefix(line, []byte(marker))
	return found && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// documents yields the objects in the piece, or what is wrong with it. maxBytes bounds what aliases expand to. A YAML
// document that is null is none.
func (p piece) documents(maxBytes int) iter.Seq2[*document, error] {
	return func(yield func(*document, error) bool) {
		doc := &document{origin: Origin{Line: p.startLine}, text: p.text, firstLine: p.firstLine}
		if p.tooLong {
			yield(doc, fmt.Errorf("has more than %d bytes, the limit for one document", maxBytes))
			return
		}
		values, jsonErr := p.jsonValues()
		if len(values) > 0 && jsonErr == nil {
			for _, value := range values {
				if !yield(value, nil) {
					return
				}
			}
			return
		}
		yamlErr := doc.convert(maxBytes)
		switch {
		case yamlErr == nil:
			if !bytes.Equal(doc.json, []byte("null")) {
				yield(doc, nil)
			}
		case len(values) > 0:
			// JSON that goes wrong at the second value or later: nobody meant it to be YAML.
			for _, value := range values {
				if !yield(value, nil) {
					return
				}
			}
			doc.origin.Line = jsonErr.line
			yield(doc, jsonErr)
		case p.looksLikeJSON():
			doc.origin.Line = p.startLine
			yield(doc, jsonErr)
		default:
			yield(doc, yamlErr)
		}
	}
}

// jsonValues returns the JSON values of which the piece consists. With an error they are those before the fault; without
// one and without values the piece is no JSON.
func (p piece) jsonValues() ([]*document, *fieldError) {
	body := p.body()
	if len(body) == 0 || body[0] != '{' {
		return nil, nil
	}
	var (
		values  []*document
		decoder = json.NewDecoder(bytes.NewReader(body))
		line    = p.firstLine + bytes.Count(p.text[:len(p.text)-len(body)], []byte("\n"))
		counted = 0
	)
	lineAt := func(offset int) int {
		line += bytes.Count(body[counted:offset], []byte("\n"))
		counted = offset
		return line
	}
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if err == io.EOF {
			return values, nil
		}
		if err != nil {
			offset := len(body)
			if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
				offset = max(counted, min(int(syntax.Offset)-1, len(body)))
			}
			return values, &fieldError{line: lineAt(offset), what: "is not valid JSON: " + err.Error()}
		}
		end := int(decoder.InputOffset())
		start := lineAt(end - len(raw))
		values = append(values, &document{origin: Origin{Line: start}, text: raw, firstLine: start, json: raw})
	}
}

// looksLikeJSON tells JSON with a fault from YAML that happens to begin with a brace.
func (p piece) looksLikeJSON() bool {
	body := p.body()
	if len(body) == 0 || body[0] != '{' {
		return false
	}
	body = bytes.TrimLeft(body[1:], " \t\r\n")
	return len(body) == 0 || body[0] == '"' || body[0] == '}'
}

// body is the text without the document marker and the white space before it begins.
func (p piece) body() []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(p.text, []byte("---")), " \t\r\n")
}
