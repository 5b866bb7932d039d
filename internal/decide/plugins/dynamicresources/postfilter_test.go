package dynamicresources

import (
	"errors"
	"slices"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/allocator"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// rejectedCycle is a turn with rejected nodes and nothing else.
type rejectedCycle struct {
	plugin.Cycle
	view state.View
	ran  bool
	by   map[string]reason.Rejection // by node

	asked int // number of calls of Rejected
}

func (c *rejectedCycle) View() state.View          { return c.view }
func (c *rejectedCycle) PreFiltered(p string) bool { return c.ran && p == Name }
func (c *rejectedCycle) Rejected(slot int32) reason.Rejection {
	c.asked++
	return c.by[c.view.Node(slot).Name()]
}

// An allocation that makes nodes infeasible is released, one at a time, unless another
// pod has it reserved.
func TestPostFilter(t *testing.T) {
	own := reason.Rejection{Plugin: Name, Unresolvable: true, Reasons: []string{"resourceclaim not available on the node"}}
	full := reason.Rejection{Plugin: Name, Unresolvable: true, Reasons: []string{"cannot allocate all claims"}}
	other := reason.Rejection{Plugin: "NodeAffinity", Unresolvable: true, Reasons: []string{"resourceclaim not available on the node"}}
	two := reason.Rejection{Plugin: Name, Reasons: []string{"resourceclaim not available on the node", "x"}}
	onB := map[string]reason.Rejection{"a": other, "b": own}
	for _, row := range []struct {
		name   string
		claims []*resourcev1.ResourceClaim
		by     map[string]reason.Rejection
		want   string // the claim that is released
	}{
		{"in the way", []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"))}, onB, "c"},
		{"reserved for the pod", []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"), reserved("p"))}, onB, "c"},
		{"reserved for another", []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"), reserved("p", "o"))}, onB, ""},
		{"the second of two", []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"), reserved("o")), claim("d", 1, allocated("a", "d1"))}, onB, "d"},
		{"the first of two", []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0")), claim("d", 1, allocated("a", "d1"))}, onB, "c"},
		{"only where another plugin objects", []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"))}, map[string]reason.Rejection{"a": own, "b": other}, ""},
		{"other claims do not fit either", []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"))}, map[string]reason.Rejection{"b": full}, ""},
		{"another text", []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"))}, map[string]reason.Rejection{"b": two}, ""},
		{"for all nodes", []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"), func(c *resourcev1.ResourceClaim) { c.Status.Allocation.NodeSelector = nil })}, onB, ""},
		{"broken", []*resourcev1.ResourceClaim{claim("c", 1, allocated("b", "d0"), prepared("Broken"))}, onB, "c"},
		{"not allocated", []*resourcev1.ResourceClaim{claim("c", 1)}, onB, ""},
	} {
		w := newWorld(t)
		var names []string
		for _, c := range row.claims {
			w.set(c)
			names = append(names, c.Name)
		}
		result, err := w.plugin.PostFilter(&rejectedCycle{view: w.View(), ran: true, by: row.by}, pod("p", names...))
		if err != nil || result.Done || result.Nomination != 0 {
			t.Fatalf("%s: %+v, %v", row.name, result, err)
		}
		if (row.want == "") != (len(result.Writes) == 0) || row.want != "" && result.Message != "deallocation of ResourceClaim completed" {
			t.Fatalf("%s: %+v, want %q given back", row.name, result, row.want)
		}
		if row.want == "" {
			continue
		}
		write := result.Writes[0]
		if write.Name != row.want || write.Subresource != "status" || !write.Learn || len(result.Writes) != 1 {
			t.Errorf("%s: %+v", row.name, write)
		}
		of := row.claims[slices.Index(names, row.want)]
		after, err := stored(t, of, &write)
		if err != nil || describe(after) != "free, kept" || len(after.Status.Devices) != 0 {
			t.Errorf("%s: %v, %v", row.name, after, err)
		}
		newer := of.DeepCopy()
		newer.ResourceVersion = "7"
		if _, err := stored(t, newer, &write); err == nil {
			t.Errorf("%s: a claim that has changed is given back", row.name)
		}
		newer = of.DeepCopy()
		newer.UID = "another"
		if _, err := stored(t, newer, &write); err == nil {
			t.Errorf("%s: another claim is given back", row.name)
		}
	}
	w := newWorld(t)
	if _, err := w.plugin.PostFilter(&rejectedCycle{view: w.View()}, pod("p")); !errors.Is(err, errNotFound) || err.Error() != "not found" {
		t.Errorf("without PreFilter: %v", err)
	}
	if result, err := w.plugin.PostFilter(&rejectedCycle{view: w.View(), ran: true}, pod("p")); err != nil || len(result.Writes) != 0 || result.Message != "" {
		t.Errorf("without claims: %+v, %v", result, err)
	}
	if result, err := w.plugin.PostFilter(&rejectedCycle{view: w.View(), ran: true, by: onB}, pod("p", "missing")); err != nil || len(result.Writes) != 0 {
		t.Errorf("with a claim that is missing: %+v, %v", result, err)
	}
}

// Whatever the number of allocated claims, each node is looked up at most once. Nodes
// that can use the allocation are not looked up.
func TestPostFilterLooksAtEachNodeOnce(t *testing.T) {
	other := reason.Rejection{Plugin: "NodeAffinity", Unresolvable: true, Reasons: []string{"x"}}
	for _, row := range []struct {
		claims []*resourcev1.ResourceClaim
		asked  int
	}{
		{[]*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"))}, 1},
		{[]*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0")), claim("d", 1, allocated("a", "d1"))}, 1},
		{[]*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0")), claim("d", 1, allocated("b", "d0")), claim("e", 1, allocated("a", "d1"))}, 2},
		{[]*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"), reserved("o"))}, 0},
	} {
		w := newWorld(t)
		var names []string
		for _, c := range row.claims {
			w.set(c)
			names = append(names, c.Name)
		}
		cycle := &rejectedCycle{view: w.View(), ran: true, by: map[string]reason.Rejection{"a": other, "b": other}}
		if result, err := w.plugin.PostFilter(cycle, pod("p", names...)); err != nil || len(result.Writes) != 0 || cycle.asked != row.asked {
			t.Errorf("claims %q: nodes were looked up %d times, want %d; %+v, %v", names, cycle.asked, row.asked, result, err)
		}
	}
}

// Disabled feature gates have no effect.
func TestFeatures(t *testing.T) {
	for _, row := range []struct {
		taints, rules, reads bool
	}{{true, true, true}, {true, false, false}, {false, true, false}} {
		p := New(Config{Features: allocator.Features{DeviceTaints: row.taints}, TaintRules: row.rules})
		if got := slices.Contains(p.Parts().Objects, model.DeviceTaintRuleKind); got != row.reads {
			t.Errorf("%+v: rules are read: %t", row, got)
		}
	}
	w := newWorld(t, claim("c", 1, allocated("b", "d0"), prepared("Broken")))
	w.plugin = New(Config{})
	if got, want := w.filter(t, pod("p", "c")), "a: resourceclaim not available on the node; b"; got != want {
		t.Errorf("without binding conditions: %s, want %s", got, want)
	}
	placement, err := w.place(t, pod("p", "c"), "b")
	if err != nil || len(placement.Steps) != 1 {
		t.Errorf("without binding conditions: %+v, %v", placement, err)
	}
	entry := func() resourcev1.ResourceClaimConsumerReference {
		now, err := stored(t, claim("c", 1, allocated("b", "d0")), placement.Steps[0].Write)
		if err != nil {
			t.Fatal(err)
		}
		return now.Status.ReservedFor[0]
	}()
	if want := (resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: "uid-p"}); entry != want {
		t.Errorf("reserved for %+v", entry)
	}
}
