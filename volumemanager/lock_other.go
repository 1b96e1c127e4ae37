// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package volumemanager

import (
	"context"
	"os"
)

// lockRoot only opens the directory: there is no lock on directories here.
func lockRoot(_ context.Context, root string, _ bool) (*os.File, error) {
	return os.Open(root)
}
