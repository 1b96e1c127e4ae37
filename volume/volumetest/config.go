// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/volume"
)

// Config is what [Run] has to know of a plugin. New and Cases are required.
type Config struct {
	// New returns a new instance of the plugin, not initialised, as a program has it after a restart: it knows nothing
	// that is not on the disk, in the kernel or at a server.
	New func() volume.VolumePlugin

	// Host returns the host for a root, with the sources of objects that the plugin needs. Root itself and what is nil
	// are filled in. Nil stands for a host that has a root only.
	Host func(root string) volume.Host

	// Cases are volumes that the plugin serves: one for each thing that it does differently.
	Cases []Case

	// Invalid are volumes that the plugin supports as far as CanSupport can tell, and that NewMounter refuses.
	Invalid []InvalidCase

	// Unsupported are specs that CanSupport refuses although the plugin lists their source.
	Unsupported []*volume.Spec

	// Canaries are secrets that the host's sources or the specs hold. They must show nowhere but inside the volumes.
	Canaries []string

	// Provision is a claim for which storage is provisioned and deleted, if the plugin can do that. Nil leaves that out.
	Provision *ProvisionCase

	// CallLimit is how long a call may take before it counts as hung. Zero stands for one minute.
	CallLimit time.Duration

	// only picks rules by their names, for the tests of the suite itself. Nil picks all.
	only func(rule string) bool
}

// Case is a volume that the plugin serves. A PersistentVolume of volumeMode Block is tested as a raw block device, and
// any other volume as a directory or file.
type Case struct {
	// Name names the subtest.
	Name string

	// Spec is the volume. It is copied; where a check needs several volumes, the copies have other names.
	Spec *volume.Spec

	// Pod is the pod that uses it. Nil stands for a pod with one container that has limits. Where a check needs several
	// pods, the copies have other names and UIDs.
	Pod *v1.Pod

	// Mounts says that the plugin has to mount for it. Who may not mount skips the case.
	Mounts bool

	// InPlace says that Path is the thing itself, not below the root, as with a host path: it may be there before SetUp,
	// and stays after TearDown.
	InPlace bool

	// Durable says that files outlive the pod: TearDown does not touch them, and after the next SetUp they are there
	// again. InPlace implies it.
	Durable bool

	// NoData says that no data can be written with write(2), as on hugetlbfs, which cannot have symbolic links either: the
	// suite leaves its files empty and makes no links.
	NoData bool

	// ExpandTo is a size that the volume can be grown to, while it is in use. Nil leaves expanding out.
	ExpandTo *resource.Quantity

	// Recyclable says that the volume, a PersistentVolume, may be scrubbed. It leaves recycling out if it is not set.
	Recyclable bool
}

// InvalidCase is a volume that NewMounter refuses before it touches anything.
type InvalidCase struct {
	// Name names the subtest.
	Name string

	// Spec is the volume and Pod the pod that uses it, as in Case.
	Spec *volume.Spec
	Pod  *v1.Pod

	// Mentions are texts that the error has to contain: the name of the field, and the bad value where that helps.
	Mentions []string
}

// ProvisionCase is a claim that can be provisioned.
type ProvisionCase struct {
	// Options are copied. An empty PVName is filled in.
	Options volume.ProvisionOptions

	// Mounts says that the plugin has to mount, to provision or to use what it provisioned.
	Mounts bool

	// InPlace, NoData and ExpandTo are those of the volumes, as in Case. All of them are durable.
	InPlace, NoData bool
	ExpandTo        *resource.Quantity
}

const defaultCallLimit = time.Minute

// complete returns the config with its defaults, or ends the test if something is missing.
func (c Config) complete(t *testing.T) Config {
	t.Helper()
	if c.New == nil {
		t.Fatal("Config.New is not set")
	}
	if len(c.Cases) == 0 {
		t.Fatal("Config.Cases is empty")
	}
	for i, subject := range c.Cases {
		if subject.Name == "" || subject.Spec.Name() == "" {
			t.Fatalf("Config.Cases[%d] has no name, or its volume has none", i)
		}
	}
	for i, subject := range c.Invalid {
		if subject.Name == "" || len(subject.Mentions) == 0 {
			t.Fatalf("Config.Invalid[%d] has no name, or does not say what the error has to mention", i)
		}
	}
	if c.Host == nil {
		c.Host = func(string) volume.Host { return volume.Host{} }
	}
	if c.CallLimit == 0 {
		c.CallLimit = defaultCallLimit
	}
	if c.only == nil {
		c.only = func(string) bool { return true }
	}
	return c
}
