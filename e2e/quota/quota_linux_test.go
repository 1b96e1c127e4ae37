// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/volumekit/volumekit/e2e/internal/vm"
)

// image has what makes and mends the file systems.
var image = vm.Image{
	Packages: []string{"e2fsprogs", "xfsprogs", "mount"}, // the last one for losetup
	// For parts of xfsprogs that nobody runs here.
	Without: []string{"python3", "libpython3", "libicu", "libsqlite3", "libssl", "libstdc++", "libkrb5", "dpkg", "tar", "libdb5", "libc6-dev"},
	Modules: []string{"ext4", "xfs", "loop", "quota_v2"},
}

// run runs the tests of a package of volumekit in a machine whose kernel has project quotas, and returns what they wrote.
func run(t *testing.T, pkg string, args ...string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	result := vm.Run(ctx, t, vm.Guest{
		Image:   image,
		Program: vm.TestBinary(ctx, t, pkg, "vm"),
		Args:    append([]string{"-test.v", "-test.timeout=4m"}, args...),
		Disks:   map[string]int64{"ext4": 512 << 20, "xfs": 512 << 20},
	})
	return result.Output
}

func TestProjectQuotas(t *testing.T) { run(t, "./internal/projectquota") }

func TestHardLimits(t *testing.T) {
	// The rest runs on the machine itself. There an ext4 that is mounted may not grow, if a container has no CAP_SYS_RESOURCE.
	run(t, "./internal/hardlimit", "-test.run=Project|AnImageGrows")
}

func TestEmptyDirs(t *testing.T) { run(t, "./emptydir", "-test.run=^TestInAVirtualMachine") }

// TestMountedFileSystemsGrow is here for the capability that it takes, as TestHardLimits.
func TestMountedFileSystemsGrow(t *testing.T) {
	output := run(t, "./internal/filesystem", "-test.run=^TestAMountedFileSystemGrows$/^(ext4|ext3|xfs)$")
	for _, fsType := range []string{"ext4", "ext3", "xfs"} {
		assert.Contains(t, output, "--- PASS: TestAMountedFileSystemGrows/"+fsType)
	}
}
