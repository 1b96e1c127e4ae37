// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/volume"
)

func soundPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "7a1f"},
		Spec: v1.PodSpec{
			Volumes:        []v1.Volume{{Name: "cache"}, {Name: "logs"}},
			InitContainers: []v1.Container{{Name: "init", VolumeMounts: []v1.VolumeMount{{Name: "cache", MountPath: "/cache"}}}},
			Containers:     []v1.Container{{Name: "web", VolumeMounts: []v1.VolumeMount{{Name: "cache", MountPath: "/cache"}, {Name: "logs", MountPath: "/logs"}}}},
			EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
				Name: "debug", VolumeMounts: []v1.VolumeMount{{Name: "logs", MountPath: "/logs"}}}}},
		},
	}
}

func TestASoundPodIsAccepted(t *testing.T) {
	require.NoError(t, checkPod(soundPod()))
}

func TestAPodIsRefusedByTheNameOfWhatIsWrong(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(*v1.Pod)
		says  string
	}{
		"a UID that leads out of the directory": {func(p *v1.Pod) { p.UID = "../x" }, `pod UID "../x"`},
		"an empty UID":                          {func(p *v1.Pod) { p.UID = "" }, "pod UID"},
		"a UID of 300 bytes":                    {func(p *v1.Pod) { p.UID = types.UID(strings.Repeat("u", 300)) }, "300 bytes"},
		"a volume name with a slash":            {func(p *v1.Pod) { p.Spec.Volumes[0].Name = "a/b" }, `"a/b"`},
		"a volume name that is a parent":        {func(p *v1.Pod) { p.Spec.Volumes[0].Name = ".." }, `".."`},
		"a volume name of 300 bytes":            {func(p *v1.Pod) { p.Spec.Volumes[0].Name = strings.Repeat("v", 300) }, "must be no more than 63"},
		"two volumes of one name":               {func(p *v1.Pod) { p.Spec.Volumes[1].Name = "cache" }, `two volumes have the name "cache"`},
		"two containers of one name":            {func(p *v1.Pod) { p.Spec.InitContainers[0].Name = "web" }, `two containers have the name "web"`},
		"a mount of a volume that is not there": {func(p *v1.Pod) { p.Spec.Containers[0].VolumeMounts[0].Name = "data" }, `container "web": mounts volume "data", which the pod does not have`},
		"an init container's mount of one":      {func(p *v1.Pod) { p.Spec.InitContainers[0].VolumeMounts[0].Name = "data" }, `container "init": mounts volume "data"`},
		"an ephemeral container's mount of one": {func(p *v1.Pod) { p.Spec.EphemeralContainers[0].VolumeMounts[0].Name = "data" }, `container "debug": mounts volume "data"`},
		"a device that is not there":            {func(p *v1.Pod) { p.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "disk"}} }, `volume "disk" as a device`},
		"an empty mount path":                   {func(p *v1.Pod) { p.Spec.Containers[0].VolumeMounts[0].MountPath = "" }, "mountPath of volume \"cache\" is empty"},
		"a mount path with a colon":             {func(p *v1.Pod) { p.Spec.Containers[0].VolumeMounts[0].MountPath = "/a:/b" }, "colon"},
		"one mount path written in two ways":    {func(p *v1.Pod) { p.Spec.Containers[0].VolumeMounts[1].MountPath = "cache/" }, "is there twice"},
		"an unknown fsGroupChangePolicy": {func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroupChangePolicy: ptr.To(v1.PodFSGroupChangePolicy("Sometimes"))}
		}, `"Sometimes"`},
		"a negative fsGroup":       {func(p *v1.Pod) { p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To(int64(-1))} }, "fsGroup -1"},
		"a namespace with a slash": {func(p *v1.Pod) { p.Namespace = "../etc" }, `"../etc"`},
		"a pod name with a slash":  {func(p *v1.Pod) { p.Name = "a/b" }, `"a/b"`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := soundPod()
			test.spoil(pod)
			err := checkPod(pod)
			require.ErrorIs(t, err, volume.ErrInvalid)
			assert.ErrorContains(t, err, test.says)
		})
	}
}

func TestEverythingThatIsWrongWithAPodIsReportedAtOnce(t *testing.T) {
	pod := soundPod()
	pod.Spec.Volumes[0].Name = "a/b"
	pod.Spec.Containers[0].VolumeMounts[1].MountPath = ""
	err := checkPod(pod)
	assert.ErrorContains(t, err, `"a/b"`)
	assert.ErrorContains(t, err, `mountPath of volume "logs" is empty`)
}

func TestAVolumeWithoutASourceIsAnEmptyDir(t *testing.T) {
	entry := v1.Volume{Name: "cache"}
	assert.Equal(t, volume.SourceEmptyDir, specOf(&entry).Source().Type)
	assert.Nil(t, entry.EmptyDir, "the pod is not changed")
}
