// SPDX-License-Identifier: Apache-2.0

package mounttable

import "context"

// Watch returns a channel on which there is a value after mounts of the process's mount namespace have come, gone, or been moved or
// remounted: one for all the changes since the last value was received. It is closed after the end of ctx.
//
// Until then it takes one goroutine and a thread, which sleep. Changes are told to each call on its own. On systems other
// than Linux the error matches [errors.ErrUnsupported].
func Watch(ctx context.Context) (<-chan struct{}, error) { return watch(ctx) }
