package devices

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/internal/kit/shrink"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Store holds everything about devices. The zero value is not usable; call New.
type Store struct {
	// touch is called with each changed slot and the changed aspects.
	touch func(slot int32, aspects model.Aspect)

	classes map[string]*model.DeviceClass
	// Invariant: standIns has each class that names an extended resource, by resource.
	// The class that provides the resource is first. No list is empty.
	standIns map[model.ResourceName][]*model.DeviceClass
	// Invariant: made has each claim that a scheduler created for the extended resources
	// of a pod, by the pod's UID, sorted. No list is empty.
	made map[types.UID][]model.ClaimKey
	// Invariant: claims has exactly the claims that exist or have a promise.
	claims map[model.ClaimKey]*claim
	slices map[string]*model.ResourceSlice
	rules  map[string]*model.DeviceTaintRule
	// Invariant: rulesOf has each rule with a selector, once, by the driver and pool that
	// it names. Both are empty if it names none. No list is empty.
	rulesOf map[PoolID][]*model.DeviceTaintRule
	// Invariant: pools has exactly the pools of all slices.
	pools map[PoolID]*pool
	// Invariant: nodes has exactly the nodes with a slot or a local pool.
	nodes map[string]*node
	// Invariant: bySlot has the node of each slot in use, and nil for the others.
	bySlot []*node
	// Invariant: wide has the pools that are not local to one node, by driver and name.
	wide []*pool
	// wideVersion changes with each change of a wide pool or its allocations. Invariant:
	// no wide pool has a later version.
	wideVersion uint64
	// Invariant: alike has the nodes that can use wide pools, each once, by all
	// properties of their devices except the use of wide pools. No list is empty.
	alike  map[string]*Alike
	alikes uint64 // number of lists ever created
	// Scratch memory for matching a node.
	candidate v1.Node
	selected  []byte

	// Invariant: allocated is the devices that claims use: their allocations, or
	// otherwise their promises. Devices with admin access are left out.
	allocated structured.AllocatedState
	// Invariant: users is the number of exclusive users of each device, without zeros.
	users map[structured.DeviceID]int
	// Invariant: sharers is the number of allocated shares of each device, without zeros.
	// A share may consume no capacity.
	sharers map[structured.DeviceID]int
	// Invariant: withdrawn has, by pool and name, the counters of devices that are in use
	// although no slice publishes them any more. A device is known here only if a slice
	// published it while it was in use. No map is empty.
	withdrawn map[PoolID]map[string][]resourcev1.DeviceCounterConsumption

	// Invariant: givenBack is the number of claims that are being released.
	givenBack int
	// turn is the turn of the pod group under decision, 0 if none; turns is the number of
	// turns.
	turn, turns uint64

	// news are the objects for News, nil before its first call.
	news map[model.Ref]struct{}

	work  Work
	peaks struct{ claims, made, slices, rules, rulesOf, pools, nodes, users, sharers, withdrawn, alike int }
}

// PoolID identifies a pool. Pool names are unique within a driver.
type PoolID struct{ Driver, Pool string }

// claim is a ResourceClaim that exists or has a promise.
type claim struct {
	*model.ResourceClaim // nil if it does not exist
	// promise is the allocation promised by a placement. It is nil without one, and once
	// a version of the claim shows the result.
	promise *Promise
	// Invariant: holders are the pods whose placements hold the promise, at least one per
	// promise. Several holders are members of one group.
	holders []model.PodKey
	// turn is the group's turn in which the promise was made, or 0.
	turn uint64
	// shown means that a version of the claim existed at the promise or was stored since.
	shown bool
	// givingBack is the number of decisions with pending writes that release something of
	// the claim. Invariant: it is 0 unless the claim exists.
	givingBack int
}

// Promise is the value of a hold on a claim: its future allocation. It counts until a
// version of the claim shows an allocation.
type Promise struct {
	// Of the claim, as another claim of the name gets nothing; empty if not yet created.
	UID        types.UID
	Allocation *resourcev1.AllocationResult
	// Made is the claim to create for the pod's extended resources, nil if the claim
	// exists. Uses maps containers to its requests.
	Made *resourcev1.ResourceClaim
	Uses []v1.ContainerExtendedResourceRequest
}

// IsHeld marks the type as the value of a hold, see plan.Held.
func (*Promise) IsHeld() {}

// Key returns the key of the claim to create.
func (p *Promise) Key() model.ClaimKey {
	return model.ClaimKey{Namespace: model.Interned(p.Made.Namespace), Name: p.Made.Name}
}

// Work counts work. It only grows.
type Work struct {
	// Described counts descriptions of pools and of a device's allocations. Counted
	// counts changes of a device's allocations.
	Described, Counted int64
	// Matched counts matches of a node against a wide pool.
	Matched int64
	// Touched counts reported changes of slots.
	Touched int64
}

// New returns an empty store. touch is called with each changed slot.
func New(touch func(slot int32, aspects model.Aspect)) *Store {
	return &Store{
		touch: touch, classes: map[string]*model.DeviceClass{}, claims: map[model.ClaimKey]*claim{}, slices: map[string]*model.ResourceSlice{},
		standIns: map[model.ResourceName][]*model.DeviceClass{}, made: map[types.UID][]model.ClaimKey{},
		rules: map[string]*model.DeviceTaintRule{}, rulesOf: map[PoolID][]*model.DeviceTaintRule{}, pools: map[PoolID]*pool{}, nodes: map[string]*node{},
		users: map[structured.DeviceID]int{}, sharers: map[structured.DeviceID]int{}, alike: map[string]*Alike{},
		withdrawn: map[PoolID]map[string][]resourcev1.DeviceCounterConsumption{},
		allocated: structured.AllocatedState{
			AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity: structured.NewConsumedCapacityCollection(),
		},
	}
}

// Work returns the work done so far.
func (s *Store) Work() Work { return s.work }

// Shrink reallocates maps that were once much larger.
func (s *Store) Shrink() {
	p := &s.peaks
	s.claims = shrink.Map(s.claims, &p.claims)
	s.made = shrink.Map(s.made, &p.made)
	s.slices = shrink.Map(s.slices, &p.slices)
	s.rules = shrink.Map(s.rules, &p.rules)
	s.rulesOf = shrink.Map(s.rulesOf, &p.rulesOf)
	s.pools = shrink.Map(s.pools, &p.pools)
	s.nodes = shrink.Map(s.nodes, &p.nodes)
	s.users = shrink.Map(s.users, &p.users)
	s.sharers = shrink.Map(s.sharers, &p.sharers)
	s.withdrawn = shrink.Map(s.withdrawn, &p.withdrawn)
	s.alike = shrink.Map(s.alike, &p.alike)
}

// Sizes is the number of objects and indexes in the store. Nodes include nodes without a
// slot that have local pools. Used are the devices that claims use. Withdrawn are the
// pools with used devices that no slice publishes.
type Sizes struct{ Claims, Classes, Slices, Rules, Pools, Wide, Nodes, Used, Withdrawn, Alike int }

// Sizes returns how many objects and indexes the store holds.
func (s *Store) Sizes() Sizes {
	return Sizes{
		Claims: len(s.claims), Classes: len(s.classes), Slices: len(s.slices), Rules: len(s.rules), Pools: len(s.pools), Wide: len(s.wide), Nodes: len(s.nodes),
		Used: len(s.users) + len(s.allocated.AllocatedSharedDeviceIDs), Withdrawn: len(s.withdrawn), Alike: len(s.alike),
	}
}

// Set stores a version of an object. It returns the previous version, or nil.
func (s *Store) Set(object model.Compiled) (before model.Compiled) {
	s.note(object.Ref())
	switch o := object.(type) {
	case *model.ResourceClaim:
		return model.OrNil(s.setClaim(o.Key, o))
	case *model.ResourceSlice:
		return model.OrNil(s.setSlice(o.Name, o))
	case *model.DeviceClass:
		return model.OrNil(s.setClass(o.Name, o))
	case *model.DeviceTaintRule:
		return model.OrNil(s.setRule(o.Name, o))
	}
	return nil
}

// Remove removes an object. It returns the last version, or nil.
func (s *Store) Remove(ref model.Ref) (before model.Compiled) {
	s.note(ref)
	switch ref.Kind {
	case model.ResourceClaimKind:
		return model.OrNil(s.setClaim(ref.ClaimKey(), nil))
	case model.ResourceSliceKind:
		return model.OrNil(s.setSlice(ref.Name, nil))
	case model.DeviceClassKind:
		return model.OrNil(s.setClass(ref.Name, nil))
	case model.DeviceTaintRuleKind:
		return model.OrNil(s.setRule(ref.Name, nil))
	}
	return nil
}

// Get returns an object, or nil if it does not exist.
func (s *Store) Get(ref model.Ref) model.Compiled {
	switch ref.Kind {
	case model.ResourceClaimKind:
		return model.OrNil(s.Claim(ref.ClaimKey()))
	case model.ResourceSliceKind:
		return model.OrNil(s.slices[ref.Name])
	case model.DeviceClassKind:
		return model.OrNil(s.classes[ref.Name])
	case model.DeviceTaintRuleKind:
		return model.OrNil(s.rules[ref.Name])
	}
	return nil
}

// Claim returns a claim, or nil if it does not exist.
func (s *Store) Claim(key model.ClaimKey) *model.ResourceClaim {
	if c := s.claims[key]; c != nil {
		return c.ResourceClaim
	}
	return nil
}

// IsPromised reports whether a placement has promised an allocation to a claim, and no
// version of the claim shows the result yet.
func (s *Store) IsPromised(key model.ClaimKey) bool {
	c := s.claims[key]
	return c != nil && c.promise != nil
}

// BeginGroup begins the turn of a pod group. Until EndGroup, its members share the
// promises made to any of them.
func (s *Store) BeginGroup() {
	s.turns++
	s.turn = s.turns
}

// EndGroup ends the turn of a pod group.
func (s *Store) EndGroup() { s.turn = 0 }

// PromisedInTurn returns the promise to a claim from the present turn of a pod group, or
// nil.
func (s *Store) PromisedInTurn(key model.ClaimKey) *Promise {
	if c := s.claims[key]; c != nil && c.promise != nil && s.turn != 0 && c.turn == s.turn {
		return c.promise
	}
	return nil
}

// Class returns a DeviceClass, or nil if it does not exist.
func (s *Store) Class(name string) *model.DeviceClass { return s.classes[name] }

// Allocated returns the allocations of claims. It must not be changed, and is valid until
// the store changes.
func (s *Store) Allocated() structured.AllocatedState { return s.allocated }

// InUse reports whether any part of a device is allocated.
func (s *Store) InUse(id structured.DeviceID) bool { return s.users[id] > 0 || s.sharers[id] > 0 }

// Hold records that a placement promises an allocation to a claim, or shares the existing
// promise. Other holds are ignored.
func (s *Store) Hold(object model.Ref, pod model.PodKey, value plan.Held) {
	promise, ok := value.(*Promise)
	if !ok || object.Kind != model.ResourceClaimKind {
		return
	}
	s.note(object)
	c := s.claimOf(object.ClaimKey())
	// A claim created for a pod is not shared.
	if c.promise == promise && promise.Made == nil {
		c.holders = append(c.holders, pod)
		return
	}
	s.recount(c, func() { c.promise, c.holders, c.turn = promise, []model.PodKey{pod}, s.turn })
	c.shown = c.ResourceClaim != nil
}

// Release records the end of a placement that holds a promise. If no other placement
// shares the promise, it is broken and returned, with the claim, or nil if the claim does
// not exist.
func (s *Store) Release(object model.Ref, pod model.PodKey) (broken *Promise, of *model.ResourceClaim) {
	if object.Kind != model.ResourceClaimKind {
		return nil, nil
	}
	c := s.claims[object.ClaimKey()]
	if c == nil {
		return nil, nil
	}
	at := slices.Index(c.holders, pod)
	switch {
	case at < 0:
	case len(c.holders) > 1:
		c.holders = slices.Delete(c.holders, at, at+1)
	default:
		s.note(object)
		broken, of = c.promise, c.ResourceClaim
		s.recount(c, c.breakPromise)
		s.forgetClaim(object.ClaimKey(), c)
	}
	return broken, of
}

// breakPromise removes the claim's promise.
func (c *claim) breakPromise() { c.promise, c.holders, c.turn = nil, nil, 0 }

func (s *Store) claimOf(key model.ClaimKey) *claim {
	c := s.claims[key]
	if c == nil {
		c = &claim{}
		s.claims[key] = c
	}
	return c
}

func (s *Store) forgetClaim(key model.ClaimKey, c *claim) {
	if c.ResourceClaim == nil && c.promise == nil {
		delete(s.claims, key)
	}
}

// setClaim stores a version of a claim; nil deletes it. A promise ends with the first
// version that shows an allocation by anyone, or that belongs to another claim of the
// same name.
func (s *Store) setClaim(key model.ClaimKey, now *model.ResourceClaim) (before *model.ResourceClaim) {
	if s.claims[key] == nil && now == nil {
		return nil
	}
	c := s.claimOf(key)
	before = c.ResourceClaim
	if now == nil || before != nil && before.Object.UID != now.Object.UID {
		s.keepClaim(c)
	}
	s.listMade(before, now)
	c.shown = c.shown || now != nil
	s.recount(c, func() {
		c.ResourceClaim = now
		if p := c.promise; p != nil && now != nil && (now.Allocation() != nil || p.UID != "" && now.Object.UID != p.UID) {
			c.breakPromise()
		}
	})
	s.forgetClaim(key, c)
	return before
}

// PoolsOf returns the pools of devices that an event about a claim or a slice concerns,
// for model.Event.Pools. before and now are the versions of the object, nil if missing.
// The store already has the present version.
func (s *Store) PoolsOf(before, now model.Compiled) (pools []*model.DevicePool) {
	add := func(id PoolID) {
		if p := s.pools[id]; p != nil && !slices.Contains(pools, p.now) {
			pools = append(pools, p.now)
		}
	}
	for _, version := range []model.Compiled{before, now} {
		if slice, ok := version.(*model.ResourceSlice); ok {
			add(poolOf(slice))
		}
	}
	if had, ok := before.(*model.ResourceClaim); ok && had.Allocation() != nil {
		var has *resourcev1.AllocationResult
		if claim, ok := now.(*model.ResourceClaim); ok {
			has = claim.Allocation()
		}
		for i := range had.Allocation().Devices.Results {
			if r := &had.Allocation().Devices.Results[i]; !isForAdmin(r) && !gives(has, r) {
				add(PoolID{r.Driver, r.Pool})
			}
		}
	}
	return pools
}

// gives reports whether an allocation, which may be nil, has the same amount of a device
// as a result of another allocation.
func gives(a *resourcev1.AllocationResult, result *resourcev1.DeviceRequestAllocationResult) bool {
	return a != nil && slices.ContainsFunc(a.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
		return equality.Semantic.DeepEqual(&r, result)
	})
}

// isForAdmin reports whether a device is allocated with admin access, which does not use
// it.
func isForAdmin(r *resourcev1.DeviceRequestAllocationResult) bool {
	return r.AdminAccess != nil && *r.AdminAccess
}

// uses returns the claim's allocation or promise, or nil.
func (c *claim) uses() *resourcev1.AllocationResult {
	switch {
	case c.ResourceClaim != nil && c.Allocation() != nil:
		return c.Allocation()
	case c.promise != nil:
		return c.promise.Allocation
	}
	return nil
}

// recount changes a claim and updates the counts of the devices that it uses.
func (s *Store) recount(c *claim, change func()) {
	before := c.uses()
	change()
	if after := c.uses(); after != before {
		touched := map[PoolID][]string{}
		s.count(before, -1, touched)
		s.count(after, +1, touched)
		for _, id := range slices.SortedFunc(maps.Keys(touched), PoolID.compare) {
			s.release(id, touched[id])
			if p := s.pools[id]; p != nil {
				s.used(p, touched[id])
			}
		}
	}
}

// count adds (+1) or removes (-1) an allocation, and collects its devices by pool in
// touched unless touched is nil.
func (s *Store) count(a *resourcev1.AllocationResult, sign int, touched map[PoolID][]string) {
	if a == nil {
		return
	}
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		if isForAdmin(r) {
			continue
		}
		s.work.Counted++
		s.countDevice(r, sign)
		if touched != nil {
			id := PoolID{r.Driver, r.Pool}
			touched[id] = append(touched[id], r.Device)
		}
	}
}

func (s *Store) countDevice(r *resourcev1.DeviceRequestAllocationResult, sign int) {
	id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
	if r.ShareID == nil {
		if s.users[id] += sign; s.users[id] == 0 {
			delete(s.users, id)
			s.allocated.AllocatedDevices.Delete(id)
		} else {
			s.allocated.AllocatedDevices.Insert(id)
		}
		return
	}
	if s.sharers[id] += sign; s.sharers[id] == 0 {
		delete(s.sharers, id)
	}
	share, consumed := structured.MakeSharedDeviceID(id, r.ShareID), structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity)
	if sign > 0 {
		s.allocated.AllocatedSharedDeviceIDs.Insert(share)
		s.allocated.AggregatedCapacity.Insert(consumed)
	} else {
		s.allocated.AllocatedSharedDeviceIDs.Delete(share)
		s.allocated.AggregatedCapacity.Remove(consumed)
	}
}
