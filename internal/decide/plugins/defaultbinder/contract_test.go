package defaultbinder

import (
	"testing"

	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, New(), plugintest.Contract{Name: "DefaultBinder"})
	if New().Tries() != 4 {
		t.Errorf("%d tries", New().Tries())
	}
}
