package framework_test

import (
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
)

// foreignPods is a list of pods to activate of another package's type.
type foreignPods struct {
	sync.Mutex
	Map map[string]*v1.Pod
}

func (f *foreignPods) Clone() fwk.StateData { return f }

// TestActivation has a plugin that stores pods in the CycleState, in lists of two types.
// They are activated if the pod is placed.
func TestActivation(t *testing.T) {
	for _, test := range []struct {
		foreign, placed bool
		want            []string
	}{{false, true, []string{"x", "y"}}, {true, true, []string{"x", "y"}}, {false, false, nil}, {true, false, nil}} {
		w := newWorld(t, 1, &preFilters{named: "P", f: func(state fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
			data, err := state.Read(public.PodsToActivateKey)
			if err != nil {
				t.Fatal(err)
			}
			pods := data.(*public.PodsToActivate).Map
			if test.foreign {
				pods = map[string]*v1.Pod{}
				state.Write(public.PodsToActivateKey, &foreignPods{Map: pods})
			}
			for _, name := range []string{"y", "x"} {
				pods["ns/"+name] = &v1.Pod{}
				pods["ns/"+name].Name = name
			}
			if !test.placed {
				return nil, status(fwk.Unschedulable, "no")
			}
			return nil, nil
		}})
		w.decide(w.pod("p", "1"))
		if !slices.Equal(w.activated, test.want) {
			t.Errorf("%+v: activated %v", test, w.activated)
		}
	}
}
