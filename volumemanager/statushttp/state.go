// SPDX-License-Identifier: Apache-2.0

package statushttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/volumekit/volumekit/volumemanager"
)

// overview is what there is to say of a status as a whole.
type overview struct {
	// Headline is one sentence, and Tone how it is meant: good, busy or bad.
	Headline string `json:"headline"`
	Tone     string `json:"tone"`

	// Notices are what else a person should know, a sentence each.
	Notices []string `json:"notices"`

	Totals totals `json:"totals"`

	// Events are the last ones, the newest first, without those that only say that a volume is in order.
	Events []recentEvent `json:"events"`
}

// totals are numbers of pods, of volumes by state, and of operations.
type totals struct {
	Pods    int `json:"pods"`
	Leaving int `json:"leaving"` // pods that are not wanted any more

	Volumes int `json:"volumes"`
	Mounted int `json:"mounted"`
	Pending int `json:"pending"`
	Failed  int `json:"failed"`

	Running   int `json:"running"`   // operations under way
	Abandoned int `json:"abandoned"` // those among them that are past their deadline

	// Attention counts the pods that need some, see needsAttention.
	Attention int `json:"attention"`
}

func (h *Handler) overview(status volumemanager.Status) overview {
	o := overview{Totals: count(status), Events: h.recent.newestFirst()}
	o.Headline, o.Tone = headline(status, o.Totals)
	o.Notices = append([]string{}, unhealthy(status)...)
	if status.Running && status.Recovered && !status.Complete {
		o.Notices = append(o.Notices, "not all pods that are wanted are known yet: until they are, no pod's volumes are taken away unless it is named")
	}
	if h.options.Notices != nil {
		o.Notices = append(o.Notices, h.options.Notices()...)
	}
	return o
}

func count(status volumemanager.Status) totals {
	t := totals{Pods: len(status.Pods)}
	for i := range status.Pods {
		pod := &status.Pods[i]
		if pod.Leaving {
			t.Leaving++
		}
		if needsAttention(pod) {
			t.Attention++
		}
		for j := range pod.Volumes {
			t.add(&pod.Volumes[j])
		}
	}
	return t
}

func (t *totals) add(v *volumemanager.VolumeStatus) {
	t.Volumes++
	switch v.State {
	case volumemanager.Mounted:
		t.Mounted++
	case volumemanager.Failed:
		t.Failed++
	default:
		t.Pending++
	}
	if v.Running != nil {
		t.Running++
		if v.Running.Abandoned {
			t.Abandoned++
		}
	}
}

// needsAttention reports whether something is wrong with the pod that does not go away in the ordinary course.
func needsAttention(pod *volumemanager.PodStatus) bool {
	if pod.Err != nil || len(refusedMounts(pod)) > 0 {
		return true
	}
	for i := range pod.Volumes {
		if isFailing(&pod.Volumes[i]) {
			return true
		}
	}
	return false
}

func isFailing(v *volumemanager.VolumeStatus) bool {
	return v.State == volumemanager.Failed || v.Failures > 0 || v.Running != nil && v.Running.Abandoned
}

// refusedMounts says which mounts the pod's containers cannot have although the volume is none of the reasons.
func refusedMounts(pod *volumemanager.PodStatus) []string {
	var refused []string
	for _, container := range pod.Containers {
		for _, missing := range container.Missing {
			if missing.Err != nil {
				refused = append(refused, fmt.Sprintf("container %s has no %s: %v", container.Name, missing.Destination, missing.Err))
			}
		}
	}
	return refused
}

// headline sums up in a sentence. The worst comes first.
func headline(status volumemanager.Status, t totals) (sentence, tone string) {
	switch {
	case !status.Running:
		return "The volume manager is not running", "bad"
	case !status.Recovered:
		return "Taking over what an earlier run left", "busy"
	case t.Attention > 0:
		return fmt.Sprintf("%s of %d %s attention", number(t.Attention, "pod"), t.Pods, verb(t.Attention, "needs", "need")), "bad"
	case t.Pending > 0:
		return fmt.Sprintf("%s on the way", number(t.Pending, "volume")), "busy"
	case t.Pods == 0:
		return "No pods", "good"
	default:
		return fmt.Sprintf("%s of %s in place", number(t.Volumes, "volume"), number(t.Pods, "pod")), "good"
	}
}

func number(n int, what string) string {
	return fmt.Sprintf("%d %s", n, verb(n, what, what+"s"))
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func (h *Handler) serveState(w http.ResponseWriter) {
	status := h.source.Status()
	body, err := stateJSON(status, h.overview(status))
	if err != nil {
		http.Error(w, "cannot write the state as JSON: "+err.Error(), http.StatusInternalServerError)
		return
	}
	respond(w, http.StatusOK, "application/json", body)
}

// stateJSON adds the overview to the JSON of a status, which is an object with fields. The status has a MarshalJSON of its
// own, and so cannot be embedded in a bigger struct.
func stateJSON(status volumemanager.Status, o overview) ([]byte, error) {
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	more, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{bytes.TrimSuffix(body, []byte("}")), []byte(`,"overview":`), more, []byte("}\n")}, nil), nil
}
