package allocator

import (
	"context"
	"strconv"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/devices"
	"github.com/berth-scheduler/berth/internal/model"
)

// Matcher knows which devices are of a class. Its methods may be called by several goroutines.
type Matcher struct {
	cel *cel.Cache
	ctx context.Context
}

// NewMatcher returns a matcher.
func NewMatcher() *Matcher {
	return &Matcher{cel.NewCache(celKept, cel.Features{EnableConsumableCapacity: true}), klog.NewContext(context.Background(), logr.Discard())}
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

// AppendClasses appends a canonical text of what counts for some extended resources depend on, besides the node.
func AppendClasses(text []byte, resources []model.ResourceName, store *devices.Store) []byte {
	for _, name := range resources {
		text = append(text, ' ')
		if class := store.ClassFor(name); class != nil {
			text = append(append(text, '='), class.Selects.String()...)
		}
	}
	return strconv.AppendUint(append(text, 'w'), store.WideVersion(), 10)
}

// Count returns how many devices of the class the node of a slot can use, from slices of whatever generation, and how many of these are allocated, to one claim
// or to several. It is not known (ok is false) if a selector cannot be evaluated.
func (c *Counter) Count(store *devices.Store, slot int32, node *v1.Node) (all, used int64, ok bool) {
	c.key = store.AppendKey(c.key[:0], slot)
	found, known := c.remembered[string(c.key)]
	if !known {
		found = c.count(store, slot, node)
		if len(c.remembered) >= rememberedMax {
			clear(c.remembered)
		}
		c.remembered[string(c.key)] = found
	}
	return found.all, found.used, found.ok
}

func (c *Counter) count(store *devices.Store, slot int32, node *v1.Node) (n count) {
	allocated := store.Allocated()
	for slice, err := range store.UsableSlices(slot, node) {
		if err != nil {
			return count{}
		}
		for i := range slice.Devices {
			d := slice.Devices[i]
			switch is, err := satisfies(c.matcher.ctx, c.matcher.cel, c.class.Spec.Selectors, slice.Driver, d); {
			case err != nil:
				return count{}
			case is:
				n.all++
				if structured.IsDeviceAllocated(structured.MakeDeviceID(slice.Driver, slice.Pool, d.Name), &allocated) {
					n.used++
				}
			}
		}
	}
	n.ok = true
	return n
}
