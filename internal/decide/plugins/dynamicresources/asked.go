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

// What a pod asks of devices when it is rejected stays what it asks until an event about its claims or about a class wakes it: claims and their requests do
// not change. So an event about the devices of a pool is of no help to it if no request could be given a device of that pool, whatever is in use: neither
// could a search take one from there, nor do other devices depend on those of this pool, whose counters are its own. Whatever is not known helps.

var (
	// nothing is what a pod asks for which no search would be made, whatever becomes of devices.
	nothing model.Need
	// anything is what a pod asks of which nothing is known.
	anything = model.NeedOf("anything")
)

// AskedIn returns what the pod's claims ask of devices that have no allocation, and what the one would ask that is made for its extended resources.
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
			return anything // it waits for what comes of the promise, whatever devices that concerns
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

// asked is what a pod asked, compiled.
type asked struct {
	id uint64
	// requests are the selectors of each request, and of its class; where there are alternatives, of each of these.
	requests [][]resourcev1.DeviceSelector
	// drivers are those of which devices can be given, nil if any driver's may be.
	drivers []string
	// all means that a request is for all devices, which an invalid pool of any driver can keep from being given.
	all bool
}

// heard remembers what hints found. They are asked by the goroutine of the queue.
//
// Authors of claims write the selectors that hints evaluate, so hints have budgets of
// counted work. Each need has a budget for each pool, and all hints about an event share
// a budget. When either is used up, the result is that the event helps. A failed attempt
// costs less than a hint without a limit.
type heard struct {
	hints *allocator.Hints
	// Compiled needs, by need. Invariant: bytes is their approximate size.
	asked map[model.Need]*asked
	bytes int
	ids   uint64
	// matches are whether a request could be given a device of a pool.
	matches map[match]bool
	// left is the remaining budget of the present event, spent the work of all hints so
	// far.
	left  int64
	spent int64
}

type match struct {
	asked uint64
	pool  [32]byte
}

// askedMax bounds the bytes of compiled needs, matchesMax the number of cached results.
const (
	askedMax   = 8 << 20
	matchesMax = 20_000
)

// Budgets of hints, in units of work.
const (
	// poolWork is the budget of a need and a pool, parkedWork the budget to find the
	// drivers of a need.
	poolWork, parkedWork = 2 * price.Millisecond, 5 * price.Millisecond
	// eventWork is the budget of all hints about an event. It is shared with waiting
	// events, down to leastEventWork.
	eventWork, leastEventWork = 100 * price.Millisecond, 20 * price.Millisecond
)

func newHeard(features allocator.Features) *heard {
	return &heard{hints: allocator.NewHints(features), asked: map[model.Need]*asked{}, matches: map[match]bool{}, left: eventWork}
}

// begin sets the budget of an event, with a number of events waiting behind it.
func (h *heard) begin(waiting int) { h.left = max(eventWork/int64(1+waiting), leastEventWork) }

// does calls a function that may do at most that much work, and counts the work.
func (h *heard) does(most int64, work func(left *allocator.Work)) {
	left := allocator.Work(most)
	work(&left)
	done := most - int64(left)
	h.left -= done
	h.spent += done
}

// compile compiles what a pod asked, which is neither nothing nor anything.
func (h *heard) compile(need model.Need) *asked {
	if a := h.asked[need]; a != nil {
		return a
	}
	var claims []struct {
		Claim   resourcev1.DeviceClaim
		Classes [][]resourcev1.DeviceSelector
	}
	if err := json.Unmarshal([]byte(need.String()), &claims); err != nil {
		panic(fmt.Sprintf("decode what a pod asked: %v", err)) // AskedIn has encoded it
	}
	h.ids++
	a := &asked{id: h.ids}
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
	if h.bytes += bytesOf(need); h.bytes > askedMax {
		clear(h.asked)
		h.bytes = bytesOf(need)
	}
	h.asked[need] = a
	return a
}

// bytesOf returns the approximate bytes of a need and its compiled form.
func bytesOf(need model.Need) int { return 512 + 2*len(need.String()) }

// findDrivers finds the drivers whose devices can be given, as far as the work allows.
func (a *asked) findDrivers(hints *allocator.Hints) func(left *allocator.Work) {
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

// add adds a request, whose class is the first that is left.
func (a *asked) add(selectors []resourcev1.DeviceSelector, mode resourcev1.DeviceAllocationMode, classes *[][]resourcev1.DeviceSelector) {
	a.requests = append(a.requests, slices.Concat((*classes)[0], selectors))
	a.all = a.all || mode == resourcev1.DeviceAllocationModeAll
	*classes = (*classes)[1:]
}

// within returns a compiled need, or nil if no work is left to compile it.
func (h *heard) within(need model.Need) *asked {
	if a := h.asked[need]; a != nil || h.left <= 0 {
		return a
	}
	return h.compile(need)
}

// mayUse reports whether a request could be given a device of one of the pools.
func (h *heard) mayUse(need model.Need, pools []*model.DevicePool) bool {
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
			return true // only this time: the next event has a budget of its own
		}
		h.does(poolWork, func(left *allocator.Work) {
			matches = slices.ContainsFunc(a.requests, func(selectors []resourcev1.DeviceSelector) bool {
				return h.hints.MayMatch(selectors, p.Slices, left) || left.IsOver()
			})
		})
		if len(h.matches) >= matchesMax {
			clear(h.matches)
		}
		h.matches[key] = matches
		return matches
	})
}

// asksAll reports whether a request is for all devices, or might be.
func (h *heard) asksAll(need model.Need) bool {
	a := h.within(need)
	return a == nil || a.all
}

// aboutClaims is the hint about claims that give devices back.
func (h *heard) aboutClaims() *model.AskedHint {
	return &model.AskedHint{
		Hint: func(need model.Need, e model.Event) bool {
			return need == anything && givesBack(e) || isKnown(need) && h.mayUse(need, e.Pools)
		},
		Cause: func(need model.Need) model.Cause { return h.cause(need, false) },
		Begin: h.begin, Spent: func() int64 { return h.spent },
	}
}

// aboutSlices is the hint about slices, and about rules that taint devices.
func (h *heard) aboutSlices() *model.AskedHint {
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

// givesBack reports whether a claim has lost an allocation, or something of it.
func givesBack(e model.Event) bool {
	had, ok := e.OldObject.(*model.ResourceClaim)
	if !ok || had.Allocation() == nil {
		return false
	}
	now, ok := e.Object.(*model.ResourceClaim)
	return !ok || now.Allocation() == nil || len(e.Pools) > 0
}

// cause returns what an event about pools must touch; whoever asks for all devices may be helped by pools of any driver if these have changed.
func (h *heard) cause(need model.Need, changed bool) (c model.Cause) {
	if need == nothing {
		c.Wants = model.Never()
	}
	if !isKnown(need) {
		return c
	}
	defer func(left int64) { h.left = left }(h.left) // pods are also parked while an event is being processed
	if a := h.compile(need); !a.all || !changed {
		for _, driver := range a.drivers {
			c.Keys = append(c.Keys, driverKey(driver))
		}
	}
	return c
}

func driverKey(driver string) model.Key { return model.Key{Kind: "driver", Name: driver} }

// touches adds the drivers of the pools that an event is about. A rule may taint devices of any.
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
