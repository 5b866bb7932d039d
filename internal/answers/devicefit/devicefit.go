package devicefit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/kit/price"
)

// Examiner explains. One goroutine at a time may use it.
type Examiner struct {
	expressions *cel.Cache
	compiled    map[string]bool   // the expressions whose compilation was paid
	parts       map[string][]part // by expression; none if it cannot be split
	ctx         context.Context
	left        int64 // units of work until the next Begin
}

// maxUnits bounds the work between two calls of Begin, about half a second. One device
// may take as long again, because its selectors are evaluated to the end.
const maxUnits = 500 * price.Millisecond

// maxExpressions bounds the compiled expressions, parts of selectors included.
const maxExpressions = 1_000

// New returns an examiner. It accepts the expressions of all feature gates.
func New() *Examiner {
	features := cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}
	return &Examiner{expressions: cel.NewCache(maxExpressions, features), compiled: map[string]bool{}, parts: map[string][]part{}, ctx: context.Background(), left: maxUnits}
}

// Begin gives a budget of work to the next explanations. When it is used up, requests are
// explained by their first device.
func (x *Examiner) Begin() { x.left = maxUnits }

// IsOver reports whether the budget is used up.
func (x *Examiner) IsOver() bool { return x.left <= 0 }

// Claim is the result for one claim.
type Claim struct {
	Name     string
	Requests []Request
	// Constraint explains a constraint between devices that the free ones cannot meet. It
	// is empty if a request lacks devices, or if no constraint is the cause.
	Constraint string
}

// Request is the result for a request or an alternative in firstAvailable.
type Request struct {
	// Name is as in allocation results: "gpu", or "gpu/large" for an alternative.
	Name, Class string
	// NoClass means that the class does not exist.
	NoClass bool
	// Needs is the number of devices. All means that each device of the class and the
	// selectors is requested.
	Needs int64
	All   bool
	// Devices is the number of devices that the node can use. Losses counts the refused
	// devices, in the order of the checks. Free is the number of the others.
	Devices int
	Losses  []Loss
	Free    int
	// Unexamined is the number of devices that no check has seen, for lack of budget.
	Unexamined int
	// Nearest is the refused device that passes the most checks. Lacks is its shortage in
	// the next check. Both are empty without a refused device.
	Nearest, Lacks string

	spec    *spec
	free    []*device
	nearest *device
	// refused are the first devices that lack something, one for each text.
	refused []*device
}

// maxRefused bounds the devices that Edits looks at. maxDescribed bounds the devices of a
// request for which the false parts of selectors are searched.
const maxRefused, maxDescribed = 16, 64

// Loss is a number of devices that a check refuses.
type Loss struct {
	Devices int
	// Why completes "2 devices are …".
	Why string
	by  check
}

// check is a check of a device. The constants have the order of the checks.
type check int

const (
	published check = iota
	class
	selector
	taint
	capacity
	allocation
	counters
	passed
)

// whys complete "2 devices are …".
var whys = [passed]string{
	published: "in an incomplete or invalid pool", class: "not of the class", selector: "refused by the selector", taint: "tainted",
	capacity: "too small", allocation: "allocated", counters: "without counters left",
}

// IsMet reports whether the node has enough devices for the request alone.
func (r *Request) IsMet() bool {
	if r.All {
		return r.Free > 0 && r.lost() == 0 && r.Unexamined == 0
	}
	return int64(r.Free) >= r.Needs
}

// lost returns the number of refused devices among the matching ones.
func (r *Request) lost() (n int) {
	for i := range r.Losses {
		if by := r.Losses[i].by; by != class && by != selector {
			n += r.Losses[i].Devices
		}
	}
	return n
}

// Text returns the explanation in one line.
func (r *Request) Text() string {
	needs := fmt.Sprintf("needs %d of class %s", r.Needs, r.Class)
	if r.All {
		needs = "needs all of class " + r.Class
	}
	switch {
	case r.NoClass:
		return needs + ", which does not exist"
	case r.Devices == 0:
		return needs + ", and the node can use no device"
	}
	var parts []string
	for _, loss := range r.Losses {
		parts = append(parts, fmt.Sprintf("%d %s", loss.Devices, loss.Why))
	}
	if r.Free > 0 {
		parts = append(parts, fmt.Sprintf("%d free", r.Free))
	}
	if r.Unexamined > 0 {
		parts = append(parts, fmt.Sprintf("%d not examined", r.Unexamined))
	}
	text := fmt.Sprintf("%s; of %d on the node %s", needs, r.Devices, strings.Join(parts, ", "))
	if r.Nearest != "" { // the cause comes first, because screens cut long lines
		text = fmt.Sprintf("device %s: %s; %s", r.Nearest, r.Lacks, text)
	}
	return text
}

// Missing returns how far the node is from the claim, for a comparison of nodes: 0 if
// each request is met alone. A device that passes more checks counts as nearer.
func (c *Claim) Missing() float64 {
	var sum float64
	for _, alternatives := range c.byRequest() {
		least := math.MaxFloat64
		for _, r := range alternatives {
			least = min(least, r.missing())
		}
		sum += least
	}
	return sum
}

// missing returns the missing part of a request, above 0 and at most 1. It is 0 if the
// request is met.
func (r *Request) missing() float64 {
	if r.IsMet() {
		return 0
	}
	needs, has := float64(r.Needs), float64(r.Free)
	if r.All {
		needs = float64(max(r.Free+r.lost(), 1))
	}
	part := 1 - has/needs
	if r.nearest != nil { // at most half a device
		part -= 0.5 * float64(r.nearest.by) / float64(passed) / needs
	}
	return part
}

// byRequest returns the requests of the claim, each with its alternatives.
func (c *Claim) byRequest() (all [][]*Request) {
	last := ""
	for i := range c.Requests {
		r := &c.Requests[i]
		main, _, _ := strings.Cut(r.Name, "/")
		if len(all) == 0 || main != last {
			all = append(all, nil)
		}
		last = main
		all[len(all)-1] = append(all[len(all)-1], r)
	}
	return all
}

// unmet returns the requests without an alternative that is met.
func (c *Claim) unmet() (all []*Request) {
	for _, alternatives := range c.byRequest() {
		if !slices.ContainsFunc(alternatives, (*Request).IsMet) {
			all = append(all, alternatives...)
		}
	}
	return all
}

// Question is about one node and a claim without an allocation.
type Question struct {
	Store *devices.Store
	Slot  int32
	Node  *v1.Node
	Claim *resourcev1.ResourceClaim
}

// Examine explains a claim on a node.
func (x *Examiner) Examine(q *Question) Claim {
	on := x.inventory(q)
	c := Claim{Name: q.Claim.Name}
	specs := specsOf(q.Claim)
	for i := range specs {
		c.Requests = append(c.Requests, x.request(on, &specs[i]))
	}
	// With alternatives, the allocator tries each combination of them.
	if len(c.unmet()) == 0 && len(c.byRequest()) == len(c.Requests) {
		c.Constraint = cmp.Or(together(c.Requests), constraint(q.Claim, c.Requests))
	}
	return c
}

// Lines returns the explanation in lines, for people.
func (c *Claim) Lines() (lines []string) {
	for _, r := range c.unmet() {
		lines = append(lines, fmt.Sprintf("claim %s, request %s, %s", c.Name, r.Name, r.Text()))
	}
	if c.Constraint != "" {
		lines = append(lines, fmt.Sprintf("claim %s: %s", c.Name, c.Constraint))
	}
	return lines
}

// spec is a request or an alternative.
type spec struct {
	name, class string
	selectors   []resourcev1.DeviceSelector
	all, admin  bool
	count       int64
	tolerations []resourcev1.DeviceToleration
	capacity    *resourcev1.CapacityRequirements
	// exactly is the position of the request to edit; -1 for an alternative.
	exactly int
}

func specsOf(claim *resourcev1.ResourceClaim) (all []spec) {
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		if e := r.Exactly; e != nil {
			all = append(all, spec{
				name: r.Name, class: e.DeviceClassName, selectors: e.Selectors, all: e.AllocationMode == resourcev1.DeviceAllocationModeAll,
				admin: e.AdminAccess != nil && *e.AdminAccess, count: max(e.Count, 1), tolerations: e.Tolerations, capacity: e.Capacity, exactly: i,
			})
		}
		for j := range r.FirstAvailable {
			sub := &r.FirstAvailable[j]
			all = append(all, spec{
				name: r.Name + "/" + sub.Name, class: sub.DeviceClassName, selectors: sub.Selectors, all: sub.AllocationMode == resourcev1.DeviceAllocationModeAll,
				count: max(sub.Count, 1), tolerations: sub.Tolerations, capacity: sub.Capacity, exactly: -1,
			})
		}
	}
	return all
}

// device is a device that the node can use, with the first check that refuses it.
type device struct {
	pool   *pool
	spec   *resourcev1.Device
	id     structured.DeviceID
	by     check
	lacks  string
	driver string
}

// isShared reports whether several claims may get the device.
func (d *device) isShared() bool {
	return d.spec.AllowMultipleAllocations != nil && *d.spec.AllowMultipleAllocations
}

func (d *device) cel() cel.Device {
	return cel.Device{Driver: d.driver, AllowMultipleAllocations: d.spec.AllowMultipleAllocations, Attributes: d.spec.Attributes, Capacity: d.spec.Capacity}
}

func (x *Examiner) request(on *inventory, s *spec) Request {
	r := Request{Name: s.name, Class: s.class, Needs: s.count, All: s.all, Devices: len(on.devices), spec: s}
	of := on.store.Class(s.class)
	if of == nil {
		r.NoClass = true
		return r
	}
	described := 0
	for i := range on.devices {
		if i > 0 && x.IsOver() {
			r.Unexamined = len(on.devices) - i
			break
		}
		d := on.devices[i] // a copy: its refusal is the request's
		if d.by, d.lacks = x.check(on, s, of.Object, &d, false); d.by == passed {
			r.Free++
			r.free = append(r.free, &d)
			continue
		}
		if at := slices.IndexFunc(r.Losses, func(l Loss) bool { return l.by == d.by }); at >= 0 {
			r.Losses[at].Devices++
		} else {
			r.Losses = append(r.Losses, Loss{1, whys[d.by], d.by})
		}
		nearer := r.nearest == nil || d.by > r.nearest.by
		if described == maxDescribed && !nearer {
			continue
		}
		if d.by == class || d.by == selector {
			described = min(described+1, maxDescribed)
			_, d.lacks = x.check(on, s, of.Object, &d, true)
		}
		if len(r.refused) < maxRefused && !slices.ContainsFunc(r.refused, func(o *device) bool { return o.lacks == d.lacks }) {
			r.refused = append(r.refused, &d)
		}
		if nearer {
			r.nearest, r.Nearest, r.Lacks = &d, d.spec.Name, d.lacks
		}
	}
	slices.SortFunc(r.Losses, func(a, b Loss) int { return cmp.Compare(a.by, b.by) })
	return r
}

// check returns the first check that refuses a device, and the shortage. The shortage of
// a selector is only complete if describe is set, because it costs more work.
func (x *Examiner) check(on *inventory, s *spec, of *resourcev1.DeviceClass, d *device, describe bool) (check, string) {
	if d.pool.problem != "" {
		return published, d.pool.problem
	}
	if why := x.refusal(of.Spec.Selectors, d, describe); why != "" {
		return class, why
	}
	if why := x.refusal(s.selectors, d, describe); why != "" {
		return selector, why
	}
	for i := range d.spec.Taints {
		if t := &d.spec.Taints[i]; blocks(s, t) {
			return taint, "has the taint " + TaintText(t)
		}
	}
	if why := on.tooSmall(s, d); why != "" {
		return capacity, why
	}
	if s.admin {
		return passed, ""
	}
	if !d.isShared() && on.store.InUse(d.id) {
		return allocation, "is allocated to another claim"
	}
	if why := d.pool.exhausted(d); why != "" && !on.store.InUse(d.id) {
		return counters, why
	}
	return passed, ""
}

// blocks reports whether a taint keeps a request from a device.
func blocks(s *spec, t *resourcev1.DeviceTaint) bool {
	hard := t.Effect == resourcev1.DeviceTaintEffectNoSchedule || t.Effect == resourcev1.DeviceTaintEffectNoExecute
	return hard && !slices.ContainsFunc(s.tolerations, func(by resourcev1.DeviceToleration) bool { return resourceclaim.ToleratesTaint(by, *t) })
}

// TaintText returns a taint as key=value:effect.
func TaintText(t *resourcev1.DeviceTaint) string {
	text := t.Key
	if t.Value != "" {
		text += "=" + t.Value
	}
	return text + ":" + string(t.Effect)
}
