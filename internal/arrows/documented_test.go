// SPDX-License-Identifier: Apache-2.0

package arrows

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryExportedIdentifierIsDocumented(t *testing.T) {
	root := moduleRoot(t)
	for _, dir := range packageDirs(t, root) {
		folder, err := filepath.Rel(root, dir)
		require.NoError(t, err)
		for _, identifier := range parseDir(t, dir).undocumented(public(folder)) {
			t.Errorf("%s: %s has no comment", folder, identifier)
		}
	}
}

func TestUndocumentedIdentifiersAreFound(t *testing.T) {
	const source = `
// Package p is documented.
package p

type A struct { // a comment of the brace, not of A
	B int

	// C and D are said in one comment.
	C int
	D int // D

	E int // said of E alone
	G int
	f int
	Embedded
}

// I is documented.
type I interface {
	Undocumented()
	// Documented is.
	Documented()
	Embedded
}

// Alias is documented.
type Alias[T any] = I

// Numbers, all of them.
const (
	One = 1

	Two = 2
)

const (
	// Three is documented, and Four follows it.
	Three = 3
	Four  = 4

	Five = 5
	six  = 6
)

var V = 1

func F() {}

func (a *A) Method() {}

func (h hidden) Method() {}

func (l *List[T]) Push() {}

type hidden struct{ Field int }

// List is documented.
type List[T any] struct{}
`
	p := parse(t, source)
	assert.Equal(t, []string{"A", "A.B", "A.G", "A.Method", "F", "Five", "I.Undocumented", "List.Push", "V"}, p.undocumented(true))
	assert.Empty(t, p.undocumented(false), "of a package that nobody imports only the package comment is asked for")
}

func TestOneOfSeveralFilesMayHoldTheComment(t *testing.T) {
	p := parse(t, "// Package p is documented.\npackage p\n\n// F is.\nfunc F() {}\n", "//go:build !linux\n\npackage p\n\nfunc F() {}\n")
	assert.Empty(t, p.undocumented(true))
	p = parse(t, "package p\n", "//go:build !linux\n\npackage p\n")
	assert.Equal(t, []string{"package p"}, p.undocumented(true))
}

// public reports whether other modules can import the packages of a folder, or read its documentation as an API.
func public(folder string) bool {
	return underAny(folder, []string{"internal", "examples", "bench", "e2e"}) == "" && !strings.Contains("/"+folder+"/", "/internal/")
}

// A parsed package is its Go files but for the tests, whatever system they are for.
type parsed struct {
	positions *token.FileSet
	files     []*ast.File
}

func parseDir(t *testing.T, dir string) parsed {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	p := parsed{positions: token.NewFileSet()}
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			p.add(t, path, nil)
		}
	}
	return p
}

func parse(t *testing.T, sources ...string) parsed {
	t.Helper()
	p := parsed{positions: token.NewFileSet()}
	for i, source := range sources {
		p.add(t, fmt.Sprintf("source%d.go", i), source)
	}
	return p
}

func (p *parsed) add(t *testing.T, path string, source any) {
	t.Helper()
	file, err := parser.ParseFile(p.positions, path, source, parser.ParseComments)
	require.NoError(t, err)
	p.files = append(p.files, file)
}

// undocumented returns what lacks a comment, sorted: the package; and, of a public one, what it exports. A comment on one
// of several declarations of the same name, one per system, is enough.
func (p parsed) undocumented(public bool) []string {
	documented := map[string]bool{}
	for _, file := range p.files {
		note(documented, "package "+file.Name.Name, said(file.Doc))
		if !public {
			continue
		}
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if receiver := receiverOf(decl); receiver != "" {
					note(documented, receiver+"."+decl.Name.Name, said(decl.Doc))
				} else if decl.Recv == nil {
					note(documented, decl.Name.Name, said(decl.Doc))
				}
			case *ast.GenDecl:
				p.noteSpecs(documented, decl)
			}
		}
	}
	var missing []string
	for name, ok := range documented {
		if !ok {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// note records an identifier, of which one comment is enough. An unexported part of the name makes it nobody's business.
func note(documented map[string]bool, name string, ok bool) {
	for part := range strings.SplitSeq(name, ".") {
		if !ast.IsExported(part) && !strings.HasPrefix(part, "package ") {
			return
		}
	}
	documented[name] = documented[name] || ok
}

func said(comments ...*ast.CommentGroup) bool {
	// Text leaves out directives such as //go:build, and is empty for nil.
	return slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return c.Text() != "" })
}

// receiverOf returns the name of a method's type, "" for a function.
func receiverOf(decl *ast.FuncDecl) string {
	if decl.Recv == nil {
		return ""
	}
	expr := decl.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// noteSpecs records the types, constants or variables of one declaration.
func (p parsed) noteSpecs(documented map[string]bool, decl *ast.GenDecl) {
	var run run
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			// The comment of a parenthesised group of types says nothing of the single one.
			note(documented, spec.Name.Name, said(spec.Doc, spec.Comment) || !decl.Lparen.IsValid() && said(decl.Doc))
			switch kind := spec.Type.(type) {
			case *ast.StructType:
				p.noteFields(documented, spec.Name.Name, kind.Fields)
			case *ast.InterfaceType:
				p.noteFields(documented, spec.Name.Name, kind.Methods)
			}
		case *ast.ValueSpec:
			ok := run.covers(p.positions, spec, spec.Doc) || said(decl.Doc, spec.Comment)
			for _, name := range spec.Names {
				note(documented, name.Name, ok)
			}
		}
	}
}

// noteFields records the fields of a struct or the methods of an interface. What is embedded has its comment elsewhere.
func (p parsed) noteFields(documented map[string]bool, owner string, fields *ast.FieldList) {
	var run run
	for _, field := range fields.List {
		ok := run.covers(p.positions, field, field.Doc) || said(field.Comment)
		for _, name := range field.Names {
			note(documented, owner+"."+name.Name, ok)
		}
	}
}

// A run is a sequence of lines without an empty one between them: the comment above the first is for all.
type run struct {
	end int  // the line on which the last one ended
	ok  bool // it has a comment
}

func (r *run) covers(positions *token.FileSet, node ast.Node, above *ast.CommentGroup) bool {
	begin := positions.Position(node.Pos()).Line
	r.ok = said(above) || r.ok && begin == r.end+1
	r.end = positions.Position(node.End()).Line
	return r.ok
}
