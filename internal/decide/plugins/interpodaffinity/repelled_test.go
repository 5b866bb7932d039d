package interpodaffinity_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestRepelledPodsHearOfNodes: a pod that running pods repel is woken by a node that can
// be in another domain, and by a node that leaves a domain of their topology key.
func TestRepelledPodsHearOfNodes(t *testing.T) {
	web := wearing("app=web")
	nodes := []*v1.Node{newNode("n1", "rack=r1")}
	nodes[0].Labels = labelsOf("rack=r1")
	s := plugintest.Cluster(nodes, pod(on("n1"), apart(term("rack", "app=web"))))
	p := newPlugin(t, nil)
	for _, row := range []struct {
		name  string
		pod   *v1.Pod
		event model.Event
		want  bool
	}{
		{"node came", pod(web), nodeCame("x=y"), true},
		{"node left the rack", pod(web), nodeRelabelled("rack=r1", "rack=r2"), true},
		{"node has no rack any more", pod(web), nodeRelabelled("rack=r1", "x=y"), true},
		{"node came to the rack", pod(web), nodeRelabelled("x=y", "rack=r1"), false},
		{"node has another zone", pod(web), nodeRelabelled("rack=r1 zone=z1", "rack=r1 zone=z2"), false},
		{"node of the rack went", pod(web), nodeWent("rack=r1"), true},
		{"node of no rack went", pod(web), nodeWent("zone=z1"), false},
		{"node came, and nothing repels the pod", pod(wearing("app=db")), nodeCame("x=y"), false},
		{"node went, and nothing repels the pod", pod(wearing("app=db")), nodeWent("rack=r1"), false},
	} {
		if got := askedHelps(p, s, model.NewPod(row.pod), row.event); got != row.want {
			t.Errorf("%s: helps %t, want %t", row.name, got, row.want)
		}
	}
}

// askedHelps reports whether an event finds and helps a pod by its AskedIn need.
func askedHelps(p asking, s *state.State, waiting *model.Pod, e model.Event) (helps bool) {
	asked := p.AskedIn(s.View(), waiting)
	for _, r := range p.EventsToRegister() {
		if r.Asked != nil && r.Concerns(e) && r.Asked.Hint(asked, e) {
			helps = helps || plugintest.Meets(&r, r.Asked.Cause(asked), e)
		}
	}
	return helps
}

type asking interface {
	AskedIn(v state.View, pod *model.Pod) model.Need
	EventsToRegister() []model.EventToRegister
}
