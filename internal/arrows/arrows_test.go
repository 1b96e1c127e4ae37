// SPDX-License-Identifier: Apache-2.0

package arrows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPackagesImportOnlyWhatTheLayoutAllows(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		t.Run(goos, func(t *testing.T) {
			for _, broken := range brokenArrows(list(t, goos)) {
				t.Error(broken)
			}
		})
	}
}

func TestAnEmbedderLinksLittle(t *testing.T) {
	packages := list(t, "linux")
	linked := map[string]bool{}
	for _, folder := range embedded {
		p, ok := packages[module+"/"+folder]
		require.True(t, ok, "there is no package in %s", folder)
		linked[p.ImportPath] = true
		for _, dep := range p.Deps {
			linked[dep] = true
		}
	}
	assert.Less(t, len(linked), maxPackages, "packages that a program links which imports %s", strings.Join(embedded, ", "))
	t.Logf("%d packages, the standard library included", len(linked))
}

func TestABrokenArrowIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		packages []pkg
		want     string
	}{
		"a plugin imports another": {
			packages: []pkg{{ImportPath: module + "/emptydir", Imports: []string{module + "/hostpath"}}},
			want:     "emptydir imports hostpath; of this module it may import only volume, internal, internal/devicemount, internal/podfield, internal/provisioning, internal/turns, internal/volumedir",
		},
		"volume imports its conformance suite, which has a rule of its own": {
			packages: []pkg{{ImportPath: module + "/volume", Imports: []string{module + "/volume/volumetest"}}},
			want:     "volume imports volume/volumetest; of this module it may import only internal",
		},
		"internal imports a contract": {
			packages: []pkg{{ImportPath: module + "/internal/record", Imports: []string{module + "/volume"}}},
			want:     "internal/record imports volume; of this module it may import nothing",
		},
		"a module that is not in the list": {
			packages: []pkg{{ImportPath: module + "/hostpath", Imports: []string{"k8s.io/utilsandmore"}}},
			want:     "hostpath imports k8s.io/utilsandmore; of other modules it may import only golang.org/x/sys, k8s.io/api, k8s.io/apimachinery, k8s.io/klog/v2, k8s.io/mount-utils, k8s.io/utils",
		},
		"client-go by a detour": {
			packages: []pkg{
				{ImportPath: module + "/volumemanager", Imports: []string{"k8s.io/utils/exec"}, Deps: []string{"k8s.io/client-go/tools/cache", "k8s.io/utils/exec"}},
				{ImportPath: "k8s.io/utils/exec", Imports: []string{"k8s.io/client-go/tools/cache"}},
			},
			want: "volumemanager links k8s.io/client-go/tools/cache, through k8s.io/utils/exec; nothing there may link k8s.io/client-go",
		},
		"an example imports Kubernetes": {
			packages: []pkg{{ImportPath: module + "/examples/x", Imports: []string{"k8s.io/kubernetes/pkg/volume"}, Deps: []string{"k8s.io/kubernetes/pkg/volume"}}},
			want:     "examples/x links k8s.io/kubernetes/pkg/volume; nothing there may link k8s.io/kubernetes",
		},
		"a folder that is not in the layout": {
			packages: []pkg{{ImportPath: module + "/util"}},
			want:     "the folder util is not in the layout (internal/arrows/layout_test.go)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			byPath := map[string]pkg{}
			for _, p := range test.packages {
				byPath[p.ImportPath] = p
			}
			assert.Equal(t, []string{test.want}, brokenArrows(byPath))
		})
	}
}

// pkg is what the test needs of the output of go list.
type pkg struct {
	ImportPath string
	Dir        string
	Standard   bool
	Imports    []string
	Deps       []string
}

// folder is where the package is in this module; ok is false for a package of another one.
func (p pkg) folder() (folder string, ok bool) {
	if p.ImportPath == module {
		return "", true
	}
	return strings.CutPrefix(p.ImportPath, module+"/")
}

// list returns the packages of this module, and all that they are made of without their tests, by import path.
func list(t *testing.T, goos string) map[string]pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,Imports,Deps", "./...")
	cmd.Dir = moduleRoot(t)
	// What is linked where cgo is at hand differs only in the standard library.
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	packages := map[string]pkg{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := decoder.Decode(&p)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		packages[p.ImportPath] = p
	}
	return packages
}

// moduleRoot is the directory of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "go.mod"))
	return root
}

// brokenArrows returns a sentence for each import that the layout does not allow, sorted.
func brokenArrows(packages map[string]pkg) []string {
	var broken []string
	for _, p := range packages {
		folder, ok := p.folder()
		if !ok {
			continue
		}
		r, ok := ruleOf(folder)
		if !ok {
			broken = append(broken, fmt.Sprintf("the folder %s is not in the layout (internal/arrows/layout_test.go)", folder))
			continue
		}
		broken = append(broken, r.brokenImports(p, packages)...)
		never := forbidden
		if r.light {
			never = append(slices.Clone(forbidden), heavy...)
		}
		broken = append(broken, brokenLinks(p, packages, never)...)
	}
	slices.Sort(broken)
	return broken
}

// brokenImports checks what p imports itself.
func (r rule) brokenImports(p pkg, packages map[string]pkg) []string {
	var broken []string
	from, _ := p.folder()
	for _, path := range p.Imports {
		imported, listed := packages[path]
		if r.anything || imported.Standard || !listed && !strings.Contains(path, ".") {
			continue
		}
		to, own := pkg{ImportPath: path}.folder()
		switch {
		case own && !r.allowsOwn(to):
			broken = append(broken, fmt.Sprintf("%s imports %s; of this module it may import %s", name(from), name(to), names(r.own)))
		case !own && underAny(path, r.others) == "":
			broken = append(broken, fmt.Sprintf("%s imports %s; of other modules it may import %s", name(from), path, names(r.others)))
		}
	}
	return broken
}

// allowsOwn reports whether the rule's packages may import a folder of this module.
func (r rule) allowsOwn(folder string) bool {
	target, ok := ruleOf(folder)
	if !ok {
		return false
	}
	return target.folder == r.folder || slices.Contains(r.own, target.folder)
}

// brokenLinks checks what p consists of.
func brokenLinks(p pkg, packages map[string]pkg, never []string) []string {
	var broken []string
	from, _ := p.folder()
	told := map[string]bool{}
	for _, dep := range p.Deps {
		root := underAny(dep, never)
		if root == "" || told[root] {
			continue
		}
		told[root] = true
		through := ""
		if !slices.Contains(p.Imports, dep) {
			through = ", through " + importerOf(dep, p, packages)
		}
		broken = append(broken, fmt.Sprintf("%s links %s%s; nothing there may link %s", name(from), dep, through, root))
	}
	return broken
}

// importerOf names a package that is part of p and imports dep.
func importerOf(dep string, p pkg, packages map[string]pkg) string {
	for _, path := range p.Deps {
		if slices.Contains(packages[path].Imports, dep) {
			return path
		}
	}
	return "?"
}

// name shows a folder in a sentence.
func name(folder string) string {
	if folder == "" {
		return "the root package"
	}
	return folder
}

// names shows what may be imported.
func names(paths []string) string {
	if len(paths) == 0 {
		return "nothing"
	}
	return "only " + strings.Join(paths, ", ")
}
