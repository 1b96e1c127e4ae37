// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/volumekit/volumekit/volume"
)

// claimReference is the claim that a volume of a pod stands for.
type claimReference struct {
	// Name is the claim's, in the pod's namespace.
	Name string

	// ReadOnly is what the pod says of the claim.
	ReadOnly bool

	// Ephemeral says that the claim was made for this volume of the pod, from a template.
	Ephemeral bool
}

// claimOf returns the claim that a volume of the pod stands for, nil if it stands for itself.
func claimOf(pod *v1.Pod, entry *v1.Volume) *claimReference {
	switch volume.NewSpecFromVolume(entry).Source().Type {
	case volume.SourcePersistentVolumeClaim:
		return &claimReference{Name: entry.PersistentVolumeClaim.ClaimName, ReadOnly: entry.PersistentVolumeClaim.ReadOnly}
	case volume.SourceEphemeral:
		return &claimReference{Name: ephemeral.VolumeClaimName(pod, entry), Ephemeral: true}
	}
	return nil
}

// checkClaimReference refuses a volume that cannot lead to a claim.
func checkClaimReference(entry *v1.Volume, c *claimReference) error {
	if c.Ephemeral && entry.Ephemeral.VolumeClaimTemplate == nil {
		return volume.Errorf(volume.ErrInvalid, "ephemeral has no volumeClaimTemplate")
	}
	if problems := validation.IsDNS1123Subdomain(c.Name); len(problems) > 0 {
		return volume.Errorf(volume.ErrInvalid, "it names the claim %.253q: %s", c.Name, strings.Join(problems, "; "))
	}
	return nil
}

// reference is how the claim of a pod is watched.
func (c *claimReference) reference(pod *v1.Pod) volume.Reference {
	return volume.Reference{Kind: volume.KindPersistentVolumeClaim, Namespace: pod.Namespace, Name: c.Name}
}

// waitingError says that a claim cannot be used yet. What it waits for is not an operation of the manager.
type waitingError struct{ error }

func (e *waitingError) Unwrap() error { return e.error }

func waiting(format string, args ...any) error {
	return &waitingError{volume.Errorf(volume.ErrNotFound, format, args...)}
}

func isWaiting(err error) bool {
	var w *waitingError
	return errors.As(err, &w)
}

// persistentVolumeOf returns the PersistentVolume of a pod's claim, as far as plugins and records are concerned with it. An error
// that is a waitingError says what the claim lacks. volumeName is that of the volume that the claim names, as far as it does, and grow
// says that the claim's status has less capacity than the volume, so that the node has to grow it.
func persistentVolumeOf(ctx context.Context, host volume.Host, pod *v1.Pod, c *claimReference) (pv *v1.PersistentVolume, volumeName string, grow bool, err error) {
	if host.Claims == nil {
		return nil, "", false, volume.Errorf(volume.ErrNotSupported, "it needs claim %s/%s, and the host has no source of claims", pod.Namespace, c.Name)
	}
	claim, err := host.Claims.PersistentVolumeClaim(ctx, pod.Namespace, c.Name)
	if errors.Is(err, volume.ErrNotFound) {
		return nil, "", false, waiting("claim %s/%s does not exist", pod.Namespace, c.Name)
	}
	if err == nil && claim == nil {
		err = errNothing
	}
	if err != nil {
		return nil, "", false, fmt.Errorf("get claim %s/%s: %w", pod.Namespace, c.Name, err)
	}
	if err := c.check(pod, claim); err != nil {
		return nil, "", false, err
	}
	volumeName = claim.Spec.VolumeName
	pv, err = host.Claims.PersistentVolume(ctx, volumeName)
	if errors.Is(err, volume.ErrNotFound) {
		return nil, volumeName, false, waiting("claim %s/%s names the PersistentVolume %q, which does not exist", pod.Namespace, c.Name, volumeName)
	}
	if err == nil && pv == nil {
		err = errNothing
	}
	if err != nil {
		return nil, volumeName, false, fmt.Errorf("get PersistentVolume %q of claim %s/%s: %w", volumeName, pod.Namespace, c.Name, err)
	}
	if err := errors.Join(checkPair(claim, pv), checkNode(ctx, host, pv)); err != nil {
		return nil, volumeName, false, err
	}
	has, known := claim.Status.Capacity[v1.ResourceStorage]
	return keptOf(pv), volumeName, known && has.Cmp(pv.Spec.Capacity[v1.ResourceStorage]) < 0, nil
}

// errNothing is about a source that breaks its contract.
var errNothing = errors.New("its source has returned neither an object nor an error")

// check returns an error if the claim cannot be used by the pod.
func (c *claimReference) check(pod *v1.Pod, claim *v1.PersistentVolumeClaim) error {
	name := pod.Namespace + "/" + c.Name
	if c.Ephemeral {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return volume.Errorf(volume.ErrInvalid, "claim %s is there, but was not made for this pod: it has to go first", name)
		}
	}
	switch phase := claim.Status.Phase; {
	case claim.DeletionTimestamp != nil:
		return waiting("claim %s is being deleted", name)
	case phase == v1.ClaimLost:
		return waiting("claim %s has lost its volume %q", name, claim.Spec.VolumeName)
	case claim.Spec.VolumeName == "":
		return waiting("claim %s is not bound: it names no PersistentVolume, and no single one names it in its claimRef "+
			"(choosing or provisioning one, here for storage class %q, is for a controller of volumes)", name, classOf(claim))
	case phase == v1.ClaimPending:
		return waiting("claim %s is not bound yet: it names PersistentVolume %q, and its phase is Pending", name, claim.Spec.VolumeName)
	}
	return nil
}

// checkPair returns an error unless the claim and the volume that it names belong together. A claim that a controller has bound
// has that behind it; for one without a phase, as it stands in a manifest, it is checked here as the controller would.
func checkPair(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) error {
	var mismatches []string
	mismatch := func(format string, args ...any) { mismatches = append(mismatches, fmt.Sprintf(format, args...)) }
	if ref := pv.Spec.ClaimRef; ref != nil {
		if ref.Namespace != claim.Namespace || ref.Name != claim.Name || ref.UID != "" && claim.UID != "" && ref.UID != claim.UID {
			return waiting("claim %s/%s names PersistentVolume %q, which belongs to claim %s/%s (UID %q)",
				claim.Namespace, claim.Name, pv.Name, ref.Namespace, ref.Name, ref.UID)
		}
	} else if claim.Status.Phase == v1.ClaimBound {
		return waiting("claim %s/%s is bound to PersistentVolume %q, which names no claim", claim.Namespace, claim.Name, pv.Name)
	}
	if pv.DeletionTimestamp != nil && claim.Status.Phase != v1.ClaimBound {
		mismatch("it is being deleted")
	}
	if claim.Status.Phase != v1.ClaimBound {
		if class := classOf(claim); class != pv.Spec.StorageClassName {
			mismatch("its storage class is %q, not %q", pv.Spec.StorageClassName, class)
		}
		if wanted, has := modeOf(claim.Spec.VolumeMode), modeOf(pv.Spec.VolumeMode); wanted != has {
			mismatch("its volumeMode is %s, not %s", has, wanted)
		}
		for _, mode := range claim.Spec.AccessModes {
			if !slices.Contains(pv.Spec.AccessModes, mode) {
				mismatch("its access modes do not include %s", mode)
			}
		}
		// A volume that belongs to the claim has had its size: that it has not grown to what is asked for by now keeps nobody from it.
		wanted, has := claim.Spec.Resources.Requests[v1.ResourceStorage], pv.Spec.Capacity[v1.ResourceStorage]
		if pv.Spec.ClaimRef == nil && has.Cmp(wanted) < 0 {
			mismatch("its capacity is %s, less than %s", has.String(), wanted.String())
		}
	}
	if len(mismatches) > 0 {
		return waiting("claim %s/%s cannot be bound to PersistentVolume %q: %s", claim.Namespace, claim.Name, pv.Name, strings.Join(mismatches, "; "))
	}
	return nil
}

func classOf(claim *v1.PersistentVolumeClaim) string {
	if class, ok := claim.Annotations[v1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

func modeOf(mode *v1.PersistentVolumeMode) v1.PersistentVolumeMode {
	if mode == nil {
		return v1.PersistentVolumeFilesystem
	}
	return *mode
}

// checkNode returns an error if the volume cannot be reached from this node. A program that knows neither its node's name nor its
// labels is taken to be where its volumes are.
func checkNode(ctx context.Context, host volume.Host, pv *v1.PersistentVolume) error {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil || host.NodeName == "" {
		return nil
	}
	node := &v1.Node{}
	node.Name, node.Labels = string(host.NodeName), map[string]string{v1.LabelHostname: string(host.NodeName)}
	if host.Nodes != nil {
		var err error
		if node, err = host.Nodes.Node(ctx, host.NodeName); err == nil && node == nil {
			err = errNothing
		}
		if err != nil {
			return fmt.Errorf("get node %s, to see whether PersistentVolume %q can be reached from it: %w", host.NodeName, pv.Name, err)
		}
	}
	selector, err := nodeaffinity.NewNodeSelector(pv.Spec.NodeAffinity.Required)
	if err != nil {
		return volume.Errorf(volume.ErrInvalid, "the nodeAffinity of PersistentVolume %q: %w", pv.Name, err)
	}
	if !selector.Match(node) {
		return waiting("PersistentVolume %q cannot be reached from node %s: its nodeAffinity does not match", pv.Name, host.NodeName)
	}
	return nil
}

// lastAppliedAnnotation is where kubectl keeps the whole object again.
const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

// keptOf returns the part of a PersistentVolume that its plugin and the records are concerned with: what may change while it is in
// use, without the volume being another one, stays out.
func keptOf(pv *v1.PersistentVolume) *v1.PersistentVolume {
	kept := &v1.PersistentVolume{}
	kept.Name, kept.UID = pv.Name, pv.UID
	for key, value := range pv.Annotations {
		if key != lastAppliedAnnotation {
			if kept.Annotations == nil {
				kept.Annotations = make(map[string]string)
			}
			kept.Annotations[key] = value
		}
	}
	kept.Spec = *pv.Spec.DeepCopy()
	if kept.Spec.ClaimRef != nil {
		kept.Spec.ClaimRef.ResourceVersion = ""
	}
	return kept
}

// isSameVolume reports whether two specs describe the same volume, used in the same way. What else a PersistentVolume says, such as
// its capacity, may have changed.
func isSameVolume(a, b *volume.Spec) bool {
	if a.ReadOnly != b.ReadOnly || a.Name() != b.Name() {
		return false
	}
	if a.PersistentVolume == nil || b.PersistentVolume == nil {
		return a.PersistentVolume == b.PersistentVolume && equality.Semantic.DeepEqual(a.Volume, b.Volume)
	}
	one, other := &a.PersistentVolume.Spec, &b.PersistentVolume.Spec
	return equality.Semantic.DeepEqual(&one.PersistentVolumeSource, &other.PersistentVolumeSource) && modeOf(one.VolumeMode) == modeOf(other.VolumeMode)
}

// groupAnnotation is where a PersistentVolume names a group that who uses it has to be a member of.
const groupAnnotation = "pv.beta.kubernetes.io/gid"

// supplementalGroups returns the groups that the PersistentVolumes of the pod name, and the pod does not. mu is locked.
func (p *managedPod) supplementalGroups() []int64 {
	var groups []int64
	for _, v := range p.volumes {
		if v.wanted == nil || v.wanted.spec == nil || v.wanted.spec.PersistentVolume == nil {
			continue
		}
		group, err := strconv.ParseInt(v.wanted.spec.PersistentVolume.Annotations[groupAnnotation], 10, 64)
		if err != nil || group < 0 || slices.Contains(groups, group) {
			continue
		}
		if security := p.wanted.Spec.SecurityContext; security == nil || !slices.Contains(security.SupplementalGroups, group) {
			groups = append(groups, group)
		}
	}
	return groups
}

// resolveClaim finds out which PersistentVolume the volume stands for.
func (m *Manager) resolveClaim(ctx context.Context, v *podVolume, r *result) (err error) {
	r.persistentVolume, r.volumeName, r.expandable, err = persistentVolumeOf(ctx, m.host, v.pod, v.claim)
	return err
}

// resolved takes over which PersistentVolume a volume stands for. mu is locked.
func (p *managedPod) resolved(v *managedVolume, o *operation, r *result) {
	if o.of != v.wanted {
		return
	}
	wanted := *v.wanted
	wanted.grow = r.expandable
	p.m.resolver.serve(&wanted, volume.NewSpecFromPersistentVolume(r.persistentVolume, v.wanted.claim.ReadOnly))
	if i := slices.IndexFunc(p.volumes, func(other *managedVolume) bool { return other != v && other.id == wanted.id && wanted.id != volumeID{} }); i >= 0 {
		if other := p.volumes[i]; other.wanted != nil {
			v.fail(p, volume.Errorf(volume.ErrNotSupported, "it stands for the same PersistentVolume %q as the pod's volume %q: mount that one in both places",
				r.persistentVolume.Name, other.name))
			return
		} else if other.running != nil {
			v.fail(p, volume.Errorf(volume.ErrInUse, "PersistentVolume %q is still being taken away from an earlier volume of the pod", r.persistentVolume.Name))
			return
		} else if v.record == nil { // what there is of it
			v.record = other.record
			p.volumes = slices.Delete(p.volumes, i, i+1)
		}
	}
	v.follows.more = volume.Reference{}
	v.want(&wanted)
}

// claimFailed sees to it that the claim is looked at again before the next attempt to set the volume up, since it may be bound to
// another volume then, or that volume be described in another way. mu is locked.
func (p *managedPod) claimFailed(v *managedVolume, o *operation, r *result) {
	switch {
	case o.of != v.wanted:
	case o.kind == OperationSetUp && !v.there:
		unresolved := podVolume{pod: v.wanted.pod, name: v.wanted.name, claim: v.wanted.claim}
		v.wanted = &unresolved
	case o.kind == OperationResolve && r != nil && r.volumeName != v.follows.more.Name:
		// From now on its volume is followed too; what became of that before then is not missed.
		v.follows.of, v.follows.more = nil, volume.Reference{Kind: volume.KindPersistentVolume, Name: r.volumeName}
		v.stale = true
	}
}
