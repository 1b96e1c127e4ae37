// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestParseOptions(t *testing.T) {
	for name, test := range map[string]struct {
		plain, sensitive []string
		want             options
	}{
		"nothing": {},
		"what concerns only fstab is ignored": {
			plain: []string{"defaults", "_netdev", "nofail", "noauto", "x-systemd.automount", "comment=a", "", ",,"},
		},
		"flags of the mount": {
			plain: []string{"noexec,nosuid", "nodev", "nodiratime", "nosymfollow"},
			want: options{
				attrSet: unix.MOUNT_ATTR_NOEXEC | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NODIRATIME |
					unix.MOUNT_ATTR_NOSYMFOLLOW,
				flagSet: unix.MS_NOEXEC | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NODIRATIME | unix.MS_NOSYMFOLLOW,
			},
		},
		"the last of two contradictory options wins": {
			plain: []string{"ro", "rw", "exec", "noexec", "suid,nosuid,suid"},
			want: options{
				attrSet: unix.MOUNT_ATTR_NOEXEC, attrClear: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID,
				flagSet: unix.MS_NOEXEC, flagClear: unix.MS_RDONLY | unix.MS_NOSUID,
			},
		},
		"a sensitive option comes after the others": {
			plain: []string{"ro"}, sensitive: []string{"rw"},
			want: options{attrClear: unix.MOUNT_ATTR_RDONLY, flagClear: unix.MS_RDONLY},
		},
		"one mode of access times replaces another": {
			plain: []string{"noatime", "strictatime"},
			want: options{
				attrSet: unix.MOUNT_ATTR_STRICTATIME, attrClear: unix.MOUNT_ATTR__ATIME,
				flagSet: unix.MS_STRICTATIME, flagClear: unix.MS_NOATIME | unix.MS_RELATIME | unix.MS_STRICTATIME,
			},
		},
		"relatime is the mode without a flag": {
			plain: []string{"noatime", "relatime"},
			want: options{
				attrClear: unix.MOUNT_ATTR__ATIME,
				flagSet:   unix.MS_RELATIME, flagClear: unix.MS_NOATIME | unix.MS_RELATIME | unix.MS_STRICTATIME,
			},
		},
		"sync and dirsync are flags for mount(2) only": {
			plain: []string{"sync", "dirsync"},
			want:  options{flagSet: unix.MS_SYNCHRONOUS | unix.MS_DIRSYNC},
		},
		"async takes sync back": {
			plain: []string{"sync", "async"},
			want:  options{flagClear: unix.MS_SYNCHRONOUS},
		},
		"user implies what it implies for mount(8)": {
			plain: []string{"user", "exec"},
			want: options{
				attrSet: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, attrClear: unix.MOUNT_ATTR_NOEXEC,
				flagSet: unix.MS_NOSUID | unix.MS_NODEV, flagClear: unix.MS_NOEXEC,
			},
		},
		"bind":              {plain: []string{"bind"}, want: options{bind: true}},
		"rbind":             {plain: []string{"rbind"}, want: options{bind: true, recursive: true}},
		"bind after rbind":  {plain: []string{"rbind", "bind"}, want: options{bind: true}},
		"a remount of bind": {plain: []string{"remount,bind"}, want: options{bind: true, remount: true}},
		"propagation types in order": {
			plain: []string{"rslave", "shared"},
			want:  options{propagation: []propagation{{unix.MS_SLAVE, true}, {flag: unix.MS_SHARED}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseOptions(test.plain, test.sensitive)
			require.NoError(t, err)
			got.all = nil
			if test.want.attrClear&unix.MOUNT_ATTR__ATIME != 0 {
				// mount_setattr takes all bits of the mode or none.
				require.EqualValues(t, unix.MOUNT_ATTR__ATIME, got.attrClear&unix.MOUNT_ATTR__ATIME)
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func TestParametersOfTheFileSystem(t *testing.T) {
	for list, want := range map[string][]option{
		"ro,noexec,size=1M,sync,noswap": {
			{text: "ro", key: "ro", isFlag: true, scope: ofFilesystem},
			{text: "size=1M", key: "size", value: "1M", scope: ofType},
			{text: "sync", key: "sync", isFlag: true, scope: ofFilesystem},
			{text: "noswap", key: "noswap", isFlag: true, scope: ofType},
		},
		"size=1,size=2":         {{text: "size=1", key: "size", value: "1", scope: ofType}, {text: "size=2", key: "size", value: "2", scope: ofType}},
		`context="a:b:c0,c1",x`: {{text: `context="a:b:c0,c1"`, key: "context", value: "a:b:c0,c1", scope: ofType}, {text: "x", key: "x", isFlag: true, scope: ofType}},
		`dir=a\,b`:              {{text: `dir=a\,b`, key: "dir", value: `a\,b`, scope: ofType}},
		"auto=1":                {{text: "auto=1", key: "auto", value: "1", scope: ofType}},
		"empty=":                {{text: "empty=", key: "empty", scope: ofType}},
		"ro=vfs":                {{text: "ro=vfs", key: "ro", value: "vfs", scope: ofType}},
		"X-mount.mkdir":         {{text: "X-mount.mkdir", key: "X-mount.mkdir", isFlag: true, scope: ofType}},
	} {
		t.Run(list, func(t *testing.T) {
			opts, err := parseOptions([]string{list}, nil)
			require.NoError(t, err)
			assert.Equal(t, want, opts.parameters())
		})
	}
}

func TestParseOptionsRefusesWhatItCannotCut(t *testing.T) {
	for _, bad := range []string{`a="b`, "a\x00b"} {
		_, err := parseOptions(nil, []string{bad})
		require.Error(t, err)
		assert.NotContains(t, err.Error(), bad)
	}
}

func TestSensitiveOptionsAreMasked(t *testing.T) {
	opts, err := parseOptions([]string{"ro", "a=1"}, []string{`password="two words"`, "rw", "token", "k=", "pass=two"})
	require.NoError(t, err)
	assert.Equal(t, "ro,a=1,<masked>,rw,<masked>,<masked>,<masked>", opts.String())
	for text, want := range map[string]string{
		"":                                       "",
		"bad a=1":                                "bad a=1",
		`bad password="two words", rw`:           "bad <masked>, rw",
		"bad value two words":                    "bad value <masked>",
		"not a two-part to ken":                  "not a <masked>-part to ken",
		"tokentokentwo":                          "<masked>",
		"password = <masked>, \"two words\" end": "password = <masked>, <masked> end",
	} {
		assert.Equal(t, want, opts.mask(text, len(text)), text)
	}
	assert.Equal(t, "a <masked>", opts.mask("a two words", 5), "what is cut is masked before")

	opts, err = parseOptions(nil, []string{"password=Schlüssel"})
	require.NoError(t, err)
	assert.Equal(t, "no <masked>", opts.mask("no Schlüssel", 100))
}

func FuzzParseOptions(f *testing.F) {
	for _, seed := range []string{"", "ro,rw", "bind,ro,rslave", `context="a,b",x=y`, `a\,b`, `"`, "=", ",=,", "x-a=b,size=10%", "user,noatime"} {
		f.Add(seed, "password=secret")
		f.Add("ro", seed)
	}
	f.Fuzz(func(t *testing.T, plain, sensitive string) {
		opts, err := parseOptions([]string{plain}, []string{sensitive})
		if err != nil {
			return
		}
		const exclusive = ^uint64(unix.MOUNT_ATTR__ATIME)
		require.Zero(t, opts.attrSet&opts.attrClear&exclusive, "set and cleared at once")
		if atime := opts.attrClear & unix.MOUNT_ATTR__ATIME; atime != 0 {
			require.EqualValues(t, unix.MOUNT_ATTR__ATIME, atime)
		}

		// What comes out is what went in, and parses to the same.
		var texts []string
		for _, p := range opts.all {
			require.False(t, p.secret && p.scope != ofType)
			texts = append(texts, p.text)
		}
		again, err := parseOptions(texts, nil)
		require.NoError(t, err)
		require.Equal(t, strings.Join(texts, ","), again.String())
		require.Equal(t, opts.attrSet, again.attrSet)
		require.Equal(t, opts.flagClear, again.flagClear)

		// A sensitive option leaves nothing of itself. No option holds the NUL that separates them here.
		for _, p := range opts.all {
			if p.secret && p.value != "" {
				text := p.text + "\x00" + p.value
				require.Equal(t, masked+"\x00"+masked, opts.mask(text, len(text)))
			}
		}
	})
}
