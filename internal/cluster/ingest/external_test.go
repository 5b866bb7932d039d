package ingest_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/model"
)

// activated returns the pods to activate.
func activated(in *ingest.Ingest) []model.PodKey {
	_, pods := in.Asked()
	return pods
}

// TestActivate requests pods from many goroutines. Each is returned once, in the order of
// one goroutine's calls.
func TestActivate(t *testing.T) {
	in := newIngest()
	key := func(i int) model.PodKey { return model.PodKey{Namespace: "ns", Name: fmt.Sprint("p", i)} }
	if !in.Activate(key(2), key(1), key(2)) || !in.Activate(key(1), key(0)) {
		t.Error("there was no room")
	}
	if got, want := activated(in), []model.PodKey{key(2), key(1), key(0)}; !slices.Equal(got, want) {
		t.Errorf("activated %v, want %v", got, want)
	}
	select {
	case <-in.Ready():
	default:
		t.Error("nobody was told")
	}
	if again := activated(in); len(again) > 0 {
		t.Errorf("%v were given twice", again)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 5000 {
				in.Activate(key(i))
			}
		})
	}
	all.Wait()
	if got := activated(in); len(got) != 5000 {
		t.Errorf("%d pods were given, want 5000", len(got))
	}
	if in.Activate(key(1)); len(activated(in)) != 1 {
		t.Error("a pod that was given once is not taken again")
	}
}

// TestAskedTogether requests activations and nominations. Both are returned together and
// once, each in order, with the last nomination of a pod.
func TestAskedTogether(t *testing.T) {
	in := newIngest()
	if nominated, pods := in.Asked(); nominated != nil || pods != nil {
		t.Errorf("nobody asked for %v and %v", nominated, pods)
	}
	p, q := model.PodKey{Name: "p"}, model.PodKey{Name: "q"}
	in.Nominate(model.NominationRequest{Pod: p, NodeName: "a"})
	in.Activate(q)
	in.Nominate(model.NominationRequest{Pod: q, NodeName: "a"})
	in.Nominate(model.NominationRequest{Pod: p, NodeName: "b"})
	nominated, pods := in.Asked()
	if want := []model.NominationRequest{{Pod: p, NodeName: "b"}, {Pod: q, NodeName: "a"}}; !slices.Equal(nominated, want) || !slices.Equal(pods, []model.PodKey{q}) {
		t.Errorf("asked for %v and %v; want %v and %v", nominated, pods, want, q)
	}
	if nominated, pods := in.Asked(); nominated != nil || pods != nil {
		t.Errorf("%v and %v were given twice", nominated, pods)
	}
	in.Nominate(model.NominationRequest{Pod: p})
	if nominated, _ := in.Asked(); len(nominated) != 1 {
		t.Error("a nomination without an activation is not given")
	}
}

// TestActivateIsBounded requests more activations than the limit.
func TestActivateIsBounded(t *testing.T) {
	in := newIngest()
	for i := range ingest.MaxActivated {
		in.Activate(model.PodKey{Name: fmt.Sprint(i)})
	}
	if in.Activate(model.PodKey{Name: "one more"}) || !in.Activate(model.PodKey{Name: "7"}) {
		t.Error("want no room for another pod, and room for one that waits already")
	}
	if n := len(activated(in)); n != ingest.MaxActivated {
		t.Errorf("%d pods wait, want %d", n, ingest.MaxActivated)
	}
}

// raised formats events as text.
func raised(changes []model.Change) (all []string) {
	for _, c := range changes {
		if c.Kind != model.EventRaised {
			all = append(all, words([]model.Change{c}))
			continue
		}
		old, object := c.Event.Objects()
		all = append(all, fmt.Sprintf("%s %v>%v", c.Event.Label(), old, object))
	}
	return all
}

// TestRaise adds changes of one custom resource, and drains them together.
func TestRaise(t *testing.T) {
	type version = any
	for _, row := range []struct {
		what string
		old  []version // of each change
		new  []version
		want []string
	}{
		{"an addition", []version{nil}, []version{1}, []string{"quotas.v1.example.comAdd <nil>>1"}},
		{"a removal", []version{1}, []version{nil}, []string{"quotas.v1.example.comDelete 1><nil>"}},
		{"updates are merged", []version{1, 2}, []version{2, 3}, []string{"quotas.v1.example.comUpdate 1>3"}},
		{"an addition stays one", []version{nil, 1}, []version{1, 2}, []string{"quotas.v1.example.comAdd <nil>>2"}},
		{"a removal is not merged", []version{1, 2, nil, 3}, []version{2, nil, 3, 4}, []string{
			"quotas.v1.example.comUpdate 1>2", "quotas.v1.example.comDelete 2><nil>", "quotas.v1.example.comAdd <nil>>4",
		}},
	} {
		in := newIngest()
		for i := range row.old {
			in.Raise(types.NamespacedName{Name: "a"}, model.OtherChange{Resource: "quotas.v1.example.com", Old: row.old[i], New: row.new[i]})
		}
		if got := raised(in.Drain()); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.what, got, row.want)
		}
	}
	in := newIngest()
	update := func(resource, name string) {
		in.Raise(types.NamespacedName{Name: name}, model.OtherChange{Resource: resource, Old: 1, New: 2})
	}
	update("a.v1.x", "a")
	update("a.v1.x", "b")
	update("b.v1.x", "a")
	if got := raised(in.Drain()); len(got) != 3 {
		t.Errorf("changes of three objects: %q", got)
	}
	update("a.v1.x", "a")
	if got := raised(in.Drain()); len(got) != 1 {
		t.Errorf("after the others were drained: %q", got)
	}
}

// TestRaiseIsBounded adds more changes than the limit. A single AnyEvent replaces them,
// and no other change is lost.
func TestRaiseIsBounded(t *testing.T) {
	in := newIngest()
	in.Set(node("n", 1))
	for i := range ingest.MaxOthers {
		in.Raise(types.NamespacedName{Name: fmt.Sprint(i)}, model.OtherChange{Resource: "a.v1.x", New: 1})
		if i == 5 {
			in.Set(pod("p", 1))
		}
	}
	if n := in.Waiting(); n != ingest.MaxOthers+2 {
		t.Fatalf("%d changes wait", n)
	}
	for i := range 3 {
		in.Raise(types.NamespacedName{Name: fmt.Sprint("more", i)}, model.OtherChange{Resource: "a.v1.x", New: 1})
		in.Set(pod("q", 1)) // behind the event, which keeps its position
	}
	in.Set(pod("p", 2)) // replaces the earlier version
	in.Set(node("n", 2))
	if got, want := raised(in.Drain()), []string{"node n/2", "pod p/2", "*Update <nil>><nil>", "pod q/1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	in.Raise(types.NamespacedName{Name: "a"}, model.OtherChange{Resource: "a.v1.x", New: 1})
	if got := raised(in.Drain()); len(got) != 1 || got[0] != "a.v1.xAdd <nil>>1" {
		t.Errorf("after everything was drained: %q", got)
	}
}
