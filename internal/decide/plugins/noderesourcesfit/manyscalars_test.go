package noderesourcesfit

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// scalarsOf returns n scalars with the same amount, from a number on.
func scalarsOf(from, n int, amount string) v1.ResourceList {
	list := v1.ResourceList{}
	for i := range n {
		list[v1.ResourceName(fmt.Sprintf("e.io/r%d", from+i))] = resource.MustParse(amount)
	}
	return list
}

// podWith returns a pod that requests the amounts, placed unless node is empty.
func podWith(node string, list v1.ResourceList) *model.Pod {
	p := podOf("")
	p.Spec.NodeName = node
	p.Spec.Containers[0].Resources.Requests = list
	return model.NewPod(p)
}

// TestManyScalarsHaveFewKeys compiles pods with up to thousands of scalars. The keys of
// their causes are bounded, so parking costs little.
func TestManyScalarsHaveFewKeys(t *testing.T) {
	p := newPlugin(t, nil)
	for _, n := range []int{maxKeys, maxKeys + 1, 10_000} {
		waiting := podWith("", scalarsOf(0, n, "1"))
		for _, x := range p.EventsToRegister() {
			if x.Cause == nil {
				continue
			}
			cause := x.Cause(waiting)
			keys := len(cause.Keys)
			for _, way := range cause.Wants {
				for _, clause := range way {
					keys += len(clause)
				}
			}
			if most := 4 * (maxKeys + fixedBits); keys > most {
				t.Errorf("%d scalars: the cause for %v has %d keys, at most %d are expected", n, x.Resource, keys, most)
			}
		}
	}
}

// TestEventsFindManyScalars has events about a single scalar of a pod with many. Each of
// the pod's scalars finds and helps it, and other scalars do not.
func TestEventsFindManyScalars(t *testing.T) {
	p := newPlugin(t, nil)
	const n = 3 * maxKeys
	waiting := podWith("", scalarsOf(0, n, "2"))
	node := func(amount string, last string) *model.Node {
		object := nodeOf("pods=9")
		for name, q := range scalarsOf(0, n-1, amount) {
			object.Status.Allocatable[name] = q
		}
		object.Status.Allocatable[v1.ResourceName(fmt.Sprint("e.io/r", n-1))] = resource.MustParse(last)
		return model.NewNode(object)
	}
	grown := func(before, after *model.Node) model.Event {
		return model.Event{Resource: model.NodeEvent, Action: model.UpdateNodeAllocatable, OldNode: before, Node: after}
	}
	shrunk := func(before, after v1.ResourceList) model.Event {
		return model.Event{Resource: model.AssignedPodEvent, Action: model.UpdatePodScaleDown, OldPod: podWith("n", before), Pod: podWith("n", after)}
	}
	for _, row := range []struct {
		name  string
		event model.Event
		helps bool
	}{
		{"the last scalar grows", grown(node("2", "1"), node("2", "2")), true},
		{"too little grows", grown(node("2", "0"), node("2", "1")), false},
		{"nothing grows", grown(node("2", "2"), node("2", "2")), false},
		{"a pod shrinks in the first", shrunk(scalarsOf(0, 1, "2"), scalarsOf(0, 1, "1")), true},
		{"a pod shrinks in the last", shrunk(scalarsOf(n-1, 1, "2"), nil), true},
		{"a pod shrinks in another", shrunk(scalarsOf(n, 1, "2"), nil), false},
		{"a pod grows", shrunk(scalarsOf(0, 1, "1"), scalarsOf(0, 1, "2")), false},
		{"a pod of as many scalars shrinks in one", shrunk(scalarsOf(0, n, "2"), scalarsOf(0, n-1, "2")), true},
	} {
		if got := plugintest.Helped(t, p, waiting, row.event); got != row.helps {
			t.Errorf("%s: helped is %t, want %t", row.name, got, row.helps)
		}
	}
}

// TestHintsOfManyScalarsAreCheap has hints for a pod with thousands of scalars. They
// search by the few names of the event, and allocate nothing.
func TestHintsOfManyScalarsAreCheap(t *testing.T) {
	build.NotRaced(t)
	waiting := podWith("", scalarsOf(0, 10_000, "2"))
	event := model.Event{OldPod: podWith("n", scalarsOf(20_000, 2, "2")), Pod: podWith("n", nil)}
	allocations := testing.AllocsPerRun(100, func() {
		if podShrinks(waiting, event) {
			t.Fatal("another resource helps")
		}
	})
	if allocations > 0 {
		t.Errorf("a hint allocates %v times", allocations)
	}
}
