// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/record"
	"github.com/volumekit/volumekit/volume"
)

// load reads what is recorded of the pod. mu is locked, and unlocked for the I/O.
func (s *settling) load(ctx context.Context) error {
	var left leftPod
	err := s.outside(ctx, func() (err error) {
		left, err = readPod(s.m.host, s.uid)
		return err
	})
	if err != nil {
		return err
	}
	s.loaded, s.recorded, s.marked = true, left.record, left.marked
	for i := range left.volumes {
		r := &left.volumes[i]
		if i := slices.IndexFunc(s.volumes, func(v *managedVolume) bool { return v.id == r.volumeID }); i >= 0 { // abandoned
			s.volumes[i].record = r
			continue
		}
		s.volumes = append(s.volumes, &managedVolume{id: r.volumeID, name: r.Volume, record: r, path: pathOf(s.m.plugins, s.uid, r.volumeID)})
	}
	s.changed = true
	return nil
}

// leftPod is what is on disk of a pod.
type leftPod struct {
	// record is nil if there is none, or it is damaged.
	record *podRecord

	// volumes are those of the record or, if that is damaged, of those that are there as directories: then they say nothing but
	// their names.
	volumes []volumeRecord

	// marked says that there is the record of markLeaving.
	marked bool
}

// readPod reads what is on disk of a pod.
func readPod(host volume.Host, uid types.UID) (leftPod, error) {
	var left leftPod
	if _, err := os.Lstat(host.PodDir(uid)); errors.Is(err, fs.ErrNotExist) {
		return left, nil
	}
	if err := checkPodLinks(host, uid); err != nil {
		return left, err
	}
	left.marked = record.Exists(leavingPath(host, uid))
	found, err := readRecord(host, uid)
	switch {
	case err == nil:
		left.record, left.volumes = found, slices.Clone(found.Volumes)
		return left, nil
	case errors.Is(err, fs.ErrNotExist) && !isRecorded(host, uid):
		return left, nil
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, record.ErrDamaged):
		return left, err
	}
	ids, err := directoriesOfVolumes(host, uid)
	if err != nil {
		return left, fmt.Errorf("list its volumes: %w", err)
	}
	for _, id := range ids {
		left.volumes = append(left.volumes, volumeRecord{volumeID: id, Volume: id.Name})
	}
	return left, nil
}
