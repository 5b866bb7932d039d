package gang

import (
	"cmp"
	"errors"
	"slices"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// One pass over the members in the order of arrival, each to its best node, may miss a
// feasible placement. Small members can take the space that a large one needs. A member
// can be tried before another that it must be near. So before a group is rejected, its
// members are tried in other orders, and with a different choice among equally good
// nodes. Each member still gets a node with the highest score. A group that the first
// pass places is not affected. If all passes fail, the group is rejected with the result
// of the first.
//
// The same holds for the groups of a tree, which can take each other's space. Their turns
// come in other orders, too.

// maxRetries bounds the further passes in one attempt of a group. Together the passes
// make at most the configured number of decisions about members, or retriesEach for each
// member if that is more. A pass that has begun ends.
const maxRetries, retriesEach = 16, 4

// kind is a set of members with equal decisions.
type kind struct {
	members []int
	// counts means that filters count pods around the nodes, so that other members may
	// help.
	counts bool
	// feasible is the number of feasible nodes of the first member without the others.
	// size is its share of the group's requests.
	feasible int
	size     float64
}

// retry tries the members in other orders. It reports whether enough of them found a
// node; they are assumed there then. The only error is that the turn goes on in a later
// round.
func (a *attempt) retry() (placed bool, err error) {
	left := int64(a.engine.GroupRetries())
	if left <= 0 || a.hopeless || a.profile == nil || a.searches.passesRest(a) {
		return false, nil
	}
	left = max(left, int64(retriesEach*len(a.tried)))
	before := a.engine.Counters()
	resume := a.state.Meter().Lift()
	kinds, ok := a.kinds()
	resume()
	if !ok {
		if a.engine.Counters().Decisions > before.Decisions {
			a.searches.passedInVain(a, before)
		}
		return false, nil
	}
	b := a.again()
	b.observer, b.witness, b.progress = nil, a.witness, a.progress
	recalled := a.recalled()
	for n := range maxRetries {
		made := a.engine.Counters().Decisions - before.Decisions + a.recalled() - recalled
		if made+int64(len(a.tried)) > left {
			break
		}
		b.tried, b.pass, b.tie = a.order(kinds, n), n+1, uint64(n)/orders
		short, err := b.try()
		if err == nil && short == "" {
			a.take(&b)
			return true, nil
		}
		b.revert()
		if errors.Is(err, plugin.ErrUnfinished) {
			return false, err
		}
		if err != nil {
			break
		}
	}
	a.searches.passedInVain(a, before)
	return false, nil
}

// recalled returns the number of decisions reused from earlier rounds so far.
func (a *attempt) recalled() int64 {
	if a.progress == nil {
		return 0
	}
	return a.progress.recalled
}

// take adopts the placements of another attempt of the group.
func (a *attempt) take(b *attempt) {
	for i := range b.Members {
		if m := &b.Members[i]; m.Outcome == plan.Undecided { // it is being deleted
			*m = a.Members[i]
		}
	}
	a.Members, a.root = b.Members, b.root
}

// kinds returns the members by kind. ok is false if no order can help. Without counting
// filters, the members of one kind find the same number of nodes in any order, and no
// more beside other members.
func (a *attempt) kinds() (kinds []kind, ok bool) {
	byKind, last := map[engine.Kind][]int{}, 0
	for _, i := range a.tried {
		pod := a.Members[i].Pod
		is := func(at int) bool { return engine.Equal(a.Members[kinds[at].members[0]].Pod, pod) }
		if len(kinds) == 0 || !is(last) {
			key := engine.KindOf(pod)
			if at := slices.IndexFunc(byKind[key], is); at >= 0 {
				last = byKind[key][at]
			} else {
				last, kinds = len(kinds), append(kinds, kind{})
				byKind[key] = append(byKind[key], last)
			}
		}
		kinds[last].members = append(kinds[last].members, i)
	}
	all := a.requests()
	b := a.again()                     // its members are decided kind by kind
	there, need, counts := 0, 1, false // a tree needs at least one
	if a.tree == nil {
		there, need = a.state.View().GroupPlaced(a.Group.Key), a.need
	}
	possible := there
	for at := range kinds {
		k := &kinds[at]
		pod := a.Members[k.members[0]].Pod
		k.size = share(&pod.Asks, all)
		filter, err := a.engine.MemberFilterOf(a.state.View(), pod)
		if err != nil {
			return nil, false
		}
		k.counts = filter.Counts()
		if counts = counts || k.counts; !counts && len(kinds) == 1 && (a.tree == nil || a.isRigid(a.tree)) {
			return nil, false
		}
		if b.tried = k.members; k.counts {
			b.tried = k.members[:1]
		}
		b.placed = 0
		b.begin()
		b.fill()
		k.feasible = b.Members[k.members[0]].Feasible
		if b.revert(); k.counts {
			b.placed = len(k.members)
		}
		possible += b.placed
	}
	return kinds, possible > there && possible >= need
}

// isRigid reports whether every group of a tree must find nodes for all its members,
// without a topology constraint. If the members are equal, the order of turns does not
// matter then.
func (a *attempt) isRigid(tree *model.GroupTree) bool {
	switch {
	case tree.TopologyKey() != "":
		return false
	case tree.Group != nil:
		there := a.state.View().GroupPlaced(tree.Group.Key)
		for _, i := range a.tried {
			if a.Members[i].Group == tree.Group {
				there++
			}
		}
		return there <= tree.Group.MinCount
	case tree.Composite.MinGroupCount < len(tree.Below):
		return false
	}
	return !slices.ContainsFunc(tree.Below, func(below *model.GroupTree) bool { return !a.isRigid(below) })
}

// requests returns the sum of the members' requests.
func (a *attempt) requests() *model.Resources {
	var all model.Sum
	for _, i := range a.tried {
		all.Add(&a.Members[i].Pod.Asks, 1)
	}
	return &all.Resources
}

// share returns the largest share that a request has of all.
func share(of, all *model.Resources) (largest float64) {
	larger := func(a, b int64) {
		if b > 0 {
			largest = max(largest, float64(a)/float64(b))
		}
	}
	larger(of.CPUMilli, all.CPUMilli)
	larger(of.MemoryBytes, all.MemoryBytes)
	for i := range of.Scalars {
		larger(of.Scalars[i].Value, all.Scalar(of.Scalars[i].Name))
	}
	return largest
}

// orders is the number of orders before another choice among equally good nodes.
const orders = 4

// order returns the members in the order of a pass. These orders alternate:
//
//   - the largest first;
//   - the fewest feasible nodes first, but members without any last, as they need others;
//   - members with counting filters first, again members without any node last;
//   - a random order, a different one each time.
func (a *attempt) order(kinds []kind, n int) []int {
	of := make(map[int]*kind, len(a.tried))
	for at := range kinds {
		for _, i := range kinds[at].members {
			of[i] = &kinds[at]
		}
	}
	bySize := func(x, y *kind) int { return cmp.Compare(y.size, x.size) }
	byChoice := func(x, y *kind) int {
		return cmp.Or(cmp.Compare(isZero(x.feasible), isZero(y.feasible)), cmp.Compare(x.feasible, y.feasible), bySize(x, y))
	}
	first := func(x, y int) int { return bySize(of[x], of[y]) }
	switch n % orders {
	case 1:
		first = func(x, y int) int { return byChoice(of[x], of[y]) }
	case 2:
		first = func(x, y int) int {
			return cmp.Or(cmp.Compare(isZero(of[x].feasible), isZero(of[y].feasible)), -cmp.Compare(isTrue(of[x].counts), isTrue(of[y].counts)), bySize(of[x], of[y]))
		}
	case 3:
		key := func(i int) uint64 {
			return a.engine.Tie(a.Group.Key.String(), a.Members[i].Pod.Name+" "+string(rune('a'+n)))
		}
		first = func(x, y int) int { return cmp.Compare(key(x), key(y)) }
	}
	order := slices.Clone(a.tried)
	slices.SortStableFunc(order, first)
	return order
}

func isZero(n int) int { return isTrue(n == 0) }

func isTrue(is bool) int {
	if is {
		return 1
	}
	return 0
}
