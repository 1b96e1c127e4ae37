// SPDX-License-Identifier: Apache-2.0

// Package job is what the machine that runs a guest and the guest's first process tell each other.
package job

import (
	"fmt"
	"strconv"
	"strings"
)

// File is where the guest finds its job.
const File = "/vm/job.json"

// Job is what the guest does.
type Job struct {
	Program   string
	Args, Env []string
}

const marker = "\n\x00the program ended with status "

// Ended is what the guest writes after the output of its program.
func Ended(status int) string { return fmt.Sprintf("%s%d\n", marker, status) }

// Split takes the output apart from what Ended wrote after it. The status is -1 if that is missing.
func Split(all string) (output string, status int) {
	at := strings.LastIndex(all, marker)
	if at < 0 {
		return all, -1
	}
	status, err := strconv.Atoi(strings.TrimSuffix(all[at+len(marker):], "\n"))
	if err != nil {
		return all, -1
	}
	return all[:at], status
}
