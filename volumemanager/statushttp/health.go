// SPDX-License-Identifier: Apache-2.0

package statushttp

import (
	"net/http"
	"strings"

	"github.com/volumekit/volumekit/volumemanager"
)

// Health returns the reasons for which the program should be looked after, or restarted: none if it does its work.
//
// It is about the manager, not about volumes. A volume that fails, a plugin that does not return or a pod that is refused is
// no reason: another process would meet the same disk and the same server, and begin by waiting for them anew. What is a
// reason is that nobody closes the difference between what is wanted and what is there: [volumemanager.Manager.Run] has not
// been called or has ended, or it has not taken over yet what an earlier process left. The latter is so for a moment on
// every start, so a probe that restarts should allow for that.
func (h *Handler) Health() []string { return unhealthy(h.source.Status()) }

func unhealthy(status volumemanager.Status) []string {
	var reasons []string
	if !status.Running {
		reasons = append(reasons, "the volume manager is not running: nothing is set up, taken away or tried again")
	}
	if !status.Recovered {
		reasons = append(reasons, "what an earlier run left has not been taken over yet")
	}
	return reasons
}

func (h *Handler) serveHealth(w http.ResponseWriter) {
	const text = "text/plain; charset=utf-8"
	if reasons := h.Health(); len(reasons) > 0 {
		respond(w, http.StatusServiceUnavailable, text, []byte(strings.Join(reasons, "\n")+"\n"))
		return
	}
	respond(w, http.StatusOK, text, []byte("ok\n"))
}
