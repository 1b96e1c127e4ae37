// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/volumekit/volumekit/volumemanager"
	"github.com/volumekit/volumekit/volumemanager/statushttp"
)

// defaultListen is where run shows its state.
const defaultListen = "127.0.0.1:9808"

// runManager gives the pods of a directory of manifests their volumes, and follows what changes there, until ctx ends. The
// volumes stay, and the next run takes them over.
func runManager(ctx context.Context, args []string, s streams) error {
	o, err := parse("run", args, "f", "listen", "hard-limits")
	if err != nil {
		return err
	}
	if len(o.files) != 1 || o.files[0] == "-" {
		return misuse("say which directory holds the manifests: -f DIR, once")
	}
	listener, err := listen(o.listen)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	source, err := newObjectSource()
	if err != nil {
		return err
	}
	plugins, err := openPlugins(ctx, o, source.host)
	if err != nil {
		return err
	}
	defer plugins.Close()
	manager, err := volumemanager.New(ctx, plugins, volumemanager.Options{Timeout: o.timeout})
	if err != nil {
		return err
	}
	defer func() { _ = manager.Close() }()

	source.book = openBook(plugins.Host(), s)
	keeper := newClaimKeeper(source, manager, plugins, s)
	wanted := &wantedPods{dir: manifestDir{path: o.files[0]}, source: source, manager: manager, claims: keeper, s: s}
	status := statushttp.New(manager, statushttp.Options{Title: "Volumes of " + o.files[0], Notices: wanted.faults})
	defer status.Close()
	server := &http.Server{Handler: onlyFromHere(status), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute}
	changes := watchDir(ctx, o.files[0])

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	defer parts.Wait()
	begin := func(part func() error) {
		parts.Go(func() {
			if err := part(); err != nil {
				cancel(err)
			}
		})
	}
	events := manager.Events(ctx, 10_000)
	begin(func() error { return showEvents(events, s) })
	begin(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the state: %w", err)
		}
		return nil
	})
	wanted.follow(ctx)
	begin(func() error { return manager.Run(ctx) })
	begin(func() error { return keeper.run(ctx) })
	_, _ = fmt.Fprintf(s.out, "manifests in %s, volumes in %s, state at http://%s/\n", o.files[0], plugins.Host().Root, listener.Addr())
	for {
		select {
		case <-changes:
			wanted.follow(ctx)
			continue
		case <-ctx.Done():
		}
		_ = server.Close()
		if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
}

// listen opens a port on a loopback address: what is shown is for the machine itself, and nobody is asked who they are.
func listen(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, misuse("-listen %q is not of the form ADDRESS:PORT: %w", address, err)
	}
	if !isLoopback(host) {
		return nil, misuse("-listen %q: the state is shown to the machine itself only: use a loopback address, such as %s", address, defaultListen)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("-listen %s: %w: choose another port, or 0 for any", address, err)
	}
	return listener, nil
}

func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// onlyFromHere refuses requests that name another host: a page of somebody else's in a browser on this machine can send them, if
// it has its own name lead here (DNS rebinding).
func onlyFromHere(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = strings.Trim(r.Host, "[]")
		}
		if !isLoopback(host) {
			http.Error(w, "this is not the host that the request names", http.StatusMisdirectedRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// showEvents writes a line for what happens, until there is nothing more.
func showEvents(events <-chan volumemanager.Event, s streams) error {
	for e := range events {
		if e.Lost > 0 {
			_, _ = fmt.Fprintf(s.out, "(%d events are not shown)\n", e.Lost)
		}
		for _, warning := range e.Warnings {
			_, _ = fmt.Fprintln(s.out, oneLine(fmt.Sprintf("%s: warning: %s", subject(&e), warning)))
		}
		_, _ = fmt.Fprintln(s.out, oneLine(subject(&e)+": "+eventText(&e)))
	}
	return nil
}

// subject is the volume, or the pod, that an event is about.
func subject(e *volumemanager.Event) string {
	pod := e.Namespace + "/" + e.Name
	if e.Name == "" {
		pod = "pod " + string(e.UID)
	}
	if e.Volume == "" {
		return pod
	}
	return pod + " " + e.Volume
}

func eventText(e *volumemanager.Event) string {
	if e.Err == nil {
		return fmt.Sprintf("%s in %v", e.Operation, e.Duration.Round(10*time.Microsecond))
	}
	text := fmt.Sprintf("%s: %s: %s", e.Operation, e.Outcome, reason(e.Err))
	if !e.NextTry.IsZero() {
		text += fmt.Sprintf("; next try in %v", e.NextTry.Sub(e.Time).Round(time.Millisecond))
	}
	return text
}
