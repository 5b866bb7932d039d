package dynamicresources

import (
	"encoding/json"
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/allocator"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
)

// The device requests of a parked pod do not change until an event about its claims or a
// class wakes the pod: claims and their requests are immutable. So an event about the
// devices of a pool cannot help if no request could get a device of that pool, even a
// free one. Devices outside the pool are not affected either, since counters belong to
// one pool. Unclear cases wake the pod.

var (
	// nothing is the need of a pod that no change of devices can help.
	nothing model.Need
	// anything is the need of a pod whose requests are unknown.
	anything = model.NeedOf("anything")
)

// AskedIn returns the requests of the pod's claims without an allocation, and of the
// claim that the scheduler would create for its extended resources.
func (p *Plugin) AskedIn(v state.View, pod *model.Pod) model.Need {
	store := v.Devices()
	x := extendedOf(store, pod)
	if pod.Devices == nil && x == nil {
		return anything
	}
	claims, reason := p.claimsInTurn(store, pod)
	if reason != "" {
		return nothing
	}
	find := unallocated(claims)
	if x != nil && x.left == nil && len(x.requests) > 0 {
		find = append(find, model.NewResourceClaim(x.claimFor(pod, unnamed, ^uint64(0))))
	}
	if len(find) == 0 {
		return nothing
	}
	known := true
	text := []byte{'['}
	for i, claim := range find {
		if store.IsPromised(claim.Key) {
			return anything // wait for the result of the promise, for any device
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(text, `{"claim":`...), claim.Asks.String()...)
		text = append(text, `,"classes":[`...)
		first := true
		requestsOf(claim.Object, func(_, class string, _ bool) bool {
			c := store.Class(class)
			if c == nil {
				known = false
				return false
			}
			if !first {
				text = append(text, ',')
			}
			first = false
			text = append(text, c.Selects.String()...)
			return true
		})
		text = append(text, `]}`...)
	}
	if !known {
		return nothing
	}
	return model.NeedOf(string(append(text, ']')))
}

// compiledNeed is a compiled need.
type compiledNeed struct {
	id uint64
	// requests are the selectors of each request and its class. Each alternative counts
	// as a request.
	requests [][]resourcev1.DeviceSelector
	// drivers are those that can provide the devices; nil if any driver might.
	drivers []string
	// all means that a request is for all devices. An invalid pool of any driver can
	// block it.
	all bool
}

// hintCache caches the results of hints. The hints run in the goroutine of the queue.
//
// Hints evaluate selectors written by the authors of claims, so hints have budgets, in
// units of work. Each need has a budget per pool, and all hints for an event share a
// budget. When a budget is used up, the event counts as helpful: a failed attempt costs
// less than an unlimited hint.
type hintCache struct {
	hints *allocator.Hints
	// needs holds compiled needs. Invariant: bytes is their approximate size.
	needs map[model.Need]*compiledNeed
	bytes int
	ids   uint64
	// matches records whether a request could get a device of a pool.
	matches map[match]bool
	// left is the remaining budget of the current event, spent the work of all hints so
	// far.
	left  int64
	spent int64
}

type match struct {
	need uint64
	pool [32]byte
}

// maxNeedBytes bounds the size of compiled needs, maxMatches the number of cached
// results.
const (
	maxNeedBytes = 8 << 20
	maxMatches   = 20_000
)

// Budgets of hints, in units of work.
const (
	// poolWork is the budget for a need and a pool, parkedWork for finding a need's
	// drivers.
	poolWork, parkedWork = 2 * price.Millisecond, 5 * price.Millisecond
	// eventWork is the budget of all hints for an event. Waiting events share it, down to
	// leastEventWork each.
	eventWork, leastEventWork = 100 * price.Millisecond, 20 * price.Millisecond
)

func newHintCache(features allocator.Features) *hintCache {
	return &hintCache{hints: allocator.NewHints(features), needs: map[model.Need]*compiledNeed{}, matches: map[match]bool{}, left: eventWork}
}

// begin sets the budget of an event. waiting is the number of events behind it.
func (h *hintCache) begin(waiting int) { h.left = max(eventWork/int64(1+waiting), leastEventWork) }

// does calls a function with a budget of most, and subtracts its work from left.
func (h *hintCache) does(most int64, work func(left *allocator.Work)) {
	left := allocator.Work(most)
	work(&left)
	done := most - int64(left)
	h.left -= done
	h.spent += done
}

// compile compiles a need other than nothing and anything.
func (h *hintCache) compile(need model.Need) *compiledNeed {
	if a := h.needs[need]; a != nil {
		return a
	}
	var claims []struct {
		Claim   resourcev1.DeviceClaim
		Classes [][]resourcev1.DeviceSelector
	}
	if err := json.Unmarshal([]byte(need.String()), &claims); err != nil {
		panic(fmt.Sprintf("decode the requests of a pod: %v", err)) // encoded by AskedIn
	}
	h.ids++
	a := &compiledNeed{id: h.ids}
	for _, c := range claims {
		for i := range c.Claim.Requests {
			r := &c.Claim.Requests[i]
			if r.Exactly != nil {
				a.add(r.Exactly.Selectors, r.Exactly.AllocationMode, &c.Classes)
			}
			for j := range r.FirstAvailable {
				a.add(r.FirstAvailable[j].Selectors, r.FirstAvailable[j].AllocationMode, &c.Classes)
			}
		}
	}
	h.does(parkedWork, a.findDrivers(h.hints))
	if h.bytes += bytesOf(need); h.bytes > maxNeedBytes {
		clear(h.needs)
		h.bytes = bytesOf(need)
	}
	h.needs[need] = a
	return a
}

// bytesOf returns the approximate size of a need and its compiled form.
func bytesOf(need model.Need) int { return 512 + 2*len(need.String()) }

// findDrivers finds the drivers that can provide the devices, within the budget.
func (a *compiledNeed) findDrivers(hints *allocator.Hints) func(left *allocator.Work) {
	return func(left *allocator.Work) {
		for _, selectors := range a.requests {
			driver := hints.DriverOf(selectors, left)
			if driver == "" {
				a.drivers = nil
				break
			}
			a.drivers = append(a.drivers, driver)
		}
		slices.Sort(a.drivers)
		a.drivers = slices.Compact(a.drivers)
	}
}

// add adds a request. Its class is the first of the remaining classes.
func (a *compiledNeed) add(selectors []resourcev1.DeviceSelector, mode resourcev1.DeviceAllocationMode, classes *[][]resourcev1.DeviceSelector) {
	a.requests = append(a.requests, slices.Concat((*classes)[0], selectors))
	a.all = a.all || mode == resourcev1.DeviceAllocationModeAll
	*classes = (*classes)[1:]
}

// within returns a compiled need, or nil if the budget does not allow compiling it.
func (h *hintCache) within(need model.Need) *compiledNeed {
	if a := h.needs[need]; a != nil || h.left <= 0 {
		return a
	}
	return h.compile(need)
}

// mayUse reports whether a request could get a device of the given pools.
func (h *hintCache) mayUse(need model.Need, pools []*model.DevicePool) bool {
	if len(pools) == 0 {
		return false
	}
	a := h.within(need)
	if a == nil {
		return true
	}
	return slices.ContainsFunc(pools, func(p *model.DevicePool) bool {
		key := match{a.id, p.What}
		matches, known := h.matches[key]
		if known {
			return matches
		}
		if h.left <= 0 {
			return true // not cached: the next event has a new budget
		}
		h.does(poolWork, func(left *allocator.Work) {
			matches = slices.ContainsFunc(a.requests, func(selectors []resourcev1.DeviceSelector) bool {
				return h.hints.MayMatch(selectors, p.Slices, left) || left.IsOver()
			})
		})
		if len(h.matches) >= maxMatches {
			clear(h.matches)
		}
		h.matches[key] = matches
		return matches
	})
}

// asksAll reports whether a request is, or might be, for all devices.
func (h *hintCache) asksAll(need model.Need) bool {
	a := h.within(need)
	return a == nil || a.all
}

// aboutClaims returns the hint for claims that release devices.
func (h *hintCache) aboutClaims() *model.AskedHint {
	return &model.AskedHint{
		Hint: func(need model.Need, e model.Event) bool {
			return need == anything && givesBack(e) || isKnown(need) && h.mayUse(need, e.Pools)
		},
		Cause: func(need model.Need) model.Cause { return h.cause(need, false) },
		Begin: h.begin, Spent: func() int64 { return h.spent },
	}
}

// aboutSlices returns the hint for slices, and for rules that taint devices.
func (h *hintCache) aboutSlices() *model.AskedHint {
	return &model.AskedHint{
		Hint: func(need model.Need, e model.Event) bool {
			return need == anything || isKnown(need) && (isRule(e) || h.asksAll(need) || h.mayUse(need, e.Pools))
		},
		Cause: func(need model.Need) model.Cause { return h.cause(need, true) },
		Begin: h.begin, Spent: func() int64 { return h.spent },
	}
}

func isKnown(need model.Need) bool { return need != nothing && need != anything }

func isRule(e model.Event) bool {
	object := e.Object
	if object == nil {
		object = e.OldObject
	}
	return object.Ref().Kind == model.DeviceTaintRuleKind
}

// givesBack reports whether a claim has lost its allocation or a part of it.
func givesBack(e model.Event) bool {
	had, ok := e.OldObject.(*model.ResourceClaim)
	if !ok || had.Allocation() == nil {
		return false
	}
	now, ok := e.Object.(*model.ResourceClaim)
	return !ok || now.Allocation() == nil || len(e.Pools) > 0
}

// cause returns the drivers that an event about pools must touch. A request for all
// devices can be helped by pools of any driver if pools have changed.
func (h *hintCache) cause(need model.Need, changed bool) (c model.Cause) {
	if need == nothing {
		c.Wants = model.Never()
	}
	if !isKnown(need) {
		return c
	}
	// Pods are also parked while an event is processed.
	defer func(left int64) { h.left = left }(h.left)
	if a := h.compile(need); !a.all || !changed {
		for _, driver := range a.drivers {
			c.Keys = append(c.Keys, driverKey(driver))
		}
	}
	return c
}

func driverKey(driver string) model.Key { return model.Key{Kind: "driver", Name: driver} }

// touches adds the drivers of an event's pools. A rule may taint devices of any driver.
func touches(e model.Event, to *model.Touch) {
	if isRule(e) {
		return
	}
	var drivers model.Clause
	for _, p := range e.Pools {
		drivers = append(drivers, driverKey(p.Driver))
	}
	to.Seeks = append(to.Seeks, model.Way{drivers})
}
