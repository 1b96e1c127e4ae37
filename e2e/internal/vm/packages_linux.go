// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// packages downloads Debian packages, of the release that the machine's apt-get is set up for, without regard to what is
// installed.
type packages struct {
	dir     string
	updated bool
}

// get runs apt-get, or another of apt's programs, in a folder, with state and cache of our own.
func (p *packages) get(ctx context.Context, dir, program string, args ...string) ([]byte, error) {
	if _, err := exec.LookPath(program); err != nil {
		return nil, fmt.Errorf("%w: %w (the packages are Debian's)", ErrUnavailable, err)
	}
	options := []string{
		"-q=2",
		"-o", "Dir::State=" + filepath.Join(p.dir, "state"),
		"-o", "Dir::Cache=" + filepath.Join(p.dir, "cache"),
		"-o", "Dir::State::status=/dev/null",
		"-o", "APT::Sandbox::User=root",
		"-o", "APT::Install-Recommends=false",
		"-o", "Acquire::Languages=none",
		"-o", "Acquire::Retries=3",
	}
	return run(ctx, dir, program, append(options, args...)...)
}

// update fetches the lists of what there is, once.
func (p *packages) update(ctx context.Context) error {
	if p.updated {
		return nil
	}
	for _, dir := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(p.dir, dir), 0o755); err != nil {
			return err
		}
	}
	if _, err := p.get(ctx, p.dir, "apt-get", "update"); err != nil {
		return err
	}
	p.updated = true
	return nil
}

// clean removes what was downloaded.
func (p *packages) clean() { _ = os.RemoveAll(p.dir) }

// unpack unpacks packages, and all that they depend on, into the folder root.
func (p *packages) unpack(ctx context.Context, root string, names, without []string) error {
	if len(names) == 0 {
		return nil
	}
	if err := p.update(ctx); err != nil {
		return err
	}
	// What is downloaded for one image is of no use to another one: the list has to be its own.
	out, err := p.get(ctx, p.dir, "apt-get", append([]string{"--yes", "--print-uris", "install"}, names...)...)
	if err != nil {
		return err
	}
	var wanted []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line) // 'URI' file size checksum
		if len(fields) < 3 || !strings.HasSuffix(fields[1], ".deb") {
			continue
		}
		name, _, _ := strings.Cut(fields[1], "_")
		if !slices.ContainsFunc(without, func(beginning string) bool { return strings.HasPrefix(name, beginning) }) {
			wanted = append(wanted, name)
		}
	}
	return p.unpackOnly(ctx, root, wanted)
}

// unpackOnly unpacks packages without what they depend on.
func (p *packages) unpackOnly(ctx context.Context, root string, names []string) error {
	folder, err := os.MkdirTemp(p.dir, "debs")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if _, err := p.get(ctx, folder, "apt-get", append([]string{"download"}, names...)...); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(folder, "*.deb"))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if _, err := run(ctx, root, "dpkg-deb", "--extract", archive, root); err != nil {
			return err
		}
	}
	return nil
}

// unpackKernel unpacks the newest kernel for virtual machines, with its modules.
func (p *packages) unpackKernel(ctx context.Context, root string) error {
	if err := p.update(ctx); err != nil {
		return err
	}
	out, err := p.get(ctx, p.dir, "apt-cache", "depends", "linux-image-cloud-amd64")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		if _, name, ok := strings.Cut(strings.TrimSpace(line), "Depends: "); ok {
			return p.unpackOnly(ctx, root, []string{name})
		}
	}
	return fmt.Errorf("apt-cache names no kernel: %s", out)
}

// run runs a program in a folder, and returns what it writes on its standard output.
func run(ctx context.Context, dir, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s%s", program, strings.Join(args, " "), err, out, errs.Bytes())
	}
	return out, nil
}
