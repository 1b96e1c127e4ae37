// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"context"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// DefaultMaxPods is the bound of [Options.MaxPods] where none is given.
	DefaultMaxPods = 10_000

	// DefaultMaxDocumentBytes is the bound of [Options.MaxDocumentBytes] where none is given: ten times what the API
	// server accepts for one object, so that a list of many objects fits.
	DefaultMaxDocumentBytes = 16 << 20

	// claimsPerPod is how many claims are made for all pods at most, on average.
	claimsPerPod = 10

	// maxMaxPods keeps far from the number of suffixes that there are for pods of one name, 14 million.
	maxMaxPods = 1_000_000
)

// Options says how to load. The zero value is right for files.
type Options struct {
	// Stdin is read for the path "-". If nil, that path is an error.
	Stdin io.Reader

	// MaxPods is how many pods one call of Load yields at most. The object that would exceed it is an error as a whole.
	// DefaultMaxPods if not positive; what is above a million counts as a million. Ten times as many claims are made for them.
	MaxPods int

	// MaxDocumentBytes is how long the text between two document separators may be, in bytes. What is longer is an error,
	// and reading goes on behind it. DefaultMaxDocumentBytes if not positive.
	MaxDocumentBytes int
}

// Result is what manifests stand for.
type Result struct {
	// Pods are in the order in which their objects appear, and those of one object by ordinal. No two have the same
	// namespace and name, or the same UID.
	Pods []Pod

	// Objects are those that the volumes of pods come from, in order of appearance, and after them the claims that a cluster would
	// make for the pods. No two are of the same kind, namespace and name.
	Objects []Object

	// Ignored are the objects that stand for no pod, and that no volume comes from, in order of appearance.
	Ignored []Ignored
}

// Object is one object that volumes come from, and where it stands.
type Object struct {
	// Object is a ConfigMap, a Secret, a ServiceAccount, a PersistentVolumeClaim, a PersistentVolume, a StorageClass or a
	// ClusterTrustBundle, as it was read: its name has not been checked.
	Object runtime.Object

	// Origin is the object itself or, of a claim that was made for a pod, what that pod comes from.
	Origin Origin

	// Made says that this is a claim that a cluster would make for a pod. One that other manifests hold counts instead.
	Made bool
}

// Pod is one pod and where it comes from.
type Pod struct {
	// Pod is complete: namespace, name and UID are set and safe to be elements of a path. The pods of one object share
	// the memory of its template: take a DeepCopy before you change one.
	Pod *v1.Pod

	// Origin is the object that the pod is, or that has its template.
	Origin Origin
}

// Ignored is an object that stands for no pod.
type Ignored struct {
	Origin Origin

	// Reason completes the sentence "it was ignored because it …".
	Reason string
}

// Load reads the manifests at paths: files, directories and, once, "-" for [Options.Stdin]. The result is never nil and
// holds all that is good; the errors, each an [*Error], are in order of appearance. Of two objects that yield the same
// pod the first is kept.
//
// When ctx ends, Load returns at once with the context's error among the others. A read that hangs (a pipe that nobody
// writes to, a dead file server) then keeps a goroutine until it ends, and so Stdin must not be used by others meanwhile.
func Load(ctx context.Context, paths []string, opts Options) (*Result, []error) {
	if opts.MaxPods <= 0 {
		opts.MaxPods = DefaultMaxPods
	}
	opts.MaxPods = min(opts.MaxPods, maxMaxPods)
	if opts.MaxDocumentBytes <= 0 {
		opts.MaxDocumentBytes = DefaultMaxDocumentBytes
	}
	l := &loader{
		opts:      opts,
		kinds:     newKinds(),
		byName:    make(map[types.NamespacedName]int),
		byUID:     make(map[types.UID]int),
		kept:      make(map[objectKey]int),
		templates: make(map[int][]v1.PersistentVolumeClaim),
	}
	for _, path := range paths {
		l.path(ctx, path)
	}
	l.makeClaims()
	return &l.result, l.errs
}

type loader struct {
	opts      Options
	kinds     kinds
	stdinRead bool

	result Result
	errs   []error

	// Indexes into result.Pods.
	byName map[types.NamespacedName]int
	byUID  map[types.UID]int

	// kept are indexes into result.Objects, and templates the claim templates of StatefulSets, by index into result.Pods.
	kept      map[objectKey]int
	templates map[int][]v1.PersistentVolumeClaim

	// claims counts the claims that were made for pods.
	claims int

	// generated counts the objects of one generateName in the file that is being read.
	generated map[string]int
}

func (l *loader) fail(origin Origin, err error) {
	l.errs = append(l.errs, &Error{Origin: origin, Err: err})
}

func (l *loader) ignore(origin Origin, reason string) {
	l.result.Ignored = append(l.result.Ignored, Ignored{Origin: origin, Reason: reason})
}

// read takes in all documents of one file.
func (l *loader) read(ctx context.Context, name string, r io.Reader) {
	l.generated = make(map[string]int)
	number := 0
	for piece, err := range split(r, l.opts.MaxDocumentBytes) {
		if err != nil {
			l.fail(Origin{File: name}, err)
			return
		}
		for doc, err := range piece.documents(l.opts.MaxDocumentBytes) {
			number++
			doc.origin.File, doc.origin.Document = name, number
			if err != nil {
				l.fail(doc.origin, err)
				continue
			}
			if err := ctx.Err(); err != nil {
				l.fail(doc.origin, err)
				return
			}
			l.object(ctx, &object{doc: doc, origin: doc.origin, json: doc.json})
		}
	}
}
