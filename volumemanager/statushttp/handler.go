// SPDX-License-Identifier: Apache-2.0

package statushttp

import (
	"context"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/volumekit/volumekit/volumemanager"
)

// Options are the options of [New]. The zero value is right for most programs.
type Options struct {
	// Title heads the page, "Volumes" if empty.
	Title string

	// Notices returns what else there is to say to a person, one sentence each, such as that a configuration cannot be read.
	// They are on the page and in the overview of /state. It is called for every request, concurrently, and must not block.
	// Nil if there is nothing.
	Notices func() []string
}

// Handler is an [http.Handler] that shows a volume manager, see the package documentation. It works below any prefix that
// [http.StripPrefix] takes away, if what is left begins with a slash.
type Handler struct {
	source  source
	options Options
	recent  recentEvents
	metrics *operationMetrics
	prom    http.Handler
	page    *page

	cancel    context.CancelFunc
	listening sync.WaitGroup
}

// source is what a handler needs of a [volumemanager.Manager]; tests have one of their own.
type source interface {
	Status() volumemanager.Status
	Events(ctx context.Context, buffer int) <-chan volumemanager.Event
}

// eventBuffer is how many events wait while a scrape holds the counters up.
const eventBuffer = 4096

// New returns a handler that shows the manager, and counts what happens from now on, until it is closed.
func New(manager *volumemanager.Manager, options Options) *Handler {
	return newHandler(manager, options)
}

func newHandler(manager source, options Options) *Handler {
	if options.Title == "" {
		options.Title = "Volumes"
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &Handler{source: manager, options: options, metrics: newOperationMetrics(), page: newPage(), cancel: cancel}
	registry := prometheus.NewRegistry()
	registry.MustRegister(h.Collector())
	h.prom = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	events := manager.Events(ctx, eventBuffer)
	h.listening.Go(func() {
		for e := range events {
			h.metrics.observe(e)
			h.recent.add(e)
		}
	})
	return h
}

// Close ends the counting. What is served after that shows the manager as it is, but nothing that happened later.
func (h *Handler) Close() {
	h.cancel()
	h.listening.Wait()
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", h.page.policy)
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are answered here", http.StatusMethodNotAllowed)
		return
	}
	switch r.URL.Path {
	case "/":
		h.servePage(w)
	case "/state":
		h.serveState(w)
	case "/metrics":
		h.prom.ServeHTTP(w, r)
	case "/healthz":
		h.serveHealth(w)
	default:
		http.Error(w, "not found: there are /, /state, /metrics and /healthz", http.StatusNotFound)
	}
}

// respond sends an answer that is complete.
func respond(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	// Nobody is left to hear of an error.
	_, _ = w.Write(body)
}
