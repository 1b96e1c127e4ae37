// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"io/fs"
	"math"
	"runtime"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/volume"
)

// request is what a source and its pod ask for, checked.
type request struct {
	// medium is one of v1.StorageMediumDefault, v1.StorageMediumMemory and v1.StorageMediumHugePages.
	medium v1.StorageMedium

	// pageSize is that of the huge pages, in bytes.
	pageSize int64

	// size is the least that bounds the volume, in bytes; 0 if nothing does.
	size int64

	// mode is the permissions without those that an fsGroup adds, the bits of stat(2).
	mode uint32
}

func newRequest(source *v1.EmptyDirVolumeSource, pod *v1.Pod) (request, error) {
	wanted := request{medium: source.Medium, mode: 0o777}
	var err error
	switch {
	case source.Medium == v1.StorageMediumDefault:
	case source.Medium == v1.StorageMediumMemory:
		wanted.mode = 0o1777 // what the kernel gives a tmpfs
	case source.Medium == v1.StorageMediumHugePages,
		strings.HasPrefix(string(source.Medium), string(v1.StorageMediumHugePagesPrefix)):
		wanted.medium = v1.StorageMediumHugePages
		wanted.pageSize, err = hugePageSize(source.Medium, pod)
	default:
		err = volume.Errorf(volume.ErrInvalid,
			`emptyDir.medium is %.64q: there are "", "Memory", "HugePages" and "HugePages-<size>"`, source.Medium)
	}
	if err != nil {
		return request{}, err
	}
	if wanted.medium != v1.StorageMediumDefault && !haveMounts {
		return request{}, volume.Errorf(volume.ErrNotSupported,
			"emptyDir.medium %q is not supported on %s", source.Medium, runtime.GOOS)
	}
	if wanted.size, err = sizeOf(source, wanted, pod); err != nil {
		return request{}, err
	}
	if err := wanted.applyMode(source.Mode); err != nil {
		return request{}, err
	}
	return wanted, nil
}

// sizeOf returns the size in bytes that bounds the volume, 0 for none.
func sizeOf(source *v1.EmptyDirVolumeSource, wanted request, pod *v1.Pod) (int64, error) {
	var size int64
	if source.SizeLimit != nil {
		if source.SizeLimit.Sign() < 0 {
			return 0, volume.Errorf(volume.ErrInvalid, "emptyDir.sizeLimit is negative: %s", source.SizeLimit)
		}
		size = bytesOf(*source.SizeLimit)
	}
	switch wanted.medium {
	case v1.StorageMediumMemory:
		if limit := podMemoryLimit(pod); limit > 0 && (size == 0 || limit < size) {
			size = limit
		}
	case v1.StorageMediumHugePages:
		// The kernel would round down, to no pages at all for a limit of less than one.
		size = roundUp(size, wanted.pageSize)
	}
	return size, nil
}

// applyMode checks and takes over emptyDir.mode.
func (r *request) applyMode(mode *int32) error {
	switch {
	case mode == nil:
		return nil
	case *mode < 0 || *mode > 0o1777:
		return volume.Errorf(volume.ErrInvalid, "emptyDir.mode is %#o: it has to be between 0 and 01777", *mode)
	case runtime.GOOS == "windows":
		return volume.Errorf(volume.ErrNotSupported, "emptyDir.mode has no effect on Windows")
	}
	r.mode = uint32(*mode)
	return nil
}

// ownership is who owns the volume's directory and what its permissions are.
type ownership struct {
	mode uint32 // the bits of stat(2)
	gid  int64  // the group, noGroup for that of the process
}

const noGroup = -1

// fsGroupMode is added to the permissions of a directory whose group is the pod's fsGroup: read, write and search for
// the owner and the group, and the group goes over to what is made in it. It is the kubelet's.
const fsGroupMode = 0o2770

// ownership returns what fsGroup, if it is not nil, makes of the request.
func (r request) ownership(fsGroup *int64) (ownership, error) {
	if fsGroup == nil {
		return ownership{mode: r.mode, gid: noGroup}, nil
	}
	// The upper bound is that of the API. Beyond it lie numbers with which chown(2) changes nothing.
	if *fsGroup < 0 || *fsGroup > math.MaxInt32 {
		return ownership{}, volume.Errorf(volume.ErrInvalid,
			"fsGroup is %d: it has to be between 0 and %d", *fsGroup, math.MaxInt32)
	}
	return ownership{mode: r.mode | fsGroupMode, gid: *fsGroup}, nil
}

// fileMode returns the permissions as package os takes them.
func (o ownership) fileMode() fs.FileMode {
	mode := fs.FileMode(o.mode & 0o777)
	if o.mode&0o1000 != 0 {
		mode |= fs.ModeSticky
	}
	if o.mode&0o2000 != 0 {
		mode |= fs.ModeSetgid
	}
	return mode
}

// bytesOf returns the quantity in bytes, rounded up, and the largest number there is for a larger quantity.
func bytesOf(quantity resource.Quantity) int64 {
	if quantity.CmpInt64(math.MaxInt64) >= 0 {
		return math.MaxInt64
	}
	return quantity.Value()
}

// roundUp returns the least multiple of unit that is not less than size, and the greatest one that there is for a larger
// size.
func roundUp(size, unit int64) int64 {
	if size > math.MaxInt64-unit {
		return math.MaxInt64 / unit * unit
	}
	return (size + unit - 1) / unit * unit
}
