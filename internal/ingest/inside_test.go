package ingest

import (
	"fmt"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// TestMapsAreUsedAgain fills the maps of a batch as far as usual, and one further: the first are emptied, the others replaced, because emptying takes as long as they
// were large once.
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

// TestAskedTakesNoLockInVain asks twice: the second time nothing was asked for, which the loop sees without the lock.
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

// TestEveryProducerSignals adds something in each way: whoever waits for it is woken, once for all that came meanwhile.
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
