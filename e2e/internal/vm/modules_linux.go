// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// always are the modules that every guest needs for its disks.
var always = []string{"virtio_pci", "virtio_blk"}

// modulesOf returns the files of the modules, each after those that it depends on, from a folder with an unpacked kernel.
func modulesOf(ctx context.Context, root string, names []string) ([]string, error) {
	files, builtIn := map[string]string{}, map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, "lib", "modules"), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.Name() == "modules.builtin":
			content, err := os.ReadFile(path)
			for line := range strings.Lines(string(content)) {
				builtIn[moduleName(strings.TrimSpace(line))] = true
			}
			return err
		case strings.Contains(entry.Name(), ".ko"):
			files[moduleName(path)] = path
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var ordered []string
	var add func(name string) error
	add = func(name string) error {
		name = strings.ReplaceAll(name, "-", "_")
		if builtIn[name] {
			return nil
		}
		path, ok := files[name]
		if !ok {
			return fmt.Errorf("there is no kernel module %q", name)
		}
		if compressed := strings.HasSuffix(path, ".xz"); compressed {
			if _, err := run(ctx, root, "xz", "--decompress", path); err != nil {
				return err
			}
			path = strings.TrimSuffix(path, ".xz")
			files[name] = path
		}
		if slices.Contains(ordered, path) {
			return nil
		}
		needs, err := dependencies(path)
		if err != nil {
			return err
		}
		for _, need := range needs {
			if err := add(need); err != nil {
				return err
			}
		}
		ordered = append(ordered, path)
		return nil
	}
	for _, name := range slices.Concat(always, names) {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return ordered, nil
}

func moduleName(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	return strings.ReplaceAll(name, "-", "_")
}

// dependencies reads what a module says of itself: NAME=VALUE, with a zero after each.
func dependencies(path string) ([]string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("kernel module %s: %w", path, err)
	}
	defer func() { _ = file.Close() }()
	section := file.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("kernel module %s has no .modinfo", path)
	}
	content, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("kernel module %s: %w", path, err)
	}
	for info := range strings.SplitSeq(string(content), "\x00") {
		if list, ok := strings.CutPrefix(info, "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}
