// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
)

func ExampleLoad() {
	stdin := strings.NewReader(`
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db
spec:
  replicas: 2
  template:
    spec:
      containers:
      - name: db
        image: registry.example/db
      volumes:
      - name: scratch
        emptyDir: {}
---
apiVersion: v1
kind: Service
metadata:
  name: db
---
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: web
    volumeMount: []
`)
	result, errs := manifest.Load(context.Background(), []string{"-"}, manifest.Options{Stdin: stdin})
	for _, pod := range result.Pods {
		fmt.Println(pod.Pod.Namespace, pod.Pod.Name, pod.Pod.Spec.Volumes[0].Name)
	}
	for _, ignored := range result.Ignored {
		fmt.Println(ignored.Origin, ignored.Reason)
	}
	for _, err := range errs {
		fmt.Println(err)
	}
	// Output:
	// default db-0 scratch
	// default db-1 scratch
	// standard input: document 2 (line 17): Service db is of no kind that makes pods or volumes
	// standard input: document 3 (line 22): Pod default/web: unknown field "spec.containers[0].volumeMount" (line 29)
}
