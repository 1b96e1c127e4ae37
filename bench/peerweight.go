// SPDX-License-Identifier: Apache-2.0

//go:build peerweight

package main

// Never built: this import keeps in go.mod and go.sum what counting the peer's packages needs.
import _ "k8s.io/kubernetes/pkg/volume/nfs"
