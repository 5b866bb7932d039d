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
	// none means that no devices were found for the claims without an allocation.
	none = reason.Unresolvable | iota + 1
	// unavailable means that an allocation is unusable on the node, or on all nodes.
	unavailable
	invalidPools
	// left means that a claim of an earlier turn exists for the pod's extended resources.
	left
	// lacking means that neither the node nor a class provides an extended resource.
	lacking
)

// texts are kube-scheduler's messages, by verdict.
var texts = map[reason.Code]string{
	none:         "cannot allocate all claims",
	unavailable:  "resourceclaim not available on the node",
	invalidPools: allocator.ErrInvalidPools.Error(),
	left:         "cannot schedule extended resource claim",
	lacking:      "cannot fit resource",
}

// reads are the aspects of a node that decide which devices the node can use, which of
// them are allocated, and which extended resources they provide.
const reads = model.Labels | model.Devices | model.Allocatable

// FilterNeedIn returns the demands of the pod's claims on a node. It is nil if the claims
// allow every node.
func (p *Plugin) FilterNeedIn(v state.View, pod *model.Pod) (plugin.StateNeed, error) {
	d, err := p.demandsOf(v, pod)
	if d == nil || err != nil {
		return plugin.StateNeed{}, err
	}
	return plugin.StateNeed{Need: filterNeed{d}, SharesDevices: d.sharesDevices()}, nil
}

// demands are the requirements of a pod's claims on a node.
//
// Pods from one template have a claim each, so the canonical text names no claims. For a
// claim without an allocation it has the requests and the selectors of their classes. For
// an allocated claim it has the nodes that can use the allocation. Available devices are
// not part of the text: they are looked up on the node. Devices that several nodes can
// use are tracked by plugin.Following.
type demands struct {
	search  *allocator.Allocator
	answers *answers
	// claimsOf returns the claims of a pod.
	claimsOf func(*devices.Store, *model.Pod) ([]*model.ResourceClaim, string)
	// find are the claims that need devices, given the claims with an allocation. Both
	// are in the order of the pod's spec.
	find, given []*model.ResourceClaim
	// broken marks the allocations in given that are unusable on all nodes.
	broken []bool
	// extended are the extended resources to find devices for, or nil.
	extended *extended
	classes  map[string]*model.DeviceClass
}

// demandsOf returns the demands of the pod's claims, or nil without any.
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

// sharesDevices reports whether verdicts and scores depend on devices that several nodes
// can use.
func (d *demands) sharesDevices() bool { return len(d.find) > 0 || d.extended != nil }

type filterNeed struct{ *demands }

func (n filterNeed) AppendText(text []byte) []byte { return n.appendText(text) }

func (n filterNeed) Compile() *plugin.Verdicts {
	f := &verdicts{finder: n.compile()}
	f.own = plugin.Verdicts{NodeVerdicts: f, Failures: f, Following: f, Costly: f.searches()}
	return &f.own
}

// finder finds devices for claims with equal requests.
type finder struct {
	allocator *allocator.Allocator
	claimsOf  func(*devices.Store, *model.Pod) ([]*model.ResourceClaim, string)
	// claims have placeholders as names. Errors are reported with the real names.
	claims  []*resourcev1.ResourceClaim
	classes map[string]*resourcev1.DeviceClass
	// selectors belong to allocations. A nil selector is a broken allocation.
	selectors []*nodeaffinity.NodeSelector
	// extended are the extended resources. withExtended holds claims plus a claim for
	// some of these resources, by their bits.
	extended     *extended
	withExtended map[uint64][]*resourcev1.ResourceClaim
	// need is the hash of the demands.
	need [32]byte
	// answers caches results by need and by the key of a node's devices. Nodes with equal
	// devices are searched once.
	answers *answers
	key     []byte
	slices  []*resourcev1.ResourceSlice
	// errs are the errors of failed codes, by the number in the code.
	errs []error
	// patterns are the bits of the nodes searched so far. Beyond maxPatterns,
	// manyPatterns is set.
	patterns     []uint64
	manyPatterns bool
	// followed are the answers for nodes with equal devices, at a version of the wide
	// pools.
	followed map[alikeNodes]answer
	version  uint64
}

// alikeNodes identifies nodes in a list of nodes with equal devices that also provide the
// same extended resources as devices.
type alikeNodes struct{ list, bits uint64 }

// maxErrs bounds the errors kept for a need. Each fails the turn of a pod.
const maxErrs = 64

// compile prepares the demands. The result references no pod, and only the requests of
// claims.
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

// selectors returns the distinct node selectors of allocations. A nil selector is a
// broken allocation. A pod may have many claims, but most of their allocations are usable
// on the same nodes.
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

// nodesText returns a canonical text of the nodes that can use an allocation.
func nodesText(a *resourcev1.AllocationResult) string {
	text, err := json.Marshal(a.NodeSelector)
	if err != nil {
		// API types can always be encoded.
		panic(fmt.Sprintf("encode a node selector: %v", err))
	}
	return string(text)
}

// selectorOf returns the nodes that can use an allocation, or nil if all can.
func selectorOf(a *resourcev1.AllocationResult) (*nodeaffinity.NodeSelector, error) {
	if a.NodeSelector == nil {
		return nil, nil
	}
	return nodeaffinity.NewNodeSelector(a.NodeSelector)
}

// searches reports whether filtering searches for devices.
func (f *finder) searches() bool { return len(f.claims) > 0 || f.extended != nil }

// find returns the answer for a node.
func (f *finder) find(node state.Node) answer {
	a := f.allocate(node)
	if a.err == nil && a.code == reason.None && !f.available(node.Object()) {
		a.code = unavailable
	}
	return a
}

// available reports whether a node can use the existing allocations.
func (f *finder) available(node *v1.Node) bool {
	for _, selector := range f.selectors {
		if selector == nil || !selector.Match(node) {
			return false
		}
	}
	return true
}

// allocate returns the answer for claims without an allocation and extended resources.
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

// notePattern records the bits of a searched node.
func (f *finder) notePattern(bits uint64) {
	switch {
	case slices.Contains(f.patterns, bits), f.manyPatterns:
	case len(f.patterns) == maxPatterns:
		f.manyPatterns = true
	default:
		f.patterns = append(f.patterns, bits)
	}
}

// search finds devices for claims. The last claim is for the extended resources of bits,
// as if the node provided exactly these as devices.
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
		// Without the node's name, since nodes with equal keys share the answer.
		a.err = allocator.ErrTimeout
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

// name returns the cache key of a search. For equal keys, the allocator either always
// finds a solution or never.
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

// claimsWith returns the claims without an allocation, followed by a claim for the
// extended resources in bits.
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

// Filled records that all nodes have answers.
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

// maxFollowed bounds the followed answers of a need. Without an answer for their list,
// all nodes are searched again.
const maxFollowed = 10_000

// maxPatterns bounds the different sets of extended resources that nodes provide as
// devices. Beyond it, each node that can use a changed pool is searched again.
const maxPatterns = 8

// Follow returns the slots of nodes whose answer has changed with the wide pools. It
// searches one node of each list of nodes with equal devices, once per pattern.
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
			if len(f.followed) >= maxFollowed {
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
	if len(f.errs) >= maxErrs {
		return reason.Failed | reason.Code(maxErrs-1)
	}
	f.errs = append(f.errs, err)
	return reason.Failed | reason.Code(len(f.errs)-1)
}

// ratingOf rates the alternatives that a claim got: 8 for the first of a request, and 1
// less for each further one. Schedulers allocate one alternative. As in kube-scheduler,
// all alternatives with devices count.
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

type verdicts struct {
	*finder
	own plugin.Verdicts
}

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

// timedOut marks the code of a search that timed out. The code also has the node's slot,
// for the error message.
const timedOut reason.Code = 1 << 29

// Reasons returns kube-scheduler's message.
func (*verdicts) Reasons(code reason.Code) []string { return []string{texts[code]} }

// errOf returns the error of a failed code.
func (f *finder) errOf(code reason.Code) error {
	switch {
	case code == reason.Unasked:
		return plugin.ErrUnfinished
	case code&timedOut != 0:
		return allocator.ErrTimeout
	}
	return f.errs[code&^reason.Failed]
}

// Err returns the error of a failed code in the turn of a pod. The error names the node
// or the pod's claims.
func (f *finder) Err(v state.View, pod *model.Pod, code reason.Code) error {
	err := f.errOf(code)
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

// unnamed is the name, in errors, of a claim that is not created yet.
const unnamed = "<extended-resources>"

// markOf returns the placeholder for the name of the i-th claim of a need.
func markOf(i int) string { return "\x00claim-" + strconv.Itoa(i) + "\x00" }
