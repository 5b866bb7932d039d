package allocator

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// Matcher knows which devices are of a class. Its methods may be called by several goroutines.
type Matcher struct {
	cel *cel.Cache
	ctx context.Context
}

// classesKept bounds the compiled expressions of classes. Only administrators write
// classes, so they are few.
const classesKept = 1_000

// NewMatcher returns a matcher.
func NewMatcher() *Matcher {
	return &Matcher{cel.NewCache(classesKept, cel.Features{EnableConsumableCapacity: true}), silentContext()}
}

// Counter counts the devices of a class. One goroutine at a time may call its methods.
type Counter struct {
	matcher *Matcher
	class   *resourcev1.DeviceClass
	// remembered are counts by the key of a node's devices.
	remembered map[string]count
	key        []byte
}

// count is how many devices there are, and how many of them are allocated; of a node of which that is not known, ok is false.
type count struct {
	all, used int64
	ok        bool
}

// rememberedMax bounds what is remembered for one class.
const rememberedMax = 256

// CounterFor returns a counter for the class that stands for an extended resource, nil if none does.
func (m *Matcher) CounterFor(classes model.ClassResolver, resource model.ResourceName) *Counter {
	class := classes.ClassFor(resource)
	if class == nil {
		return nil
	}
	return &Counter{matcher: m, class: class.Object, remembered: map[string]count{}}
}

// AppendClasses appends a canonical text of what counts for some extended resources depend on, besides devices. Those of the node are looked up there; what more than
// one node can use is followed by Counters.
func AppendClasses(text []byte, resources []model.ResourceName, store *devices.Store) []byte {
	for _, name := range resources {
		text = append(text, ' ')
		if class := store.ClassFor(name); class != nil {
			text = append(append(text, '='), class.Selects.String()...)
		}
	}
	return text
}

// Count returns how many devices of the class the node of a slot can use, from slices of whatever generation, and how many of these are allocated, to one claim
// or to several. It is not known (ok is false) if a selector cannot be evaluated.
func (c *Counter) Count(store *devices.Store, slot int32, node *v1.Node) (all, used int64, ok bool) {
	found := c.counted(store, slot, node)
	return found.all, found.used, found.ok
}

// counted counts, unless a node with alike devices was counted before.
func (c *Counter) counted(store *devices.Store, slot int32, node *v1.Node) count {
	c.key = store.AppendKey(c.key[:0], slot)
	found, known := c.remembered[string(c.key)]
	if !known {
		found = c.count(store, slot, node)
		if len(c.remembered) >= rememberedMax {
			clear(c.remembered)
		}
		c.remembered[string(c.key)] = found
	}
	return found
}

func (c *Counter) count(store *devices.Store, slot int32, node *v1.Node) (n count) {
	for slice, err := range store.UsableSlices(slot, node) {
		if err != nil {
			return count{}
		}
		for _, d := range slice.Devices {
			// As in kube-scheduler, which counts with less than it allocates by, no device is said to be one that may be shared.
			is, known := satisfies(c.matcher.ctx, c.matcher.cel, c.class.Spec.Selectors, cel.Device{Driver: slice.Driver, Attributes: d.Attributes, Capacity: d.Capacity})
			if !known {
				return count{}
			}
			if !is {
				continue
			}
			n.all++
			if store.InUse(structured.MakeDeviceID(slice.Driver, slice.Pool, d.Name)) {
				n.used++
			}
		}
	}
	n.ok = true
	return n
}

// Counters are those of one need. They follow what many nodes share of devices, see plugin.Following: with each placement from a pool that all nodes can use, counts
// would else be those of another need.
type Counters struct {
	of []*Counter
	// counted are counts, by their position in of, for nodes with alike devices at a version of wide pools.
	counted map[alikeNodes]count
	version uint64
}

// alikeNodes are the nodes of one list of alike nodes, for one counter.
type alikeNodes struct {
	list    uint64
	counter int
}

// countedMax bounds what Counters remember. Of a list about which nothing is known, all nodes are asked about.
const countedMax = 10_000

// NewCounters returns what follows these counters.
func NewCounters(of ...*Counter) *Counters { return &Counters{of: of, counted: map[alikeNodes]count{}} }

// Filled notes that all nodes have been asked about.
func (c *Counters) Filled(s *state.State) {
	store := s.View().Devices()
	clear(c.counted)
	c.version = store.WideVersion()
	for alike := range store.AlikeSince(0) {
		c.recount(s, alike)
	}
}

// Follow appends the slots of nodes for which a count may differ with what they can use of wide pools, and returns how many nodes it counted for itself: of nodes with
// alike devices one.
func (c *Counters) Follow(s *state.State, to []int32) (slots []int32, asked int) {
	store := s.View().Devices()
	if c.version == store.WideVersion() {
		return to, 0
	}
	for alike := range store.AlikeSince(c.version) {
		asked++
		if c.recount(s, alike) {
			to = alike.AppendSlots(to)
		}
	}
	c.version = store.WideVersion()
	return to, asked
}

// recount counts the devices of one of some alike nodes. It reports whether there are other counts than before, or none are remembered from before.
func (c *Counters) recount(s *state.State, alike *devices.Alike) (changed bool) {
	slot := alike.One()
	for i, counter := range c.of {
		now := counter.counted(s.View().Devices(), slot, s.Node(slot).Object())
		nodes := alikeNodes{alike.ID, i}
		if before, known := c.counted[nodes]; known && before == now {
			continue
		}
		changed = true
		if len(c.counted) >= countedMax {
			clear(c.counted)
		}
		c.counted[nodes] = now
	}
	return changed
}
