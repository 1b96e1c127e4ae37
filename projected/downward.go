// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/internal/podfield"
	"github.com/volumekit/volumekit/volume"
)

// downwardPart is fields of the pod as files.
type downwardPart struct {
	field    string
	items    []v1.DownwardAPIVolumeFile
	defaults defaults
}

func (p *downwardPart) references() []volume.Reference { return nil }

func (p *downwardPart) paths() []string {
	paths := make([]string, len(p.items))
	for i := range p.items {
		paths[i] = p.items[i].Path
	}
	return paths
}

func (p *downwardPart) check() error {
	var errs []error
	for i := range p.items {
		item, field := &p.items[i], fmt.Sprintf("%s.items[%d]", p.field, i)
		errs = append(errs, checkMode(field+".mode", item.Mode), checkUser(field+".user", item.User))
		switch {
		case (item.FieldRef == nil) == (item.ResourceFieldRef == nil):
			errs = append(errs, volume.Errorf(volume.ErrInvalid, "%s has not just one of fieldRef and resourceFieldRef", field))
		case item.FieldRef != nil:
			if _, err := podField(&v1.Pod{}, item.FieldRef); err != nil {
				errs = append(errs, fmt.Errorf("%s.fieldRef: %w", field, err))
			}
		default:
			if _, _, err := splitResource(item.ResourceFieldRef.Resource); err != nil {
				errs = append(errs, fmt.Errorf("%s.resourceFieldRef: %w", field, err))
			}
			if item.ResourceFieldRef.ContainerName == "" {
				errs = append(errs, volume.Errorf(volume.ErrInvalid, "%s.resourceFieldRef has no containerName", field))
			}
		}
	}
	return errors.Join(errs...)
}

func (p *downwardPart) collect(ctx context.Context, c *collection) error {
	var errs []error
	for i := range p.items {
		item := &p.items[i]
		var value string
		var err error
		if item.FieldRef != nil {
			value, err = podField(c.pod, item.FieldRef)
		} else {
			value, err = containerResource(ctx, c.host, c.pod, item.ResourceFieldRef)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.items[%d]: %w", p.field, i, err))
			continue
		}
		c.put(path.Clean(item.Path), value, p.defaults.modeOf(item.Mode), p.defaults.userOf(item.User))
	}
	return errors.Join(errs...)
}

// podField returns what a file shows of a field of the pod.
func podField(pod *v1.Pod, ref *v1.ObjectFieldSelector) (string, error) {
	value, ok, err := podfield.Metadata(pod, ref)
	switch {
	case ok || err != nil:
		return value, err
	case ref.FieldPath == "metadata.labels":
		return lines(pod.Labels), nil
	case ref.FieldPath == "metadata.annotations":
		return lines(pod.Annotations), nil
	}
	return "", volume.Errorf(volume.ErrInvalid, "fieldPath %.256q is none that a file can show", ref.FieldPath)
}

// lines writes a map as Kubernetes does: key="value" on lines of their own, in the order of the keys, with Go's quotes.
func lines(of map[string]string) string {
	all := make([]string, 0, len(of))
	for _, key := range slices.Sorted(maps.Keys(of)) {
		all = append(all, key+"="+strconv.Quote(of[key]))
	}
	return strings.Join(all, "\n")
}

// splitResource parts "limits.cpu" into what is asked for and the resource's name.
func splitResource(text string) (limits bool, name v1.ResourceName, err error) {
	which, rest, _ := strings.Cut(text, ".")
	name = v1.ResourceName(rest)
	known := name == v1.ResourceCPU || name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage ||
		strings.HasPrefix(rest, v1.ResourceHugePagesPrefix) && len(rest) > len(v1.ResourceHugePagesPrefix)
	if which != "limits" && which != "requests" || !known {
		return false, "", volume.Errorf(volume.ErrInvalid, "resource %.128q is none that a file can show", text)
	}
	return which == "limits", name, nil
}

// containerResource returns what a file shows of a container's resources, in units of the divisor, rounded up.
func containerResource(ctx context.Context, host volume.Host, pod *v1.Pod, ref *v1.ResourceFieldSelector) (string, error) {
	limits, name, err := splitResource(ref.Resource)
	if err != nil {
		return "", err
	}
	resources, err := resourcesOf(pod, ref.ContainerName)
	if err != nil {
		return "", err
	}
	list := resources.Requests
	if limits {
		list = resources.Limits
	}
	quantity, given := list[name]
	if limits && (!given || quantity.IsZero()) && (name == v1.ResourceCPU || name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage) {
		if quantity, err = allocatable(ctx, host, name); err != nil {
			return "", fmt.Errorf("container %q has no limit of %s, so that the node's counts: %w", ref.ContainerName, name, err)
		}
	}
	return inUnitsOf(name, quantity, ref.Divisor), nil
}

func inUnitsOf(name v1.ResourceName, quantity, divisor resource.Quantity) string {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == v1.ResourceCPU {
		return strconv.FormatInt(int64(math.Ceil(float64(quantity.MilliValue())/float64(divisor.MilliValue()))), 10)
	}
	return strconv.FormatInt(int64(math.Ceil(float64(quantity.Value())/float64(divisor.Value()))), 10)
}

// allocatable returns how much of a resource the node has for pods.
func allocatable(ctx context.Context, host volume.Host, name v1.ResourceName) (resource.Quantity, error) {
	if host.Nodes == nil {
		return resource.Quantity{}, volume.Errorf(volume.ErrNotSupported, "the host has no source of nodes")
	}
	node, err := host.Nodes.Node(ctx, host.NodeName)
	if err == nil && node == nil {
		err = errNothing
	}
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("get node %q: %w", host.NodeName, err)
	}
	return node.Status.Allocatable[name], nil
}

func resourcesOf(pod *v1.Pod, container string) (*v1.ResourceRequirements, error) {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == container {
			return &pod.Spec.Containers[i].Resources, nil
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == container {
			return &pod.Spec.InitContainers[i].Resources, nil
		}
	}
	return nil, volume.Errorf(volume.ErrInvalid, "the pod has no container %.63q", container)
}
