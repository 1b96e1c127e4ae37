// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"github.com/volumekit/volumekit/volume/volumetest"
)

func TestMain(m *testing.M) { os.Exit(volumetest.Main(m)) }
