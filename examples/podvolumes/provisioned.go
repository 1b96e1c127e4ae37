// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/blockdev"
	"github.com/volumekit/volumekit/examples/podvolumes/internal/claims"
	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/internal/parallel"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

// openBook opens the book of the volumes that claims were given. A page that cannot be read keeps nothing else from being done.
func openBook(host volume.Host, s streams) *claims.Book {
	directory := func(name string) string { return filepath.Join(host.Root, "provisioned", name) }
	book, err := claims.Open(host, map[string]claims.Provisioner{
		hostpath.DefaultProvisionerName: {Parameter: "basePath", Default: directory("hostpath"), New: func(dir string) volume.VolumePlugin {
			return hostpath.New(hostpath.Options{BasePaths: []string{dir}})
		}},
		blockdev.DefaultProvisionerName: {Parameter: "directory", Default: directory("blockdev"), New: func(dir string) volume.VolumePlugin {
			return blockdev.New(blockdev.Options{BasePaths: []string{dir}})
		}},
	})
	for line := range strings.Lines(errorLines(err)) {
		s.complain("%s", line)
	}
	return book
}

// provisionedAtOnce is how many volumes are made at the same time.
const provisionedAtOnce = 8

// withDefaultClass returns the objects with the default class in the claims that name none. Nothing is changed in the given ones.
func withDefaultClass(loaded []manifest.Object) []manifest.Object {
	_, classes := claimsIn(loaded)
	completed := slices.Clone(loaded)
	for i := range completed {
		if claim, ok := completed[i].Object.(*v1.PersistentVolumeClaim); ok {
			claim = claim.DeepCopy()
			classes.SetDefault(claim)
			completed[i].Object = claim
		}
	}
	return completed
}

// provision gives the claims of manifests their volumes, and returns what is wrong with some. What is wrong with a claim that the
// source has not taken has been said.
func provision(ctx context.Context, source *objectSource, loaded []manifest.Object, pods []*v1.Pod) (faults []string) {
	asked, classes := claimsIn(loaded)
	var mu sync.Mutex
	parallel.Each(len(asked), provisionedAtOnce, func(i int) {
		claim := asked[i].claim
		if _, err := source.store.PersistentVolumeClaim(ctx, claim.Namespace, claim.Name); err != nil {
			return
		}
		if classes.WaitsForPod(claim) && !slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return uses(pod, claim) }) {
			return
		}
		if _, err := source.book.Serve(ctx, claim, classes); err != nil {
			mu.Lock()
			defer mu.Unlock()
			faults = append(faults, fmt.Sprintf("%s: %v", asked[i].origin, err))
		}
	})
	slices.Sort(faults)
	return faults
}

type askedClaim struct {
	claim  *v1.PersistentVolumeClaim
	origin manifest.Origin
}

func claimsIn(loaded []manifest.Object) (asked []askedClaim, classes claims.Classes) {
	for i := range loaded {
		switch o := loaded[i].Object.(type) {
		case *v1.PersistentVolumeClaim:
			asked = append(asked, askedClaim{o, loaded[i].Origin})
		case *storagev1.StorageClass:
			classes = append(classes, o)
		}
	}
	return asked, classes
}

// uses reports whether a volume of the pod is the claim.
func uses(pod *v1.Pod, claim *v1.PersistentVolumeClaim) bool {
	return pod.Namespace == claim.Namespace && slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name ||
			v.Ephemeral != nil && pod.Name+"-"+v.Name == claim.Name
	})
}

// finishGrowing has the node grow what has grown where it is stored.
func finishGrowing(ctx context.Context, book *claims.Book, manager *volumemanager.Manager) error {
	return book.FinishGrowing(ctx, func(ctx context.Context, pv *v1.PersistentVolume) error {
		_, err := manager.ExpandVolume(ctx, pv)
		if errors.Is(err, volume.ErrNotSupported) {
			return nil // the storage is all that there is to grow
		}
		return err
	})
}

// deleteClaims deletes the volumes of the claims for which wanted returns true, and of those that were made for pods which are
// gone. What a pod has is left, and so is what is to be kept.
func deleteClaims(ctx context.Context, book *claims.Book, plugins *volume.VolumePluginMgr, wanted func(types.NamespacedName) bool, s streams) (deleted int, errs []error) {
	pods, err := volumemanager.Inspect(ctx, plugins, volumemanager.InspectOptions{})
	if err != nil {
		return 0, []error{err}
	}
	entries := book.Entries()
	slices.SortFunc(entries, func(a, b claims.Entry) int { return strings.Compare(a.Claim.String(), b.Claim.String()) })
	entries = slices.DeleteFunc(entries, func(e claims.Entry) bool {
		ownerGone := e.Pod != "" && !slices.ContainsFunc(pods, func(p volumemanager.PodStatus) bool { return p.UID == e.Pod })
		return !ownerGone && !wanted(e.Claim)
	})
	failed := make([]error, len(entries))
	parallel.Each(len(entries), provisionedAtOnce, func(i int) {
		e := entries[i]
		if user := userOf(pods, e.Volume); user != "" {
			failed[i] = volume.Errorf(volume.ErrInUse, "claim %s: its volume %s stays, because pod %s has it", e.Claim, e.Volume, user)
		} else if !e.Kept {
			failed[i] = book.Delete(ctx, e.Claim)
		}
	})
	for i, e := range entries {
		switch {
		case failed[i] != nil:
			errs = append(errs, failed[i])
		case e.Kept:
			s.complain("note: claim %s keeps its volume %s: its reclaim policy is Retain", e.Claim, e.Volume)
		default:
			deleted++
		}
	}
	return deleted, errs
}

// userOf returns a pod that has the PersistentVolume, empty if none has.
func userOf(pods []volumemanager.PodStatus, pv string) string {
	for i := range pods {
		p := &pods[i]
		if slices.ContainsFunc(p.Volumes, func(v volumemanager.VolumeStatus) bool {
			return v.PersistentVolume == pv || v.Name == pv // where its record is lost
		}) {
			return p.Namespace + "/" + p.Name
		}
	}
	return ""
}

// isClaimOf returns what tells whether a claim is one of the manifests.
func isClaimOf(loaded []manifest.Object) func(types.NamespacedName) bool {
	asked, _ := claimsIn(loaded)
	names := make(map[types.NamespacedName]bool, len(asked))
	for _, a := range asked {
		names[types.NamespacedName{Namespace: a.claim.Namespace, Name: a.claim.Name}] = true
	}
	return func(name types.NamespacedName) bool { return names[name] }
}
