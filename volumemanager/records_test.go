// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/internal/record"
	"github.com/volumekit/volumekit/objects"
	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
)

// everySource is one volume of each kind, with every field that the kind has.
var everySource = map[string]v1.VolumeSource{
	"empty-dir":             {EmptyDir: &v1.EmptyDirVolumeSource{}},
	"empty-dir with a size": {EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("1500M"))}},
	"empty-dir in memory":   {EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("0.5Gi"))}},
	"host-path":             {HostPath: &v1.HostPathVolumeSource{Path: "/"}},
	"host-path of a type":   {HostPath: &v1.HostPathVolumeSource{Path: "/etc/", Type: ptr.To(v1.HostPathDirectory)}},
	"config map": {ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "none"}, Optional: ptr.To(true),
		DefaultMode: ptr.To[int32](0o400), DefaultUser: ptr.To[int64](0), Items: []v1.KeyToPath{{Key: "a", Path: "b", Mode: ptr.To[int32](0o440)}}}},
	"secret": {Secret: &v1.SecretVolumeSource{SecretName: "none", Optional: ptr.To(true), DefaultMode: ptr.To[int32](0o400)}},
	"downward API": {DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
		{Path: "labels", FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels"}}}}},
	"projected": {Projected: &v1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](0o400), Sources: []v1.VolumeProjection{
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "none"}, Optional: ptr.To(true)}},
		{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "none"}, Optional: ptr.To(true)}},
		{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: ptr.To("none"), Optional: ptr.To(true), Path: "ca.crt"}}}}},
}

func isOnTmpfs(source v1.VolumeSource) bool {
	return source.EmptyDir != nil && source.EmptyDir.Medium == v1.StorageMediumMemory ||
		source.ConfigMap != nil || source.Secret != nil || source.DownwardAPI != nil || source.Projected != nil
}

func TestTheSpecThatIsRebuiltIsTheOneThatWasSetUp(t *testing.T) {
	for name, source := range everySource {
		t.Run(name, func(t *testing.T) {
			if isOnTmpfs(source) && os.Geteuid() != 0 {
				t.Skip("a tmpfs needs root")
			}
			mgr, err := volume.NewVolumePluginMgr(t.Context(), objects.NewStore().Fill(volume.Host{Root: t.TempDir()}), plugins.Default())
			require.NoError(t, err)
			defer mgr.Close()
			pod := &v1.Pod{}
			pod.Namespace, pod.Name, pod.UID = "default", "web", "uid"
			pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: source}}
			wanted := specOf(&pod.Spec.Volumes[0])

			rebuilt := func(when string) {
				found, err := readRecord(mgr.Host(), pod.UID)
				require.NoError(t, err, when)
				require.Len(t, found.Volumes, 1, when)
				assert.True(t, equality.Semantic.DeepEqual(wanted, found.Volumes[0].spec()), "%s: %v", when, found.Volumes[0].spec())
				assert.True(t, equality.Semantic.DeepEqual(recordedPod(pod), found.Pod), when)
			}
			for _, when := range []string{"set up", "set up again, by another process"} {
				m, err := New(t.Context(), mgr, Options{})
				require.NoError(t, err)
				_, err = m.SetUpPod(t.Context(), pod)
				require.NoError(t, err)
				rebuilt(when)
				require.NoError(t, m.Close())
			}
			require.NoError(t, markLeaving(mgr.Host(), pod.UID))
			rebuilt("when tearing down has begun")
			m, err := New(t.Context(), mgr, Options{})
			require.NoError(t, err)
			defer func() { _ = m.Close() }()
			require.NoError(t, m.Recover(t.Context()))
			p := m.pods[pod.UID]
			require.Len(t, p.volumes, 1)
			assert.True(t, p.volumes[0].record.TearingDown)
			require.NoError(t, m.TearDownPod(t.Context(), pod.UID))
			assert.False(t, isRecorded(mgr.Host(), pod.UID))
		})
	}
}

func TestAPersistentVolumeIsRebuiltFromItsRecord(t *testing.T) {
	pv := &v1.PersistentVolume{}
	pv.Name = "pv-1"
	pv.Spec.HostPath = &v1.HostPathVolumeSource{Path: "/data"}
	wanted := podVolume{name: "data", spec: volume.NewSpecFromPersistentVolume(pv, true), id: volumeID{"kubernetes.io/host-path", "pv-1"}}
	data, err := json.Marshal(newVolumeRecord(&wanted))
	require.NoError(t, err)
	var r volumeRecord
	require.NoError(t, json.Unmarshal(data, &r))
	assert.Equal(t, wanted.spec, r.spec())
	assert.True(t, r.isOf(&wanted))
}

func TestARecordThatNamesWhatNobodyWroteIsDamaged(t *testing.T) {
	host := volume.Host{Root: t.TempDir()}
	for name, change := range map[string]func(*podRecord){
		"no pod":                      func(r *podRecord) { r.Pod = nil },
		"a pod without a name":        func(r *podRecord) { r.Pod.Name = "" },
		"another pod's UID":           func(r *podRecord) { r.Pod.UID = "../x" },
		"a volume that leads away":    func(r *podRecord) { r.Volumes[0].Name = "../x" },
		"a plugin that leads away":    func(r *podRecord) { r.Volumes[0].Plugin = ".." },
		"a plugin that leads far":     func(r *podRecord) { r.Volumes[0].Plugin = "../../.." },
		"a name in the pod that does": func(r *podRecord) { r.Volumes[0].Volume = "a/b" },
	} {
		t.Run(name, func(t *testing.T) {
			r := podRecord{Pod: &v1.Pod{}, Volumes: []volumeRecord{{volumeID: volumeID{"a/b", "c"}, Volume: "c"}}}
			r.Pod.Namespace, r.Pod.Name, r.Pod.UID = "default", "web", "uid"
			require.NoError(t, record.Write(recordPath(host, "uid"), recordVersion, &r))
			_, err := readRecord(host, "uid")
			require.NoError(t, err)
			change(&r)
			require.NoError(t, record.Write(recordPath(host, "uid"), recordVersion, &r))
			_, err = readRecord(host, "uid")
			require.ErrorIs(t, err, record.ErrDamaged)
		})
	}
}

func FuzzReadingARecordNeverPanics(f *testing.F) {
	f.Add([]byte(`{"version":1,"content":{"pod":{"metadata":{"name":"web","namespace":"default","uid":"uid"}},"volumes":[{"plugin":"a/b","name":"c","volume":"c"}]}}`))
	f.Add([]byte(`{"version":1,"content":{"volumes":[{}]}}`))
	f.Add([]byte(``))
	host := volume.Host{Root: f.TempDir()}
	uid := types.UID("uid")
	require.NoError(f, os.MkdirAll(host.PodDir(uid), 0o750))
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(recordPath(host, uid), data, 0o600))
		r, err := readRecord(host, uid)
		if err != nil {
			require.ErrorIs(t, err, record.ErrDamaged)
			return
		}
		for i := range r.Volumes {
			_ = r.Volumes[i].spec()
		}
	})
}
