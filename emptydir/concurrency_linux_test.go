// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestSetUpWhileTheDirectoriesAboveAreRemoved(t *testing.T) {
	for _, medium := range []v1.StorageMedium{"", "Memory"} {
		t.Run(string(medium), func(t *testing.T) {
			if medium != "" {
				begin(t)
			}
			f := newFixture(t, v1.EmptyDirVolumeSource{Medium: medium})
			stop := make(chan struct{})
			var removing sync.WaitGroup
			removing.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					for dir := filepath.Dir(f.path); dir != filepath.Dir(f.host.Root); dir = filepath.Dir(dir) {
						_ = os.Remove(dir)
					}
				}
			})
			for range 50 {
				f.setUp()
				f.tearDown()
			}
			close(stop)
			removing.Wait()
		})
	}
}
