package preempt

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// remembering is a cycle whose pod has a remembered rejection. The test sets the
// potential nodes.
type remembering struct {
	liking
	rejection uint64
	potential map[int32]bool
}

func (c *remembering) Resolvable(slot int32) bool { return c.potential[slot] }
func (c *remembering) Potential() []int32         { return slices.Sorted(maps.Keys(c.potential)) }

func (c *remembering) cycle() *cycle {
	own := c.liking.cycle()
	own.turn, own.Rejection, own.Reads = c, c.rejection, model.Taints
	return own
}

func newRemembering(nodes int) *remembering {
	list := make([]*v1.Node, nodes)
	for i := range list {
		list[i] = build.Node(fmt.Sprint("n", i), build.Allocatable("cpu=10m memory=10Gi pods=9"))
	}
	c := &remembering{liking{asking{state: plugintest.Cluster(list), request: asks("cpu=7m")}, Alike{Kind: numbered(1), Reads: model.Taints}}, 1, map[int32]bool{}}
	for slot := range int32(nodes) {
		c.potential[slot] = true
	}
	return c
}

func (c *remembering) basis(exact bool) basis {
	m := c.begun()
	b := basis{bounds: m.boundsFor(c.cycle(), 10), exact: exact}
	if !exact {
		b.known = m.findingsFor(c.cycle(), 10)
	}
	return b
}

// search runs the part of a search that updates an order; no node is tried.
func (c *remembering) search(exact bool) *order {
	b := c.basis(exact)
	o := c.begun().orderFor(c.cycle(), b, 10)
	if o != nil {
		o.followed(c.state)
	}
	return o
}

// taint adds a node to the journal.
func (c *remembering) taint(slot int32, times int) {
	plugintest.Set(c.state, build.Node(c.state.View().Node(slot).Name(), build.Allocatable("cpu=10m memory=10Gi pods=9"), build.Taints(fmt.Sprintf("k%d=v:NoSchedule", times))))
}

// contents returns the nodes of an order by group, and the nodes to try in their order.
func (o *order) contents(t *testing.T, salt uint64, place func(slot int32) uint64) (groups map[groupKey][]int32, open []int32) {
	t.Helper()
	groups = map[groupKey][]int32{}
	for slot, i := range o.group {
		if i < 0 {
			continue
		}
		g := &o.groups[i]
		groups[g.groupKey] = append(groups[g.groupKey], int32(slot))
		if g.state != rated && g.slots[o.at[slot]] != int32(slot) {
			t.Errorf("slot %d is not where its group has it", slot)
		}
	}
	for _, g := range o.groups {
		if g.state != rated && len(g.slots) != len(groups[g.groupKey]) {
			t.Errorf("group %+v has %d nodes, want %d", g.groupKey, len(g.slots), len(groups[g.groupKey]))
		}
	}
	for slot := o.open.Best(salt); slot >= 0; slot = o.open.Best(salt) {
		open = append(open, slot)
		o.open.Remove(slot)
	}
	for _, slot := range open {
		o.open.Put(slot, place(slot))
	}
	return groups, open
}

// TestOrderFollows: after any changes, the nodes are in the same order and groups as
// after a look at all nodes.
func TestOrderFollows(t *testing.T) {
	build.NotRaced(t)
	for seed := range uint64(20) {
		for _, exact := range []bool{true, false} {
			r := rand.New(rand.NewPCG(seed, 1))
			c := newRemembering(60)
			for range looksPerOrder {
				c.search(exact)
			}
			followed := 0
			for step := range 200 {
				slot := r.Int32N(int32(c.state.Slots()))
				switch r.IntN(8) {
				case 0:
					// a pod comes
					pod := resident(fmt.Sprint("p", r.IntN(100)), c.state.View().Node(slot).Name(), int32(r.IntN(3)*8), fmt.Sprintf("cpu=%dm", r.IntN(6)), int64(r.IntN(4)), build.Labels("app=x"))
					if _, _, on := c.state.NodeOf(model.NewPod(pod).Key()); !on {
						plugintest.Set(c.state, pod)
					}
				case 1:
					// a pod goes
					c.state.Apply([]model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: v1.NamespaceDefault, Name: fmt.Sprint("p", r.IntN(100))}}})
				case 2:
					// the filters' verdicts change
					if c.potential[slot] {
						delete(c.potential, slot)
					} else {
						c.potential[slot] = true
					}
					c.taint(slot, step)
				case 3:
					// a try has a result
					b := c.basis(exact)
					switch {
					case exact:
						b.bounds.learn(slot, rank{count: int32(r.IntN(3)), highest: 1, tie: 7})
					case r.IntN(2) == 0:
						b.known.learn(slot, rank{count: int32(r.IntN(3)), highest: 1})
					default:
						b.known.learnReasons(slot, []string{fmt.Sprint("r", r.IntN(3))})
					}
				case 4:
					plugintest.Set(c.state, disruption("b", "app=x", int32(r.IntN(3))))
				case 5:
					if r.IntN(10) == 0 {
						c.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(build.Node(fmt.Sprint("more", step), build.Allocatable("cpu=5m pods=9")))}})
						c.potential[int32(c.state.Slots()-1)] = true
					}
				case 6:
					// another pod is nominated to it, for which no cached value is valid
					if b := c.basis(exact).bounds; r.IntN(3) == 0 {
						b.states[slot], b.ranks[slot], b.sums[slot], b.stale = rated, ideal, ideal, slot
						b.noted.note(slot)
					}
				}
				if r.IntN(2) == 0 {
					continue
				}
				o := c.search(exact)
				if o == nil || o.open == nil {
					continue
				}
				followed++
				fresh := &order{}
				fresh.fill(c.cycle(), o.basis)
				groups, open := o.contents(t, seed, c.cycle().place)
				wantGroups, wantOpen := fresh.contents(t, seed, c.cycle().place)
				if !maps.EqualFunc(groups, wantGroups, slices.Equal) || !slices.Equal(open, wantOpen) {
					t.Fatalf("seed %d, step %d:\ngot  %v, %v\nwant %v, %v", seed, step, groups, open, wantGroups, wantOpen)
				}
			}
			if followed < 50 {
				t.Errorf("seed %d: %d times the nodes were in order", seed, followed)
			}
		}
	}
}

// TestOrderAfterSlotsAreCutOff: when most nodes end, others move to their slots. The
// nodes are put in order again once little changes.
func TestOrderAfterSlotsAreCutOff(t *testing.T) {
	const nodes = 3000
	c := newRemembering(nodes)
	search := func() *order {
		clear(c.potential)
		for slot, alive := range c.state.Alive() {
			if alive {
				c.potential[int32(slot)] = true
			}
		}
		return c.search(true)
	}
	for range looksPerOrder + 1 {
		search()
	}
	slots := c.state.Slots()
	for i := range nodes - 100 {
		c.state.Apply([]model.Change{{Kind: model.NodeGone, Name: fmt.Sprint("n", i)}})
		if i%20 == 0 {
			search()
		}
	}
	if c.state.Slots() == slots {
		t.Fatal("no slot was cut off")
	}
	var o *order
	for range looksPerOrder + 1 {
		o = search()
	}
	if o == nil || o.open == nil || len(o.group) != c.state.Slots() {
		t.Fatalf("the nodes are not in order again: %+v", o)
	}
	fresh := &order{}
	fresh.fill(c.cycle(), o.basis)
	groups, open := o.contents(t, 1, c.cycle().place)
	wantGroups, wantOpen := fresh.contents(t, 1, c.cycle().place)
	if !maps.EqualFunc(groups, wantGroups, slices.Equal) || !slices.Equal(open, wantOpen) {
		t.Errorf("got %d groups and %d nodes in order, want %d and %d", len(groups), len(open), len(wantGroups), len(wantOpen))
	}
}

// TestFewOrdersInSmallClusters: orders are limited in small clusters, too. An order is
// dropped with its bounds.
func TestFewOrdersInSmallClusters(t *testing.T) {
	c := newRemembering(3)
	for rejection := range uint64(2 * maxOrders) {
		c.rejection = 1 + rejection
		for range looksPerOrder + 1 {
			c.search(true)
		}
	}
	m := c.begun()
	if len(m.orders) != maxOrders {
		t.Errorf("nodes are in order for %d rejections, want %d", len(m.orders), maxOrders)
	}
	oldest := m.orders[orderKey{1 + maxOrders, 10}]
	for key := range m.orders {
		if key.rejection <= maxOrders {
			t.Errorf("the order for rejection %d is not forgotten", key.rejection)
		}
	}
	m.forgetOrders(func(on basis) bool { return on.bounds == oldest.bounds })
	if len(m.orders) != 0 {
		t.Errorf("%d orders are left on bounds that are forgotten", len(m.orders))
	}
}

// TestOrdersAreMadeWhereTheyPay: an order is built after as many searches as would pay
// for it. It is dropped when too much has changed. The next is built after as many
// searches with few changes.
func TestOrdersAreMadeWhereTheyPay(t *testing.T) {
	const nodes = 400
	const most = fewChanges + nodes/changesPerSlot
	c := newRemembering(nodes)
	times := 0
	change := func(n int) {
		for range n {
			times++
			c.taint(int32(times%nodes), times)
		}
	}
	in := func() bool { o := c.search(true); return o != nil && o.open != nil }
	check := func(what string, want bool) {
		t.Helper()
		if got := in(); got != want {
			t.Errorf("%s: in order %t, want %t", what, got, want)
		}
	}
	for range looksPerOrder {
		check("at first", false)
	}
	if o := c.search(true); o == nil || o.open == nil || o.looked != nodes || len(c.begun().seen) != 0 {
		t.Errorf("after so many: %+v", o)
	}
	change(most)
	check("as many changes as are followed", true)
	if o := c.search(true); o.looked != 0 {
		t.Errorf("without a change %d nodes are looked at", o.looked)
	}
	change(1)
	if o := c.search(true); o.looked != 1 {
		t.Errorf("after a change of one node %d are looked at", o.looked)
	}
	change(most + 1)
	check("one change more", false)
	for range looksPerOrder - 1 {
		change(most)
		check("few changes again", false)
	}
	change(most + 1)
	check("and many", false)
	for range looksPerOrder - 1 {
		check("no changes", false)
	}
	check("no changes, for so long", true)
	b := c.basis(true).bounds
	for range most + 1 {
		b.noted.note(1)
	}
	check("as many lessons", false)
	for range looksPerOrder - 1 {
		check("no lessons", false)
	}
	check("no lessons, for so long", true)
	c.search(false) // on another basis
	check("on another basis", false)
	c.rejection = 0
	if c.search(true) != nil {
		t.Error("nodes are in order for a rejection that is not remembered")
	}
}

// TestOrdersAreBounded: in a very large cluster, orders of few rejections are kept, the
// most recently used ones. Rejections seen once are bounded, too.
func TestOrdersAreBounded(t *testing.T) {
	build.NotRaced(t)
	const nodes = 30_000
	const most = orderBytes / (orderBytesPerSlot * nodes)
	c := newRemembering(nodes)
	of := func(rejection uint64) *order {
		c.rejection = rejection
		for range looksPerOrder {
			c.search(true)
		}
		return c.search(true)
	}
	first := of(1)
	for rejection := range uint64(most + 3) {
		of(100 + rejection)
		of(1)
	}
	m := c.begun()
	if len(m.orders) != most || most <= fewOrders {
		t.Errorf("nodes are in order for %d rejections, want %d", len(m.orders), most)
	}
	if c.rejection = 1; c.search(true) != first {
		t.Error("the order that was used between all others is forgotten")
	}
	for rejection := range uint64(3 * maxSeen) {
		c.rejection = 1000 + rejection
		c.search(true)
		if n := len(m.seen); n > maxSeen || n == 0 {
			t.Fatalf("%d rejections are remembered to have been seen", n)
		}
	}
}

// TestNoted: since returns the slots recorded since a position, or false if any slot may
// have changed.
func TestNoted(t *testing.T) {
	var n noted
	start := n.now()
	n.note(3)
	n.note(4)
	middle := n.now()
	n.note(5)
	if slots, ok := n.since(start); !ok || !slices.Equal(slots, []int32{3, 4, 5}) {
		t.Errorf("since the start: %v, %t", slots, ok)
	}
	if slots, ok := n.since(middle); !ok || !slices.Equal(slots, []int32{5}) {
		t.Errorf("since the middle: %v, %t", slots, ok)
	}
	if slots, ok := n.since(n.now()); !ok || len(slots) != 0 {
		t.Errorf("since now: %v, %t", slots, ok)
	}
	before := n.now()
	n.noteAll()
	if _, ok := n.since(before); ok {
		t.Error("after all had changed, it is known which")
	}
	at := n.now()
	for range maxNoted {
		n.note(1)
	}
	if slots, ok := n.since(at); !ok || len(slots) != maxNoted {
		t.Errorf("as many as are kept: %d, %t", len(slots), ok)
	}
	n.note(2)
	if _, ok := n.since(at); ok || len(n.slots) != 1 {
		t.Errorf("one more than are kept: %d are kept", len(n.slots))
	}
}
