package noderesourcesfit

import (
	"math"
	"strconv"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/allocator"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/amount"
	"github.com/berth-scheduler/berth/internal/model/shape"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// ScoreNeed returns the pod's assumed requests of the configured resources. It is never
// nil, because best-effort pods are scored too.
func (p *Plugin) ScoreNeed(pod *model.Pod) plugin.ScoreNeed { return scored{p.requested(pod), p} }

// requested returns the requests that scoring assumes for a pending pod.
func (p *Plugin) requested(pod *model.Pod) *model.Resources {
	if p.rules.PodLevelScore && pod.Object.Spec.Resources != nil {
		own := model.ScoredAsPod(pod.Object)
		return &own
	}
	return &pod.Scored
}

// ScoreReads returns the allocatable and used amounts. Devices are included if they can
// provide one of the scored resources.
func (p *Plugin) ScoreReads() model.Aspect {
	if len(p.standIns) > 0 {
		return reads | model.Labels | model.Devices
	}
	return reads
}

// VaryingScoreNeed returns the pod's assumed requests if it requests a scored resource
// that a class provides.
func (p *Plugin) VaryingScoreNeed(v state.View, pod *model.Pod) (need plugin.ScoreNeed, varies bool) {
	classes := v.Devices()
	for _, name := range p.standIns {
		if pod.Scored.Scalar(name) != 0 && classes.ClassFor(name) != nil { // no pod-level requests exist for these
			return scoredWithDevices{scored{p.requested(pod), p}, classes}, true
		}
	}
	return nil, false
}

// scoredWithDevices are a pod's assumed requests, part of which are for devices on some
// nodes.
type scoredWithDevices struct {
	scored
	classes *devices.Store
}

func (x scoredWithDevices) AppendText(text []byte) []byte {
	return allocator.AppendClasses(x.scored.AppendText(text), x.plugin.standIns, x.classes)
}

// Compile selects the resources that count for the pod, with the device classes that
// provide them.
func (x scoredWithDevices) Compile() (plugin.NodeScores, error) {
	return x.compile(func(name model.ResourceName) *allocator.Counter { return x.plugin.matcher.CounterFor(x.classes, name) })
}

// Normalization returns AsIs: scores are already in range.
func (*Plugin) Normalization() model.Normalization { return model.AsIs }

// scored are a pod's assumed requests.
type scored struct {
	*model.Resources
	plugin *Plugin
}

func (x scored) AppendText(text []byte) []byte {
	text = append(text, "asks"...)
	for _, r := range x.plugin.resources {
		text = strconv.AppendInt(append(text, ' '), model.KeyOf(r.name).In(x.Resources), 10)
	}
	return text
}

// Compile selects the resources that count for the pod. A scalar resource that the pod
// does not request counts on no node. Compile never fails.
func (x scored) Compile() (plugin.NodeScores, error) { return x.compile(nil) }

// compile selects the resources that count for the pod. counter returns the counter of
// the devices that provide a resource, or nil if no devices do.
func (x scored) compile(counter func(model.ResourceName) *allocator.Counter) (plugin.NodeScores, error) {
	parts := make([]part, 0, len(x.plugin.resources))
	var counters []*allocator.Counter
	for _, r := range x.plugin.resources {
		key := model.KeyOf(r.name)
		if asked := key.In(x.Resources); asked != 0 || !key.IsScalar() {
			p := part{key, asked, r.weight, nil}
			if counter != nil && key.IsScalar() {
				if p.devices = counter(model.ResourceNameOf(string(r.name))); p.devices != nil {
					counters = append(counters, p.devices)
				}
			}
			parts = append(parts, p)
		}
	}
	scores := x.rated(parts)
	if len(counters) > 0 { // devices may be shared by many nodes
		scores.Following = allocator.NewCounters(counters...)
	}
	return scores, nil
}

// rated returns the scores by the configured strategy.
func (x scored) rated(parts []part) plugin.NodeScores {
	switch two := cpuAndMemory(parts); x.plugin.strategy {
	case configv1.MostAllocated:
		return two.scores(&mostAllocated{parts, two})
	case configv1.RequestedToCapacityRatio:
		return plugin.NodeScores{RawScores: &requestedToCapacityRatio{parts, x.plugin.ratings}}
	default:
		return two.scores(&leastAllocated{parts, two})
	}
}

// part is one resource that counts for a pod.
type part struct {
	resource model.ResourceKey
	asked    int64
	weight   int64
	// devices counts the devices that provide the resource on nodes without it; nil if
	// none.
	devices *allocator.Counter
}

// on returns the node's amount of the resource, and the amount in use with the pod on it.
// For cpu and memory, pods without requests count with defaults.
func (p *part) on(node state.Node) (capacity, requested int64) {
	if p.devices != nil && p.resource.In(node.Allocatable()) == 0 {
		all, used, ok := p.devices.Count(node.Devices(), node.Slot(), node.Object())
		if !ok {
			return 0, 0
		}
		return all, amount.Add(used, p.asked)
	}
	used := p.resource.In(node.Used())
	if cpuMilli, memoryBytes := node.NonZeroUsed(); p.resource.IsCPU() {
		used = cpuMilli
	} else if p.resource.IsMemory() {
		used = memoryBytes
	}
	return p.resource.In(node.Allocatable()), amount.Add(used, p.asked)
}

// leastAllocated prefers empty nodes: the weighted mean of the free shares in percent.
type leastAllocated struct {
	parts []part
	two   two
}

// Score returns 0 to 100.
func (s *leastAllocated) Score(node state.Node) int32 {
	var sum, weights int64
	for i := range s.parts {
		p := &s.parts[i]
		capacity, requested := p.on(node)
		if capacity == 0 {
			continue
		}
		weights += p.weight
		sum += amount.Percent(max(capacity-requested, 0), capacity) * p.weight
	}
	return mean(sum, weights)
}

// mostAllocated prefers full nodes: the weighted mean of the used shares in percent.
type mostAllocated struct {
	parts []part
	two   two
}

// Score returns 0 to 100.
func (s *mostAllocated) Score(node state.Node) int32 {
	var sum, weights int64
	for i := range s.parts {
		p := &s.parts[i]
		capacity, requested := p.on(node)
		if capacity == 0 {
			continue
		}
		weights += p.weight
		sum += amount.Percent(min(requested, capacity), capacity) * p.weight
	}
	return mean(sum, weights)
}

func mean(sum, weights int64) int32 {
	if weights == 0 {
		return 0
	}
	return int32(sum / weights)
}

// requestedToCapacityRatio rates the used shares by a utilization shape. A resource that
// it rates 0 is left out of the mean, so it does not lower the mean.
type requestedToCapacityRatio struct {
	parts   []part
	ratings *shape.Ratings
}

// Score returns 0 to 100; halves are rounded up.
func (s *requestedToCapacityRatio) Score(node state.Node) int32 {
	var sum, weights int64
	for i := range s.parts {
		p := &s.parts[i]
		capacity, requested := p.on(node)
		if capacity == 0 {
			continue
		}
		percent := amount.Percent(min(requested, capacity), capacity)
		if rating := s.ratings.At(percent); rating > 0 {
			sum += rating * p.weight
			weights += p.weight
		}
	}
	if weights == 0 {
		return 0
	}
	return int32(math.Round(float64(sum) / float64(weights)))
}
