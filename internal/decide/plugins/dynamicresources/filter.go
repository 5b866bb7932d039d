package dynamicresources

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/allocator"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// The verdicts.
const (
	// none means that no solution was found for the claims without an allocation.
	none = reason.Unresolvable | iota + 1
	// unavailable means that what is allocated to a claim cannot be used on the node, or no longer anywhere.
	unavailable
	invalidPools
	// left means that a claim for the pod's extended resources is there from an earlier turn.
	left
	// lacking means that the node does not know an extended resource, which no class stands for either.
	lacking
)

// texts are kube-scheduler's, by verdict.
var texts = map[reason.Code]string{
	none:         "cannot allocate all claims",
	unavailable:  "resourceclaim not available on the node",
	invalidPools: allocator.ErrInvalidPools.Error(),
	left:         "cannot schedule extended resource claim",
	lacking:      "cannot fit resource",
}

// FilterReads returns what of a node decides which devices it can use, what of these is allocated, and for which extended resources they are used.
func (*Plugin) FilterReads() model.Aspect { return model.Labels | model.Devices | model.Allocatable }

// FilterNeedIn is what the pod's claims ask of a node at the time. It is nil if every node will do.
func (p *Plugin) FilterNeedIn(v state.View, pod *model.Pod) (plugin.FilterNeed, string, error) {
	d, err := p.demandsOf(v, pod)
	if d == nil || err != nil {
		return nil, "", err
	}
	return filterNeed{d}, "", nil
}

// demands are what a pod's claims ask of a node.
//
// Pods that are made from one template have a claim each of their own, so the canonical text names none: of a claim without an allocation it has what the
// claim asks for, and what the devices of its classes are like; of one with an allocation it has on which nodes that can be used. What there is of devices
// is not in it, and is looked up on the node; what more than one node can use is followed (plugin.Following).
type demands struct {
	search  *allocator.Allocator
	answers *answers
	// claimsOf returns the claims of a pod.
	claimsOf func(*devices.Store, *model.Pod) ([]*model.ResourceClaim, string)
	// find are the claims to find devices for, given those that have an allocation; both are in the order of the pod's spec.
	find, given []*model.ResourceClaim
	// broken are by given: the allocation can no longer be used.
	broken []bool
	// extended are the extended resources to find devices for; nil if there are none.
	extended *extended
	classes  map[string]*model.DeviceClass
}

// demandsOf returns what the pod's claims ask of a node, nil if nothing.
func (p *Plugin) demandsOf(v state.View, pod *model.Pod) (*demands, error) {
	store := v.Devices()
	x := extendedOf(store, pod)
	if (pod.Devices == nil || len(pod.Devices.Claims) == 0) && x == nil {
		return nil, nil
	}
	claims, unusable := p.claimsInTurn(store, pod)
	if unusable != "" {
		return nil, errors.New(unusable)
	}
	d := &demands{search: p.search, answers: p.answers, claimsOf: p.claimsInTurn, classes: map[string]*model.DeviceClass{}, extended: x}
	if x != nil {
		for _, r := range x.resources {
			if r.class != nil {
				d.classes[r.class.Name] = r.class
			}
		}
	}
	for _, claim := range claims {
		if claim.Allocation() != nil {
			d.given, d.broken = append(d.given, claim), append(d.broken, p.isBroken(claim, v.Wall()))
			continue
		}
		d.find = append(d.find, claim)
		requestsOf(claim.Object, func(_, class string, _ bool) bool {
			d.classes[class] = store.Class(class)
			return true
		})
	}
	return d, nil
}

// appendText appends a canonical text.
func (d *demands) appendText(text []byte) []byte {
	for i, claim := range d.given {
		text = strconv.AppendBool(append(append(text, 'g'), nodesText(claim.Allocation())...), d.broken[i])
	}
	for _, claim := range d.find {
		text = append(append(text, 'f'), claim.Asks.String()...)
		requestsOf(claim.Object, func(_, class string, _ bool) bool {
			if c := d.classes[class]; c != nil {
				text = append(append(text, 'c'), c.Selects.String()...)
			}
			return true
		})
	}
	if d.extended != nil {
		text = d.extended.appendText(text)
	}
	return text
}

// SharesDevices reports whether verdicts and scores depend on devices that more than one node can use.
func (d *demands) SharesDevices() bool { return len(d.find) > 0 || d.extended != nil }

type filterNeed struct{ *demands }

func (n filterNeed) AppendText(text []byte) []byte { return n.appendText(text) }

func (n filterNeed) Compile() plugin.Verdicts { return &verdicts{finder: n.compile()} }

// finder finds devices for claims that ask alike.
type finder struct {
	allocator *allocator.Allocator
	claimsOf  func(*devices.Store, *model.Pod) ([]*model.ResourceClaim, string)
	// claims have no names but the marks by which they are known in errors.
	claims  []*resourcev1.ResourceClaim
	classes map[string]*resourcev1.DeviceClass
	// selectors are those of allocations; nil stands for one that can no longer be used.
	selectors []*nodeaffinity.NodeSelector
	// extended are extended resources, withExtended the claims and a claim for some of them, by their bits.
	extended     *extended
	withExtended map[uint64][]*resourcev1.ResourceClaim
	// need is the hash of the demands.
	need [32]byte
	// answers caches results by need and by the key of a node's devices. Nodes with equal
	// devices are searched once.
	answers *answers
	key     []byte
	slices  []*resourcev1.ResourceSlice
	// errs are what failed codes stand for, by the number in the code.
	errs []error
	// patterns are the bits of nodes that were asked about; once there are too many of them, manyPatterns is set.
	patterns     []uint64
	manyPatterns bool
	// followed are answers for nodes with alike devices at a version of wide pools.
	followed map[alikeNodes]answer
	version  uint64
}

// alikeNodes are nodes of one list of alike nodes that give the same extended resources as devices.
type alikeNodes struct{ list, bits uint64 }

// errsMax bounds the errors that are kept for one need: each fails the turn of a pod.
const errsMax = 64

// compile prepares the demands. What it returns keeps no pod, and of claims what they ask for.
func (d *demands) compile() *finder {
	f := &finder{
		allocator: d.search, classes: map[string]*resourcev1.DeviceClass{}, answers: d.answers, followed: map[alikeNodes]answer{},
		need:     sha256.Sum256(d.appendText(nil)),
		claimsOf: d.claimsOf, extended: d.extended, withExtended: map[uint64][]*resourcev1.ResourceClaim{},
	}
	for i, claim := range d.find {
		f.claims = append(f.claims, &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: markOf(i)},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
				Requests: claim.Object.Spec.Devices.Requests, Constraints: claim.Object.Spec.Devices.Constraints,
			}},
		})
	}
	for name, class := range d.classes {
		if class != nil {
			f.classes[name] = class.Object
		}
	}
	f.selectors = d.selectors()
	return f
}

// selectors returns the distinct node selectors of allocations. Nil stands for an
// allocation that is no longer usable. A pod may have very many claims, but most of their
// allocations are usable on the same nodes.
func (d *demands) selectors() (different []*nodeaffinity.NodeSelector) {
	known := map[string]bool{}
	for i, claim := range d.given {
		if d.broken[i] {
			return []*nodeaffinity.NodeSelector{nil}
		}
		text := nodesText(claim.Allocation())
		if known[text] {
			continue
		}
		known[text] = true
		if selector, err := selectorOf(claim.Allocation()); err != nil || selector != nil {
			different = append(different, selector)
		}
	}
	return different
}

// nodesText returns a canonical text of the nodes on which an allocation can be used.
func nodesText(a *resourcev1.AllocationResult) string {
	text, err := json.Marshal(a.NodeSelector)
	if err != nil {
		panic(fmt.Sprintf("encode a node selector: %v", err)) // API types can always be encoded
	}
	return string(text)
}

// selectorOf returns the nodes on which an allocation can be used, nil if on all.
func selectorOf(a *resourcev1.AllocationResult) (*nodeaffinity.NodeSelector, error) {
	if a.NodeSelector == nil {
		return nil, nil
	}
	return nodeaffinity.NewNodeSelector(a.NodeSelector)
}

// IsCostly reports whether devices are searched for.
func (f *finder) IsCostly() bool { return len(f.claims) > 0 || f.extended != nil }

// find answers for a node.
func (f *finder) find(node state.Node) answer {
	a := f.allocate(node)
	if a.err == nil && a.code == reason.None && !f.available(node.Object()) {
		a.code = unavailable
	}
	return a
}

// available reports whether what is allocated already can be used on a node.
func (f *finder) available(node *v1.Node) bool {
	for _, selector := range f.selectors {
		if selector == nil || !selector.Match(node) {
			return false
		}
	}
	return true
}

// allocate answers for the claims without an allocation, and for extended resources.
func (f *finder) allocate(node state.Node) answer {
	claims, bits := f.claims, uint64(0)
	if f.extended != nil {
		if f.extended.left != nil {
			return answer{code: left}
		}
		var ok bool
		if bits, ok = f.extended.through(node); !ok {
			return answer{code: lacking}
		}
		claims = f.claimsWith(bits)
	}
	if len(claims) == 0 {
		return answer{}
	}
	f.notePattern(bits)
	return f.search(node, claims, bits)
}

// notePattern notes that a node that gives the extended resources of some bits as devices was asked about.
func (f *finder) notePattern(bits uint64) {
	switch {
	case slices.Contains(f.patterns, bits), f.manyPatterns:
	case len(f.patterns) == patternsMax:
		f.manyPatterns = true
	default:
		f.patterns = append(f.patterns, bits)
	}
}

// search finds devices for claims, the last of which is for the extended resources of bits, as if the node gave just these as devices.
func (f *finder) search(node state.Node, claims []*resourcev1.ResourceClaim, bits uint64) answer {
	store := node.Devices()
	name := f.name(store, node.Slot(), bits)
	if a, known := f.answers.get(sumOf(name)); known {
		return a
	}
	f.slices = store.SlicesAt(node.Slot(), f.slices[:0])
	results, err := f.allocator.Allocate(&allocator.Question{
		Node: node.Object(), Claims: claims, Slices: f.slices, Allocated: store.Allocated(), InUse: store.InUse, Class: func(name string) *resourcev1.DeviceClass { return f.classes[name] },
		Name: name, Meter: node.Meter(),
	})
	clear(f.slices)
	a := answer{}
	switch {
	case errors.Is(err, allocator.ErrInvalidPools):
		a.code = invalidPools
	case errors.Is(err, allocator.ErrUnfinished):
		return answer{err: plugin.ErrUnfinished}
	case errors.Is(err, allocator.ErrTimeout):
		a.err = allocator.ErrTimeout // without the node's name, since nodes with equal keys share the answer
	case err != nil:
		a.err = err
	case len(results) < len(claims):
		a.code = none
	default:
		a.gives = true
		for i := range results {
			a.rating += ratingOf(claims[i], &results[i])
		}
	}
	f.answers.put(sumOf(name), a)
	return a
}

// name returns the name of a search. For equal names, the allocator either finds a
// solution each time or never.
func (f *finder) name(store *devices.Store, slot int32, bits uint64) allocator.Name {
	f.key = store.AppendKey(binary.AppendUvarint(f.key[:0], bits), slot)
	return allocator.Name{Need: f.need, Devices: sha256.Sum256(f.key)}
}

// sumOf returns the key of an answer.
func sumOf(name allocator.Name) [32]byte {
	var both [64]byte
	copy(both[:32], name.Need[:])
	copy(both[32:], name.Devices[:])
	return sha256.Sum256(both[:])
}

// claimsWith returns the claims without an allocation and, behind them, one for some of the extended resources.
func (f *finder) claimsWith(bits uint64) []*resourcev1.ResourceClaim {
	if bits == 0 {
		return f.claims
	}
	claims, ok := f.withExtended[bits]
	if !ok {
		claims = append(slices.Clone(f.claims), &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: markOf(len(f.claims))},
			Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: f.extended.requestsOf(bits)}},
		})
		f.withExtended[bits] = claims
	}
	return claims
}

// Filled notes that all nodes have been asked about.
func (f *finder) Filled(s *state.State) {
	store := s.View().Devices()
	f.version = store.WideVersion()
	clear(f.followed)
	for alike := range store.AlikeSince(0) {
		for _, bits := range f.patterns {
			nodes := alikeNodes{alike.ID, bits}
			if _, known := f.followed[nodes]; known {
				continue
			}
			if a, known := f.answers.get(sumOf(f.name(store, alike.One(), bits))); known {
				f.followed[nodes] = a
			}
		}
	}
}

// followedMax bounds what is followed for one need. Of nodes about whose list nothing is known, each is asked about.
const followedMax = 10_000

// patternsMax bounds in how many ways nodes may differ in what they give as devices. Beyond it, each node that can use what has changed is asked about.
const patternsMax = 8

// Follow returns the slots of nodes for which what they can use of wide pools makes a difference that it did not make before. Of nodes with alike devices it asks
// about one, once for each way in which nodes differ in the extended resources that they give as devices.
func (f *finder) Follow(s *state.State, to []int32) (slots []int32, asked int) {
	store := s.View().Devices()
	if len(f.patterns) == 0 || f.version == store.WideVersion() {
		return to, 0
	}
	for alike := range store.AlikeSince(f.version) {
		changed := f.manyPatterns
		for i := 0; i < len(f.patterns) && !f.manyPatterns; i++ {
			now := answer{err: plugin.ErrUnfinished}
			if asked == 0 || !s.Meter().IsOver() {
				now = f.search(s.Node(alike.One()), f.claimsWith(f.patterns[i]), f.patterns[i])
			}
			asked++
			nodes := alikeNodes{alike.ID, f.patterns[i]}
			if before, known := f.followed[nodes]; now.err == nil && known && before == now {
				continue
			}
			changed = true
			if now.err != nil {
				delete(f.followed, nodes) // searched again with the nodes
				continue
			}
			if len(f.followed) >= followedMax {
				clear(f.followed)
			}
			f.followed[nodes] = now
		}
		if changed {
			to = alike.AppendSlots(to)
		}
	}
	f.version = store.WideVersion()
	return to, asked
}

// fails returns the code of an error.
func (f *finder) fails(err error) reason.Code {
	for i, known := range f.errs {
		if known.Error() == err.Error() {
			return reason.Failed | reason.Code(i)
		}
	}
	if len(f.errs) >= errsMax {
		return reason.Failed | reason.Code(errsMax-1)
	}
	f.errs = append(f.errs, err)
	return reason.Failed | reason.Code(len(f.errs)-1)
}

// ratingOf rates which alternatives of its requests a claim got: 8 for the first of a request, and 1 less for each further one. Schedulers allocate one of
// them; as in kube-scheduler, all of those count that have devices.
func ratingOf(claim *resourcev1.ResourceClaim, a *resourcev1.AllocationResult) (rating int32) {
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		for j := range r.FirstAvailable {
			if gave(a, resourceclaim.CreateSubRequestRef(r.Name, r.FirstAvailable[j].Name)) {
				rating += int32(resourcev1.FirstAvailableDeviceRequestMaxSize - j)
			}
		}
	}
	return rating
}

func gave(a *resourcev1.AllocationResult, request string) bool {
	for i := range a.Devices.Results {
		if a.Devices.Results[i].Request == request {
			return true
		}
	}
	return false
}

type verdicts struct{ *finder }

// Filter returns the verdict on a node.
func (f *verdicts) Filter(node state.Node) reason.Code {
	a := f.find(node)
	switch {
	case a.err == nil:
		return a.code
	case errors.Is(a.err, plugin.ErrUnfinished):
		return reason.Unasked
	case errors.Is(a.err, allocator.ErrTimeout):
		return reason.Failed | timedOut | reason.Code(node.Slot())
	}
	return f.fails(a.err)
}

// timedOut marks the code of a search that was given up. The code also has the slot of
// the node, which the error names.
const timedOut reason.Code = 1 << 29

// Reasons returns kube-scheduler's text.
func (*verdicts) Reasons(code reason.Code) []string { return []string{texts[code]} }

// Err returns the error of a failed code.
func (f *finder) Err(code reason.Code) error {
	switch {
	case code == reason.Unasked:
		return plugin.ErrUnfinished
	case code&timedOut != 0:
		return allocator.ErrTimeout
	}
	return f.errs[code&^reason.Failed]
}

// ErrOf returns the error of a failed code in the turn of a pod. The error names the
// node, or the pod's claims.
func (f *finder) ErrOf(v state.View, pod *model.Pod, code reason.Code) error {
	err := f.Err(code)
	switch {
	case code == reason.Unasked:
		return err
	case code&timedOut != 0:
		return fmt.Errorf("node %s: %w", v.Node(int32(code&^(reason.Failed|timedOut))).Name(), err)
	}
	claims, _ := f.claimsOf(v.Devices(), pod)
	claims = unallocated(claims)
	text := err.Error()
	for i, claim := range claims {
		text = strings.ReplaceAll(text, markOf(i), claim.Key.String())
	}
	text = strings.ReplaceAll(text, markOf(len(claims)), pod.Namespace+"/"+unnamed)
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// unnamed stands for the name of a claim that is not made yet.
const unnamed = "<extended-resources>"

// markOf returns the name that stands for the i-th claim of a need.
func markOf(i int) string { return "\x00claim-" + strconv.Itoa(i) + "\x00" }
