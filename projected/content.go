// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/volumekit/volumekit/internal/atomicwriter"
	"github.com/volumekit/volumekit/volume"
)

// content is where the files of a volume come from.
type content struct {
	parts []part
}

// part is one of the sources of a volume.
type part interface {
	// check returns an error if the part asks for what cannot be.
	check() error

	// paths lists those files whose path stands in the part itself.
	paths() []string

	// references lists the objects that the part depends on.
	references() []volume.Reference

	// collect adds the part's files. What the host does not have shows only here: whether a volume is there can be asked without.
	collect(context.Context, *collection) error
}

// newContent returns the content of a volume. The error matches [volume.ErrInvalid] or [volume.ErrNotSupported] and names the field
// that cannot be served.
func newContent(pod *v1.Pod, source *v1.VolumeSource) (*content, error) {
	c := &content{}
	var err error
	switch {
	case source.ConfigMap != nil:
		s := source.ConfigMap
		c.parts = []part{newConfigMapPart("configMap", pod.Namespace, s.Name, s.Items, s.Optional, defaults{s.DefaultMode, s.DefaultUser})}
		err = checkDefaults("configMap", defaults{s.DefaultMode, s.DefaultUser})
	case source.Secret != nil:
		s := source.Secret
		c.parts = []part{newSecretPart("secret", pod.Namespace, s.SecretName, s.Items, s.Optional, defaults{s.DefaultMode, s.DefaultUser})}
		err = checkDefaults("secret", defaults{s.DefaultMode, s.DefaultUser})
	case source.DownwardAPI != nil:
		s := source.DownwardAPI
		c.parts = []part{&downwardPart{field: "downwardAPI", items: s.Items, defaults: defaults{s.DefaultMode, s.DefaultUser}}}
		err = checkDefaults("downwardAPI", defaults{s.DefaultMode, s.DefaultUser})
	case source.Projected != nil:
		c.parts, err = projectedParts(pod, source.Projected)
	}
	errs := []error{err}
	for _, p := range c.parts {
		errs = append(errs, p.check())
	}
	return c, errors.Join(append(errs, c.checkPaths(source.Projected != nil))...)
}

func projectedParts(pod *v1.Pod, source *v1.ProjectedVolumeSource) ([]part, error) {
	def := defaults{source.DefaultMode, source.DefaultUser}
	errs := []error{checkDefaults("projected", def)}
	var parts []part
	for i := range source.Sources {
		field := fmt.Sprintf("projected.sources[%d]", i)
		s := &source.Sources[i]
		var found []part
		if p := s.Secret; p != nil {
			found = append(found, newSecretPart(field+".secret", pod.Namespace, p.Name, p.Items, p.Optional, def))
		}
		if p := s.ConfigMap; p != nil {
			found = append(found, newConfigMapPart(field+".configMap", pod.Namespace, p.Name, p.Items, p.Optional, def))
		}
		if p := s.DownwardAPI; p != nil {
			found = append(found, &downwardPart{field: field + ".downwardAPI", items: p.Items, defaults: def})
		}
		if p := s.ServiceAccountToken; p != nil {
			found = append(found, &tokenPart{field: field + ".serviceAccountToken", index: i, source: p, defaults: def})
		}
		if p := s.ClusterTrustBundle; p != nil {
			found = append(found, &trustBundlePart{field: field + ".clusterTrustBundle", source: p, defaults: def})
		}
		if p := s.PodCertificate; p != nil {
			found = append(found, &certificatePart{field: field + ".podCertificate", index: i, source: p, defaults: def})
		}
		if len(found) != 1 {
			errs = append(errs, volume.Errorf(volume.ErrInvalid, "%s has %d sources that Kubernetes 1.37 knows, not one", field, len(found)))
		}
		parts = append(parts, found...)
	}
	return parts, errors.Join(errs...)
}

// checkPaths reports paths that no file can have and, among several sources, paths that two files have.
func (c *content) checkPaths(unique bool) error {
	var errs []error
	seen := make(map[string]bool)
	for _, p := range c.parts {
		for _, path := range p.paths() {
			if err := atomicwriter.CheckPath(path); err != nil {
				errs = append(errs, volume.Errorf(volume.ErrInvalid, "%w", err))
			} else if seen[path] && unique {
				errs = append(errs, volume.Errorf(volume.ErrInvalid, "two sources have the path %.256q", path))
			}
			seen[path] = true
		}
	}
	return errors.Join(errs...)
}

func (c *content) references() []volume.Reference {
	var all []volume.Reference
	for _, p := range c.parts {
		all = append(all, p.references()...)
	}
	return all
}

// collect collects the files of all parts. If several cannot be had, the error joins what is wrong with each.
func (c *content) collect(ctx context.Context, into *collection) error {
	var errs []error
	for _, p := range c.parts {
		errs = append(errs, p.collect(ctx, into))
	}
	return errors.Join(errs...)
}

// collection is the files of a volume, as they are collected.
type collection struct {
	host        volume.Host
	pod         *v1.Pod
	dir         string // the volume, which may not be there yet
	options     volume.SetUpOptions
	credentials map[int]*credential
	files       atomicwriter.Payload
	refreshTime time.Time
}

// put adds a file. With the pod's fsGroup the group can read it.
func (c *collection) put(path, data string, mode fs.FileMode, user *int64) {
	file := atomicwriter.File{Data: data, Mode: mode, User: user}
	if group := c.options.FSGroup; group != nil {
		file.Group = group
		file.Mode |= 0o440
	}
	c.files[path] = file
}

// putPrivate adds a file that, unlike others, is only for the user whom all containers run as, if there is one.
func (c *collection) putPrivate(path, data string, d defaults, user *int64) {
	if user = d.userOf(user); user == nil {
		user = commonUser(c.pod)
	}
	mode := d.modeOf(nil)
	if user != nil || c.options.FSGroup != nil {
		mode = 0o600
	}
	c.put(path, data, mode, user)
}

// refreshAt notes that something has to be renewed.
func (c *collection) refreshAt(at time.Time) {
	if c.refreshTime.IsZero() || at.Before(c.refreshTime) {
		c.refreshTime = at
	}
}

// defaults are for the files that do not say themselves.
type defaults struct {
	mode *int32
	user *int64
}

// kubernetesMode is the mode of files if nothing says otherwise.
const kubernetesMode = 0o644

func (d defaults) modeOf(mode *int32) fs.FileMode {
	switch {
	case mode != nil:
		return fs.FileMode(*mode)
	case d.mode != nil:
		return fs.FileMode(*d.mode)
	}
	return kubernetesMode
}

func (d defaults) userOf(user *int64) *int64 {
	if user != nil {
		return user
	}
	return d.user
}

func checkDefaults(field string, d defaults) error {
	return errors.Join(checkMode(field+".defaultMode", d.mode), checkUser(field+".defaultUser", d.user))
}

func checkMode(field string, mode *int32) error {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		return volume.Errorf(volume.ErrInvalid, "%s %#o is not between 0 and 0777", field, *mode)
	}
	return nil
}

func checkUser(field string, user *int64) error {
	if user == nil {
		return nil
	}
	if problems := validation.IsValidUserID(*user); len(problems) > 0 {
		return volume.Errorf(volume.ErrInvalid, "%s %d: %s", field, *user, strings.Join(problems, "; "))
	}
	return nil
}

// commonUser returns the user whom all containers of the pod run as, nil if they differ or one does not say.
func commonUser(pod *v1.Pod) *int64 {
	var common *int64
	first, alike := true, true
	visit := func(security *v1.SecurityContext) {
		var user *int64
		switch {
		case security != nil && security.RunAsUser != nil:
			user = security.RunAsUser
		case pod.Spec.SecurityContext != nil:
			user = pod.Spec.SecurityContext.RunAsUser
		}
		alike = alike && user != nil && (first || *user == *common)
		common, first = user, false
	}
	for i := range pod.Spec.InitContainers {
		visit(pod.Spec.InitContainers[i].SecurityContext)
	}
	for i := range pod.Spec.Containers {
		visit(pod.Spec.Containers[i].SecurityContext)
	}
	for i := range pod.Spec.EphemeralContainers {
		visit(pod.Spec.EphemeralContainers[i].SecurityContext)
	}
	if !alike {
		return nil
	}
	return common
}
