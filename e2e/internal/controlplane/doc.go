// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs a real API server and its etcd for tests, as children of the test's process that end with it. Their
// programs are built from the module in e2e/controlplane when they are first needed, which takes minutes, and kept in the user's
// cache directory.
package controlplane
