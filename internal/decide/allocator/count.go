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

// Matcher finds the devices of a class. Its methods may be called by several goroutines.
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

// count is the number of devices and of allocated devices. ok is false if it is unknown.
type count struct {
	all, used int64
	ok        bool
}

// maxRemembered bounds the cached counts of a class.
const maxRemembered = 256

// CounterFor returns a counter for the class that provides an extended resource, or nil.
func (m *Matcher) CounterFor(classes model.ClassResolver, resource model.ResourceName) *Counter {
	class := classes.ClassFor(resource)
	if class == nil {
		return nil
	}
	return &Counter{matcher: m, class: class.Object, remembered: map[string]count{}}
}

// AppendClasses appends a canonical text of the device classes on which counts of
// extended resources depend. The text has no devices: those of a node are looked up on
// the node, and those that several nodes can use are tracked by Counters.
func AppendClasses(text []byte, resources []model.ResourceName, store *devices.Store) []byte {
	for _, name := range resources {
		text = append(text, ' ')
		if class := store.ClassFor(name); class != nil {
			text = append(append(text, '='), class.Selects.String()...)
		}
	}
	return text
}

// Count returns how many devices of the class the node of a slot can use, from slices of
// any generation, and how many of them are allocated to any claim. ok is false if a
// selector cannot be evaluated.
func (c *Counter) Count(store *devices.Store, slot int32, node *v1.Node) (all, used int64, ok bool) {
	found := c.counted(store, slot, node)
	return found.all, found.used, found.ok
}

// counted returns the count, cached for nodes with equal devices.
func (c *Counter) counted(store *devices.Store, slot int32, node *v1.Node) count {
	c.key = store.AppendKey(c.key[:0], slot)
	found, known := c.remembered[string(c.key)]
	if !known {
		found = c.count(store, slot, node)
		if len(c.remembered) >= maxRemembered {
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
			// As in kube-scheduler, the count does not pass allowMultipleAllocations to
			// the expression, unlike the allocation.
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

// Counters count the devices for one need. They track devices that many nodes share
// (plugin.Following). If these were part of the need, each placement from a pool that all
// nodes can use would make another need.
type Counters struct {
	of []*Counter
	// counted are counts for nodes with equal devices at a version of the wide pools. The
	// keys have positions in of.
	counted map[alikeNodes]count
	version uint64
}

// alikeNodes identifies a list of nodes with equal devices, for one counter.
type alikeNodes struct {
	list    uint64
	counter int
}

// maxCounted bounds the cache of Counters. If the count of a list is not cached, all its
// nodes are scored again.
const maxCounted = 10_000

// NewCounters returns Counters for the given counters.
func NewCounters(of ...*Counter) *Counters { return &Counters{of: of, counted: map[alikeNodes]count{}} }

// Filled records that all nodes have scores.
func (c *Counters) Filled(s *state.State) {
	store := s.View().Devices()
	clear(c.counted)
	c.version = store.WideVersion()
	for alike := range store.AlikeSince(0) {
		c.recount(s, alike)
	}
}

// Follow appends the slots of nodes whose count may have changed with the wide pools.
// asked is the number of nodes that it counted, which is one per list of nodes with equal
// devices.
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

// recount counts the devices of a node of a list. It reports whether a count has changed
// or was not cached.
func (c *Counters) recount(s *state.State, alike *devices.Alike) (changed bool) {
	slot := alike.One()
	for i, counter := range c.of {
		now := counter.counted(s.View().Devices(), slot, s.Node(slot).Object())
		nodes := alikeNodes{alike.ID, i}
		if before, known := c.counted[nodes]; known && before == now {
			continue
		}
		changed = true
		if len(c.counted) >= maxCounted {
			clear(c.counted)
		}
		c.counted[nodes] = now
	}
	return changed
}
