package volumebinding

import (
	"slices"
	"sort"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/cluster/storage"
	"github.com/berth-scheduler/berth/internal/model/amount"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// manyClaims is the number of unbound claims from which they are judged by class. A pod
// may have thousands of claims of few classes. On a node without free volumes of a class,
// all claims of the class are provisioned alike, and only the sizes differ.
const manyClaims = 16

// classClaims are the unbound claims of one class.
type classClaims struct {
	class string
	// first is the position of the first claim in provisions.
	first int
	// selected and found are positions of claims with a size. selected has the claims
	// with a selected node; found has the others, the smallest first.
	selected, found []int
	// drawn are the cumulative sizes of these claims.
	drawn []int64
}

// groupByClass groups claims by class, in the order of their first claims. It returns nil
// for few claims, or if a volume names a claim.
func (f *finder) groupByClass() (all []*classClaims) {
	if len(f.provisions) < manyClaims || slices.ContainsFunc(f.wants, func(w want) bool { return len(w.preBound) > 0 }) {
		return nil
	}
	byName := map[string]*classClaims{}
	for i := range f.provisions {
		claim := &f.provisions[i].claim
		c := byName[claim.Class]
		if c == nil {
			c = &classClaims{class: claim.Class, first: i}
			byName[claim.Class], all = c, append(all, c)
		}
		switch {
		case !claim.HasRequest: // it fits wherever the class may be provisioned
		case i < len(f.selected):
			c.selected = append(c.selected, i)
		default:
			c.found = append(c.found, i)
		}
		if claim.HasRequest {
			before := int64(0)
			if n := len(c.drawn); n > 0 {
				before = c.drawn[n-1]
			}
			if !claim.again {
				before = amount.Add(before, claim.Request)
			}
			c.drawn = append(c.drawn, before)
		}
	}
	return all
}

// judgeByClass returns the verdict of find on a node, without checking each claim. known
// is false if the node has free volumes that may be bound to some of the claims. tracked
// reports whether the scores depend on capacities.
func (f *finder) judgeByClass(node state.Node) (unfit reason.Code, tracked, known bool) {
	if f.byClass == nil {
		return 0, false, false
	}
	store, slot, labels := node.Storage(), node.Slot(), node.Object().Labels
	first := len(f.provisions)
	for _, c := range f.byClass {
		free := false
		store.GroupsAt(slot, c.class, func(*storage.Group) bool {
			free = true
			return false
		})
		if free {
			return 0, false, false
		}
		p := &f.provisions[c.first]
		if !p.can || !p.allowed.Matches(labels) {
			if c.first < first {
				first, unfit = c.first, conflict
			}
			continue
		}
		if driver := store.Driver(p.claim.class.Object.Provisioner); driver == nil || !driver.TracksCapacity {
			continue
		}
		tracked = true
		if at := f.firstWithoutRoom(store, slot, c); at < first {
			first, unfit = at, noStorage
		}
	}
	return unfit, tracked, true
}

// firstWithoutRoom returns the position of the first claim of a class without sufficient
// capacity, alone or with the claims before it. If capacity suffices for all, the
// position is after the last claim. A capacity that suffices for a size suffices for
// smaller sizes.
func (f *finder) firstWithoutRoom(store *storage.Store, slot int32, c *classClaims) int {
	room, none := store.RoomAt(slot, c.class), len(f.provisions)
	over := sort.Search(len(c.drawn), func(n int) bool { return c.drawn[n] > room })
	if over < len(c.selected) {
		none = c.selected[over]
	} else if over < len(c.drawn) {
		none = c.found[over-len(c.selected)]
	}
	return min(none, f.firstTooLarge(store, slot, c))
}

// firstTooLarge is firstWithoutRoom for each claim alone.
func (f *finder) firstTooLarge(store *storage.Store, slot int32, c *classClaims) int {
	lacks := func(at int) bool { return store.CapacityAt(slot, c.class, f.provisions[at].claim.Request) == nil }
	for _, at := range c.selected {
		if lacks(at) {
			return at
		}
	}
	if i := sort.Search(len(c.found), func(i int) bool { return lacks(c.found[i]) }); i < len(c.found) {
		return c.found[i]
	}
	return len(f.provisions)
}
