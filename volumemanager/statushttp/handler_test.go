// SPDX-License-Identifier: Apache-2.0

package statushttp

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/volumekit/volumekit/volumemanager"
)

// get asks the handler for a path.
func get(h http.Handler, path string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	return answer
}

func TestOnlyReadingIsAnswered(t *testing.T) {
	h := newTestHandler(t, newFakeManager(atWork()), Options{})
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
		for _, path := range []string{"/", "/state", "/metrics", "/healthz"} {
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, httptest.NewRequest(method, path, nil))
			assert.Equal(t, http.StatusMethodNotAllowed, answer.Code, "%s %s", method, path)
			assert.Equal(t, "GET, HEAD", answer.Header().Get("Allow"))
		}
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodHead, "/healthz", nil))
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Equal(t, http.StatusNotFound, get(h, "/pods").Code)
}

func TestNoAnswerIsKeptFramedOrGuessedAt(t *testing.T) {
	h := newTestHandler(t, newFakeManager(atWork()), Options{})
	for path, contentType := range map[string]string{
		"/":        "text/html; charset=utf-8",
		"/state":   "application/json",
		"/metrics": "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
		"/healthz": "text/plain; charset=utf-8",
		"/pods":    "text/plain; charset=utf-8",
	} {
		header := get(h, path).Header()
		assert.Equal(t, contentType, header.Get("Content-Type"), path)
		assert.Equal(t, "no-store", header.Get("Cache-Control"), path)
		assert.Equal(t, "nosniff", header.Get("X-Content-Type-Options"), path)
		assert.Contains(t, header.Get("Content-Security-Policy"), "default-src 'none'", path)
		assert.Contains(t, header.Get("Content-Security-Policy"), "frame-ancestors 'none'", path)
	}
}

func TestItWorksBelowAPrefix(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/agent/volumes/", http.StripPrefix("/agent/volumes", newTestHandler(t, newFakeManager(atWork()), Options{})))
	for _, path := range []string{"/agent/volumes/", "/agent/volumes/state", "/agent/volumes/metrics", "/agent/volumes/healthz"} {
		assert.Equal(t, http.StatusOK, get(mux, path).Code, path)
	}
	page := get(mux, "/agent/volumes/").Body.String()
	assert.Contains(t, page, `fetch("state"`, "relative to the page")
	assert.NotRegexp(t, `(href|src|action)="/`, page)
}

func TestHealthIsAboutTheManagerAndNotAboutVolumes(t *testing.T) {
	refused := volumemanager.PodStatus{UID: "uid", Err: errors.New("two volumes have the same name")}
	for name, test := range map[string]struct {
		status volumemanager.Status
		code   int
		says   string
	}{
		"nothing to do":             {atWork(), 200, "ok\n"},
		"volumes fail and hang":     {troubled(), 200, "ok\n"},
		"a pod is refused":          {atWork(refused), 200, "ok\n"},
		"not all pods are told yet": {volumemanager.Status{Running: true, Recovered: true}, 200, "ok\n"},
		"Run has ended":             {volumemanager.Status{Recovered: true, Complete: true}, 503, "the volume manager is not running: nothing is set up, taken away or tried again\n"},
		"recovery is under way":     {volumemanager.Status{Running: true}, 503, "what an earlier run left has not been taken over yet\n"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := get(newTestHandler(t, newFakeManager(test.status), Options{}), "/healthz")
			assert.Equal(t, test.code, answer.Code)
			assert.Equal(t, test.says, answer.Body.String())
		})
	}
	both := newTestHandler(t, newFakeManager(volumemanager.Status{}), Options{})
	assert.Len(t, both.Health(), 2)
}
