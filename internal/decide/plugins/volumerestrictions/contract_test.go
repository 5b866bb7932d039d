package volumerestrictions

import (
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, New(), plugintest.Contract{
		Name: "VolumeRestrictions", FilterReads: model.Volumes, Reads: []model.Kind{model.PersistentVolumeClaimKind},
		Events: []string{"AssignedPodDelete, hint, alike, cause", "NodeAdd NodeDelete", "PersistentVolumeClaimAdd PersistentVolumeClaimUpdate, hint, alike, cause"},
	})
}

// The texts of needs are compared literally: an incomplete text would let pods share a
// wrong column.
func TestTexts(t *testing.T) {
	r := restrictions{
		disks: []model.Disk{
			{Kind: model.RBDDisk, Name: "image", Pool: "pool", Monitors: []string{"m2", "m1"}}, {Kind: model.AWSDisk, Name: "vol-1", ReadOnly: true},
			{Kind: model.AWSDisk, Name: "vol-1", ReadOnly: true},
		},
		claims: []string{"a", "b"}, conflicts: 12, extras: []extra{{34, 56}, {7, -1}},
	}
	if got, want := string(r.AppendText(nil)), `12"a""b"@34 56@7 -1#1true"vol-1"""#3false"image""pool""m1""m2"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Events find a waiting pod by its disks, and by the claims that its volumes name.
func TestCauses(t *testing.T) {
	pod := waiting(claims("c"), build.Ephemeral("e"), readOnly("pd=a rbd=m1/p/i ebs=v iscsi=iqn/0"))
	const keys = `"aws:v"|"claim@default:c"|"gce:a"|"iscsi:iqn"|"rbd:i"`
	plugintest.Equal(t, "causes", plugintest.Causes(New(), pod)[:1], "wants "+keys+"; keys none")
	gone := model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: pod}
	plugintest.Equal(t, "touched", plugintest.Touched(New(), gone), "has "+strings.ReplaceAll(keys, "|", " ")+"; seeks any")
}
