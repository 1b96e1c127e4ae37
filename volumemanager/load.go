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
	var found *podRecord
	var volumes []volumeRecord
	err := s.outside(ctx, func() (err error) {
		found, volumes, err = readPod(s.m.host, s.uid)
		return err
	})
	if err != nil {
		return err
	}
	s.loaded, s.recorded = true, found
	for i := range volumes {
		r := &volumes[i]
		if i := slices.IndexFunc(s.volumes, func(v *managedVolume) bool { return v.id == r.volumeID }); i >= 0 { // abandoned
			s.volumes[i].record = r
			continue
		}
		s.volumes = append(s.volumes, &managedVolume{id: r.volumeID, name: r.Volume, record: r, path: pathOf(s.m.plugins, s.uid, r.volumeID)})
	}
	s.changed = true
	return nil
}

// readPod reads what is recorded of a pod: nil if that is nothing, or is damaged. Then there are records of the volumes that
// are there as directories, which say nothing but their names.
func readPod(host volume.Host, uid types.UID) (*podRecord, []volumeRecord, error) {
	if _, err := os.Lstat(host.PodDir(uid)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err := checkPodLinks(host, uid); err != nil {
		return nil, nil, err
	}
	found, err := readRecord(host, uid)
	switch {
	case err == nil:
		return found, slices.Clone(found.Volumes), nil
	case errors.Is(err, fs.ErrNotExist) && !isRecorded(host, uid):
		return nil, nil, nil
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, record.ErrDamaged):
		return nil, nil, err
	}
	ids, err := directoriesOfVolumes(host, uid)
	if err != nil {
		return nil, nil, fmt.Errorf("list its volumes: %w", err)
	}
	var lost []volumeRecord
	for _, id := range ids {
		lost = append(lost, volumeRecord{volumeID: id, Volume: id.Name})
	}
	return nil, lost, nil
}
