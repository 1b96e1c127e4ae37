// SPDX-License-Identifier: Apache-2.0

package volume_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// changeablePlugin can change what it says of itself.
type changeablePlugin struct {
	*volumetest.FakePlugin
	sources func() []volume.Source
}

func (p changeablePlugin) Sources() []volume.Source { return p.sources() }

func TestSourcesAreAskedForOnceAndWithoutALock(t *testing.T) {
	mgr := newManager(t, nil)
	asked := 0
	plugin := changeablePlugin{serving("example.com/plugin"), func() []volume.Source {
		if asked++; asked > 1 {
			return []volume.Source{{Type: 250}}
		}
		// A manager that asked under its lock would hang.
		assert.ErrorIs(t, mgr.Unregister("example.com/absent"), volume.ErrNotFound)
		return []volume.Source{{Type: volume.SourceEmptyDir}}
	}}
	require.NoError(t, mgr.Register(t.Context(), plugin))
	require.NoError(t, mgr.Register(t.Context(), serving("example.com/other", csi("other"))))
	found, err := mgr.FindPluginBySpec(emptyDir())
	require.NoError(t, err)
	assert.Equal(t, "example.com/plugin", found.Name())
	assert.Equal(t, 1, asked)
}

func TestAPluginThatListsASourceTwiceIsOnePlugin(t *testing.T) {
	for _, sources := range [][]volume.Source{{csi("one"), csi("one")}, {csi(""), csi("one")}, {csi("one"), csi(""), csi("")}} {
		plugin := serving("example.com/plugin", sources...)
		found, err := newManager(t, []volume.VolumePlugin{plugin}).FindPluginBySpec(csiSpec("one"))
		require.NoError(t, err)
		assert.Same(t, plugin, found)
	}
}

func TestRegisterRefusesWhatCannotBe(t *testing.T) {
	for name, plugin := range map[string]volume.VolumePlugin{
		"no plugin":                                nil,
		"a driver of a source that has none":       serving("example.com/plugin", volume.Source{Type: volume.SourceNFS, Driver: "driver"}),
		"a name that leads to the directory above": serving("example.com/.."),
		"a name that leads to the same directory":  serving("example.com/."),
	} {
		err := newManager(t, nil).Register(t.Context(), plugin)
		assert.ErrorIs(t, err, volume.ErrInvalid, name)
	}
}
