package volumerestrictions

import (
	"testing"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugins/plugintest"
)

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, New(), plugintest.Contract{
		Name: "VolumeRestrictions", FilterReads: model.Volumes, Reads: []model.Kind{model.PersistentVolumeClaimKind},
		Events: []string{"AssignedPodDelete, hint, alike, cause", "NodeAdd", "PersistentVolumeClaimAdd, hint, alike, cause"},
	})
}

// The texts of needs are compared as they are: a text that says too little lets pods share a column that is not theirs.
func TestTexts(t *testing.T) {
	r := restrictions{
		disks: []model.Disk{
			{Kind: model.RBDDisk, Name: "image", Pool: "pool", Monitors: []string{"m2", "m1"}}, {Kind: model.AWSDisk, Name: "vol-1", ReadOnly: true},
			{Kind: model.AWSDisk, Name: "vol-1", ReadOnly: true},
		},
		claims: []string{"a", "b"}, conflicts: 12, besides: []besides{{34, 56}, {7, -1}},
	}
	if got, want := string(r.AppendText(nil)), `12"a""b"@34 56@7 -1#1true"vol-1"""#3false"image""pool""m1""m2"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
