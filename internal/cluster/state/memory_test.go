package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/elements"
)

// TestNothingRefersToWhatIsGone removes one of two items of every kind that lists hold.
// Nothing may refer to it any more, not even from behind the end of a list, which the
// garbage collector reads too.
func TestNothingRefersToWhatIsGone(t *testing.T) {
	s := New()
	pod := func(i int) model.Change {
		term := build.Term("zone", "app=web", build.Namespaces("default", fmt.Sprint("other-", i)))
		p := build.Pod(build.Named(fmt.Sprint("p", i)), build.NodeName("a"), build.Labels("app=web"), build.RequiredAntiAffinity(term))
		return model.Change{Kind: model.PodSet, Pod: model.NewPod(p)}
	}
	service := func(i int) model.Change {
		return serviceOf("default", fmt.Sprint("s", i), map[string]string{"app": "web", "tier": fmt.Sprint(i)})
	}
	ask := func(i int) *Tally {
		term := &model.Term{Namespaces: []string{"default"}, Selector: labels.SelectorFromSet(labels.Set{"app": "web"})}
		return s.Tally(PodSet{Text: fmt.Sprint(i), Terms: []*model.Term{term}}, TopologyKey{}, NodeSet{})
	}
	s.Apply([]model.Change{node("a"), pod(0), pod(1), serviceOf("default", "all", map[string]string{"app": "web"})})
	s.Apply([]model.Change{serviceOf("default", "twin", map[string]string{"app": "web", "all": "x"}), service(0), service(1)})
	ask(0)
	last := ask(1)
	have := func() map[string]int {
		all := elements.Reachable(s)
		return map[string]int{
			"pods": all["*state.placed"], "models": all["*model.Pod"], "terms": all["*state.TermCounts"], "sets": all["*state.podCounts"], "services": all["*state.serviceSelector"],
		}
	}
	expect := func(when string, want map[string]int) {
		t.Helper()
		if got := have(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	expect("with all", map[string]int{"pods": 2, "models": 2, "terms": 2, "sets": 2, "services": 4})
	s.Apply([]model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: "default", Name: "p1"}}})
	expect("without a pod", map[string]int{"pods": 1, "models": 1, "terms": 1, "sets": 2, "services": 4})
	s.dropTally(last)
	s.Apply(nil)
	expect("without a tally", map[string]int{"pods": 1, "models": 1, "terms": 1, "sets": 1, "services": 4})
	for _, name := range []string{"s1", "s0", "twin"} {
		s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.ServiceKind, Namespace: "default", Name: name}}})
	}
	expect("without services", map[string]int{"pods": 1, "models": 1, "terms": 1, "sets": 1, "services": 1})
	audited(t, s)
}

// TestListsOfServicesEndWithNothing removes the first and the last selector listed under
// one label: the list refers to neither any more.
func TestListsOfServicesEndWithNothing(t *testing.T) {
	x := newServices()
	ref := func(name string) model.Ref { return model.Ref{Kind: model.ServiceKind, Namespace: "ns", Name: name} }
	under := serviceLabel{"ns", model.Label{Key: "app", Value: "web"}}
	for i, name := range []string{"a", "b", "c"} {
		s := &serviceSelector{serviceSet: serviceSet{"ns", name}, labels: labels.Set{"app": "web"}}
		x.list(s, uint64(i))
	}
	for _, name := range []string{"a", "c"} {
		x.unlist(x.bySet[serviceSet{"ns", name}], 9)
	}
	l := x.byLabel[under]
	if len(l.selectors) != 1 || l.selectors[0].text != "b" || l.selectors[0].at != 0 || l.version != 9 || slices.ContainsFunc(l.selectors[1:3], func(s *serviceSelector) bool { return s != nil }) {
		t.Errorf("%+v is left, and behind its end %v", l, l.selectors[1:3])
	}
	if x.set(ref("none"), nil, 1) {
		t.Error("a service that was not there is gone, and that changes something")
	}
}

// TestFreeSlotsKeepNoMemory removes a node after many pods: the slot is free, and keeps
// none of their lists.
func TestFreeSlotsKeepNoMemory(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a")})
	for i := range 10 {
		p := podOn(fmt.Sprint("p", i), fmt.Sprint(i), "a", 1)
		p.Pod.Object.Spec.Containers[0].Resources.Requests[v1.ResourceName(fmt.Sprint("example.com/r", i))] = resource.MustParse("1")
		p.Pod.Object.Spec.Priority = new(int32(i))
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p.Pod.Object)}})
	}
	for i := range 10 {
		s.Apply([]model.Change{podGone(fmt.Sprint("p", i))})
	}
	s.Apply([]model.Change{nodeGone("a")})
	if !s.isFree(0) || cap(s.pods[0])+cap(s.ports[0].ports)+cap(s.bands[0])+cap(s.used[0].Scalars) != 0 {
		t.Errorf("slot 0 is free: %t, with room for %d pods, %d ports, %d bands and %d resources", s.isFree(0), cap(s.pods[0]), cap(s.ports[0].ports), cap(s.bands[0]), cap(s.used[0].Scalars))
	}
	audited(t, s)
}

// TestPlainPodsKeepNothingBesides assumes a pod without holds and nomination: nothing is
// allocated for the undo.
func TestPlainPodsKeepNothingBesides(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a")})
	s.Assume(placementOf(podOn("p", "p", "", 1).Pod, "a"))
	if p := s.placed[model.PodKey{Namespace: "ns", Name: "p"}]; p.extras != nil {
		t.Errorf("besides the use of its node %+v is kept of a pod", p.extras)
	}
}

// TestCutTo cuts lists: in the same memory, cleared behind the end, unless the capacity
// is more than twice as large as needed, or as 1,024 slots need.
func TestCutTo(t *testing.T) {
	for _, row := range []struct {
		capacity, n int
		same        bool
	}{{10, 5, true}, {2048, 5, true}, {2049, 5, false}, {4000, 2000, true}, {4001, 2000, false}} {
		of := make([]*int, row.capacity)
		for i := range of {
			of[i] = &i
		}
		got := cutTo(of, row.n)
		if same := &got[0] == &of[0]; same != row.same || len(got) != row.n || *got[row.n-1] != row.n-1 {
			t.Errorf("%d of %d: %d are left, in the same memory: %t", row.n, row.capacity, len(got), same)
		}
		if row.same && slices.ContainsFunc(of[row.n:], func(i *int) bool { return i != nil }) {
			t.Errorf("%d of %d: something is left behind the end", row.n, row.capacity)
		}
	}
}

// TestCleared makes zeros: in the same memory if it is large enough, and otherwise with a
// quarter more capacity.
func TestCleared(t *testing.T) {
	of := cleared([]int32(nil), 100)
	if len(of) != 100 || cap(of) != 125 {
		t.Errorf("%d zeros in room for %d", len(of), cap(of))
	}
	for _, row := range []struct {
		n    int
		same bool
	}{{50, true}, {125, true}, {126, false}} {
		of[0] = 7
		if got := cleared(of, row.n); len(got) != row.n || got[0] != 0 || (&got[0] == &of[0]) != row.same {
			t.Errorf("%d of %d: %d zeros, the first is %d, in the same memory: %t", row.n, cap(of), len(got), got[0], &got[0] == &of[0])
		}
	}
}

// TestLowestFirst puts slots into a heap in random order, cuts it, and takes them out
// again: the lowest comes first.
func TestLowestFirst(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 6))
		var h lowestFirst
		n, bound := 1+r.IntN(60), r.IntN(60)
		for _, slot := range r.Perm(n) {
			h.put(int32(slot))
		}
		// Whatever the order, the heap may have been cut at any slot.
		h = h.below(bound)
		for want := range min(n, bound) {
			if slot := h.take(); int(slot) != want {
				t.Fatalf("seed %d: slot %d of %d below %d is taken, want %d", seed, slot, n, bound, want)
			}
		}
		if len(h) != 0 {
			t.Errorf("seed %d: %v is left", seed, h)
		}
	}
}

// item is an item for an index.
type item struct{ filed filing[int] }

func (i *item) filing() *filing[int] { return &i.filed }

// TestIndex files items under random keys and removes them, and compares with the keys of
// each item. A removed item can be filed again.
func TestIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	var x index[int, *item]
	items, filed := make([]*item, 30), map[*item][]int{}
	for i := range items {
		items[i] = &item{}
	}
	for range 3000 {
		if i := items[r.IntN(len(items))]; filed[i] == nil {
			filed[i] = r.Perm(8)[:1+r.IntN(4)]
			x.add(i, slices.Clone(filed[i]))
		} else {
			x.remove(i)
			delete(filed, i)
			if len(i.filed.keys)+len(i.filed.at) > 0 {
				t.Fatalf("an item that was removed is filed under %v", i.filed.keys)
			}
		}
		listed := 0
		for key := range 8 {
			n := 0
			for i, keys := range filed {
				if slices.Contains(keys, key) {
					n++
					if countOf(x.under.Get(key), i) != 1 {
						t.Fatalf("an item is listed %d times under %d", countOf(x.under.Get(key), i), key)
					}
				}
			}
			if x.listed([]int{key}) != n || x.under.Has(key) != (n > 0) {
				t.Fatalf("%d items are listed under %d, want %d", x.listed([]int{key}), key, n)
			}
			if slices.ContainsFunc(x.under.Get(key)[n:cap(x.under.Get(key))], func(i *item) bool { return i != nil }) {
				t.Fatalf("behind the end of what is listed under %d something is left", key)
			}
			listed += n
		}
		if got := x.listed([]int{0, 1, 2, 3, 4, 5, 6, 7}); got != listed {
			t.Fatalf("%d items are listed under all keys, want %d", got, listed)
		}
	}
}

// TestDraftsForgetTheirChanges resets a draft: it refers to none of its former pods.
func TestDraftsForgetTheirChanges(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a")})
	d := new(Draft)
	s.View().DryRun(d).Add(podOn("p", "p", "", 1).Pod, 0)
	if s.View().DryRun(d); len(d.changes) != 0 || d.changes[:1][0].pod != nil {
		t.Errorf("a draft begun anew has the change %+v", d.changes[:1])
	}
}

// TestDomainsWithoutNodesHaveNoValue moves a node to another zone: the former zone's name
// is forgotten, and its number is used again.
func TestDomainsWithoutNodesHaveNoValue(t *testing.T) {
	s := New()
	zone := func(name, zone string) model.Change {
		return model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node(name, build.NodeLabels("zone="+zone)))}
	}
	s.Apply([]model.Change{zone("a", "x"), zone("b", "y")})
	zones := s.topology(TopologyKey{Label: "zone"})
	for _, step := range []struct {
		change model.Change
		want   []string
	}{{zone("a", "y"), []string{"", "y"}}, {zone("b", "z"), []string{"z", "y"}}, {nodeGone("a"), []string{"z", ""}}} {
		if s.Apply([]model.Change{step.change}); !slices.Equal(zones.value, step.want) {
			t.Errorf("the domains are %q, want %q", zones.value, step.want)
		}
		audited(t, s)
	}
}
