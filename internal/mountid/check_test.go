// SPDX-License-Identifier: Apache-2.0

package mountid

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	mounted := Identity{
		Boot: "boot", Namespace: 1, Mount: 10, Unique: true, Root: true, Device: "0:45", Source: "tmpfs",
	}
	with := func(change func(*Identity)) Identity {
		changed := mounted
		change(&changed)
		return changed
	}
	directory := with(func(i *Identity) { i.Root, i.Source, i.Device = false, "", "8:1" })
	short := with(func(i *Identity) { i.Unique = false })
	for name, test := range map[string]struct {
		recorded, now Identity
		want          error
		says          string
	}{
		"the same":                       {recorded: mounted, now: mounted},
		"the same directory":             {recorded: directory, now: directory},
		"nothing recorded":               {now: mounted},
		"nothing recorded and nothing":   {},
		"unmounted":                      {recorded: mounted, now: directory, want: ErrGone},
		"mounted where there was none":   {recorded: directory, now: mounted, want: ErrCovered, says: "tmpfs"},
		"the directory is gone":          {recorded: mounted, now: Identity{Boot: "boot", Namespace: 1}, want: ErrGone},
		"a directory that is gone":       {recorded: directory, now: Identity{Boot: "boot", Namespace: 1}},
		"a directory in another mount":   {recorded: directory, now: Identity{Boot: "boot", Namespace: 1, Mount: 11}, want: ErrAnother},
		"another mount of the same disk": {recorded: mounted, now: with(func(i *Identity) { i.Mount = 11 }), want: ErrAnother},
		"another source": {
			recorded: mounted, now: with(func(i *Identity) { i.Mount, i.Source, i.Device = 11, "nas:/export", "0:50" }),
			want: ErrAnother, says: "nas:/export (device 0:50, mount 11) instead of tmpfs",
		},
		"an ID that was used again":     {recorded: short, now: with(func(i *Identity) { i.Unique, i.Device = false, "0:50" }), want: ErrAnother},
		"another boot":                  {recorded: mounted, now: Identity{Boot: "another"}},
		"a boot that cannot be read":    {recorded: mounted, now: Identity{}},
		"another namespace":             {recorded: mounted, now: with(func(i *Identity) { i.Namespace, i.Mount = 2, 99 })},
		"unmounted, another namespace":  {recorded: mounted, now: Identity{Boot: "boot", Namespace: 2, Mount: 1}, want: ErrGone},
		"mounted, another namespace":    {recorded: directory, now: with(func(i *Identity) { i.Namespace = 2 }), want: ErrCovered},
		"another device and namespace":  {recorded: mounted, now: with(func(i *Identity) { i.Namespace, i.Device = 2, "0:50" }), want: ErrAnother},
		"a directory, seen from there":  {recorded: directory, now: with(func(i *Identity) { i.Namespace, i.Mount, i.Root = 2, 7, false })},
		"the kernel does not give IDs":  {recorded: with(func(i *Identity) { i.Mount = 0 }), now: with(func(i *Identity) { i.Mount = 0 })},
		"the source has another name":   {recorded: mounted, now: with(func(i *Identity) { i.Source = "none" })},
		"a device with the same number": {recorded: mounted, now: with(func(i *Identity) { i.Device = "0:50" })},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.recorded.Check(test.now)
			if test.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, test.want)
			assert.ErrorContains(t, err, test.says)
		})
	}
}

func TestAnIdentitySurvivesItsRecord(t *testing.T) {
	before := Identity{Boot: "b", Namespace: 1<<63 + 1, Mount: 1<<62 + 1, Unique: true, Root: true, Device: "0:1", Source: "s"}
	record, err := json.Marshal(before)
	require.NoError(t, err)
	var after Identity
	require.NoError(t, json.Unmarshal(record, &after))
	assert.Equal(t, before, after)
}

func TestEqual(t *testing.T) {
	assert.True(t, Equal(nil, nil))
	assert.True(t, Equal(&Identity{Mount: 1}, &Identity{Mount: 1}))
	assert.False(t, Equal(&Identity{Mount: 1}, &Identity{Mount: 2}))
	assert.False(t, Equal(&Identity{}, nil))
	assert.False(t, Equal(nil, &Identity{}))
}
