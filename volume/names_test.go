// SPDX-License-Identifier: Apache-2.0

package volume_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

func TestCheckPathElementAcceptsWhatIsOneElement(t *testing.T) {
	for _, name := range []string{
		"a", "...", "..a", ".hidden", "-rf", "with space", "ümläut", "\xff", `back\slash`, strings.Repeat("n", 255),
	} {
		assert.NoError(t, volume.CheckPathElement("driver", name), "%q", name)
	}
}

func TestCheckPathElementSaysWhatIsWrong(t *testing.T) {
	for name, why := range map[string]string{
		"":                       `driver "" is empty`,
		".":                      `driver "." names a directory relative to another`,
		"..":                     `driver ".." names a directory relative to another`,
		"/":                      `driver "/" holds a slash`,
		"a/b":                    `driver "a/b" holds a slash`,
		"../x":                   `driver "../x" holds a slash`,
		"a\x00b":                 `driver "a\x00b" holds a control character`,
		"a\nb":                   `driver "a\nb" holds a control character`,
		"a\x7fb":                 `driver "a\x7fb" holds a control character`,
		strings.Repeat("n", 256): `driver "` + strings.Repeat("n", 32) + `"… has 256 bytes, more than the 255 that a file name can have`,
	} {
		err := volume.CheckPathElement("driver", name)
		assert.EqualError(t, err, why)
		assert.ErrorIs(t, err, volume.ErrInvalid)
	}
}

func TestCheckPodUID(t *testing.T) {
	for _, uid := range []types.UID{"5d9ea30c-6b4a-4a8d-9d1f-0c8d5b1c2f11", "1", "static-pod_1"} {
		assert.NoError(t, volume.CheckPodUID(uid))
	}
	for _, uid := range []types.UID{"", ".", "..", ".hidden", "../x", "a/b", "a\x00", types.UID(strings.Repeat("u", 300))} {
		err := volume.CheckPodUID(uid)
		assert.ErrorIs(t, err, volume.ErrInvalid, "%q", uid)
		assert.ErrorContains(t, err, "pod UID")
		assert.Less(t, len(err.Error()), 200, "the error quotes all of it")
	}
}

func TestCheckNameAcceptsWhatKubernetesCallsVolumes(t *testing.T) {
	for _, name := range []string{
		"scratch", "a", "1", "with-dash", "pv.example.com", strings.Repeat("n", 63),
		strings.Join([]string{strings.Repeat("n", 63), strings.Repeat("n", 63), strings.Repeat("n", 63), strings.Repeat("n", 61)}, "."),
	} {
		assert.NoError(t, volume.CheckName(name))
	}
}

func TestCheckNameNamesWhatItRefuses(t *testing.T) {
	for _, name := range []string{
		"", ".", "..", "a/b", "../x", "-rf", "Upper", "under_score", "a..b", ".a", "a\x00b", "a\nb", "ü", "a~b",
		strings.Repeat("n", 300),
	} {
		err := volume.CheckName(name)
		assert.ErrorIs(t, err, volume.ErrInvalid, "%q", name)
		assert.ErrorContains(t, err, "volume name ")
	}
	assert.ErrorContains(t, volume.CheckName("Upper"), `"Upper"`)
	assert.ErrorContains(t, volume.CheckName(strings.Repeat("n", 300)), `"`+strings.Repeat("n", 64)+`"…`)
}
