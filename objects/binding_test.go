// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

func claimant(name, claim string, uid types.UID) *v1.PersistentVolume {
	return &v1.PersistentVolume{ObjectMeta: meta("", name), Spec: v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{Namespace: "shop", Name: claim, UID: uid}}}
}

func TestAClaimIsBoundToTheOneVolumeThatNamesIt(t *testing.T) {
	for name, test := range map[string]struct {
		uid     types.UID
		already string
		volumes []*v1.PersistentVolume
		want    string
	}{
		"one names it":                          {volumes: []*v1.PersistentVolume{claimant("a", "c", ""), claimant("b", "other", "")}, want: "a"},
		"none names it":                         {volumes: []*v1.PersistentVolume{claimant("b", "other", ""), {ObjectMeta: meta("", "free")}}},
		"two name it":                           {volumes: []*v1.PersistentVolume{claimant("a", "c", ""), claimant("b", "c", "")}},
		"one names its UID":                     {uid: "1", volumes: []*v1.PersistentVolume{claimant("a", "c", "1"), claimant("b", "c", "2")}, want: "a"},
		"one names the UID of an earlier claim": {uid: "2", volumes: []*v1.PersistentVolume{claimant("a", "c", "1")}},
		"the claim has no UID":                  {volumes: []*v1.PersistentVolume{claimant("a", "c", "1")}, want: "a"},
		"it names another volume itself":        {already: "z", volumes: []*v1.PersistentVolume{claimant("a", "c", "")}, want: "z"},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore()
			require.NoError(t, s.Set(&v1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "c", UID: test.uid}, Spec: v1.PersistentVolumeClaimSpec{VolumeName: test.already},
			}))
			for _, pv := range test.volumes {
				require.NoError(t, s.Set(pv))
			}
			claim, err := s.PersistentVolumeClaim(t.Context(), "shop", "c")
			require.NoError(t, err)
			assert.Equal(t, test.want, claim.Spec.VolumeName)
			assert.Empty(t, claim.Status)
			for _, pv := range test.volumes {
				s.Remove(pv)
			}
			claim, err = s.PersistentVolumeClaim(t.Context(), "shop", "c")
			require.NoError(t, err)
			assert.Equal(t, test.already, claim.Spec.VolumeName, "the claim that is kept was changed")
			assert.Empty(t, s.claimants)
		})
	}
}

func TestWatchersOfAClaimAreToldOfTheVolumesThatNameIt(t *testing.T) {
	s := NewStore()
	require.NoError(t, s.Set(&v1.PersistentVolumeClaim{ObjectMeta: meta("shop", "c")}))
	told := 0
	stop, ok := s.Watch(volume.Reference{Kind: volume.KindPersistentVolumeClaim, Namespace: "shop", Name: "c"}, func() { told++ })
	require.True(t, ok)
	defer stop()
	change := func(want int, pv *v1.PersistentVolume, why string) {
		require.NoError(t, s.Set(pv))
		assert.Equal(t, want, told, why)
		told = 0
	}
	change(1, claimant("a", "c", ""), "it comes")
	labelled := claimant("a", "c", "")
	labelled.Labels = map[string]string{"a": "b"}
	change(0, labelled, "it changes, and still names the claim")
	change(1, claimant("a", "c", "1"), "it names a UID")
	change(1, claimant("a", "other", ""), "it names another claim")
	change(0, claimant("b", "other", ""), "it never named the claim")
	change(1, claimant("a", "c", ""), "it names the claim again")
	change(1, &v1.PersistentVolume{ObjectMeta: meta("", "a")}, "it names none")
	change(1, claimant("a", "c", ""), "it names the claim again")
	s.Remove(claimant("a", "", ""))
	assert.Equal(t, 1, told, "it goes")
}
