// SPDX-License-Identifier: Apache-2.0

//go:build peerweight

package main

// Never built: these imports keep in go.mod and go.sum what counting the peer's packages needs.
import (
	_ "k8s.io/kubernetes/pkg/kubelet/volumemanager"
	_ "k8s.io/kubernetes/pkg/volume/nfs"
)
