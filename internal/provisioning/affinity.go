// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
)

// NodeAffinity returns what binds a volume to this node: nil if the node has no name. It refuses another node that was selected, and
// allowedTopologies of the class that leave this one out.
func NodeAffinity(ctx context.Context, host volume.Host, options volume.ProvisionOptions) (*v1.VolumeNodeAffinity, error) {
	labels, err := nodeLabels(ctx, host, options.SelectedNode)
	if err != nil {
		return nil, err
	}
	if err := checkTopologies(options.Class.AllowedTopologies, labels); err != nil {
		return nil, fmt.Errorf("StorageClass %s: %w", options.Class.Name, err)
	}
	if labels == nil {
		return nil, nil
	}
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{
			Key:      v1.LabelHostname,
			Operator: v1.NodeSelectorOpIn,
			Values:   []string{labels[v1.LabelHostname]},
		}},
	}}}}, nil
}

// nodeLabels returns the labels of this node as far as they can be known, the host name always; nil if the node has no
// name. selected is the node that was chosen for the volume, which must be this one; nil if none was.
func nodeLabels(ctx context.Context, host volume.Host, selected *v1.Node) (map[string]string, error) {
	name := host.NodeName
	switch {
	case selected != nil && name == "":
		return nil, volume.Errorf(volume.ErrInvalid, "node %s was selected, but this node has no name: set volume.Host.NodeName", selected.Name)
	case selected != nil && selected.Name != string(name):
		return nil, volume.Errorf(volume.ErrInvalid, "node %s was selected, but volumes are made on this node, %s", selected.Name, name)
	case name == "":
		return nil, nil
	case selected == nil && host.Nodes != nil:
		node, err := host.Nodes.Node(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("look up the labels of node %s: %w", name, err)
		}
		selected = node
	}
	labels := map[string]string{v1.LabelHostname: string(name)}
	if selected != nil {
		maps.Copy(labels, selected.Labels)
	}
	return labels, nil
}

// checkTopologies refuses a node with the labels unless one of the terms holds. No terms allow every node.
func checkTopologies(terms []v1.TopologySelectorTerm, labels map[string]string) error {
	if len(terms) == 0 || slices.ContainsFunc(terms, func(term v1.TopologySelectorTerm) bool { return topologyMatches(term, labels) }) {
		return nil
	}
	return volume.Errorf(volume.ErrInvalid, "allowedTopologies leave out this node, as far as its labels are known: %v", labels)
}

func topologyMatches(term v1.TopologySelectorTerm, labels map[string]string) bool {
	for _, requirement := range term.MatchLabelExpressions {
		value, known := labels[requirement.Key]
		if !known || !slices.Contains(requirement.Values, value) {
			return false
		}
	}
	return true
}

// CheckNode refuses a volume that is on another node.
func CheckNode(ctx context.Context, host volume.Host, pv *v1.PersistentVolume) error {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	labels, err := nodeLabels(ctx, host, nil)
	if err != nil {
		return err
	}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			if e.Key == v1.LabelHostname && e.Operator == v1.NodeSelectorOpIn && slices.Contains(e.Values, labels[v1.LabelHostname]) {
				return nil
			}
		}
	}
	return volume.Errorf(volume.ErrInvalid, "its node affinity is not that of a volume of this node, %q", labels[v1.LabelHostname])
}
