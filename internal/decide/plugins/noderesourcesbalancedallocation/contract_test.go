package noderesourcesbalancedallocation

import (
	"testing"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, newPlugin(t, "cpu"), plugintest.Contract{
		Name: "NodeResourcesBalancedAllocation", ScoreReads: model.Usage | model.Allocatable,
	})
	if got, want := plugintest.ScoreNeed(newPlugin(t, gpu...), model.NewPod(podOf("p", "cpu=12m memory=34 example.com/gpu=5"))).String(), "12 34 5 "; got != want {
		t.Errorf("the need is %q, want %q", got, want)
	}
}
