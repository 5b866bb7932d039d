package dynamicresources

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/internal/allocator"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// The verdicts.
const (
	// none means that no solution was found for the claims without an allocation.
	none = reason.Unresolvable | iota + 1
	// unavailable means that what is allocated to a claim cannot be used on the node, or no longer anywhere.
	unavailable
	invalidPools
)

// texts are kube-scheduler's, by verdict.
var texts = map[reason.Code]string{
	none:         "cannot allocate all claims",
	unavailable:  "resourceclaim not available on the node",
	invalidPools: allocator.ErrInvalidPools.Error(),
}

// FilterReads returns what of a node decides which devices it can use, and what of these is allocated.
func (*Plugin) FilterReads() model.Aspect { return model.Labels | model.Devices }

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
	search *allocator.Allocator
	// find are the claims to find devices for, given those that have an allocation; both are in the order of the pod's spec.
	find, given []*model.ResourceClaim
	// broken are by given: the allocation can no longer be used.
	broken  []bool
	classes map[string]*model.DeviceClass
}

// demandsOf returns what the pod's claims ask of a node, nil if nothing.
func (p *Plugin) demandsOf(v state.View, pod *model.Pod) (*demands, error) {
	if pod.Devices == nil || len(pod.Devices.Claims) == 0 {
		return nil, nil
	}
	store := v.Devices()
	claims, unusable := claimsOf(store, pod)
	if unusable != "" {
		return nil, errors.New(unusable)
	}
	d := &demands{search: p.search, classes: map[string]*model.DeviceClass{}}
	for _, claim := range claims {
		if claim.Allocation() != nil {
			d.given, d.broken = append(d.given, claim), append(d.broken, p.isBroken(claim, v.Now()))
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
		selector, err := json.Marshal(claim.Allocation().NodeSelector)
		if err != nil {
			panic(fmt.Sprintf("encode a node selector: %v", err)) // API types can always be encoded
		}
		text = strconv.AppendBool(append(append(text, 'g'), selector...), d.broken[i])
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
	return text
}

// SharesDevices reports whether verdicts and scores depend on devices that more than one node can use.
func (d *demands) SharesDevices() bool { return len(d.find) > 0 }

type filterNeed struct{ *demands }

func (n filterNeed) AppendText(text []byte) []byte { return n.appendText(text) }

func (n filterNeed) Compile() plugin.Verdicts { return &verdicts{finder: n.compile()} }

// finder finds devices for claims that ask alike.
type finder struct {
	search *allocator.Allocator
	// claims have no names but the marks by which they are known in errors.
	claims  []*resourcev1.ResourceClaim
	classes map[string]*resourcev1.DeviceClass
	// selectors are those of allocations; nil stands for one that can no longer be used.
	selectors []*nodeaffinity.NodeSelector
	// remembered are answers by the key of a node's devices: of nodes that are alike one is asked about.
	remembered map[string]answer
	key        []byte
	slices     []*resourcev1.ResourceSlice
	// errs are what failed codes stand for, by the number in the code.
	errs []error
	// followed are answers for nodes with alike devices, by the list of these, at a version of wide pools.
	followed map[uint64]answer
	version  uint64
}

// answer is what was found for a node: a verdict, and how good the alternatives are that were taken.
type answer struct {
	code   reason.Code
	rating int32
}

// rememberedMax bounds what is remembered for one need. Nodes that differ in how many of their equal devices are taken need few.
const rememberedMax = 256

// errsMax bounds the errors that are kept for one need: each fails the turn of a pod.
const errsMax = 64

// compile prepares the demands. What it returns keeps no pod, and of claims what they ask for.
func (d *demands) compile() *finder {
	f := &finder{search: d.search, classes: map[string]*resourcev1.DeviceClass{}, remembered: map[string]answer{}, followed: map[uint64]answer{}}
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
	for i, claim := range d.given {
		selector, err := selectorOf(claim.Allocation())
		if d.broken[i] || err != nil {
			f.selectors = append(f.selectors, nil)
		} else if selector != nil {
			f.selectors = append(f.selectors, selector)
		}
	}
	return f
}

// selectorOf returns the nodes on which an allocation can be used, nil if on all.
func selectorOf(a *resourcev1.AllocationResult) (*nodeaffinity.NodeSelector, error) {
	if a.NodeSelector == nil {
		return nil, nil
	}
	return nodeaffinity.NewNodeSelector(a.NodeSelector)
}

// find answers for a node.
func (f *finder) find(node state.Node) answer {
	a := f.allocate(node)
	if a.code == reason.None && !f.available(node.Object()) {
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

// allocate answers for the claims without an allocation.
func (f *finder) allocate(node state.Node) answer {
	if len(f.claims) == 0 {
		return answer{}
	}
	store, object := node.Devices(), node.Object()
	f.key = store.AppendKey(f.key[:0], node.Slot())
	if a, known := f.remembered[string(f.key)]; known {
		return a
	}
	f.slices = store.SlicesAt(node.Slot(), f.slices[:0])
	results, err := f.search.Allocate(&allocator.Question{
		Node: object, Claims: f.claims, Slices: f.slices, Allocated: store.Allocated(), Class: func(name string) *resourcev1.DeviceClass { return f.classes[name] },
	})
	clear(f.slices)
	a := answer{}
	switch {
	case errors.Is(err, allocator.ErrInvalidPools):
		a.code = invalidPools
	case err != nil:
		a.code = f.fails(err)
	case len(results) < len(f.claims):
		a.code = none
	default:
		for i := range results {
			a.rating += ratingOf(f.claims[i], &results[i])
		}
	}
	if len(f.remembered) >= rememberedMax {
		clear(f.remembered)
	}
	if !errors.Is(err, allocator.ErrTimeout) {
		f.remembered[string(f.key)] = a
	}
	return a
}

// Filled notes that all nodes have been asked about.
func (f *finder) Filled(s *state.State) {
	store := s.View().Devices()
	f.version = store.WideVersion()
	clear(f.followed)
	for alike := range store.AlikeSince(0) {
		if _, known := f.followed[alike.ID]; known {
			continue
		}
		f.key = store.AppendKey(f.key[:0], alike.One())
		if a, known := f.remembered[string(f.key)]; known {
			f.followed[alike.ID] = a
		}
	}
}

// followedMax bounds what is followed for one need. Of nodes about whose list nothing is known, each is asked about.
const followedMax = 10_000

// Follow returns the slots of nodes for which what they can use of wide pools makes a difference that it did not make before. Of nodes with alike devices it asks
// about one.
func (f *finder) Follow(s *state.State, to []int32) (slots []int32, asked int) {
	store := s.View().Devices()
	if len(f.claims) == 0 || f.version == store.WideVersion() {
		return to, 0
	}
	for alike := range store.AlikeSince(f.version) {
		now := f.allocate(s.Node(alike.One()))
		asked++
		if before, known := f.followed[alike.ID]; known && before == now {
			continue
		}
		if len(f.followed) >= followedMax {
			clear(f.followed)
		}
		f.followed[alike.ID] = now
		to = alike.AppendSlots(to)
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

// ratingOf rates which alternatives of its requests a claim got: 8 for the first of a request, and 1 less for each further one.
func ratingOf(claim *resourcev1.ResourceClaim, a *resourcev1.AllocationResult) (rating int32) {
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		for j := range r.FirstAvailable {
			if gave(a, resourceclaim.CreateSubRequestRef(r.Name, r.FirstAvailable[j].Name)) {
				rating += int32(resourcev1.FirstAvailableDeviceRequestMaxSize - j)
				break
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
func (f *verdicts) Filter(node state.Node) reason.Code { return f.find(node).code }

// Reasons returns kube-scheduler's text.
func (*verdicts) Reasons(code reason.Code) []string { return []string{texts[code]} }

// Err returns the error of a failed code.
func (f *finder) Err(code reason.Code) error { return f.errs[code&^reason.Failed] }

// ErrOf returns the error of a failed code in the turn of a pod: it names the pod's claims.
func (f *finder) ErrOf(v state.View, pod *model.Pod, code reason.Code) error {
	err := f.Err(code)
	claims, _ := claimsOf(v.Devices(), pod)
	text := err.Error()
	for i, claim := range unallocated(claims) {
		text = strings.ReplaceAll(text, markOf(i), claim.Key.String())
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// markOf returns the name that stands for the i-th claim of a need.
func markOf(i int) string { return "\x00claim-" + strconv.Itoa(i) + "\x00" }
