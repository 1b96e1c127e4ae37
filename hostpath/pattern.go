// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
)

// render replaces the placeholders of a pathPattern and checks the result: a relative path of names, "team-a/data". The
// placeholders are those of nfs-subdir-external-provisioner, and ${.PV.name}. Unlike there, what is not set is an error: to
// replace it by nothing would give many claims the same directory.
func render(pattern, pvName string, claim *v1.PersistentVolumeClaim) (string, error) {
	var b strings.Builder
	for rest := pattern; ; {
		before, after, found := strings.Cut(rest, "${")
		b.WriteString(before)
		if !found {
			break
		}
		placeholder, after, closed := strings.Cut(after, "}")
		if !closed {
			return "", volume.Errorf(volume.ErrInvalid, "pathPattern %q: ${%s has no closing brace", pattern, placeholder)
		}
		value, err := placeholderValue(placeholder, pvName, claim)
		if err != nil {
			return "", volume.Errorf(volume.ErrInvalid, "pathPattern %q: %w", pattern, err)
		}
		b.WriteString(value)
		rest = after
	}
	rendered := b.String()
	for _, element := range strings.Split(rendered, "/") {
		if err := volume.CheckPathElement("path element", element); err != nil {
			return "", volume.Errorf(volume.ErrInvalid, "pathPattern %q gives %.300q, which is no relative path: %w", pattern, rendered, err)
		}
	}
	return rendered, nil
}

func placeholderValue(placeholder, pvName string, claim *v1.PersistentVolumeClaim) (string, error) {
	switch placeholder {
	case ".PV.name":
		return pvName, nil
	case ".PVC.name":
		return claim.Name, nil
	case ".PVC.namespace":
		return claim.Namespace, nil
	}
	if key, ok := strings.CutPrefix(placeholder, ".PVC.labels."); ok {
		return lookUp(claim.Labels, "label", key)
	}
	if key, ok := strings.CutPrefix(placeholder, ".PVC.annotations."); ok {
		return lookUp(claim.Annotations, "annotation", key)
	}
	return "", volume.Errorf(volume.ErrInvalid, "unknown placeholder ${%s}: there are ${.PV.name}, ${.PVC.name}, ${.PVC.namespace}, ${.PVC.labels.KEY} and ${.PVC.annotations.KEY}", placeholder)
}

func lookUp(values map[string]string, what, key string) (string, error) {
	value, ok := values[key]
	if !ok {
		return "", volume.Errorf(volume.ErrInvalid, "the claim has no %s %q", what, key)
	}
	return value, nil
}
