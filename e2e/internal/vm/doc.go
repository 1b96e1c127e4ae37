// SPDX-License-Identifier: Apache-2.0

// Package vm runs programs, most of them tests, in a virtual machine with a Linux kernel of Debian's: for what the kernel of
// the machine itself may not have, or what could break it. The machine is emulated, so no right is needed that takes root.
//
// Kernel, guest programs and emulator are Debian's packages. They are downloaded with apt-get and unpacked into a folder of the
// user's cache directory; nothing is installed. The emulator that is installed, qemu-system-x86_64, is taken if there is one.
// When they have been unpacked once, a guest takes about three seconds to boot.
package vm
