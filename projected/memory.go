// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/atomicwriter"
)

// memory is what a plugin remembers of its volumes, from one SetUp to the next. It is lost when the process ends.
type memory struct {
	mu      sync.Mutex
	volumes map[volumeKey]*remembered
}

type volumeKey struct {
	pod  types.UID
	name string
}

// remembered is what is remembered of one volume, of which calls never overlap.
type remembered struct {
	// payload is what was written, and directory where.
	payload     atomicwriter.Payload
	directories atomicwriter.Directories
	directory   string

	// credentials are by their place in the volume's sources.
	credentials map[int]*credential
}

// credential is something that is issued, and expires.
type credential struct {
	// of is what it was issued for: another request needs another one.
	of any

	files     map[string]string // what the files show, by the field that names them
	expires   time.Time
	renewFrom time.Time
}

// of returns what is remembered of a volume, which begins to be.
func (m *memory) of(key volumeKey) *remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.volumes == nil {
		m.volumes = make(map[volumeKey]*remembered)
	}
	if m.volumes[key] == nil {
		m.volumes[key] = &remembered{credentials: make(map[int]*credential)}
	}
	return m.volumes[key]
}

func (m *memory) forget(key volumeKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.volumes, key)
}
