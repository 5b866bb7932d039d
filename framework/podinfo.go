package framework

import (
	"errors"
	"fmt"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model"
)

var (
	_ fwk.PodInfo    = (*PodInfo)(nil)
	_ klog.KMetadata = (*PodInfo)(nil)
)

// PodInfo is a pod with cached data for plugins. Affinity terms and the sum of resources
// are computed on first use. All methods except Update are safe for concurrent use.
type PodInfo struct {
	pod *v1.Pod
	// compiled is the pod in Berth's state; nil for a pod of a plugin.
	compiled *model.Pod
	terms    atomic.Pointer[terms]
	resource atomic.Pointer[fwk.PodResource]
	shown    atomic.Pointer[fwk.PodInfo] // see Types; nil until first use
}

// terms are a pod's affinity terms. A kind with a malformed term has none.
type terms struct {
	affinity, antiAffinity                   []fwk.AffinityTerm
	preferredAffinity, preferredAntiAffinity []fwk.WeightedAffinityTerm
	err                                      error
}

// NewPodInfo returns the PodInfo of a pod, which is kept and must not change. The error
// lists malformed affinity terms, which API servers may accept. The PodInfo is then
// usable without these terms. It is nil only for a nil pod.
func NewPodInfo(pod *v1.Pod) (*PodInfo, error) {
	if pod == nil {
		return nil, errors.New("pod cannot be nil")
	}
	p := &PodInfo{pod: pod}
	return p, p.parsed().err
}

// GetPod returns the pod, or nil for a nil PodInfo. It must not be changed.
func (p *PodInfo) GetPod() *v1.Pod {
	if p == nil {
		return nil
	}
	return p.pod
}

// GetName returns the pod's name.
func (p *PodInfo) GetName() string { return p.pod.Name }

// GetNamespace returns the pod's namespace.
func (p *PodInfo) GetNamespace() string { return p.pod.Namespace }

// GetRequiredAffinityTerms returns the terms that a node must satisfy. The slice is not a
// copy.
func (p *PodInfo) GetRequiredAffinityTerms() []fwk.AffinityTerm { return p.parsed().affinity }

// GetRequiredAntiAffinityTerms returns the terms that a node must not satisfy. The slice
// is not a copy.
func (p *PodInfo) GetRequiredAntiAffinityTerms() []fwk.AffinityTerm { return p.parsed().antiAffinity }

// GetPreferredAffinityTerms returns the terms that a node should satisfy. The slice is
// not a copy.
func (p *PodInfo) GetPreferredAffinityTerms() []fwk.WeightedAffinityTerm {
	return p.parsed().preferredAffinity
}

// GetPreferredAntiAffinityTerms returns the terms that a node should not satisfy. The
// slice is not a copy.
func (p *PodInfo) GetPreferredAntiAffinityTerms() []fwk.WeightedAffinityTerm {
	return p.parsed().preferredAntiAffinity
}

// noTerms is shared by all pods without affinity terms.
var noTerms terms

// parsed returns the terms and parses them on first use. If two goroutines parse at the
// same time, one result wins.
func (p *PodInfo) parsed() *terms {
	if t := p.terms.Load(); t != nil {
		return t
	}
	t := &noTerms
	if hasAffinity(p.pod) {
		t = parse(p.pod)
	}
	p.terms.CompareAndSwap(nil, t)
	return p.terms.Load()
}

func parse(pod *v1.Pod) *terms {
	var t terms
	var errs [4]error
	var preferred, against []v1.WeightedPodAffinityTerm
	if a := pod.Spec.Affinity.PodAffinity; a != nil {
		preferred = a.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if a := pod.Spec.Affinity.PodAntiAffinity; a != nil {
		against = a.PreferredDuringSchedulingIgnoredDuringExecution
	}
	t.affinity, errs[0] = fwk.GetAffinityTerms(pod, fwk.GetPodAffinityTerms(pod.Spec.Affinity))
	t.antiAffinity, errs[1] = fwk.GetAffinityTerms(pod, fwk.GetPodAntiAffinityTerms(pod.Spec.Affinity))
	t.preferredAffinity, errs[2] = fwk.GetWeightedAffinityTerms(pod, preferred)
	t.preferredAntiAffinity, errs[3] = fwk.GetWeightedAffinityTerms(pod, against)
	for i, kind := range [...]string{"requiredAffinityTerms", "requiredAntiAffinityTerms", "preferredAffinityTerms", "preferredAntiAffinityTerms"} {
		if errs[i] != nil {
			t.err = errors.Join(t.err, fmt.Errorf("%s: %w", kind, errs[i]))
		}
	}
	return &t
}

// CalculateResource returns the pod's resources, and the cpu and memory that scoring
// assumes. The Resource is not a copy and must not be changed.
func (p *PodInfo) CalculateResource() fwk.PodResource {
	if r := p.resource.Load(); r != nil {
		return *r
	}
	var occupied Resource
	r := &fwk.PodResource{Resource: &occupied}
	if c := p.compiled; c != nil && c.Malformed == "" {
		occupied, r.Non0CPU, r.Non0Mem = resourceOf(&c.Occupies), c.NonZeroCPUMilli, c.NonZeroMemoryBytes
	} else {
		occupies := model.Occupied(p.pod)
		occupied = resourceOf(&occupies)
		r.Non0CPU, r.Non0Mem = model.NonZero(p.pod)
	}
	p.resource.CompareAndSwap(nil, r)
	return *p.resource.Load()
}

// DeepCopy returns a PodInfo of a copy of the pod.
func (p *PodInfo) DeepCopy() *PodInfo {
	c := &PodInfo{pod: p.pod.DeepCopy(), compiled: p.compiled}
	c.terms.Store(p.terms.Load())
	c.resource.Store(p.resource.Load())
	return c
}

// Update replaces the pod with another version of it. A different pod is an error. The
// affinity terms stay, because they are immutable.
func (p *PodInfo) Update(pod *v1.Pod) error {
	switch {
	case pod == nil:
		return errors.New("cannot update with nil pod")
	case p.pod == nil:
		return errors.New("cannot update PodInfo - its Pod is nil")
	case p.pod.UID != pod.UID:
		return fmt.Errorf("pod UID mismatch, expected %v, got %v", p.pod.UID, pod.UID)
	}
	p.parsed()
	p.pod, p.compiled = pod, nil
	p.resource.Store(nil)
	p.shown.Store(nil)
	return nil
}

// hasAffinity reports whether a pod has an affinity or anti-affinity field, even an empty
// one.
func hasAffinity(pod *v1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

func hasRequiredAntiAffinity(pod *v1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}
