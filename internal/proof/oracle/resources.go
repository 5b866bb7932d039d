package oracle

import (
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// amounts are whole numbers by resource name: cpu in thousandths, all else in units.
// Names that the scheduler drops are not included.
type amounts map[v1.ResourceName]int64

// isExtended reports whether a name is an extended resource such as example.com/gpu,
// which ignoredResources may ignore.
func isExtended(name v1.ResourceName) bool {
	s := string(name)
	return strings.Contains(s, "/") && !isNative(name) && !strings.HasPrefix(s, "requests.") &&
		len(validation.IsQualifiedName("requests."+s)) == 0
}

func isNative(name v1.ResourceName) bool { return strings.Contains(string(name), "kubernetes.io/") }

// isScalar reports whether scheduling counts a name other than the three fixed ones.
func isScalar(name v1.ResourceName) bool {
	s := string(name)
	return strings.HasPrefix(s, "hugepages-") || strings.HasPrefix(s, "attachable-volumes-") || isNative(name) || isExtended(name)
}

func isFixed(name v1.ResourceName) bool {
	return name == v1.ResourceCPU || name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage
}

// beyond stands for itself and everything larger: no node has so much.
const beyond = math.MaxInt64

// The decimal places that ceiling may keep.
const (
	units       = 0
	thousandths = 3
)

// ceiling is a quantity, rounded up, in 10 to the power of -places; 0 if it is negative.
func ceiling(q resource.Quantity, places int64) int64 {
	exact := q.AsDec()
	scale := big.NewInt(10)
	n := new(big.Int).Set(exact.UnscaledBig())
	if shift := places - int64(exact.Scale()); shift >= 0 {
		n.Mul(n, scale.Exp(scale, big.NewInt(shift), nil))
	} else {
		n.Neg(n).Div(n, scale.Exp(scale, big.NewInt(-shift), nil)).Neg(n)
	}
	switch {
	case n.Sign() < 0:
		return 0
	case !n.IsInt64():
		return beyond
	}
	return n.Int64()
}

// plus adds amounts.
func plus(a, b int64) int64 {
	if a > beyond-b {
		return beyond
	}
	return a + b
}

// percent is part in percent of whole, rounded down.
func percent(part, whole int64) int64 {
	n := big.NewInt(part)
	return n.Mul(n, big.NewInt(maxScore)).Div(n, big.NewInt(whole)).Int64()
}

// rounded rounds each quantity up, once, and drops unknown names ("pods" among them).
func rounded(list v1.ResourceList) amounts {
	whole := amounts{}
	for name, q := range list {
		if name == v1.ResourceCPU {
			whole[name] = ceiling(q, thousandths)
		} else if isFixed(name) || isScalar(name) {
			whole[name] = ceiling(q, units)
		}
	}
	return whole
}

// allocatable limits amounts to less than beyond.
func allocatable(n node) amounts {
	size := rounded(n.Status.Allocatable)
	for name, v := range size {
		size[name] = min(v, beyond-1)
	}
	return size
}

// requested is the sum of the requests of the node's pods.
func requested(n node) amounts {
	return usage(n, func(p *v1.Pod) v1.ResourceList { return requests(p, requestRules{status: true, podLevel: true}) })
}

// nonZeroRequested is the sum of requests with defaults, as in scoring. Only cpu and
// memory are meaningful.
func nonZeroRequested(n node) amounts { return usage(n, nonZeroRequests) }

// usage rounds per pod, then adds.
func usage(n node, of func(*v1.Pod) v1.ResourceList) amounts {
	total := amounts{}
	for _, p := range n.pods {
		for name, v := range rounded(of(p)) {
			total[name] = plus(total[name], v)
		}
	}
	return total
}

// nonZeroRequests applies the defaults for cpu and memory. A pod with pod-level requests
// gets a default only if its ordinary request lacks the key everywhere: in containers,
// pod level and overhead.
func nonZeroRequests(p *v1.Pod) v1.ResourceList {
	rules := requestRules{status: true, podLevel: true, defaults: scoringDefaults}
	if !hasPodLevelRequests(p) {
		return requests(p, rules)
	}
	ordinary := requests(p, requestRules{status: true, podLevel: true})
	rules.defaults = v1.ResourceList{}
	for name, q := range scoringDefaults {
		if _, ok := ordinary[name]; !ok {
			rules.defaults[name] = q
		}
	}
	return requests(p, rules)
}

// fitFilter compares the pod's request with the free amounts. It reads the spec only,
// since a resize of a pending pod has no meaning. It lists all shortages in a fixed
// order; upstream visits scalars in any order. A request beyond the node's size is
// unresolvable.
func fitFilter(cy *cycle, n node) *Rejection {
	no := &Rejection{}
	pods := n.Status.Allocatable[v1.ResourcePods]
	if int64(len(n.pods))+1 > ceiling(pods, units) {
		no.Reasons = append(no.Reasons, "Too many pods")
	}
	wanted := rounded(requests(cy.pod, requestRules{podLevel: true}))
	size, used := allocatable(n), requested(n)
	for _, name := range fitOrder(wanted) {
		if wanted[name] <= 0 || cy.ignores(name) || wanted[name] <= size[name]-used[name] {
			continue
		}
		no.Reasons = append(no.Reasons, "Insufficient "+string(name))
		if wanted[name] > size[name] {
			no.Unresolvable = true
		}
	}
	if len(no.Reasons) == 0 {
		return nil
	}
	return no
}

// fitOrder is cpu, memory, ephemeral-storage, then scalars by name.
func fitOrder(wanted amounts) []v1.ResourceName {
	order := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !isFixed(name) {
			order = append(order, name)
		}
	}
	return order
}

// ignores applies the arguments ignoredResources and ignoredResourceGroups, which concern
// extended resources only.
func (cy *cycle) ignores(name v1.ResourceName) bool {
	if !isExtended(name) {
		return false
	}
	group, _, _ := strings.Cut(string(name), "/")
	return slices.Contains(cy.profile.Fit.IgnoredResources, string(name)) || slices.Contains(cy.profile.Fit.IgnoredResourceGroups, group)
}
