// SPDX-License-Identifier: Apache-2.0

package mountns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// CheckNoMountsLeft fails the test at its end, after the cleanups that it registers from here on, when the mounts of the
// namespace are not those of now. It cannot be used beside t.Parallel: the mounts of another test are in the same namespace.
func CheckNoMountsLeft(t testing.TB) {
	t.Helper()
	before, err := readMountTable()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := before.compare(); err != nil {
			t.Error(err)
		}
	})
}

// mountTable holds mount points. The ID tells a mount from another one at the same place.
type mountTable map[mountKey]struct{}

type mountKey struct {
	id    int
	point string
}

func readMountTable() (mountTable, error) {
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	table := make(mountTable, len(infos))
	for _, info := range infos {
		table[mountKey{info.ID, info.Mountpoint}] = struct{}{}
	}
	return table, nil
}

// compare returns an error that names the mounts that came since, and those in TMPDIR that went. Elsewhere mounts go by
// themselves: the kernel takes one away from every namespace when its mount point is removed in another one.
func (before mountTable) compare() error {
	after, err := readMountTable()
	if err != nil {
		return err
	}
	came, went := after.without(before), before.without(after)
	went = slices.DeleteFunc(went, func(point string) bool { return !strings.HasPrefix(point, os.TempDir()+"/") })
	var errs []error
	if len(came) > 0 {
		errs = append(errs, fmt.Errorf("still mounted: %q", came))
	}
	if len(went) > 0 {
		errs = append(errs, fmt.Errorf("no longer mounted: %q", went))
	}
	return errors.Join(errs...)
}

func (table mountTable) without(other mountTable) []string {
	var points []string
	for key := range table {
		if _, ok := other[key]; !ok {
			points = append(points, key.point)
		}
	}
	slices.Sort(points)
	return points
}

// leftLoopDevices returns an error that names the loop devices whose backing files are, or were, below dir.
func leftLoopDevices(dir string) error {
	// https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-block-loop: the file is there while the device is bound.
	paths, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	var left []string
	for _, path := range paths {
		// One that vanishes while it is read was detached by somebody else.
		backing, err := os.ReadFile(path)
		if err == nil && strings.HasPrefix(string(backing), dir+"/") {
			device := strings.Split(path, "/")[3]
			left = append(left, fmt.Sprintf("/dev/%s (%s)", device, strings.TrimSpace(string(backing))))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("loop devices in use: %s", strings.Join(left, ", "))
	}
	return nil
}

// leftFiles removes dir, or returns an error that names what is in it. It removes nothing inside: that may be a mount.
func leftFiles(dir string) error {
	if os.Remove(dir) == nil {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return fmt.Errorf("files in %s: %q", dir, names)
}
