// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/volume"
)

func statOf(t *testing.T, path string) unix.Stat_t {
	t.Helper()
	var stat unix.Stat_t
	require.NoError(t, unix.Lstat(path, &stat))
	return stat
}

func TestTheModeIsExactWhateverTheUmask(t *testing.T) {
	for _, test := range []struct {
		medium v1.StorageMedium
		mode   *int32
		want   uint32
	}{
		{"", nil, 0o777},
		{"", ptr.To[int32](0o755), 0o755},
		{"", ptr.To[int32](0o1777), 0o1777},
		{"", ptr.To[int32](0), 0},
		{"Memory", nil, 0o1777},
		{"Memory", ptr.To[int32](0o755), 0o755},
		{"Memory", ptr.To[int32](0o1777), 0o1777},
		{"Memory", ptr.To[int32](0), 0},
		{"HugePages", nil, 0o777},
		{"HugePages", ptr.To[int32](0o755), 0o755},
		{"HugePages", ptr.To[int32](0o1777), 0o1777},
		{"HugePages", ptr.To[int32](0), 0},
	} {
		for _, umask := range []int{0, 0o077, 0o777} {
			name := fmt.Sprintf("medium %q, mode absent, umask %#o", test.medium, umask)
			if test.mode != nil {
				name = fmt.Sprintf("medium %q, mode %#o, umask %#o", test.medium, *test.mode, umask)
			}
			t.Run(name, func(t *testing.T) {
				if test.medium != "" {
					begin(t)
				}
				if umask == 0o777 && os.Geteuid() != 0 {
					t.Skip("who is not root cannot go through the directories that it makes with this umask")
				}
				f := newFixture(t, v1.EmptyDirVolumeSource{Medium: test.medium, Mode: test.mode})
				func() {
					defer unix.Umask(unix.Umask(umask))
					f.setUp()
				}()
				assert.Equal(t, fmt.Sprintf("%#o", test.want), fmt.Sprintf("%#o", statOf(t, f.path).Mode&0o7777))

				before := statOf(t, f.path)
				f.setUp()
				f.restart(Options{})
				f.setUp()
				assert.Equal(t, before, statOf(t, f.path), "after SetUp again")

				require.NoError(t, unix.Chmod(f.path, 0o700), "as an application does")
				before = statOf(t, f.path)
				f.setUp()
				assert.Equal(t, before, statOf(t, f.path), "after SetUp again, of what the application has changed")
				f.tearDown()
			})
		}
	}
}

func TestTheFSGroupIsAddedToTheMode(t *testing.T) {
	const group = 54321
	for _, test := range []struct {
		medium v1.StorageMedium
		mode   *int32
		want   uint32
	}{
		{"", nil, 0o2777},
		{"", ptr.To[int32](0o1700), 0o3770},
		{"", ptr.To[int32](0), 0o2770},
		{"Memory", nil, 0o3777},
		{"Memory", ptr.To[int32](0o700), 0o2770},
		{"HugePages", nil, 0o2777},
		{"HugePages", ptr.To[int32](0), 0o2770},
	} {
		t.Run(fmt.Sprintf("medium %q, %#o", test.medium, test.want), func(t *testing.T) {
			begin(t) // as root, who can give files away
			f := newFixture(t, v1.EmptyDirVolumeSource{Medium: test.medium, Mode: test.mode})
			options := volume.SetUpOptions{FSGroup: ptr.To[int64](group)}
			func() {
				defer unix.Umask(unix.Umask(0o077))
				require.NoError(t, f.setUpWith(options))
			}()
			stat := statOf(t, f.path)
			assert.Equal(t, fmt.Sprintf("%#o", test.want), fmt.Sprintf("%#o", stat.Mode&0o7777))
			assert.EqualValues(t, group, stat.Gid)
			assert.EqualValues(t, os.Geteuid(), stat.Uid)
			f.wantAbsent(hiddenPath(f.path))

			require.NoError(t, unix.Chmod(f.path, 0o700), "as an application does")
			stat = statOf(t, f.path)
			require.NoError(t, f.setUpWith(options))
			assert.Equal(t, stat, statOf(t, f.path), "after SetUp again")
			f.tearDown()
		})
	}
}
