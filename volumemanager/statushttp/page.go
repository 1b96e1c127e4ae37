// SPDX-License-Identifier: Apache-2.0

package statushttp

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volumemanager"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

// page makes the page: one file with its style and its script in it, which asks for nothing but /state.
type page struct {
	template *template.Template
	// policy is a Content-Security-Policy that lets in this style and this script, and nothing else.
	policy string
}

func newPage() *page {
	policy := strings.Join([]string{
		"default-src 'none'",
		"style-src " + sourceHash(pageStyle),
		"script-src " + sourceHash(pageScript),
		"connect-src 'self'",
		"img-src data:", // the page's icon
		"base-uri 'none'",
		"form-action 'none'",
		"frame-ancestors 'none'",
	}, "; ")
	return &page{template: template.Must(template.New("page").Parse(pageHTML)), policy: policy}
}

func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (h *Handler) servePage(w http.ResponseWriter) {
	status := h.source.Status()
	view := newPageView(h.options.Title, status, h.overview(status))
	var body bytes.Buffer
	if err := h.page.template.Execute(&body, view); err != nil {
		http.Error(w, "cannot write the page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	respond(w, http.StatusOK, "text/html; charset=utf-8", body.Bytes())
}

// pageView is what the template fills in. What page.js changes later has the same texts there.
type pageView struct {
	Title    string
	Style    template.CSS
	Script   template.JS
	Time     time.Time
	Overview overview
	Tiles    []tile
	Bar      []segment
	Pods     []podView
	Events   []eventView

	// The zero views are what page.js clones.
	EmptyPod    podView
	EmptyVolume volumeView
	EmptyEvent  eventView
}

// tile is a number with its name; Key is its name in the JSON of totals.
type tile struct {
	Name, Key string
	Number    int
}

// segment is a part of the bar, in percent.
type segment struct {
	State       volumemanager.VolumeState
	From, Width string
}

type podView struct {
	UID       types.UID
	Title     string
	Leaving   bool
	Attention bool
	Notes     string
	Volumes   []volumeView
}

type volumeView struct {
	Name, Plugin, Path string
	ReadOnly           bool
	State              volumemanager.VolumeState
	Failing            bool
	Activity           string
	Problem            string
	Warnings           string
}

type eventView struct {
	When, DateTime string
	What, How      string
	Outcome        volumemanager.Outcome
	Problem        string
}

func newPageView(title string, status volumemanager.Status, o overview) pageView {
	t := o.Totals
	view := pageView{Title: title, Style: template.CSS(pageStyle), Script: template.JS(pageScript), Time: status.Time, Overview: o, Bar: bar(t)}
	view.Tiles = []tile{{"pods", "pods", t.Pods}, {"mounted", "mounted", t.Mounted}, {"pending", "pending", t.Pending},
		{"failed", "failed", t.Failed}, {"in flight", "running", t.Running}, {"past deadline", "abandoned", t.Abandoned}}
	for i := range status.Pods {
		view.Pods = append(view.Pods, newPodView(&status.Pods[i], status.Time))
	}
	slices.SortStableFunc(view.Pods, func(a, b podView) int { return cmp.Compare(a.Title, b.Title) })
	for _, e := range o.Events {
		view.Events = append(view.Events, newEventView(e, status.Time.Location()))
	}
	return view
}

func bar(t totals) []segment {
	from := 0.0
	var segments []segment
	for _, part := range []struct {
		state volumemanager.VolumeState
		n     int
	}{{volumemanager.Mounted, t.Mounted}, {volumemanager.Pending, t.Pending}, {volumemanager.Failed, t.Failed}} {
		width := 100 * float64(part.n) / float64(max(t.Volumes, 1))
		segments = append(segments, segment{State: part.state, From: decimal(from), Width: decimal(width)})
		from += width
	}
	return segments
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func newPodView(pod *volumemanager.PodStatus, now time.Time) podView {
	var notes []string
	if pod.Err != nil {
		notes = append(notes, pod.Err.Error())
	}
	notes = append(notes, refusedMounts(pod)...)
	view := podView{UID: pod.UID, Title: podTitle(pod.Namespace, pod.Name, pod.UID), Leaving: pod.Leaving, Attention: needsAttention(pod),
		Notes: strings.Join(notes, "\n")}
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		view.Volumes = append(view.Volumes, volumeView{Name: v.Name, Plugin: v.Plugin, Path: v.Path, ReadOnly: v.ReadOnly, State: v.State,
			Failing: isFailing(v), Activity: activity(v, now), Problem: v.Reason(), Warnings: strings.Join(v.Warnings, "\n")})
	}
	return view
}

func podTitle(namespace, name string, uid types.UID) string {
	if name == "" {
		return string(uid)
	}
	return namespace + "/" + name
}

// activity says what is done about the volume: "setting up for 12 s", "failed 3 times, next try in 40 s".
func activity(v *volumemanager.VolumeStatus, now time.Time) string {
	var said []string
	if o := v.Running; o != nil {
		said = append(said, doing(o.Operation)+" for "+span(now.Sub(o.Since)))
		if o.FilesSeen > 0 {
			said = append(said, fmt.Sprintf("%d files looked at, %d given to the pod's group", o.FilesSeen, o.FilesChanged))
		}
		if o.Abandoned {
			said = append(said, "past its deadline")
		}
	}
	switch {
	case v.Failures == 1:
		said = append(said, "failed once")
	case v.Failures > 1:
		said = append(said, fmt.Sprintf("failed %d times", v.Failures))
	}
	switch wait := v.NextTry.Sub(now); {
	case v.NextTry.IsZero():
	case wait > 0:
		said = append(said, "next try in "+span(wait))
	default:
		said = append(said, "next try now")
	}
	return strings.Join(said, ", ")
}

func doing(o volumemanager.Operation) string {
	switch o {
	case volumemanager.OperationSetUp:
		return "setting up"
	case volumemanager.OperationResolve:
		return "looking at its claim"
	case volumemanager.OperationRefresh:
		return "refreshing"
	case volumemanager.OperationTearDown:
		return "tearing down"
	case volumemanager.OperationVerify:
		return "verifying"
	default:
		return string(o)
	}
}

// span writes a duration as a person would say it.
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d/time.Minute%60)
	default:
		return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d/time.Hour%24)
	}
}

func newEventView(e recentEvent, zone *time.Location) eventView {
	const clock = "15:04:05"
	pod := podTitle(e.Namespace, e.Name, e.UID)
	view := eventView{When: e.Time.In(zone).Format(clock), DateTime: e.Time.Format(time.RFC3339), Outcome: e.Outcome,
		What: string(e.Operation) + " " + pod,
		How:  fmt.Sprintf("%s after %s", e.Outcome, span(time.Duration(e.Seconds*float64(time.Second))))}
	if e.Volume != "" {
		view.What = fmt.Sprintf("%s %s of %s", e.Operation, e.Volume, pod)
	}
	if !e.NextTry.IsZero() {
		view.How += ", next try at " + e.NextTry.In(zone).Format(clock)
	}
	problems := append([]string{}, e.Warnings...)
	if e.Error != "" {
		problems = append([]string{e.Error}, problems...)
	}
	view.Problem = strings.Join(problems, "\n")
	return view
}
