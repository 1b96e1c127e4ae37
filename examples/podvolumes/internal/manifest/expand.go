// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// expand adds the pods of an object whose kind makes pods.
func (l *loader) expand(origin Origin, kind schema.GroupVersionKind, typed runtime.Object) {
	meta, err := l.identify(kind.Kind, typed)
	if err == nil {
		origin.Namespace, origin.Name = meta.Namespace, meta.Name
		err = checkIdentity(kind.Kind, meta)
	}
	if err != nil {
		l.fail(origin, err)
		return
	}
	pods, idle, err := l.podsOf(kind, meta, typed)
	switch {
	case err != nil:
		l.fail(origin, err)
	case len(pods) == 0:
		l.ignore(origin, idle)
	default:
		l.add(origin, pods, claimTemplates(typed))
	}
}

func (l *loader) podsOf(kind schema.GroupVersionKind, meta *metav1.ObjectMeta, typed runtime.Object) (pods []*v1.Pod, idle string, err error) {
	if pod, ok := typed.(*v1.Pod); ok {
		if len(l.result.Pods) >= l.opts.MaxPods {
			return nil, "", l.tooMany(1)
		}
		if err := checkContainers("spec", &pod.Spec); err != nil {
			return nil, "", err
		}
		setDefaults(&pod.Spec)
		if pod.UID == "" {
			pod.UID = podUID(pod.Namespace, pod.Name)
		}
		return []*v1.Pod{pod}, "", nil
	}
	w, err := workloadOf(typed)
	switch {
	case err != nil:
		return nil, "", err
	case w.template == nil:
		return nil, "", fmt.Errorf("field %q: is required", w.field)
	case w.pods > int64(l.opts.MaxPods-len(l.result.Pods)):
		return nil, "", l.tooMany(w.pods)
	}
	if claims := w.pods * int64(len(claimTemplates(typed))); claims > int64(claimsPerPod*l.opts.MaxPods) {
		return nil, "", fmt.Errorf("makes %d claims, more than the limit of %d", claims, claimsPerPod*l.opts.MaxPods)
	}
	if err := checkContainers(w.field+".spec", &w.template.Spec); err != nil {
		return nil, "", err
	}
	if w.pods == 0 {
		return nil, w.idle, nil
	}
	setDefaults(&w.template.Spec)
	if w.prepare != nil {
		w.prepare(w.template)
	}
	names := newNamer(kind.Kind, meta)
	for i := range w.pods {
		pod := &v1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: v1.SchemeGroupVersion.String(), Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace:       meta.Namespace,
				Labels:          w.template.Labels,
				Annotations:     w.template.Annotations,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(meta, kind)},
			},
			Spec: w.template.Spec,
		}
		w.finish(pod, names, i)
		pod.UID = podUID(pod.Namespace, pod.Name)
		pods = append(pods, pod)
	}
	return pods, "", nil
}

func (l *loader) tooMany(pods int64) error {
	if before := len(l.result.Pods); before > 0 {
		return fmt.Errorf("makes %d pods: with the %d before, that is more than the limit of %d", pods, before, l.opts.MaxPods)
	}
	return fmt.Errorf("makes %d pods, more than the limit of %d", pods, l.opts.MaxPods)
}

// add appends pods to the result, with the templates that claims are to be made of for each, but those that are there already.
func (l *loader) add(origin Origin, pods []*v1.Pod, templates []v1.PersistentVolumeClaim) {
	clashes := make(map[Origin]bool)
	for _, pod := range pods {
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		other, taken := l.byName[name]
		if !taken {
			if other, taken = l.byUID[pod.UID]; !taken {
				l.byName[name], l.byUID[pod.UID] = len(l.result.Pods), len(l.result.Pods)
				if len(templates) > 0 {
					l.templates[len(l.result.Pods)] = templates
				}
				l.result.Pods = append(l.result.Pods, Pod{Pod: pod, Origin: origin})
				continue
			}
		}
		there := l.result.Pods[other]
		// One error for all that clash with one object.
		if clashes[there.Origin] {
			continue
		}
		clashes[there.Origin] = true
		if there.Pod.Namespace == pod.Namespace && there.Pod.Name == pod.Name {
			l.fail(origin, fmt.Errorf("pod %s comes from %s too", name, there.Origin))
		} else {
			l.fail(origin, fmt.Errorf("pod %s has the UID %q, which is that of pod %s/%s from %s",
				name, abbreviate(string(pod.UID)), there.Pod.Namespace, there.Pod.Name, there.Origin))
		}
	}
}

// workload is what the kinds that hold a pod template come down to.
type workload struct {
	// template may be nil, and field is its path in the object.
	template *v1.PodTemplateSpec
	field    string

	// pods is how many pods there are, and idle says why if there are none.
	pods int64
	idle string

	// prepare, which may be nil, changes what all pods share.
	prepare func(*v1.PodTemplateSpec)

	// finish gives the pod with the ordinal i, from 0, its name and all that it does not share with the others. What the
	// pod refers to is shared: it is replaced, not changed.
	finish func(pod *v1.Pod, names *namer, i int64)
}

func workloadOf(typed runtime.Object) (workload, error) {
	switch o := typed.(type) {
	case *appsv1.Deployment:
		return replicated(&o.Spec.Template, o.Spec.Replicas)
	case *appsv1.ReplicaSet:
		return replicated(&o.Spec.Template, o.Spec.Replicas)
	case *v1.ReplicationController:
		return replicated(o.Spec.Template, o.Spec.Replicas)
	case *appsv1.DaemonSet:
		return replicated(&o.Spec.Template, nil)
	case *v1.PodTemplate:
		w, err := replicated(&o.Template, nil)
		w.field = "template"
		return w, err
	case *appsv1.StatefulSet:
		return statefulSet(&o.Spec)
	case *batchv1.Job:
		return job("spec", &o.Spec)
	case *batchv1.CronJob:
		w, err := job("spec.jobTemplate.spec", &o.Spec.JobTemplate.Spec)
		if ptr.Deref(o.Spec.Suspend, false) {
			w.pods, w.idle = 0, "is suspended"
		}
		return w, err
	default:
		return workload{}, fmt.Errorf("kind %T holds no pod template", typed)
	}
}

func replicated(template *v1.PodTemplateSpec, replicas *int32) (workload, error) {
	pods, err := count("spec.replicas", replicas)
	return workload{
		template: template,
		field:    "spec.template",
		pods:     pods,
		idle:     "has 0 replicas",
		finish:   func(pod *v1.Pod, names *namer, i int64) { pod.Name = names.generate(names.name+"-", i) },
	}, err
}

// count returns what a number of pods says, 1 if it is absent as everywhere in the API.
func count(field string, n *int32) (int64, error) {
	if n != nil && *n < 0 {
		return 0, fmt.Errorf("field %q: %d is negative", field, *n)
	}
	return int64(ptr.Deref(n, 1)), nil
}

// statefulSet follows what Kubernetes documents for the identity and the storage of the set's pods.
func statefulSet(spec *appsv1.StatefulSetSpec) (workload, error) {
	w, err := replicated(&spec.Template, spec.Replicas)
	if err != nil {
		return w, err
	}
	var start int64
	if spec.Ordinals != nil {
		if start = int64(spec.Ordinals.Start); start < 0 {
			return w, fmt.Errorf("field %q: %d is negative", "spec.ordinals.start", start)
		}
	}
	w.finish = func(pod *v1.Pod, names *namer, i int64) {
		ordinal := strconv.FormatInt(start+i, 10)
		pod.Name = names.name + "-" + ordinal
		pod.Labels = with(pod.Labels, appsv1.StatefulSetPodNameLabel, pod.Name, appsv1.PodIndexLabel, ordinal)
		pod.Spec.Hostname = pod.Name
		pod.Spec.Subdomain = spec.ServiceName
		pod.Spec.Volumes = withClaims(pod.Spec.Volumes, spec.VolumeClaimTemplates, pod.Name)
	}
	return w, nil
}

// withClaims returns the volumes of a pod of a StatefulSet with these claim templates.
func withClaims(volumes []v1.Volume, templates []v1.PersistentVolumeClaim, podName string) []v1.Volume {
	if len(templates) == 0 {
		return volumes
	}
	all := make([]v1.Volume, 0, len(templates)+len(volumes))
	claimed := make(map[string]bool, len(templates))
	for _, template := range templates {
		claimed[template.Name] = true
		all = append(all, v1.Volume{Name: template.Name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: template.Name + "-" + podName},
		}})
	}
	for _, volume := range volumes {
		if !claimed[volume.Name] {
			all = append(all, volume)
		}
	}
	return all
}

// indexVariable tells the containers of an indexed job their pod's index.
const indexVariable = "JOB_COMPLETION_INDEX"

// job follows what Kubernetes documents for the pods of a job. field is the path of spec.
func job(field string, spec *batchv1.JobSpec) (workload, error) {
	w, err := replicated(&spec.Template, nil)
	w.field = field + ".template"
	if err != nil {
		return w, err
	}
	if w.pods, err = count(field+".parallelism", spec.Parallelism); err != nil {
		return w, err
	}
	w.idle = "has parallelism 0"
	if spec.Completions != nil {
		completions, err := count(field+".completions", spec.Completions)
		if err != nil {
			return w, err
		}
		if completions == 0 {
			w.idle = "has completions 0"
		}
		w.pods = min(w.pods, completions)
	}
	if ptr.Deref(spec.Suspend, false) {
		w.pods, w.idle = 0, "is suspended"
	}
	switch mode := ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion); mode {
	case batchv1.NonIndexedCompletion:
	case batchv1.IndexedCompletion:
		if spec.Completions == nil {
			return w, fmt.Errorf("field %q: is required for completionMode Indexed", field+".completions")
		}
		w.prepare = addIndexVariable
		w.finish = func(pod *v1.Pod, names *namer, i int64) {
			index := strconv.FormatInt(i, 10)
			// A long name is cut before its index, as in Kubernetes.
			end := "-" + index + "-"
			pod.Name = names.generate(names.name[:min(len(names.name), maxBase-len(end))]+end, i)
			pod.Labels = with(pod.Labels, batchv1.JobCompletionIndexAnnotation, index)
			pod.Annotations = with(pod.Annotations, batchv1.JobCompletionIndexAnnotation, index)
			pod.Spec.Hostname = names.name + "-" + index
		}
	default:
		return w, fmt.Errorf("field %q: %q is neither %s nor %s", field+".completionMode", abbreviate(string(mode)), batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)
	}
	return w, nil
}

// addIndexVariable adds the variable to the containers that do not set it themselves. A volume's subPathExpr may use it.
func addIndexVariable(template *v1.PodTemplateSpec) {
	for _, containers := range [][]v1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			if slices.ContainsFunc(c.Env, func(e v1.EnvVar) bool { return e.Name == indexVariable }) {
				continue
			}
			c.Env = append(c.Env, v1.EnvVar{Name: indexVariable, ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{
				APIVersion: "v1",
				FieldPath:  fmt.Sprintf("metadata.labels['%s']", batchv1.JobCompletionIndexAnnotation),
			}}})
		}
	}
}

// with returns a copy of m that has the pairs of key and value too.
func with(m map[string]string, pairs ...string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = make(map[string]string, len(pairs)/2)
	}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// checkContainers finds the commonest sign of a template that is not where it should be.
func checkContainers(field string, spec *v1.PodSpec) error {
	if len(spec.Containers) == 0 {
		return fmt.Errorf("field %q: a pod needs at least one", field+".containers")
	}
	return nil
}

// setDefaults applies those defaults of the API server that change what volumes do.
func setDefaults(spec *v1.PodSpec) {
	for i := range spec.Volumes {
		if source := &spec.Volumes[i].VolumeSource; ptr.AllPtrFieldsNil(source) {
			source.EmptyDir = &v1.EmptyDirVolumeSource{}
		}
	}
	for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			resources := &containers[i].Resources
			for name, limit := range resources.Limits {
				if resources.Requests == nil {
					resources.Requests = make(v1.ResourceList, len(resources.Limits))
				}
				if _, found := resources.Requests[name]; !found {
					resources.Requests[name] = limit.DeepCopy()
				}
			}
		}
	}
}
