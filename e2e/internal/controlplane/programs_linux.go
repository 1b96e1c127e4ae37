// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// programs builds what is not in the cache, and returns the directory with the programs "kube-apiserver" and "etcd".
func programs() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module of the tests: %w", err)
	}
	module := filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), "controlplane")
	sums, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(append(sums, runtime.Version()+runtime.GOARCH...))
	dir := filepath.Join(cache, "volumekit-e2e", hex.EncodeToString(digest[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Several packages' tests may want them at the same time.
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", dir, err)
	}
	for name, path := range map[string]string{"etcd": "go.etcd.io/etcd/server/v3", "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver"} {
		if err := build(module, path, filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// ldflags give the API server its version, which clients ask for.
const ldflags = "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.2 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37"

func build(module, path, program string) error {
	if _, err := os.Stat(program); err == nil {
		return nil
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", ldflags, "-o", program+".new", path)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", path, err, out)
	}
	return os.Rename(program+".new", program)
}
