// SPDX-License-Identifier: Apache-2.0

package mountns

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// OrdinaryUser is the user and group that root becomes for [AsOrdinaryUser]: nobody.
const OrdinaryUser = 65534

// AsOrdinaryUser runs a test, of which it is all, without the rights of root. Root runs the test binary once more for that,
// as nobody, in a directory and with a TMPDIR of its own, which prepare may fill as root before they become nobody's.
func AsOrdinaryUser(t *testing.T, test func(*testing.T), prepare ...func(t *testing.T, dir string)) {
	t.Helper()
	if os.Geteuid() != 0 {
		test(t)
		return
	}
	dir := t.TempDir()
	for _, above := range []string{filepath.Dir(dir), os.TempDir()} {
		if err := os.Chmod(above, 0o711); err != nil { // to get there
			t.Fatal(err)
		}
	}
	for _, p := range prepare {
		p(t, dir)
	}
	if err := os.Chown(dir, OrdinaryUser, OrdinaryUser); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: OrdinaryUser, Gid: OrdinaryUser}}
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as an ordinary user: %v\n%s", err, output)
	}
	if !strings.Contains(string(output), "--- PASS: "+t.Name()) {
		t.Fatalf("as an ordinary user it did not run:\n%s", output)
	}
}
