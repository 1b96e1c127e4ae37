// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/volume"
)

// mountsAsked returns the mounts of a container that mounts one writable volume as m says.
func mountsAsked(m v1.VolumeMount, change ...func(*v1.Container, *VolumeStatus)) ([]Mount, error) {
	m.Name = "data"
	c := v1.Container{Name: "main", VolumeMounts: []v1.VolumeMount{m}}
	status := VolumeStatus{Name: "data", Path: "/root/data", State: Mounted}
	for _, f := range change {
		f(&c, &status)
	}
	container := containerStatus(volume.Host{Root: "/root"}, &v1.Pod{}, &c, []VolumeStatus{status})
	return container.Mounts, errors.Join(container.errs()...)
}

func TestAMountReachesTheRuntimeAsTheContainerAskedForIt(t *testing.T) {
	privileged := func(c *v1.Container, _ *VolumeStatus) {
		c.SecurityContext = &v1.SecurityContext{Privileged: ptr.To(true)}
	}
	readOnlyVolume := func(_ *v1.Container, v *VolumeStatus) { v.ReadOnly = true }
	for name, test := range map[string]struct {
		mount   v1.VolumeMount
		change  func(*v1.Container, *VolumeStatus)
		options []string
	}{
		"nothing but a path":        {mount: v1.VolumeMount{}, options: []string{"rbind", "rprivate", "rw"}},
		"read-only":                 {mount: v1.VolumeMount{ReadOnly: true}, options: []string{"rbind", "rprivate", "ro"}},
		"a read-only volume":        {change: readOnlyVolume, options: []string{"rbind", "rprivate", "ro"}},
		"no propagation":            {mount: v1.VolumeMount{MountPropagation: ptr.To(v1.MountPropagationNone)}, options: []string{"rbind", "rprivate", "rw"}},
		"propagation from the host": {mount: v1.VolumeMount{MountPropagation: ptr.To(v1.MountPropagationHostToContainer)}, options: []string{"rbind", "rslave", "rw"}},
		"propagation both ways":     {mount: v1.VolumeMount{MountPropagation: ptr.To(v1.MountPropagationBidirectional)}, change: privileged, options: []string{"rbind", "rshared", "rw"}},
		"bind mount options":        {mount: v1.VolumeMount{BindMountOptions: []string{"noexec", "nosuid", "nodev"}}, options: []string{"rbind", "rprivate", "rw", "noexec", "nosuid", "nodev"}},
		"recursively read-only":     {mount: v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyEnabled)}, options: []string{"rbind", "rprivate", "rro"}},
		"not recursively read-only": {mount: v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyDisabled)}, options: []string{"rbind", "rprivate", "ro"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.mount.MountPath = "/data"
			if test.change == nil {
				test.change = func(*v1.Container, *VolumeStatus) {}
			}
			mounts, err := mountsAsked(test.mount, test.change)
			require.NoError(t, err)
			require.Len(t, mounts, 1)
			assert.Equal(t, specs.Mount{Type: "bind", Source: "/root/data", Destination: "/data", Options: test.options}, mounts[0].OCI())
		})
	}
}

func TestAMountThatCannotBeHadIsRefusedByName(t *testing.T) {
	for name, test := range map[string]struct {
		mount v1.VolumeMount
		kind  error
		says  string
	}{
		"propagation both ways, not privileged":         {v1.VolumeMount{MountPropagation: ptr.To(v1.MountPropagationBidirectional)}, volume.ErrInvalid, "privileged"},
		"unknown propagation":                           {v1.VolumeMount{MountPropagation: ptr.To(v1.MountPropagationMode("Sideways"))}, volume.ErrInvalid, `"Sideways"`},
		"a bind mount option that Kubernetes lacks":     {v1.VolumeMount{BindMountOptions: []string{"noatime"}}, volume.ErrInvalid, `"noatime"`},
		"a bind mount option twice":                     {v1.VolumeMount{BindMountOptions: []string{"nodev", "nodev"}}, volume.ErrInvalid, "twice"},
		"recursively read-only but writable":            {v1.VolumeMount{RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyIfPossible)}, volume.ErrInvalid, "readOnly: true"},
		"recursively read-only with propagation":        {v1.VolumeMount{ReadOnly: true, MountPropagation: ptr.To(v1.MountPropagationHostToContainer), RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyEnabled)}, volume.ErrInvalid, "HostToContainer"},
		"an unknown way of being recursively read-only": {v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyMode("Maybe"))}, volume.ErrInvalid, `"Maybe"`},
	} {
		t.Run(name, func(t *testing.T) {
			test.mount.MountPath = "/data"
			mounts, err := mountsAsked(test.mount)
			require.ErrorIs(t, err, test.kind)
			assert.ErrorContains(t, err, test.says)
			assert.ErrorContains(t, err, `container "main": volume "data" at /data: `)
			assert.Empty(t, mounts)
		})
	}
}

func TestAPathWithoutALeadingSlashIsTakenFromTheContainersRoot(t *testing.T) {
	mounts, err := mountsAsked(v1.VolumeMount{MountPath: "data/../logs"})
	require.NoError(t, err)
	assert.Equal(t, "/logs", mounts[0].Destination)
}

func TestParentsAreMountedBeforeWhatIsMountedInsideThem(t *testing.T) {
	c := v1.Container{VolumeMounts: []v1.VolumeMount{
		{Name: "inner", MountPath: "/a/b/c"}, {Name: "outer", MountPath: "/a"}, {Name: "root", MountPath: "/"}, {Name: "other", MountPath: "/b"},
	}}
	var volumes []VolumeStatus
	for _, m := range c.VolumeMounts {
		volumes = append(volumes, VolumeStatus{Name: m.Name, State: Mounted})
	}
	var order []string
	for _, m := range containerStatus(volume.Host{Root: "/root"}, &v1.Pod{}, &c, volumes).Mounts {
		order = append(order, m.Volume)
	}
	assert.Equal(t, []string{"root", "outer", "other", "inner"}, order)
}

func TestAVolumeThatIsNotSetUpIsNotHandedOut(t *testing.T) {
	for _, state := range []VolumeState{Failed, Pending} {
		mounts, err := mountsAsked(v1.VolumeMount{MountPath: "/data"}, func(_ *v1.Container, v *VolumeStatus) { v.State = state })
		require.NoError(t, err)
		assert.Empty(t, mounts, state)
	}
}

func TestAContainerGetsRawDevicesAsDevicesAndTheRestAsMounts(t *testing.T) {
	volumes := []VolumeStatus{
		{Name: "disk", State: Mounted, Block: true, Path: "/root/pods/u/volumeDevices/p/pv-1"},
		{Name: "rom", State: Mounted, Block: true, Path: "/root/pods/u/volumeDevices/p/pv-2", ReadOnly: true},
		{Name: "files", State: Mounted, Path: "/root/pods/u/volumes/p/pv-3"},
		{Name: "late", State: Pending, Block: true},
	}
	c := v1.Container{Name: "main",
		VolumeDevices: []v1.VolumeDevice{{Name: "rom", DevicePath: "/dev/xvdb"}, {Name: "disk", DevicePath: "/dev/xvda"}, {Name: "files", DevicePath: "/dev/xvdc"}, {Name: "late", DevicePath: "/dev/xvdd"}},
		VolumeMounts:  []v1.VolumeMount{{Name: "disk", MountPath: "/data"}},
	}
	status := containerStatus(volume.Host{}, &v1.Pod{}, &c, volumes)
	assert.Equal(t, []Device{
		{Volume: "rom", Source: "/root/pods/u/volumeDevices/p/pv-2", Destination: "/dev/xvdb", ReadOnly: true},
		{Volume: "disk", Source: "/root/pods/u/volumeDevices/p/pv-1", Destination: "/dev/xvda"},
	}, status.Devices)
	assert.Equal(t, "mr", status.Devices[0].Permissions())
	assert.Equal(t, "mrw", status.Devices[1].Permissions())
	assert.Empty(t, status.Mounts)
	require.Len(t, status.Missing, 3)
	assert.ErrorContains(t, status.Missing[0].Err, "it belongs in volumeDevices")
	assert.ErrorContains(t, status.Missing[1].Err, "it belongs in volumeMounts")
	assert.Equal(t, MissingMount{Volume: "late", Destination: "/dev/xvdd"}, status.Missing[2])
}

func TestASubPathHasAPlaceOfItsOwnThatHasToBePrepared(t *testing.T) {
	mounts, err := mountsAsked(v1.VolumeMount{MountPath: "/data", SubPath: "a/b"})
	require.NoError(t, err)
	assert.Equal(t, []Mount{{Volume: "data", SubPath: "a/b", Source: "/root/pods/volume-subpaths/data/main/0", Destination: "/data",
		Unprepared: true, Propagation: v1.MountPropagationNone}}, mounts)
}
