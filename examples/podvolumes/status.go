// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

func status(ctx context.Context, args []string, s streams) error {
	o, err := parse("status", args, "o")
	if err != nil {
		return err
	}
	ctx, cancel := o.limit(ctx)
	defer cancel()
	plugins, err := openPlugins(ctx, o, volume.Host{})
	if err != nil {
		return err
	}
	defer plugins.Close()
	statuses, err := volumemanager.Inspect(ctx, plugins, volumemanager.InspectOptions{Metrics: true})
	if err != nil {
		return err
	}
	slices.SortStableFunc(statuses, func(a, b volumemanager.PodStatus) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	pods := make([]reportedPod, len(statuses))
	for i := range statuses {
		pods[i].PodStatus = statuses[i]
	}
	if err := show(pods, o.output, s); err != nil {
		return err
	}
	if len(pods) == 0 && o.output == "" {
		_, _ = fmt.Fprintf(s.out, "nothing is set up in %s\n", plugins.Host().Root)
	}
	return complainAbout(pods, s)
}
