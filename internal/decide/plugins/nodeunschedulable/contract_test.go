package nodeunschedulable

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, New(), plugintest.Contract{
		Name: "NodeUnschedulable", FilterReads: model.Taints,
		Events: []string{"NodeAdd NodeUpdateNodeTaint, hint", "TargetPodUpdatePodToleration, hint"},
	})
	if got := plugintest.FilterNeed(New(), model.NewPod(&v1.Pod{})).String(); got != "schedulable" {
		t.Errorf("the need is %q", got)
	}
}
