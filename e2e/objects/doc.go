// SPDX-License-Identifier: Apache-2.0

// Package objects tests the sources of objects against a real API server.
package objects
