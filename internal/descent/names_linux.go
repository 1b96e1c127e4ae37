// SPDX-License-Identifier: Apache-2.0

package descent

import "golang.org/x/sys/unix"

// ReadNames returns the next names in the directory dir, "." and ".." left out, as many as buf has room for, or none at
// its end. A directory that was removed meanwhile is at its end. Reading it goes on where the descriptor stands; see
// [Rewind].
func ReadNames(dir int, buf []byte) ([]string, error) {
	for {
		n, err := getdents(dir, buf)
		if err != nil || n == 0 {
			return nil, err
		}
		// A batch may hold nothing but "." and "..".
		if _, count, names := unix.ParseDirent(buf[:n], -1, nil); count > 0 {
			return names, nil
		}
	}
}

// Rewind lets the next call of ReadNames start at the beginning of the directory.
func Rewind(dir int) error {
	_, err := unix.Seek(dir, 0, unix.SEEK_SET)
	return err
}
