// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// peerPackages are what an embedder of the peer imports for the same: plugins, and the manager of a node's volumes. Those
// that the benchmarks do not import are imported in peerweight.go.
var peerPackages = []string{
	"k8s.io/kubernetes/pkg/volume",
	"k8s.io/kubernetes/pkg/volume/emptydir",
	"k8s.io/kubernetes/pkg/volume/hostpath",
	"k8s.io/kubernetes/pkg/volume/nfs",
	"k8s.io/kubernetes/pkg/kubelet/volumemanager",
}

// printWeight writes what a program links that embeds the volume layer: for volumekit that of examples/embed, built here;
// for the peer the packages, counted here, and a size measured once for v1.37.2 since its build takes minutes.
func printWeight(w io.Writer) error {
	peer, err := packages(".", peerPackages...)
	if err != nil {
		return err
	}
	root, err := output(".", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/volumekit/volumekit")
	if err != nil {
		return err
	}
	ours, err := packages(root, "./examples/embed")
	if err != nil {
		return err
	}
	size, err := strippedSize(root, "./examples/embed")
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "| what an embedder links | k8s.io/kubernetes | volumekit | target |")
	fmt.Fprintln(w, "|---|---|---|---|")
	fmt.Fprintf(w, "| packages, with the standard library | %d | %d | under 400 |\n", peer, ours)
	fmt.Fprintf(w, "| binary, stripped | 57.8 MB | %.1f MB | under 15 MB |\n", float64(size)/1e6)
	fmt.Fprintf(w, "| replace lines in go.mod | 33 | 0 | 0 |\n")
	return nil
}

// packages counts the packages that a program with these imports consists of.
func packages(dir string, paths ...string) (int, error) {
	list, err := output(dir, "go", append([]string{"list", "-deps"}, paths...)...)
	return len(strings.Fields(list)), err
}

// strippedSize builds a program without symbols and debug information and returns its size in bytes.
func strippedSize(dir, path string) (int64, error) {
	tmp, err := os.MkdirTemp("", "volumekit-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tmp)
	program := filepath.Join(tmp, "program")
	if _, err := output(dir, "go", "build", "-ldflags=-s -w", "-o", program, path); err != nil {
		return 0, err
	}
	info, err := os.Stat(program)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(exit.Stderr))
	}
	return strings.TrimSpace(string(out)), err
}
