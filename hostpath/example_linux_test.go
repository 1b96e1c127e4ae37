// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/volume"
)

// A claim gets a directory of its own.
func ExamplePlugin_NewProvisioner() {
	base, err := os.MkdirTemp("", "base")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(base)
	ctx := context.Background()
	plugin := hostpath.New(hostpath.Options{BasePaths: []string{base}})
	if err := plugin.Init(ctx, volume.Host{Root: "/var/lib/agent", NodeName: "node-1"}); err != nil {
		log.Fatal(err)
	}
	provisioner, err := plugin.NewProvisioner()
	if err != nil {
		log.Fatal(err)
	}
	pv, err := provisioner.Provision(ctx, volume.ProvisionOptions{
		PVName: "pvc-5c0e8a4e-6a5b-4c57-9d4c-0e4d1b5a8f11",
		Claim: &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data"},
			Spec: v1.PersistentVolumeClaimSpec{
				Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		},
		Class: &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "directories"},
			Parameters: map[string]string{"pathPattern": "${.PVC.namespace}/${.PVC.name}", "mode": "0770"},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	info, err := os.Stat(pv.Spec.HostPath.Path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.TrimPrefix(pv.Spec.HostPath.Path, base), info.Mode())

	deleter, err := plugin.NewDeleter()
	if err != nil {
		log.Fatal(err)
	}
	if err := deleter.Delete(ctx, pv); err != nil {
		log.Fatal(err)
	}
	_, err = os.Stat(pv.Spec.HostPath.Path)
	fmt.Println("gone:", errors.Is(err, os.ErrNotExist))
	// Output:
	// /team-a/data drwxrwx---
	// gone: true
}
