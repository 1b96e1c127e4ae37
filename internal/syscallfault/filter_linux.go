// SPDX-License-Identifier: Apache-2.0

package syscallfault

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The offsets in struct seccomp_data. The lower half of an argument comes first: all supported machines are little-endian.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// instructions returns the filter that has the kernel tell of the changes, as an array of struct sock_filter. It lets
// everything else happen, also the calls of another architecture.
func instructions(changes []change) []byte {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	// skipUnless jumps over n instructions unless the comparison with k is true.
	skipUnless := func(comparison uint16, k uint32, n uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | comparison | unix.BPF_K, K: k, Jf: n}
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	tell := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF}

	filter := []unix.SockFilter{
		load(offsetArch),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: auditArch, Jt: 1},
		allow,
		load(offsetNumber),
	}
	for _, c := range changes {
		var body []unix.SockFilter
		compare := func(comparison uint16, k uint32) { body = append(body, skipUnless(comparison, k, 1), tell) }
		switch {
		case c.when.anyOf != 0:
			compare(unix.BPF_JSET, c.when.anyOf)
		case c.when.above != 0:
			compare(unix.BPF_JGT, c.when.above)
		default:
			for _, value := range c.when.values {
				compare(unix.BPF_JEQ, value)
			}
		}
		if body == nil {
			body = []unix.SockFilter{tell}
		} else {
			body = append([]unix.SockFilter{load(offsetArgs + 8*uint32(c.when.arg))}, append(body, allow)...)
		}
		filter = append(filter, skipUnless(unix.BPF_JEQ, c.number, uint8(len(body))))
		filter = append(filter, body...)
	}
	filter = append(filter, allow)
	return unsafe.Slice((*byte)(unsafe.Pointer(&filter[0])), len(filter)*int(unsafe.Sizeof(filter[0])))
}
