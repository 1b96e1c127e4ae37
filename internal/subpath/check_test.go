// SPDX-License-Identifier: Apache-2.0

package subpath_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/subpath"
)

var unusable = map[string]struct{ path, says string }{
	"empty":                      {"", "is empty"},
	"absolute":                   {"/a", "absolute"},
	"the directory above":        {"..", `holds ".."`},
	"up and out":                 {"a/../../b", `holds ".."`},
	"up, but not out":            {"a/../b", `holds ".."`},
	"with a NUL":                 {"a\x00b", "NUL"},
	"longer than a path can be":  {strings.Repeat("a/", 2048), "4096 bytes"},
	"a name longer than can be":  {"a/" + strings.Repeat("n", 256), "256 bytes"},
	"up at the end":              {"a/..", `holds ".."`},
	"up at the end with a slash": {"a/../", `holds ".."`},
}

func TestCheckRefusesWhatNamesNothingInAVolume(t *testing.T) {
	for name, test := range unusable {
		t.Run(name, func(t *testing.T) {
			err := subpath.Check(test.path)
			require.ErrorIs(t, err, subpath.ErrInvalid)
			assert.ErrorContains(t, err, test.says)
			err = subpath.Check("canary/" + strings.TrimPrefix(test.path, "/") + "/..")
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "canary", "the path may hold a secret")
		})
	}
}

func TestCheckAcceptsWhatMayNameSomething(t *testing.T) {
	for _, path := range []string{
		".", "a", "a/b", "a//b/./c/", "..data", "a..", "...", "with space", "new\nline", "ä",
		strings.Repeat("n", 255), strings.Repeat("a/", 2047),
	} {
		assert.NoError(t, subpath.Check(path), path)
	}
}
