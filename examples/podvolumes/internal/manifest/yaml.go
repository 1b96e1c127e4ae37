// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	kubeyaml "sigs.k8s.io/yaml"
)

// convert fills json and repeated from the YAML in text. The values are those that kubectl reads (YAML 1.1, so that the
// mode 0644 is octal); the tree of nodes, which that way of reading does not give, serves the checks.
func (d *document) convert(maxBytes int) error {
	root, err := parse(d.text)
	if err != nil {
		return d.syntaxError(err)
	}
	survey := survey{expanded: make(map[*yaml.Node]int), limit: maxBytes}
	if size := survey.size(root); survey.aliases && size > maxBytes {
		return fmt.Errorf("has aliases that expand to more than %d bytes, the limit for one document", maxBytes)
	}
	survey.findRepeated(root, nil)
	for _, repeated := range survey.repeated {
		repeated.line = d.firstLine + repeated.line - 1
	}
	d.repeated = survey.repeated
	switch {
	case survey.ambiguous != nil:
		return survey.ambiguous
	case len(d.repeated) > maxFaults:
		return fmt.Errorf("has more than %d duplicate fields", maxFaults)
	}
	if d.json, err = kubeyaml.YAMLToJSON(d.text); err != nil {
		return d.wordYAML(err, 0)
	}
	return nil
}

// parse returns the document node of text, which holds one document.
func parse(text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	root := new(yaml.Node)
	if err := decoder.Decode(root); err != nil {
		return nil, err
	}
	// YAML takes more characters for line ends than this package, which has split the file by lines.
	if err := decoder.Decode(new(yaml.Node)); err != io.EOF {
		return nil, errors.New("yaml: a second document begins where no line begins")
	}
	return root, nil
}

// syntaxError words why text cannot be parsed.
func (d *document) syntaxError(err error) error {
	return d.wordYAML(err, d.faultyLine(err))
}

// maxBisect is how long a text may be, in bytes, for its faulty line to be looked for: long enough for what people write,
// and short enough to be parsed some 15 times in about a second.
const maxBisect = 256 << 10

// faultyLine returns the number in the file of the line that makes text unparseable, 0 if it cannot tell. The library names
// a line too, but the one on which the surrounding mapping begins, or the one before that.
func (d *document) faultyLine(err error) int {
	if len(d.text) > maxBisect {
		return 0
	}
	message := withoutLine(err)
	lines := bytes.SplitAfter(d.text, []byte("\n"))
	// Text that is cut before the fault is sound, or faulty in another way.
	before := sort.Search(len(lines)-1, func(i int) bool {
		_, err := parse(bytes.Join(lines[:i+1], nil))
		return err != nil && withoutLine(err) == message
	})
	return d.firstLine + before
}

// withoutLine returns the message of a YAML library without its prefix and line number.
func withoutLine(err error) string {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.HasPrefix(message, "line ") {
		if _, what, found := strings.Cut(message, ": "); found {
			return what
		}
	}
	return message
}

func (d *document) wordYAML(err error, line int) error {
	message := withoutLine(err)
	// These print what the document holds, which may be a secret.
	switch {
	case strings.HasPrefix(message, "invalid map key"), strings.HasPrefix(message, "unsupported map key"):
		message = "a key of a mapping is neither text nor a number"
	case strings.HasPrefix(message, "unknown anchor"):
		message = "an alias has no anchor; quote text that begins with *"
	case strings.HasPrefix(message, "cannot decode"):
		message = "a value is not what its tag says"
	}
	if bytes.Contains(d.text, []byte("{{")) {
		message += "; it looks like a template that has not been rendered"
	}
	return &fieldError{line: line, what: "is not valid YAML: " + message}
}

// survey finds out what reading a YAML document into values would not tell.
type survey struct {
	// aliases says whether the document has any.
	aliases bool

	// repeated are the keys that a mapping has twice, with lines counted from the beginning of the text. The values of
	// such a key are read in their order, so that the last one counts, unless its spelling differs: then chance decides,
	// and ambiguous is the first of those.
	repeated  []*fieldError
	ambiguous *fieldError

	// expanded holds the sizes of nodes that aliases lead to; -1 while they are being summed up.
	expanded map[*yaml.Node]int

	// limit is where summing up may stop.
	limit int
}

// size is how many bytes of text the node would have without aliases, or a number greater than the limit.
func (s *survey) size(n *yaml.Node) int {
	size := 1 + len(n.Value)
	if n.Kind == yaml.AliasNode {
		s.aliases = true
		known, found := s.expanded[n.Alias]
		switch {
		case found && known < 0:
			// It contains itself, which the library refuses in words of its own.
			return size
		case found:
			return known
		}
		s.expanded[n.Alias] = -1
		size = s.size(n.Alias)
		s.expanded[n.Alias] = size
		return size
	}
	for _, child := range n.Content {
		if size > s.limit {
			break
		}
		size += s.size(child)
	}
	return size
}

// place is where a node is: in the list or in the mapping above.
type place struct {
	above  *place
	listed bool
	index  int
	key    string
}

// String is the path as the strict JSON decoder writes it.
func (p *place) String() string {
	switch {
	case p == nil:
		return ""
	case p.listed:
		return fmt.Sprintf("%s[%d]", p.above, p.index)
	default:
		return join(p.above.String(), p.key)
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func (s *survey) findRepeated(n *yaml.Node, at *place) {
	if len(s.repeated) > maxFaults {
		return
	}
	switch n.Kind {
	case yaml.DocumentNode:
		for _, child := range n.Content {
			s.findRepeated(child, at)
		}
	case yaml.SequenceNode:
		for i, child := range n.Content {
			s.findRepeated(child, &place{above: at, listed: true, index: i})
		}
	case yaml.MappingNode:
		seen := make(map[string]*yaml.Node, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			line := key.Line
			if key.Kind == yaml.AliasNode {
				key = key.Alias
			}
			name := keyName(key)
			here := &place{above: at, key: name}
			// A mapping may be merged with several others. What is merged does not show here, and so overriding it is no
			// repetition.
			if key.Kind == yaml.ScalarNode && key.Tag != "!!merge" {
				if first := seen[name]; first != nil {
					fault := &fieldError{path: here.String(), line: line}
					fault.what = fmt.Sprintf("duplicate field %q", fault.path)
					s.repeated = append(s.repeated, fault)
					if s.ambiguous == nil && (first.Value != key.Value || first.ShortTag() != key.ShortTag()) {
						s.ambiguous = fault
					}
				}
				seen[name] = key
			}
			s.findRepeated(value, here)
		}
	}
}

// keyName returns what the key of a mapping becomes: text, so that 1, 0x1 and "1" are the same, and so are yes and true.
func keyName(key *yaml.Node) string {
	text := key.Value
	switch {
	case key.Style&yaml.TaggedStyle != 0:
		text = key.Tag + " " + strconv.Quote(text)
	case key.Style != 0 || text == "":
		return text
	case strings.IndexByte("0123456789+-.", text[0]) >= 0:
	default:
		switch strings.ToLower(text) {
		case "y", "n", "yes", "no", "on", "off", "true", "false":
		default:
			return text
		}
	}
	var named map[string]int
	if err := kubeyaml.Unmarshal([]byte("? "+text+"\n: 0\n"), &named); err == nil {
		for name := range named {
			return name
		}
	}
	return key.Value
}

// lineOf returns the number in the file of the line on which the field at path stands, or the one nearest above it that
// the text shows; 0 if it cannot tell. Of a repeated field it is the last.
func (d *document) lineOf(path string) int {
	if d.root == nil {
		root, err := parse(d.text)
		if err != nil {
			// JSON that is no YAML.
			root = new(yaml.Node)
		}
		d.root = root
	}
	if len(d.root.Content) == 0 {
		return 0
	}
	node, _ := find(d.root.Content[0], path)
	return d.firstLine + node.Line - 1
}

// find returns the node that is named by the longest beginning of path, the key's where it has one, and what is left of
// path.
func find(n *yaml.Node, path string) (*yaml.Node, string) {
	best, left := n, path
	try := func(node, value *yaml.Node, prefix string) {
		rest, found := strings.CutPrefix(path, prefix)
		if !found || rest != "" && rest[0] != '.' && rest[0] != '[' {
			return
		}
		if below, end := find(value, strings.TrimPrefix(rest, ".")); below != value {
			node, rest = below, end
		}
		if len(rest) <= len(left) {
			best, left = node, rest
		}
	}
	switch n.Kind {
	case yaml.SequenceNode:
		if digits, _, found := strings.Cut(strings.TrimPrefix(path, "["), "]"); found && strings.HasPrefix(path, "[") {
			if i, err := strconv.Atoi(digits); err == nil && i >= 0 && i < len(n.Content) {
				try(n.Content[i], n.Content[i], "["+digits+"]")
			}
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			try(n.Content[i], n.Content[i+1], n.Content[i].Value)
		}
	}
	return best, left
}
