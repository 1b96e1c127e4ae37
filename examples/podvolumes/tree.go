// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

// showTree writes one tree per pod: its volumes with their places, then its containers with their mounts.
//
//	default/web-0
//	├─ cache     mounted  kubernetes.io/empty-dir  /var/lib/podvolumes/pods/…/cache
//	├─ settings  failed   ConfigMap default/web does not exist
//	└─ container nginx
//	   └─ /var/cache  cache, read-write
func showTree(pods []reportedPod, out io.Writer) error {
	w := bufio.NewWriter(out)
	for i := range pods {
		pod := &pods[i]
		_, _ = fmt.Fprintln(w, oneLine(podTitle(pod)))
		var entries []entry
		for _, v := range pod.volumes() {
			entries = append(entries, entry{columns: volumeColumns(&v)})
		}
		for _, c := range pod.Containers {
			e := entry{columns: []string{"container " + c.Name}}
			for _, m := range c.Mounts {
				e.below = append(e.below, entry{columns: []string{readable(m.Destination), mountText(&m)}})
			}
			for _, d := range c.Devices {
				e.below = append(e.below, entry{columns: []string{readable(d.Destination), deviceText(&d)}})
			}
			for _, m := range c.Missing {
				e.below = append(e.below, entry{columns: []string{readable(m.Destination), missingText(&m)}})
			}
			entries = append(entries, e)
		}
		writeEntries(w, "", entries)
	}
	return w.Flush()
}

func podTitle(pod *reportedPod) string {
	if pod.Name == "" {
		return "pod with UID " + string(pod.UID) + ", its name is lost"
	}
	return pod.Namespace + "/" + pod.Name
}

func volumeColumns(v *volumemanager.VolumeStatus) []string {
	columns := []string{v.Name, string(v.State)}
	if v.Plugin != "" {
		columns = append(columns, v.Plugin)
	}
	if v.State != volumemanager.Mounted {
		return append(columns, oneLine(v.Reason()))
	}
	columns = append(columns, readable(v.Path))
	if v.Metrics != nil {
		columns = append(columns, usageText(v.Metrics))
	}
	return columns
}

func mountText(m *volumemanager.Mount) string {
	text := m.Volume
	if m.SubPath != "" {
		text = readable(m.SubPath) + " in " + m.Volume
	}
	switch {
	case m.RecursiveReadOnly:
		text += ", recursively read-only"
	case m.ReadOnly:
		text += ", read-only"
	default:
		text += ", read-write"
	}
	if m.Unprepared {
		text += ", made when the container starts"
	}
	if m.Propagation != "None" {
		text += ", propagation " + string(m.Propagation)
	}
	for _, option := range m.BindOptions {
		text += ", " + option
	}
	return text
}

func deviceText(d *volumemanager.Device) string {
	if d.ReadOnly {
		return d.Volume + ", raw device, read-only"
	}
	return d.Volume + ", raw device, read-write"
}

func missingText(m *volumemanager.MissingMount) string {
	if m.Err == nil {
		return m.Volume + ", missing: the volume is not there"
	}
	return m.Volume + ", missing: " + errorText(m.Err)
}

func usageText(m *volume.Metrics) string {
	text := byteText(m.Used) + " used"
	switch {
	case m.Limit > 0 && m.LimitEnforced && m.LimitedBy != "":
		text += " of " + byteText(m.Limit) + " (" + m.LimitedBy + ")"
	case m.Limit > 0 && m.LimitEnforced:
		text += " of " + byteText(m.Limit)
	case m.Limit > 0:
		text += " of " + byteText(m.Limit) + " (not enforced)"
	case m.LimitEnforced:
		text += " of " + byteText(m.Capacity)
	}
	return text
}

// byteText writes a number of bytes as Kubernetes writes quantities.
func byteText(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return strconv.FormatInt(n, 10)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0") + units[unit:unit+1] + "i"
}

// entry is a line of a tree with what hangs below it.
type entry struct {
	columns []string
	below   []entry
}

// writeEntries aligns the columns of neighbours; the last column of each line takes what it needs.
func writeEntries(w io.Writer, indent string, entries []entry) {
	var widths []int
	for _, e := range entries {
		for i, column := range e.columns[:len(e.columns)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(column))
		}
	}
	for i, e := range entries {
		branch, trunk := "├─ ", "│  "
		if i == len(entries)-1 {
			branch, trunk = "└─ ", "   "
		}
		var line strings.Builder
		for j, column := range e.columns {
			line.WriteString(column)
			if j < len(e.columns)-1 {
				line.WriteString(strings.Repeat(" ", widths[j]-utf8.RuneCountInString(column)+2))
			}
		}
		_, _ = fmt.Fprintln(w, indent+branch+oneLine(line.String()))
		writeEntries(w, indent+trunk, e.below)
	}
}

// showIgnored says which objects of the manifests are not shown, since they stand for no pod.
func showIgnored(ignored []manifest.Ignored, s streams) {
	for _, object := range ignored {
		s.complain("note: %s: ignored, because it %s", object.Origin, object.Reason)
	}
}

// readable returns a path as it is, or quoted if a terminal would not show it as it is.
func readable(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(path)
	}
	return path
}
