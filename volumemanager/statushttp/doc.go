// SPDX-License-Identifier: Apache-2.0

// Package statushttp shows what a volume manager does, over HTTP: to a person, to programs, to Prometheus and to whatever
// restarts the program when it has to be.
//
//	status := statushttp.New(manager, statushttp.Options{})
//	defer status.Close()
//	mux.Handle("/volumes/", http.StripPrefix("/volumes", status))
//
// It changes nothing and answers only GET and HEAD. All that it shows is in the manager's memory: no answer waits for a disk,
// a plugin or a volume that hangs.
//
//   - / is a page, which keeps itself up to date where JavaScript runs.
//   - /state is [volumemanager.Status] as JSON, with one more field: "overview" has the sums, what there is to say, and what
//     happened last. Fields are only ever added.
//   - /metrics is what [Handler.Collector] tells, in Prometheus' format.
//   - /healthz is 200 "ok", or 503 with a line for each reason, see [Handler.Health].
//
// Whoever reaches it reads the names of pods, volumes and paths of the host, and the texts of errors. It asks for no
// credentials and is not to be served beyond the machine without something before it that does. A server on a loopback
// address still has to refuse requests whose Host header is not its own, since any web page can send those (DNS rebinding).
package statushttp
