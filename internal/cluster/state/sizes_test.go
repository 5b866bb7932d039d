package state

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestDomainCountsBounds counts one pod in each of some domains. It checks at which
// number the counts become an array, and at which they become a list again.
func TestDomainCountsBounds(t *testing.T) {
	for _, row := range []struct {
		domains, filled, left int
		dense, stays          bool
	}{
		{64, 1, 1, true, true},
		{64, 1, 0, true, true}, // with few domains, an array stays one
		{65, 1, 1, false, false},
		{80, 10, 10, false, false}, // one in listedUpTo
		{80, 11, 11, true, true},
		{96, 13, 3, true, true}, // one in denseFrom
		{96, 13, 2, true, false},
	} {
		var c domainCounts
		c.wantLeast()
		for domain := range row.filled {
			c.add(int32(domain), 2, row.domains)
		}
		if dense := c.dense != nil; dense != row.dense || c.some != int32(row.filled) || c.total != int64(2*row.filled) {
			t.Errorf("%+v: in an array: %t, %d domains with %d pods", row, dense, c.some, c.total)
		}
		listed, dense, leaves := cap(c.listed), cap(c.dense), 0
		if c.least != nil {
			leaves = len(c.least.tree)
		}
		if have, want := c.bytes(), 8*listed+4*dense+4*leaves; have != want || want == 0 {
			t.Errorf("%+v: %d bytes are counted, want %d", row, have, want)
		}
		for domain := row.left; domain < row.filled; domain++ {
			c.add(int32(domain), -1, row.domains)
			c.add(int32(domain), -1, row.domains)
		}
		if dense := c.dense != nil; dense != row.stays || c.some != int32(row.left) || c.total != int64(2*row.left) {
			t.Errorf("%+v: in an array at the end: %t, %d domains with %d pods", row, dense, c.some, c.total)
		}
		want := int32(absent)
		if row.left > 0 {
			want = 2
		}
		if got := c.leastExcept(nil); got != want || (c.least != nil) != row.stays {
			t.Errorf("%+v: the least count is %d, want %d; kept: %t", row, got, want, c.least != nil)
		}
		sums := make([]int64, row.domains)
		if c.addTo(sums, 3); c.of(int32(row.domains)) != 0 || row.left > 0 && (c.of(0) != 2 || sums[0] != 6) {
			t.Errorf("%+v: domain 0 counts %d, its sum is %d", row, c.of(0), sums[0])
		}
	}
	if n := (&minima{tree: make([]int32, 8), size: 4}).bytes(); n != 32 {
		t.Errorf("a tree of 8 numbers takes %d bytes", n)
	}
	few := &domainCounts{listed: make([]domainCount, 0, 16)}
	for domain := range int32(5) {
		few.add(domain, 1, 1000)
	}
	few.add(0, -1, 1000)
	if len(few.listed) != 4 || cap(few.listed) != 16 {
		t.Errorf("a list of %d domains in a quarter of its memory was moved to memory for %d", len(few.listed), cap(few.listed))
	}
	few.add(1, -1, 1000)
	if len(few.listed) != 3 || cap(few.listed) > 8 {
		t.Errorf("a list of %d domains has memory for %d", len(few.listed), cap(few.listed))
	}
}

// TestBytesOfTallies recounts the bytes of a tally.
func TestBytesOfTallies(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a"), node("b")})
	term, err := model.NewTerm("ns", &v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{}})
	if err != nil {
		t.Fatal(err)
	}
	if s.TallyBytes() != 0 {
		t.Errorf("no tally takes %d bytes", s.TallyBytes())
	}
	tally := s.Tally(PodSet{Text: "all", Terms: []*model.Term{term}}, TopologyKey{}, NodeSet{})
	membership := 512 + 4*(cap(tally.nodes.in)+cap(tally.nodes.members))
	if have, want := s.TallyBytes(), 1024+membership; have != want || cap(tally.nodes.in) < 2 || cap(tally.nodes.members) < 2 {
		t.Errorf("a tally that counts nothing takes %d bytes, want %d", have, want)
	}
	s.Apply([]model.Change{podOn("p", "p", "a", 1)})
	s.View().KeepLeast(tally)
	if have, want := s.TallyBytes(), 1024+membership+4*cap(tally.counts.dense)+4*len(tally.counts.least.tree); have != want || len(tally.counts.dense) != 2 {
		t.Errorf("a tally that counts a pod takes %d bytes, want %d", have, want)
	}
	if s.Tally(PodSet{Text: "all", Terms: []*model.Term{term}}, TopologyKey{}, NodeSet{}); s.Tallies() != 1 || s.TalliesFound() != 1 {
		t.Errorf("%d tallies, %d found", s.Tallies(), s.TalliesFound())
	}
	updates, built := s.TallyWork()
	if updates != 1 || built != 1 {
		t.Errorf("%d updates, %d built", updates, built)
	}
	// A decision may still use a tally that was dropped. Its bytes no longer count.
	s.dropTally(tally)
	if s.View().KeepLeast(tally); s.TallyBytes() != 0 || s.Tallies() != 0 || tally.Total() != 1 {
		t.Errorf("%d tallies take %d bytes, the dropped one counts %d", s.Tallies(), s.TallyBytes(), tally.Total())
	}
	if s.Apply(nil); !tally.dropped || tally.pods != nil || tally.counts.dense != nil || len(s.tallies.dropped) != 0 || s.tallies.dropped[:1][0] != nil {
		t.Error("a dropped tally keeps its memory")
	}
}

// TestMembersByDomain reads domains without nodes of the set, one of them new to the set.
func TestMembersByDomain(t *testing.T) {
	m := membership{members: []int32{1, 0}}
	for domain, want := range []bool{true, false, false, false} {
		if got := m.has(int32(domain)); got != want {
			t.Errorf("domain %d has members: %t", domain, got)
		}
	}
}

// TestLeastCountsOfDomainsWithNodes reads the least count in views with differences, also
// in a domain without nodes of the set: that domain does not count.
func TestLeastCountsOfDomainsWithNodes(t *testing.T) {
	s := New()
	s.Apply([]model.Change{inZone("a", "x"), inZone("b", "y"), inZone("out", "z")})
	for i, node := range []string{"a", "a", "b", "b", "b"} {
		p := build.Pod(build.Named(fmt.Sprint("p", i)), build.InNamespace("ns"), build.NodeName(node))
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
	}
	in := NodeSet{Text: "in", Match: func(n Node) bool { return n.Name() != "out" }}
	tally := s.Tally(setOfTerms(t, "all", v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{}}), TopologyKey{Label: "zone"}, in)
	s.View().KeepLeast(tally)
	x, y, z := tally.Domains()[0], tally.Domains()[1], tally.Domains()[2]
	for _, row := range []struct {
		differences []Difference
		want        int32
	}{
		{nil, 2}, {[]Difference{{x, 2}}, 3}, {[]Difference{{y, -2}}, 1}, {[]Difference{{x, -2}}, 0}, {[]Difference{{y, 5}, {x, 5}}, 7}, {[]Difference{{x, -3}, {y, -3}}, -1},
		{[]Difference{{z, -5}}, 2}, {[]Difference{{z, 1}, {x, 9}}, 3},
	} {
		if got := tally.Least(row.differences); got != row.want {
			t.Errorf("with %v: %d, want %d", row.differences, got, row.want)
		}
	}
	s.Apply([]model.Change{inZone("c", "w")})
	w := tally.Domains()[3]
	for want, differences := range map[int32][]Difference{0: nil, 1: {{w, 1}}, 2: {{w, 4}}, -1: {{w, 4}, {x, -3}}} {
		if got := tally.Least(differences); got != want {
			t.Errorf("beside a domain without pods, with %v: %d, want %d", differences, got, want)
		}
	}
	// A decision may still use a tally that was dropped before its least count was read.
	dropped := s.Tally(setOfTerms(t, "all", v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{}}), TopologyKey{Label: "zone"}, NodeSet{})
	s.dropTally(dropped)
	s.View().KeepLeast(dropped)
	if got := dropped.Least([]Difference{{z, 4}, {w, 4}}); got != 2 {
		t.Errorf("a tally that was dropped counts at least %d, want 2", got)
	}
}

// TestExpandedCountsAreMadeOnce expands the counts of several sets: once in a turn, and
// in memory that the next turn uses again.
func TestExpandedCountsAreMadeOnce(t *testing.T) {
	s := New()
	key := &topology{value: make([]string, 1000)}
	sets := make([]domainCounts, 8+2)
	for i := range sets {
		sets[i].add(int32(i), int32(10+i), 1000)
	}
	check := func(counts []int32, i int) {
		t.Helper()
		for domain, n := range counts {
			if want := sets[i].of(int32(domain)); n != want {
				t.Fatalf("domain %d of set %d counts %d, want %d", domain, i, n, want)
			}
		}
		if len(counts) != 1000 {
			t.Fatalf("set %d is expanded to %d domains", i, len(counts))
		}
	}
	for range 3 {
		s.BeginTurn()
		var all [][]int32
		for i := range sets {
			all = append(all, s.expanded(key, &sets[i]))
		}
		for i := range sets {
			check(all[i], i) // all arrays of a turn are valid together
		}
		if again := s.expanded(key, &sets[0]); &again[0] != &all[0][0] {
			t.Error("a set is expanded twice in a turn")
		}
	}
	for _, x := range key.expansions {
		if len(x.filled) != len(x.of.listed) {
			t.Errorf("of an array that is used again %d domains are cleared next time, want %d", len(x.filled), len(x.of.listed))
		}
	}
	if len(key.expansions) != 8 {
		t.Errorf("%d arrays are kept, want 8", len(key.expansions))
	}
	if n := testing.AllocsPerRun(10, func() { s.BeginTurn(); s.expanded(key, &sets[0]); s.expanded(key, &sets[1]) }); n > 0 {
		t.Errorf("expanding two sets makes %v allocations", n)
	}
	first := s.expanded(key, &sets[0])
	s.turn.changes++ // the state has changed
	sets[0].add(0, 5, 1000)
	if check(s.expanded(key, &sets[0]), 0); first == nil {
		t.Error("nothing was expanded")
	}
	if got := s.expanded(key, &domainCounts{}); got != nil {
		t.Errorf("a set without pods is expanded to %d domains", len(got))
	}
}

// TestVersionOfATally changes the inputs of a tally besides pods: the nodes in its set,
// and their domains.
func TestVersionOfATally(t *testing.T) {
	s := New()
	with := func(labels, taint string) model.Change {
		n := build.Node("a", build.NodeLabels(labels))
		n.Spec.Taints = []v1.Taint{{Key: taint, Effect: v1.TaintEffectNoSchedule}}
		return model.Change{Kind: model.NodeSet, Node: model.NewNode(n)}
	}
	s.Apply([]model.Change{with("zone=x", "free"), node("b")})
	term, err := model.NewTerm("ns", &v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{}})
	if err != nil {
		t.Fatal(err)
	}
	free := NodeSet{Text: "free", Match: func(n Node) bool { return len(n.Object().Spec.Taints) == 0 || n.Object().Spec.Taints[0].Key == "free" }}
	tally := s.Tally(PodSet{Text: "all", Terms: []*model.Term{term}}, TopologyKey{Label: "zone"}, free)
	for _, step := range []struct {
		what    string
		change  model.Change
		changes bool
		present int32
	}{
		{"the same node", with("zone=x", "free"), false, 1},
		{"another label", with("zone=x other=1", "free"), false, 1},
		{"a taint that takes it out of the set", with("zone=x", "full"), true, 0},
		{"another such taint", with("zone=x", "fuller"), false, 0},
		{"another zone, outside the set", with("zone=y", "fuller"), true, 0},
		{"it is back in the set", with("zone=y", "free"), true, 1},
		{"it leaves its zone", with("", "free"), true, 0},
		{"it is back", with("zone=x", "free"), true, 1},
		{"a pod", podOn("p", "p", "a", 1), true, 1},
		{"a pod on a node without zone", podOn("q", "q", "b", 1), false, 1},
		{"the node is gone", nodeGone("a"), true, 0},
	} {
		before := tally.Version()
		s.Apply([]model.Change{step.change})
		if changed := tally.Version() != before; changed != step.changes && !(changed && step.what == "a pod on a node without zone") {
			t.Errorf("%s: the version changed: %t", step.what, changed)
		}
		if tally.Present() != step.present {
			t.Errorf("%s: %d domains are there, want %d", step.what, tally.Present(), step.present)
		}
	}
}

// TestNodesMoveToFreeSlots removes the first nodes of a cluster with one slot more than
// is always kept. The last nodes move to free slots, with the counts of their pods, and
// their slots are cut off.
func TestNodesMoveToFreeSlots(t *testing.T) {
	s := New()
	var changes []model.Change
	for i := range slotsKept + 3 {
		n := build.Node(fmt.Sprint("n", i), build.NodeLabels(fmt.Sprint("zone=", i%2)))
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(n)})
	}
	s.Apply(changes)
	term, err := model.NewTerm("ns", &v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{}})
	if err != nil {
		t.Fatal(err)
	}
	zones := s.Tally(PodSet{Text: "all", Terms: []*model.Term{term}}, TopologyKey{Label: "zone"}, NodeSet{})
	hosts := s.Tally(PodSet{Text: "all", Terms: []*model.Term{term}}, TopologyKey{}, NodeSet{})
	last := fmt.Sprint("n", slotsKept+1)
	s.Apply([]model.Change{podOn("p", "p", last, 2), podOn("q", "q", fmt.Sprint("n", slotsKept), 1)})
	before := s.Version()
	for i := range slotsKept {
		s.Apply([]model.Change{nodeGone(fmt.Sprint("n", i))})
	}
	s.Apply([]model.Change{nodeGone(fmt.Sprint("n", slotsKept+2))})
	s.Apply(nil)
	audited(t, s)
	slot, ok := s.Slot(last) // the next node took slot 0, and is gone now
	if !ok || slot != 1 || s.Slots() != slotsKept || s.Node(slot).Name() != last || s.Node(slot).Used().CPUMilli != 2000 || s.Node(slot).PodCount() != 1 {
		t.Errorf("%s is in slot %d of %d", last, slot, s.Slots())
	}
	domain := zones.Domains()[slot]
	if zones.counts.of(domain) != 1 || zones.Total() != 2 || hosts.counts.of(hosts.Domains()[slot]) != 1 || hosts.Total() != 2 || len(zones.Domains()) != slotsKept {
		t.Errorf("its zone counts %d pods of %d, itself %d of %d", zones.counts.of(domain), zones.Total(), hosts.counts.of(hosts.Domains()[slot]), hosts.Total())
	}
	if entries, ok := s.Since(before); !ok || !slices.ContainsFunc(entries, func(e Entry) bool { return e.Slot == 1 && e.Aspects == model.AllAspects }) {
		t.Error("the journal does not name the slot that the node has moved to")
	}
	s.Apply([]model.Change{podGone("p"), podGone("q")})
	if audited(t, s); zones.Total() != 0 || hosts.Total() != 0 {
		t.Errorf("%d pods are counted when none is left", zones.Total())
	}
}
