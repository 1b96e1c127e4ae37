// SPDX-License-Identifier: Apache-2.0

package blockmap

import (
	"os"
	"testing"

	"github.com/volumekit/volumekit/internal/mountns"
)

func TestMain(m *testing.M) {
	if isProgram() {
		os.Exit(program())
	}
	os.Exit(mountns.Main(m))
}
