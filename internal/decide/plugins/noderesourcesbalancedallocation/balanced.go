// Package noderesourcesbalancedallocation prefers nodes whose resource usage a pod makes
// more balanced.
//
// It takes a pod's requests, and the allocatable and used amounts of nodes. It returns a
// score between 50 and 100 for each node; 75 means that the pod changes nothing. It owns
// its checked arguments. It never rejects a node, and it skips pods that request none of
// its resources.
package noderesourcesbalancedallocation

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/allocator"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "NodeResourcesBalancedAllocation"

// Plugin compares the used fractions of resources. It is immutable and can be shared.
type Plugin struct {
	// resources are the configured resources that are scheduled. No node has any of the
	// others.
	resources []v1.ResourceName
	// standIns are the resources that DRA devices can provide; matcher selects the
	// devices.
	standIns []model.ResourceName
	matcher  *allocator.Matcher
}

// New checks the arguments and returns the plugin. Missing arguments get kube-scheduler's
// defaults. The error has kube-scheduler's text.
func New(args *configv1.NodeResourcesBalancedAllocationArgs) (*Plugin, error) {
	var configured []configv1.ResourceSpec
	if args != nil {
		configured = args.Resources
	}
	if len(configured) == 0 {
		configured = []configv1.ResourceSpec{{Name: "cpu"}, {Name: "memory"}}
	}
	if err := check(configured); err != nil {
		return nil, err
	}
	p := &Plugin{}
	for _, r := range configured {
		if name := v1.ResourceName(r.Name); accounted(name) {
			p.resources = append(p.resources, name)
			if of := model.ResourceNameOf(r.Name); model.CanBeDevices(of) {
				p.standIns = append(p.standIns, of)
			}
		}
	}
	if len(p.standIns) > 0 {
		p.matcher = allocator.NewMatcher()
	}
	return p, nil
}

// check rejects duplicate names and weights other than 1. A weight of 0 means 1.
func check(resources []configv1.ResourceSpec) error {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, r := range resources {
		path := field.NewPath("resources").Index(i)
		if seen[r.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), r.Name))
		}
		seen[r.Name] = true
		if r.Weight != 0 && r.Weight != 1 {
			errs = append(errs, field.Invalid(path.Child("weight"), r.Weight, "must be 1"))
		}
	}
	return errs.ToAggregate()
}

func accounted(name v1.ResourceName) bool {
	return name == v1.ResourceCPU || name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage || model.IsScalarName(name)
}

// Name returns "NodeResourcesBalancedAllocation".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:  Name,
		Score: &plugin.Score{Reads: p.ScoreReads(), Normalization: p.Normalization(), Need: p.ScoreNeed, Varying: p.VaryingScoreNeed},
	})
}

// ScoreNeed returns the pod's usage of the configured resources, or nil if it uses none.
func (p *Plugin) ScoreNeed(pod *model.Pod) plugin.ScoreNeed {
	for _, name := range p.resources {
		if model.KeyOf(name).In(&pod.Occupies) != 0 {
			return occupied{&pod.Occupies, p}
		}
	}
	return nil
}

// ScoreReads returns the allocatable and used amounts. Devices are included if they can
// provide any of the resources.
func (p *Plugin) ScoreReads() model.Aspect {
	if len(p.standIns) > 0 {
		return model.Usage | model.Allocatable | model.Labels | model.Devices
	}
	return model.Usage | model.Allocatable
}

// VaryingScoreNeed returns the pod's usage of the configured resources if devices of a
// class can provide any of it.
func (p *Plugin) VaryingScoreNeed(v state.View, pod *model.Pod) (need plugin.ScoreNeed, varies bool) {
	classes := v.Devices()
	for _, name := range p.standIns {
		if pod.Occupies.Scalar(name) != 0 && classes.ClassFor(name) != nil {
			return occupiedWithDevices{occupied{&pod.Occupies, p}, classes}, true
		}
	}
	return nil, false
}

// occupiedWithDevices is a pod's usage, part of which is devices on some nodes.
type occupiedWithDevices struct {
	occupied
	classes *devices.Store
}

func (o occupiedWithDevices) AppendText(text []byte) []byte {
	return allocator.AppendClasses(o.occupied.AppendText(text), o.plugin.standIns, o.classes)
}

// Compile selects the resources that count for the pod, with the device classes that
// provide them.
func (o occupiedWithDevices) Compile() (plugin.NodeScores, error) {
	return o.compile(func(name model.ResourceName) *allocator.Counter { return o.plugin.matcher.CounterFor(o.classes, name) })
}

// Normalization returns AsIs: scores are already in range.
func (*Plugin) Normalization() model.Normalization { return model.AsIs }

// occupied is the amount of each resource that a pod occupies.
type occupied struct {
	*model.Resources
	plugin *Plugin
}

func (o occupied) AppendText(text []byte) []byte {
	for _, name := range o.plugin.resources {
		text = append(strconv.AppendInt(text, model.KeyOf(name).In(o.Resources), 10), ' ')
	}
	return text
}

// Compile selects the resources that count for the pod. A scalar resource that the pod
// does not request counts on no node. Compile never fails.
func (o occupied) Compile() (plugin.NodeScores, error) { return o.compile(nil) }

// compile selects the resources that count for the pod. counter returns the counter of
// the devices that provide a resource, or nil if no devices do.
func (o occupied) compile(counter func(model.ResourceName) *allocator.Counter) (plugin.NodeScores, error) {
	s := &scorer{make([]part, 0, len(o.plugin.resources))}
	var counters []*allocator.Counter
	for _, name := range o.plugin.resources {
		key := model.KeyOf(name)
		if amount := key.In(o.Resources); amount != 0 || !key.IsScalar() {
			p := part{key, amount, nil}
			if counter != nil && key.IsScalar() {
				if p.devices = counter(model.ResourceNameOf(string(name))); p.devices != nil {
					counters = append(counters, p.devices)
				}
			}
			s.parts = append(s.parts, p)
		}
	}
	scores := plugin.NodeScores{RawScores: s}
	if s.isCPUAndMemory() {
		scores.Amounts = s
	}
	if len(counters) > 0 { // devices may be shared by many nodes
		scores.Following = allocator.NewCounters(counters...)
	}
	return scores, nil
}
