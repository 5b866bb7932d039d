package preempt

import (
	"math"
	"slices"
	"strconv"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Memory is the cache of an engine's searches across turns. It never changes the result
// of a search. The zero value is empty.
type Memory struct {
	state *state.State
	rules plugin.PreemptionRules
	// bounds are indexed by the inputs they depend on; clock counts searches.
	bounds map[boundsKey]*bounds
	clock  uint64
	// sorted are the pods of a slot by importance; pods counts all pods in it.
	sorted  map[int32]sortedPods
	pods    int
	budgets budgetsOf
	// findings are indexed by the kind of pods.
	findings map[findingsKey]*findings
	// orders are the potential nodes in order, by remembered rejection. seen counts the
	// searches for rejections without an order.
	orders map[orderKey]*order
	seen   map[orderKey]int

	// The other fields are scratch memory. The next search must not read their content.
	draft           state.Draft
	use             state.Use
	free            state.Use
	left            []left
	violating, rest []*model.Pod
	open            []bounded
	short           []int32
	text            []byte
}

type sortedPods struct {
	version uint64 // of the slot's bands
	pods    []*model.Pod
}

const (
	// fewBounds is the number of kinds of pods whose bounds are always kept. boundBytes
	// limits the memory of all bounds, at bytesPerSlot for each kind and slot. maxSorted
	// limits the pods that are kept sorted.
	fewBounds    = 8
	boundBytes   = 64 << 20
	bytesPerSlot = 85
	maxSorted    = 1 << 18
)

// begin prepares the memory for a search in a state, by rules.
func (m *Memory) begin(s *state.State, rules plugin.PreemptionRules) {
	if m.state != s || m.rules != rules {
		m.state, m.rules, m.bounds, m.budgets = s, rules, map[boundsKey]*bounds{}, budgetsOf{}
		m.sorted, m.pods = map[int32]sortedPods{}, 0
		m.findings = map[findingsKey]*findings{}
		m.orders, m.seen = map[orderKey]*order{}, map[orderKey]int{}
	}
	m.clock++
}

// boundsFor returns the up-to-date bounds for pods of a priority with the request of the
// cycle's pod.
func (m *Memory) boundsFor(c *cycle, priority int32) *bounds {
	request := c.Request
	key := boundsKey{priority: priority}
	if request != nil {
		key.asks, key.cpuMilli, key.memoryBytes, key.ephemeralBytes = true, request.CPUMilli, request.MemoryBytes, request.EphemeralBytes
		m.text = m.text[:0]
		for _, scalar := range request.Scalars {
			m.text = model.AppendQuote(m.text, scalar.Name.Value())
			m.text = strconv.AppendInt(m.text, scalar.Value, 10)
		}
		key.scalars = string(m.text)
	}
	b := m.bounds[key]
	if b == nil {
		for len(m.bounds) >= max(fewBounds, boundBytes/(bytesPerSlot*max(1, c.View.State().Slots()))) {
			forgotten := forgetOldest(m.bounds, func(b *bounds) uint64 { return b.used })
			m.forgetOrders(func(on basis) bool { return on.bounds == forgotten })
		}
		b = &bounds{priority: priority}
		if request != nil {
			own := *request
			own.Scalars = slices.Clone(request.Scalars)
			b.request = &own
		}
		m.bounds[key] = b
	}
	b.used = m.clock
	b.sync(c.View, m.rules.Budgets, &m.free)
	return b
}

// forgetOldest deletes and returns the least recently used value. Each search uses at
// most one value, so no two have the same time.
func forgetOldest[K comparable, V any](kept map[K]V, used func(V) uint64) (forgotten V) {
	var oldest K
	first := uint64(math.MaxUint64)
	for key, value := range kept {
		if at := used(value); at < first {
			oldest, first, forgotten = key, at, value
		}
	}
	delete(kept, oldest)
	return forgotten
}

// lowerPods returns the pods of lower priority on a node by importance. The slice must
// not be changed.
func (m *Memory) lowerPods(v state.View, slot int32, priority int32) []*model.Pod {
	pods := m.podsOn(v, slot)
	at, _ := slices.BinarySearchFunc(pods, priority, func(pod *model.Pod, priority int32) int {
		if pod.Priority >= priority {
			return -1
		}
		return +1
	})
	return pods[at:]
}

// podsOn returns the pods on a node by importance.
func (m *Memory) podsOn(v state.View, slot int32) []*model.Pod {
	if len(v.Touched()) > 0 {
		pods := slices.Collect(v.PodsOn(slot))
		m.sortByImportance(pods)
		return pods
	}
	version := v.Node(slot).BandsVersion()
	have, known := m.sorted[slot]
	if known && have.version == version {
		return have.pods
	}
	pods := slices.AppendSeq(make([]*model.Pod, 0, v.Node(slot).PodCount()), v.PodsOn(slot))
	m.sortByImportance(pods)
	if m.pods += len(pods) - len(have.pods); m.pods > maxSorted {
		clear(m.sorted)
		m.pods = len(pods)
	}
	m.sorted[slot] = sortedPods{version, pods}
	return pods
}
