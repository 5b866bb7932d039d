package volumezone

import (
	"testing"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, New(), plugintest.Contract{
		Name: "VolumeZone", FilterReads: model.Labels,
		Reads: []model.Kind{model.PersistentVolumeKind, model.PersistentVolumeClaimKind, model.StorageClassKind},
		Events: []string{
			"storage.k8s.io/StorageClassAdd storage.k8s.io/StorageClassUpdate, hint", "NodeAdd NodeUpdateNodeLabel", "PersistentVolumeClaimAdd PersistentVolumeClaimUpdate, hint, alike, cause",
			"PersistentVolumeAdd PersistentVolumeUpdate, hint",
		},
	})
}
