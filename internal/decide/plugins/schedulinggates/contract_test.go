package schedulinggates

import (
	"testing"

	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, New(), plugintest.Contract{Name: "SchedulingGates", Events: []string{"TargetPodUpdatePodSchedulingGatesEliminated"}})
}
