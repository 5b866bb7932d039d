package dynamicresources

import (
	"fmt"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/allocator"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "DynamicResources"

// Config holds the plugin's arguments and feature gates.
type Config struct {
	Features allocator.Features
	// TaintRules enables DeviceTaintRules.
	TaintRules bool
	// GroupClaims enables the claims of PodGroups. Members use these claims, which are
	// reserved for the group.
	GroupClaims bool
	// FilterTimeout limits the search for devices on a node. BindingTimeout limits the
	// wait of a placement for its devices to be prepared.
	FilterTimeout, BindingTimeout time.Duration
}

// Plugin finds devices for pods.
type Plugin struct {
	config Config
	search *allocator.Allocator
	// answers caches the results of searches, for all needs.
	answers *answers
	hints   *hintCache
}

// New returns the plugin.
func New(config Config) *Plugin {
	return &Plugin{config, allocator.New(config.Features, config.FilterTimeout), newAnswers(), newHintCache(config.Features)}
}

// Name returns "DynamicResources".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		PreEnqueue:        &plugin.PreEnqueue{In: p.PreEnqueueIn},
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister(), Asked: p.AskedIn},
		PreFilter:         &plugin.PreFilter{Run: p.PreFilter, Skips: p.Skips},
		Filter: &plugin.Filter{
			Reads:  plugin.Reads{Nodes: reads, Objects: p.kinds()},
			NeedIn: p.FilterNeedIn,
		},
		PostFilter: &plugin.PostFilter{Run: p.PostFilter, Own: p.LooksAtOwn, Freeing: &plugin.GroupFreeing{
			Concerns: p.ConcernsGroup, Member: p.Member, Free: p.FreeForGroup,
		}},
		Score:   &plugin.Score{Reads: p.ScoreReads(), Normalization: p.Normalization(), NeedIn: p.ScoreNeedIn},
		Reserve: &plugin.Reserve{Holds: p.Reserve},
		PreBind: &plugin.PreBind{Steps: p.PreBind, Done: p.Done},
	})
}

// kinds returns the kinds of device objects.
func (p *Plugin) kinds() []model.Kind {
	kinds := []model.Kind{model.ResourceClaimKind, model.ResourceSliceKind, model.DeviceClassKind}
	if p.config.Features.DeviceTaints && p.config.TaintRules {
		kinds = append(kinds, model.DeviceTaintRuleKind)
	}
	return kinds
}

// PreEnqueueIn gates a pod until its claims exist, and while a claim is being released.
func (p *Plugin) PreEnqueueIn(v state.View, pod *model.Pod) (reason string) {
	if v.AwaitsWrite(pod) {
		return givenBack
	}
	if pod.Devices == nil {
		return ""
	}
	_, reason = p.claimsOf(v.Devices(), pod)
	return reason
}

// givenBack is the PreEnqueue reason while an allocation or a reservation of a pod's
// claim is being released.
const givenBack = "a resource claim is in the process of being given back"

// claimsOf returns the pod's claims in the order of its spec, or the reason why a claim
// is unusable.
func (p *Plugin) claimsOf(store *devices.Store, pod *model.Pod) (claims []*model.ResourceClaim, reason string) {
	if pod.Devices == nil {
		return nil, ""
	}
	for _, use := range pod.Devices.Claims {
		claim := store.Claim(use.Key)
		if reason := p.unusable(claim, use, pod); reason != "" {
			return nil, reason
		}
		claims = append(claims, claim)
	}
	if pod.Devices.Err != nil {
		return nil, pod.Devices.Err.Error()
	}
	return claims, ""
}

// claimsInTurn is claimsOf for the turn of a pod group. A claim promised to an earlier
// member has the promised allocation, so that later members use it.
func (p *Plugin) claimsInTurn(store *devices.Store, pod *model.Pod) (claims []*model.ResourceClaim, reason string) {
	claims, reason = p.claimsOf(store, pod)
	for i, claim := range claims {
		promise := store.PromisedInTurn(claim.Key)
		if claim.Allocation() != nil || promise == nil {
			continue
		}
		shared, object := *claim, *claim.Object
		object.Status.Allocation = promise.Allocation
		shared.Object = &object
		claims[i] = &shared
	}
	return claims, reason
}

// unusable returns why the pod cannot use a claim, or "" if it can. A missing claim is
// nil.
func (p *Plugin) unusable(claim *model.ResourceClaim, use model.PodResourceClaim, pod *model.Pod) string {
	switch {
	case claim == nil:
		return fmt.Sprintf("could not find ResourceClaim %q", use.Key)
	case claim.Object.DeletionTimestamp != nil:
		return fmt.Sprintf("resourceclaim %q is being deleted", claim.Object.Name)
	case use.Owned:
		if err := resourceclaim.IsForPod(pod.Object, claim.Object, p.config.GroupClaims); err != nil {
			return err.Error()
		}
	}
	return ""
}

// unallocated returns the claims without an allocation.
func unallocated(claims []*model.ResourceClaim) []*model.ResourceClaim {
	return slices.DeleteFunc(slices.Clone(claims), func(c *model.ResourceClaim) bool { return c.Allocation() != nil })
}

// requestsOf yields each request of a claim until yield returns false; alternatives count
// as requests. name is as in allocation results. known is false for requests of an
// unknown kind.
func requestsOf(claim *resourcev1.ResourceClaim, yield func(name, class string, known bool) bool) {
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		switch {
		case r.Exactly != nil:
			if !yield(r.Name, r.Exactly.DeviceClassName, true) {
				return
			}
		case len(r.FirstAvailable) > 0:
			for j := range r.FirstAvailable {
				sub := &r.FirstAvailable[j]
				if !yield(resourceclaim.CreateSubRequestRef(r.Name, sub.Name), sub.DeviceClassName, true) {
					return
				}
			}
		default:
			if !yield(r.Name, "", false) {
				return
			}
		}
	}
}

// PreFilter rejects a pod whose claims are unusable on every node for now.
func (p *Plugin) PreFilter(v state.View, pod *model.Pod) plugin.PreFilterResult {
	// A profile without the plugin at PreEnqueue does not gate the pod.
	if v.AwaitsWrite(pod) {
		return plugin.PreFilterResult{Rejection: givenBack}
	}
	if pod.Devices == nil {
		return plugin.PreFilterResult{}
	}
	store := v.Devices()
	claims, reason := p.claimsInTurn(store, pod)
	if reason != "" {
		return plugin.PreFilterResult{Rejection: reason}
	}
	for _, use := range pod.Devices.Claims {
		if _, err := p.consumerOf(v, pod, use); err != nil {
			return plugin.PreFilterResult{Rejection: err.Error()}
		}
	}
	for _, claim := range claims {
		if claim.Allocation() != nil {
			if _, err := selectorOf(claim.Allocation()); err != nil {
				return plugin.PreFilterResult{Err: err}
			}
			continue
		}
		if store.IsPromised(claim.Key) {
			return plugin.PreFilterResult{Rejection: fmt.Sprintf("resource claim %s is in the process of being allocated", claim.Key)}
		}
		if result := checkClasses(store, claim); !result.IsZero() {
			return result
		}
	}
	return plugin.PreFilterResult{}
}

// checkClasses rejects a claim that names a class which does not exist.
func checkClasses(store *devices.Store, claim *model.ResourceClaim) (result plugin.PreFilterResult) {
	requestsOf(claim.Object, func(name, class string, known bool) bool {
		switch {
		case !known:
			result.Rejection = fmt.Sprintf("resource claim %s, request %s: unknown request type", claim.Key, name)
		case class == "":
			result.Err = fmt.Errorf("request %s: unsupported request type", name)
		case store.Class(class) == nil:
			result.Rejection = fmt.Sprintf("request %s: device class %s does not exist", name, class)
		}
		return result.IsZero()
	})
	return result
}

// Skips reports whether the pod requests no devices, whichever classes exist.
func (*Plugin) Skips(pod *model.Pod) bool {
	return pod.Devices == nil && !slices.ContainsFunc(pod.Asks.Scalars, func(s model.Scalar) bool { return s.Value != 0 && model.CanBeDevices(s.Name) })
}

// isBroken reports whether an allocation is unusable: the preparation of a device failed
// or timed out.
func (p *Plugin) isBroken(claim *model.ResourceClaim, now time.Time) bool {
	a := claim.Allocation()
	if a == nil || !p.config.Features.DeviceBindingAndStatus {
		return false
	}
	ready, failed := isPrepared(claim.Object)
	return failed != nil || !ready && a.AllocationTimestamp != nil && now.After(a.AllocationTimestamp.Add(p.config.BindingTimeout))
}

// isPrepared reports whether all allocated devices that need preparation are ready.
// failed is the failure condition of a device.
//
// As in kube-scheduler, devices after the first unprepared one are not examined. Failure
// conditions count only for devices with binding conditions. All shares of a device have
// the same conditions.
func isPrepared(claim *resourcev1.ResourceClaim) (ready bool, failed *metav1.Condition) {
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		if len(r.BindingConditions) == 0 {
			continue
		}
		if ready, failed := conditionsOf(claim, r); !ready {
			return false, failed
		}
	}
	return true, nil
}

// conditionsOf reports whether a device is ready for its pod. failed is its failure
// condition.
func conditionsOf(claim *resourcev1.ResourceClaim, r *resourcev1.DeviceRequestAllocationResult) (ready bool, failed *metav1.Condition) {
	at := slices.IndexFunc(claim.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
		return d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device
	})
	if at < 0 {
		return false, nil
	}
	conditions := claim.Status.Devices[at].Conditions
	for _, kind := range r.BindingFailureConditions {
		if c := meta.FindStatusCondition(conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			return false, c
		}
	}
	for _, kind := range r.BindingConditions {
		if !meta.IsStatusConditionTrue(conditions, kind) {
			return false, nil
		}
	}
	return true, nil
}

func equal[A, B ~string](a *A, b *B) bool {
	return a == nil && b == nil || a != nil && b != nil && string(*a) == string(*b)
}
