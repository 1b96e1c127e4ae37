// SPDX-License-Identifier: Apache-2.0

package devicemount

import (
	"os"
	"testing"

	"github.com/volumekit/volumekit/internal/mountns"
)

func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }
