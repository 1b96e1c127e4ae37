// SPDX-License-Identifier: Apache-2.0

package statushttp

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/volumemanager"
)

// texts returns what the page shows, without tags, one element a line.
func texts(t *testing.T, page string) string {
	t.Helper()
	_, body, found := strings.Cut(page, "<body>")
	require.True(t, found)
	body, _, _ = strings.Cut(body, "<template")
	lines := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body, "\n")
	return regexp.MustCompile(`\s*\n\s*`).ReplaceAllString(lines, "\n")
}

func TestThePageShowsAllWithoutJavaScript(t *testing.T) {
	f := newFakeManager(troubled())
	h := newTestHandler(t, f, Options{Title: "Volumes of node-7", Notices: func() []string { return []string{"web.yaml cannot be read"} }})
	f.events <- volumemanager.Event{Time: now.Add(-time.Minute), Duration: 4 * time.Millisecond, Namespace: "shop", Name: "web-1", UID: "uid-b", Volume: "cache",
		Operation: volumemanager.OperationSetUp, Outcome: volumemanager.OutcomeSucceeded}
	h.Close()
	shown := texts(t, get(h, "/").Body.String())
	for _, text := range []string{
		"Volumes of node-7", "10:30:00 UTC", "1 pod of 3 needs attention", "web.yaml cannot be read",
		"shop/old\nleaving\n", "tearing down for 2 s",
		"data\nkubernetes.io/nfs\npending\n/var/lib/agent/pods/uid-a/volumes/kubernetes.io~nfs/data\n", "setting up for 5 min, 12000 files looked at, 8000 given to the pod&#39;s group, past its deadline\nthe server does not answer",
		"failed 3 times, next try in 40 s\nsource configMap is not served here",
		"container nginx has no /cache: subPath &#34;../x&#34; leads outside",
		"it is on a disk that is nearly full",
		"10:29:00\nset up cache of shop/web-1\nsucceeded after 4 ms",
	} {
		assert.Contains(t, shown, text)
	}
	assert.Less(t, strings.Index(shown, "shop/old"), strings.Index(shown, "shop/web-0"), "in the order of names")
	assert.Less(t, strings.Index(shown, "shop/web-0"), strings.Index(shown, "shop/web-1"), "in the order of names")
}

func TestTheBrowserIsAllowedThisStyleAndScriptAlone(t *testing.T) {
	answer := get(newTestHandler(t, newFakeManager(troubled()), Options{}), "/")
	page, policy := answer.Body.String(), answer.Header().Get("Content-Security-Policy")
	for tag, directive := range map[string]string{"style": "style-src", "script": "script-src"} {
		found := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(page, -1)
		require.Len(t, found, 1, tag)
		sum := sha256.Sum256([]byte(found[0][1]))
		assert.Contains(t, policy, directive+" 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	assert.NotContains(t, policy, "unsafe")
	assert.NotRegexp(t, `(?i)<(script|link|img|iframe)[^>]*(src|href)="?(https?:)?/`, page, "nothing is fetched from elsewhere")
	assert.NotRegexp(t, `(?i)<[^>]* (on\w+|style)=`, page, "the policy forbids handlers and styles in attributes")
}

func TestNothingThatIsShownBecomesMarkup(t *testing.T) {
	const evil = `"'><script>alert(1)</script><img src=x onerror=alert(1)>`
	f := newFakeManager(atWork(volumemanager.PodStatus{Namespace: evil, Name: evil, UID: evil, Err: errors.New(evil), Volumes: []volumemanager.VolumeStatus{
		{Name: evil, Plugin: evil, Path: evil, State: evil, Err: errors.New(evil), Warnings: []string{evil},
			Running: &volumemanager.RunningOperation{Operation: evil}}}}))
	h := newTestHandler(t, f, Options{Title: evil, Notices: func() []string { return []string{evil} }})
	f.events <- volumemanager.Event{Namespace: evil, Name: evil, Volume: evil, Operation: evil, Outcome: evil, Err: errors.New(evil)}
	h.Close()
	assert.Equal(t, 1, strings.Count(get(h, "/").Body.String(), "<script"))
	assert.NotContains(t, get(h, "/").Body.String(), "<img")
	assert.NotContains(t, get(h, "/state").Body.String(), "<")
}

// The script changes what the template has made, so every name that it looks for has to be there.
func TestThePageHasWhatItsScriptLooksFor(t *testing.T) {
	page := get(newTestHandler(t, newFakeManager(troubled()), Options{}), "/").Body.String()
	html, _, _ := strings.Cut(page, "<script>")
	for _, found := range regexp.MustCompile(`byId\("([^"]+)"\)|prototype\("([^"]+)"`).FindAllStringSubmatch(pageScript, -1) {
		assert.Equal(t, 1, strings.Count(html, ` id="`+found[1]+found[2]+`"`), found[0])
	}
	for _, found := range regexp.MustCompile(`(?:part|setPart)\(\w+, "([^"]+)"`).FindAllStringSubmatch(pageScript, -1) {
		assert.Contains(t, html, ` data-is="`+found[1]+`"`, found[0])
	}
}

func TestDurationsAreWrittenAsAPersonWouldSayThem(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 ms", 1400 * time.Microsecond: "1 ms", time.Second: "1 s", 59*time.Second + 999*time.Millisecond: "59 s", 90 * time.Second: "1 min",
		125 * time.Minute: "2 h 5 min", 49 * time.Hour: "2 d 1 h",
	} {
		assert.Equal(t, want, span(d))
	}
}
