// SPDX-License-Identifier: Apache-2.0

// Package arrows holds no code, only tests that keep the shape of the whole module: which package may import which, how
// much a program links that embeds volumekit, that every exported identifier is documented, and that every file says
// under which licence it is.
package arrows
