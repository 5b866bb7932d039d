package ingest

import (
	"fmt"
	"reflect"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// TestMapsAreUsedAgain fills the maps of a batch up to the usual size, and one element
// further. The small maps are cleared and the large maps replaced, because clearing takes
// time in proportion to the largest size.
func TestMapsAreUsedAgain(t *testing.T) {
	for _, row := range []struct {
		n    int
		same bool
	}{{1, true}, {few, true}, {few + 1, false}} {
		in := New(nil)
		at, asked := reflect.ValueOf(in.at).Pointer(), reflect.ValueOf(in.asked).Pointer()
		for i := range row.n {
			in.Remove(model.Ref{Kind: model.NodeKind, Name: fmt.Sprint(i)})
			in.Activate(model.PodKey{Name: fmt.Sprint(i)})
		}
		in.Drain()
		in.Asked()
		if len(in.at) > 0 || len(in.asked) > 0 {
			t.Errorf("%d changes and %d pods are still known", len(in.at), len(in.asked))
		}
		if got := reflect.ValueOf(in.at).Pointer() == at; got != row.same {
			t.Errorf("after %d changes, the map is the same: %t", row.n, got)
		}
		if got := reflect.ValueOf(in.asked).Pointer() == asked; got != row.same {
			t.Errorf("after %d pods, the map is the same: %t", row.n, got)
		}
	}
}

// TestAskedTakesNoLockInVain calls Asked twice. The second call finds no requests,
// without taking the lock.
func TestAskedTakesNoLockInVain(t *testing.T) {
	in := New(nil)
	for _, ask := range []func(){func() { in.Activate(model.PodKey{}) }, func() { in.Nominate(model.NominationRequest{}) }} {
		ask()
		if !in.asks.Load() {
			t.Error("it does not say that something was asked for")
		}
		if in.Asked(); in.asks.Load() {
			t.Error("it says that something was asked for, after it was taken")
		}
	}
}

// TestEveryProducerSignals adds an element in each way. The receiver is woken, once for
// all additions in the meantime.
func TestEveryProducerSignals(t *testing.T) {
	ref := model.Ref{Kind: model.NodeKind, Name: "n"}
	for name, add := range map[string]func(in *Ingest){
		"a removal":                          func(in *Ingest) { in.Remove(ref) },
		"a binding's result":                 func(in *Ingest) { in.Bound(model.BindingResult{}) },
		"a preemption's result":              func(in *Ingest) { in.Preempted(model.PreemptionResult{}) },
		"pods to be tried":                   func(in *Ingest) { in.Activate(model.PodKey{}) },
		"a nomination":                       func(in *Ingest) { in.Nominate(model.NominationRequest{}) },
		"an object that Berth does not read": func(in *Ingest) { in.Raise(types.NamespacedName{}, model.OtherChange{New: "x"}) },
	} {
		in := New(nil)
		add(in)
		add(in)
		if len(in.Ready()) != 1 {
			t.Errorf("%s is not signalled", name)
		}
	}
}

// TestMalformedIsSetAside has an object of each kind panic while it is compiled. The
// result fails closed: see the table in design/failures.md.
func TestMalformedIsSetAside(t *testing.T) {
	absent := map[model.Kind]bool{}
	for kind := range model.KindCount {
		row := kinds.Get(kind)
		object := row.New()
		object.SetName("x")
		object.SetNamespace("ns")
		object.SetUID("u")
		object.SetLabels(map[string]string{"a": "b"})
		var reported []string
		in := New(nil, OnMalformed(func(ref model.Ref, problem any) { reported = append(reported, fmt.Sprint(ref.Name, problem)) }))
		if claim, ok := object.(*resourcev1.ResourceClaim); ok {
			claim.Status.Allocation = &resourcev1.AllocationResult{}
		}
		if node, ok := object.(*storagev1.CSINode); ok {
			node.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "d"}}
		}
		change := in.guarded(row, object, func() model.Change { panic("!") })
		if len(reported) != 1 || reported[0] != "x!" {
			t.Errorf("%s: reported %q", row.Resource.Resource, reported)
		}
		switch c := change.Compiled.(type) {
		case nil:
			switch {
			case kind == model.PodKind:
				if change.Pod.Malformed == "" || change.Pod.UID != "u" {
					t.Errorf("pod %+v", change.Pod)
				}
			case kind == model.NodeKind:
				if n := change.Node; n.AllowedPods != 0 || !n.Unschedulable() || len(n.Object.Spec.Taints) != 1 || n.Object.Labels["a"] != "b" {
					t.Errorf("node %+v", n)
				}
			default:
				absent[kind] = true
				if change.Kind != model.ObjectGone || change.Ref != row.Ref(object) {
					t.Errorf("%s: change %+v", row.Resource.Resource, change)
				}
			}
			continue
		case *model.DisruptionBudget:
			if c.Allowed != 0 || !c.Covers(&model.Pod{Namespace: "ns", Name: "p", Labels: map[string]string{"any": ""}}, model.BudgetRules{}) {
				t.Errorf("budget %+v", c)
			}
		case *model.ResourceClaim:
			if c.Allocation() == nil || c.Object.DeletionTimestamp == nil {
				t.Errorf("claim %+v", c.Object)
			}
		case *model.CSINode:
			if limit, ok := c.Drivers["d"]; !ok || limit != 0 || !c.Limited {
				t.Errorf("CSINode %+v", c)
			}
		case *model.CSIDriver:
			if !c.TracksCapacity || !c.MustBeInstalled {
				t.Errorf("CSIDriver %+v", c)
			}
		case *model.DeviceTaintRule:
			if c.Object.Spec.Taint.Effect != resourcev1.DeviceTaintEffectNoSchedule {
				t.Errorf("rule %+v", c.Object)
			}
		}
		if change.Compiled.Ref() != row.Ref(object) || change.Ref != row.Ref(object) || change.Compiled.UID() != "u" {
			t.Errorf("%s: change %+v", row.Resource.Resource, change)
		}
	}
	for _, kind := range []model.Kind{model.NodeKind, model.PodDisruptionBudgetKind, model.ResourceClaimKind, model.CSINodeKind, model.CSIDriverKind, model.DeviceTaintRuleKind} {
		if absent[kind] {
			t.Errorf("%s: as an absent one it fails open", kinds.Get(kind).Resource.Resource)
		}
	}
}
