// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Init is the first process of a guest of package vm, which is Linux.
package main

func main() {}
