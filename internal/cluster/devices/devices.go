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
)

// Store is everything about devices. The zero value is not usable; call New.
type Store struct {
	// touch is called with each slot that has changed, and in which aspects.
	touch func(slot int32, aspects model.Aspect)

	classes map[string]*model.DeviceClass
	// Invariant: standIns has each class that names an extended resource, by that; the one that stands for it is first. No list is empty.
	standIns map[model.ResourceName][]*model.DeviceClass
	// Invariant: made has each claim that a scheduler has made for the extended resources of a pod, by the pod's UID, sorted. No list is empty.
	made map[types.UID][]model.ClaimKey
	// Invariant: claims has the claims that exist and those that are promised something, and no other.
	claims map[model.ClaimKey]*claim
	slices map[string]*model.ResourceSlice
	rules  map[string]*model.DeviceTaintRule
	// Invariant: rulesOf has each rule with a selector, once, by the driver and the pool that it names; both are empty if it names none. No list is empty.
	rulesOf map[PoolID][]*model.DeviceTaintRule
	// Invariant: pools has the pools of all slices, and no other.
	pools map[PoolID]*pool
	// Invariant: nodes has the nodes with a slot, and those that a pool is local to, and no other.
	nodes map[string]*node
	// Invariant: bySlot has the node of each slot in use, nil for the others.
	bySlot []*node
	// Invariant: wide has the pools that are not local to one node, by driver and name.
	wide []*pool
	// wideVersion changes with each change of a wide pool or of what is allocated of it.
	// Invariant: no wide pool has a later one.
	wideVersion uint64
	// Invariant: alike has the nodes that can use wide pools, each once, by what is known of their devices but what is in use of wide pools. No list is empty.
	alike  map[string]*Alike
	alikes uint64 // how many there ever were
	// Memory for matching a node.
	candidate v1.Node
	selected  []byte

	// Invariant: allocated is what claims use: their allocations, and where they have none what they are promised. Devices for administrators are left out.
	allocated structured.AllocatedState
	// Invariant: users is how many claims use each device for themselves, without zeros.
	users map[structured.DeviceID]int
	// Invariant: sharers is how many shares are allocated of each device, without zeros. A share need not consume any capacity.
	sharers map[structured.DeviceID]int
	// Invariant: withdrawn has the counters of devices that are in use and that no slice publishes, if one did while they were in use, by pool and name. No map
	// is empty.
	withdrawn map[PoolID]map[string][]resourcev1.DeviceCounterConsumption

	// Invariant: givenBack is the number of claims that are being given back.
	givenBack int
	// turn is that of the group that is decided about, 0 if none is; turns how many there were.
	turn, turns uint64

	// news are what News names, nil while nobody asks.
	news map[model.Ref]struct{}

	work  Work
	peaks struct{ claims, made, slices, rules, rulesOf, pools, nodes, users, sharers, withdrawn, alike int }
}

// PoolID is the name of a pool, which is its driver's own.
type PoolID struct{ Driver, Pool string }

// claim is a ResourceClaim that exists, or that is promised something.
type claim struct {
	*model.ResourceClaim // nil if it does not exist
	// promise is what a placement has promised it; nil if nothing, or if a version shows what came of it.
	promise *Promise
	// Invariant: holders are the pods whose placements hold the promise, at least one if there is one. Several are members of one group.
	holders []model.PodKey
	// turn is that of the group in which it was promised, 0 if it was in none.
	turn uint64
	// shown means that a version of the claim has been stored since the promise was made, or before.
	shown bool
	// givingBack is the number of decisions whose writes are taking something from the claim.
	// Invariant: it is 0 unless the claim exists.
	givingBack int
}

// Promise is the value of a hold on a claim: what the claim is to be given. It counts until a version of the claim shows an allocation.
type Promise struct {
	UID        types.UID // of the claim: another one of that name is promised nothing; empty if it is not made yet
	Allocation *resourcev1.AllocationResult
	// Made is the claim to be made for the pod's extended resources, nil if the claim exists; Uses says which container uses what of it.
	Made *resourcev1.ResourceClaim
	Uses []v1.ContainerExtendedResourceRequest
}

// Key returns the key of the claim to be made.
func (p *Promise) Key() model.ClaimKey {
	return model.ClaimKey{Namespace: model.Interned(p.Made.Namespace), Name: p.Made.Name}
}

// Work counts work. It only grows.
type Work struct {
	// Described is how often a pool was described anew, or what is allocated of a device; Counted how often what is allocated of a device was counted.
	Described, Counted int64
	// Matched is how often a node was matched against a wide pool.
	Matched int64
	// Touched is how many changes of slots were reported.
	Touched int64
}

// New returns an empty store. touch is called with each slot that has changed.
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

// Shrink gives back the memory of maps that were much larger once.
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

// Kept is how many objects and indexes the store holds. Nodes include those without a slot, to which pools are local. Used are the devices that claims use,
// Withdrawn the pools with devices in use that no slice publishes.
type Kept struct{ Claims, Classes, Slices, Rules, Pools, Wide, Nodes, Used, Withdrawn, Alike int }

// Kept returns how many objects and indexes the store holds.
func (s *Store) Kept() Kept {
	return Kept{
		Claims: len(s.claims), Classes: len(s.classes), Slices: len(s.slices), Rules: len(s.rules), Pools: len(s.pools), Wide: len(s.wide), Nodes: len(s.nodes),
		Used: len(s.users) + len(s.allocated.AllocatedSharedDeviceIDs), Withdrawn: len(s.withdrawn), Alike: len(s.alike),
	}
}

// Set stores a version of an object. It returns the version before, nil if there was none.
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

// Remove removes an object. It returns its last version, nil if it was not there.
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

// Get returns an object of devices, nil if it does not exist.
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

// Claim returns a claim, nil if it does not exist.
func (s *Store) Claim(key model.ClaimKey) *model.ResourceClaim {
	if c := s.claims[key]; c != nil {
		return c.ResourceClaim
	}
	return nil
}

// IsPromised reports whether a placement has promised something to a claim, and no version of the claim has shown yet what came of it.
func (s *Store) IsPromised(key model.ClaimKey) bool {
	c := s.claims[key]
	return c != nil && c.promise != nil
}

// BeginGroup begins the turn of a pod group: until EndGroup is called its members share what is promised to one of them.
func (s *Store) BeginGroup() {
	s.turns++
	s.turn = s.turns
}

// EndGroup ends that turn.
func (s *Store) EndGroup() { s.turn = 0 }

// PromisedInTurn returns what was promised to a claim in the present turn of a pod group, nil if nothing was.
func (s *Store) PromisedInTurn(key model.ClaimKey) *Promise {
	if c := s.claims[key]; c != nil && c.promise != nil && s.turn != 0 && c.turn == s.turn {
		return c.promise
	}
	return nil
}

// Class returns a DeviceClass, nil if it does not exist.
func (s *Store) Class(name string) *model.DeviceClass { return s.classes[name] }

// Allocated returns what claims use. It must not be changed, and is valid until the store changes.
func (s *Store) Allocated() structured.AllocatedState { return s.allocated }

// InUse reports whether anything is allocated of a device, to one claim or to several.
func (s *Store) InUse(id structured.DeviceID) bool { return s.users[id] > 0 || s.sharers[id] > 0 }

// Hold notes that a placement promises something to a claim, or shares what is promised to it already. It ignores other holds.
func (s *Store) Hold(object model.Ref, pod model.PodKey, value any) {
	promise, ok := value.(*Promise)
	if !ok || object.Kind != model.ResourceClaimKind {
		return
	}
	s.note(object)
	c := s.claimOf(object.ClaimKey())
	if c.promise == promise && promise.Made == nil { // what is made for a pod is shared with no other
		c.holders = append(c.holders, pod)
		return
	}
	s.recount(c, func() { c.promise, c.holders, c.turn = promise, []model.PodKey{pod}, s.turn })
	c.shown = c.ResourceClaim != nil
}

// Release notes that a placement that promised something to a claim has ended. It returns the promise if it is broken by that, because no other placement shares
// it, and the claim, nil if it does not exist.
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

// breakPromise forgets what is promised to the claim.
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

// setClaim stores a version of a claim, nil if it is gone. A promise ends with the first version that shows an allocation, whoever made it, and with the
// first one of another claim of that name.
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

// PoolsOf returns the pools for an event about a claim or a slice of which one version has been replaced by another, nil if there was or is none:
// model.Event.Pools. The store has the present one.
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

// gives reports whether an allocation, which may be nil, gives as much of a device as a result of another one.
func gives(a *resourcev1.AllocationResult, result *resourcev1.DeviceRequestAllocationResult) bool {
	return a != nil && slices.ContainsFunc(a.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
		return equality.Semantic.DeepEqual(&r, result)
	})
}

// isForAdmin reports whether a device is allocated without being in use.
func isForAdmin(r *resourcev1.DeviceRequestAllocationResult) bool {
	return r.AdminAccess != nil && *r.AdminAccess
}

// uses returns what the claim uses, nil if nothing.
func (c *claim) uses() *resourcev1.AllocationResult {
	switch {
	case c.ResourceClaim != nil && c.Allocation() != nil:
		return c.Allocation()
	case c.promise != nil:
		return c.promise.Allocation
	}
	return nil
}

// recount changes a claim and counts what it uses from then on.
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

// count counts an allocation in (+1) or out (-1), and collects its devices by pool, unless touched is nil.
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
