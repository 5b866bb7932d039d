package dynamicresources

import (
	"encoding/json"
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/internal/allocator"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/state"
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
	// requests are the selectors of each request, and of its class; where there are alternatives, of each of these.
	requests [][]resourcev1.DeviceSelector
	// drivers are those of which devices can be given, nil if any driver's may be.
	drivers []string
	// all means that a request is for all devices, which an invalid pool of any driver can keep from being given.
	all bool
}

// heard remembers what hints found. They are asked by the goroutine of the queue.
type heard struct {
	search *allocator.Allocator
	asked  map[model.Need]*asked
	// matches are whether a request could be given a device of a pool.
	matches map[match]bool
}

type match struct {
	asked model.Need
	pool  [32]byte
}

// askedMax and matchesMax bound what is remembered.
const (
	askedMax   = 1_000
	matchesMax = 20_000
)

func newHeard(search *allocator.Allocator) *heard {
	return &heard{search, map[model.Need]*asked{}, map[match]bool{}}
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
	a := &asked{}
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
	for _, selectors := range a.requests {
		driver := h.search.DriverOf(selectors)
		if driver == "" {
			a.drivers = nil
			break
		}
		a.drivers = append(a.drivers, driver)
	}
	slices.Sort(a.drivers)
	a.drivers = slices.Compact(a.drivers)
	if len(h.asked) >= askedMax {
		clear(h.asked)
	}
	h.asked[need] = a
	return a
}

// add adds a request, whose class is the first that is left.
func (a *asked) add(selectors []resourcev1.DeviceSelector, mode resourcev1.DeviceAllocationMode, classes *[][]resourcev1.DeviceSelector) {
	a.requests = append(a.requests, slices.Concat((*classes)[0], selectors))
	a.all = a.all || mode == resourcev1.DeviceAllocationModeAll
	*classes = (*classes)[1:]
}

// mayUse reports whether a request could be given a device of one of the pools.
func (h *heard) mayUse(need model.Need, pools []*model.DevicePool) bool {
	return slices.ContainsFunc(pools, func(p *model.DevicePool) bool {
		key := match{need, p.What}
		matches, known := h.matches[key]
		if !known {
			matches = slices.ContainsFunc(h.compile(need).requests, func(selectors []resourcev1.DeviceSelector) bool {
				return h.search.MayMatch(selectors, p.Slices)
			})
			if len(h.matches) >= matchesMax {
				clear(h.matches)
			}
			h.matches[key] = matches
		}
		return matches
	})
}

// aboutClaims is the hint about claims that give devices back.
func (h *heard) aboutClaims() *model.AskedHint {
	return &model.AskedHint{
		Hint: func(need model.Need, e model.Event) bool {
			return need == anything && givesBack(e) || isKnown(need) && h.mayUse(need, e.Pools)
		},
		Cause: func(need model.Need) model.Cause { return h.cause(need, false) },
	}
}

// aboutSlices is the hint about slices, and about rules that taint devices.
func (h *heard) aboutSlices() *model.AskedHint {
	return &model.AskedHint{
		Hint: func(need model.Need, e model.Event) bool {
			return need == anything || isKnown(need) && (isRule(e) || h.compile(need).all || h.mayUse(need, e.Pools))
		},
		Cause: func(need model.Need) model.Cause { return h.cause(need, true) },
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
