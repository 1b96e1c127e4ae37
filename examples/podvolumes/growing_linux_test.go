// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/mountns"
)

// TestAnExt4GrowsWhileItsPodIsGone needs nothing that a container may lack: a mounted ext4 takes CAP_SYS_RESOURCE to grow.
func TestAnExt4GrowsWhileItsPodIsGone(t *testing.T) {
	mountns.RequirePrivate(t)
	root := t.TempDir()
	database := strings.Replace(readFile(t, "database.yaml"), "{fsType: xfs}", "{fsType: ext4}", 1)
	requireWell(t, database, "up", "-f", "-", "-root", root)
	size := func() string { return inPod(t, root, "db-0", "df --output=size -B1M /var/lib/db | tail -n1") }
	before := size()
	requireWell(t, "", "down", "-all", "-root", root)
	grown := strings.Replace(database, "storage: 512Mi", "storage: 768Mi", 1)
	requireWell(t, grown, "up", "-f", "-", "-root", root)
	assert.Less(t, before, size())
	requireWell(t, "", "down", "-all", "-claims", "-root", root)
	requireNoFile(t, root)
	requireNoLoopDevice(t, root)
}

func TestAVolumeThatMustNotGrowIsServedAsItIs(t *testing.T) {
	mountns.RequirePrivate(t)
	root := t.TempDir()
	database := strings.Replace(readFile(t, "database.yaml"), "allowVolumeExpansion: true\n", "", 1)
	first := volumesOf(t, requireWell(t, database, "up", "-f", "-", "-o", "json", "-root", root))
	requireWell(t, "", "down", "-all", "-root", root)
	grown := strings.Replace(database, "storage: 512Mi", "storage: 768Mi", 1)
	status, out, complaints := podvolumes(t, grown, "up", "-f", "-", "-o", "json", "-root", root)
	require.Equal(t, notServed, status)
	assert.Contains(t, complaints, "does not allow to expand it")
	assert.Equal(t, first, volumesOf(t, out))
	requireWell(t, "", "down", "-all", "-claims", "-root", root)
	requireNoFile(t, root)
}
