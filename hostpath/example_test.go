// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/volume"
)

// A pod's hostPath is made, and another one that leads out of the allowed directory is refused.
func Example() {
	host, err := os.MkdirTemp("", "host")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(host)
	ctx := context.Background()
	data := filepath.Join(host, "data")
	plugin := hostpath.New(hostpath.Options{AllowedPaths: []hostpath.AllowedPath{{Prefix: data}}})
	mgr, err := volume.NewVolumePluginMgr(ctx, volume.Host{Root: filepath.Join(host, "root")}, []volume.VolumePlugin{plugin})
	if err != nil {
		log.Fatal(err)
	}
	defer mgr.Close()

	kind := v1.HostPathDirectoryOrCreate
	for _, path := range []string{filepath.Join(data, "logs"), filepath.Join(host, "etc")} {
		spec := volume.NewSpecFromVolume(&v1.Volume{
			Name:         "logs",
			VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &kind}},
		})
		plugin, err := mgr.FindPluginBySpec(spec)
		if err != nil {
			log.Fatal(err)
		}
		mounter, err := plugin.NewMounter(spec, nil)
		if err != nil {
			log.Fatal(err)
		}
		switch err := mounter.SetUp(ctx, volume.SetUpOptions{}); {
		case errors.Is(err, volume.ErrInvalid):
			fmt.Println("refused")
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println("set up at", strings.TrimPrefix(mounter.Path(), host))
		}
	}
	// Output:
	// set up at /data/logs
	// refused
}
