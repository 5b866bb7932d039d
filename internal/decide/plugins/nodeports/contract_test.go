package nodeports

import (
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, New(), plugintest.Contract{
		Name: "NodePorts", FilterReads: model.Ports, Events: []string{"AssignedPodDelete, hint, alike, cause", "NodeAdd"},
	})
}

func TestText(t *testing.T) {
	waiting := model.NewPod(object(port("UDP", "10.0.0.1", 8080), port("TCP", "", 8080), port("TCP", "10.0.0.2", 80), port("TCP", "10.0.0.1", 80)))
	before := slices.Clone(waiting.Ports)
	if got, want := plugintest.FilterNeed(New(), waiting).String(), `80"TCP""10.0.0.1"80"TCP""10.0.0.2"8080"TCP""0.0.0.0"8080"UDP""10.0.0.1"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !slices.Equal(waiting.Ports, before) {
		t.Error("the pod's own list is sorted")
	}
}

func TestCauses(t *testing.T) {
	pod := model.NewPod(object(port("TCP", "10.0.0.1", 80), port("UDP", "", 53)))
	if got, want := plugintest.Causes(New(), pod), []string{`wants "TCP:80"|"UDP:53"; keys none`}; !slices.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	gone := model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: pod}
	if got, want := plugintest.Touched(New(), gone), []string{`has "TCP:80" "UDP:53"; seeks any`}; !slices.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}
