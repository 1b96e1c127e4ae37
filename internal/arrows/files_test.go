// SPDX-License-Identifier: Apache-2.0

package arrows

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryGoFileBeginsWithItsLicence(t *testing.T) {
	const line = "// SPDX-License-Identifier: Apache-2.0\n\n"
	root := moduleRoot(t)
	for _, path := range files(t, root) {
		if filepath.Ext(path) != ".go" {
			continue
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(string(content), line), "%s does not begin with %q", path, line)
	}
}

// machinePath matches what is only in somebody's home: the GOPATH, sources, files of programs.
var machinePath = regexp.MustCompile(`(^|[^\w./~-])/(root|home/\w+|Users/\w+)/(go|src|\.\w+)/`)

func TestNoFileNamesAPathOfADevelopersMachine(t *testing.T) {
	root := moduleRoot(t)
	for _, path := range files(t, root) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		if bytes.IndexByte(content, 0) >= 0 {
			continue // a program that somebody built here
		}
		found := machinePath.FindIndex(content)
		if at := bytes.Index(content, []byte(root+"/")); found == nil && at >= 0 {
			found = []int{at}
		}
		if found != nil {
			line := 1 + bytes.Count(content[:found[0]], []byte("\n"))
			t.Errorf("%s:%d: a path that exists on one machine only", path, line)
		}
	}
}

// packageDirs returns the directories with Go files in them, those of nested modules included.
func packageDirs(t *testing.T, root string) []string {
	t.Helper()
	dirs := map[string]bool{}
	for _, path := range files(t, root) {
		if filepath.Ext(path) == ".go" && !strings.Contains(path, "/testdata/") {
			dirs[filepath.Dir(path)] = true
		}
	}
	require.NotEmpty(t, dirs)
	return slices.Sorted(maps.Keys(dirs))
}

// files returns the regular files below root but for what git keeps.
func files(t *testing.T, root string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case entry.Type().IsRegular():
			paths = append(paths, path)
		}
		return nil
	})
	require.NoError(t, err)
	return paths
}

func TestEveryPackageChecksThatItsTestsLeaveNoGoroutines(t *testing.T) {
	root := moduleRoot(t)
	check := regexp.MustCompile(`\bMain\(m\)|goleak\.VerifyTestMain\(`)
	for _, dir := range packageDirs(t, root) {
		tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		checked := len(tests) == 0 || strings.HasPrefix(dir, filepath.Join(root, "bench"))
		for _, test := range tests {
			source, err := os.ReadFile(test)
			require.NoError(t, err)
			checked = checked || check.Match(source)
		}
		assert.True(t, checked, "no TestMain in %s looks for goroutines that are left: see volumetest.Main", dir)
	}
}
