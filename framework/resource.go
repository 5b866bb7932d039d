package framework

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/amount"
)

var _ fwk.Resource = (*Resource)(nil)

// Resource is a sum of resources: cpu in milli, everything else in whole units or bytes.
type Resource struct {
	MilliCPU         int64
	Memory           int64
	EphemeralStorage int64
	// AllowedPodNumber is the amount of the resource "pods", which only nodes have.
	AllowedPodNumber int
	// ScalarResources are the other resources, see IsScalarResourceName; nil for none.
	ScalarResources map[v1.ResourceName]int64
}

// NewResource returns the amounts of a list, rounded up.
func NewResource(list v1.ResourceList) *Resource {
	r := new(Resource)
	r.Add(list)
	return r
}

// resourceOf converts Berth's internal type.
func resourceOf(from *model.Resources) Resource {
	r := Resource{MilliCPU: from.CPUMilli, Memory: from.MemoryBytes, EphemeralStorage: from.EphemeralBytes}
	if len(from.Scalars) > 0 {
		r.ScalarResources = make(map[v1.ResourceName]int64, len(from.Scalars))
		for _, s := range from.Scalars {
			r.ScalarResources[v1.ResourceName(s.Name.Value())] = s.Value
		}
	}
	return r
}

// GetMilliCPU returns the cpu in milli.
func (r *Resource) GetMilliCPU() int64 { return r.MilliCPU }

// GetMemory returns the memory in bytes.
func (r *Resource) GetMemory() int64 { return r.Memory }

// GetEphemeralStorage returns the ephemeral storage in bytes.
func (r *Resource) GetEphemeralStorage() int64 { return r.EphemeralStorage }

// GetAllowedPodNumber returns the maximum number of pods on a node.
func (r *Resource) GetAllowedPodNumber() int { return r.AllowedPodNumber }

// GetScalarResources returns the other resources; nil for none. The map is not a copy.
func (r *Resource) GetScalarResources() map[v1.ResourceName]int64 { return r.ScalarResources }

// Add adds the amounts of a list, rounded up. Names that scheduling does not count are
// skipped.
func (r *Resource) Add(list v1.ResourceList) {
	if r == nil {
		return
	}
	for name, q := range list {
		switch name {
		case v1.ResourceCPU:
			r.MilliCPU = amount.Add(r.MilliCPU, amount.Milli(q))
		case v1.ResourceMemory:
			r.Memory = amount.Add(r.Memory, amount.Whole(q))
		case v1.ResourceEphemeralStorage:
			r.EphemeralStorage = amount.Add(r.EphemeralStorage, amount.Whole(q))
		case v1.ResourcePods:
			r.AllowedPodNumber = int(amount.Add(int64(r.AllowedPodNumber), amount.Whole(q)))
		default:
			if IsScalarResourceName(name) {
				r.AddScalar(name, amount.Whole(q))
			}
		}
	}
}

// SetMaxResource raises each amount to the list's amount if that is larger. The number of
// pods is unchanged.
func (r *Resource) SetMaxResource(list v1.ResourceList) {
	if r == nil {
		return
	}
	for name, q := range list {
		switch name {
		case v1.ResourceCPU:
			r.MilliCPU = max(r.MilliCPU, amount.Milli(q))
		case v1.ResourceMemory:
			r.Memory = max(r.Memory, amount.Whole(q))
		case v1.ResourceEphemeralStorage:
			r.EphemeralStorage = max(r.EphemeralStorage, amount.Whole(q))
		default:
			if IsScalarResourceName(name) {
				r.SetScalar(name, max(r.ScalarResources[name], amount.Whole(q)))
			}
		}
	}
}

// AddScalar adds to a scalar resource.
func (r *Resource) AddScalar(name v1.ResourceName, value int64) {
	r.SetScalar(name, amount.Add(r.ScalarResources[name], value))
}

// SetScalar sets a scalar resource.
func (r *Resource) SetScalar(name v1.ResourceName, value int64) {
	if r.ScalarResources == nil {
		r.ScalarResources = map[v1.ResourceName]int64{}
	}
	r.ScalarResources[name] = value
}

// Clone returns a deep copy.
func (r *Resource) Clone() *Resource {
	c := *r
	c.ScalarResources = maps.Clone(r.ScalarResources)
	return &c
}

// count adds a pod's resources sign times: +1 or -1. After a subtraction, amounts of 0
// are removed.
func (r *Resource) count(pod fwk.Resource, sign int64) {
	r.MilliCPU = amount.Add(r.MilliCPU, sign*pod.GetMilliCPU())
	r.Memory = amount.Add(r.Memory, sign*pod.GetMemory())
	r.EphemeralStorage = amount.Add(r.EphemeralStorage, sign*pod.GetEphemeralStorage())
	for name, value := range pod.GetScalarResources() {
		r.AddScalar(name, sign*value)
		if sign < 0 && r.ScalarResources[name] == 0 {
			delete(r.ScalarResources, name)
		}
	}
}

// isSaturated reports whether a sum may have overflowed.
func (r *Resource) isSaturated() bool {
	if r.MilliCPU == amount.Max || r.Memory == amount.Max || r.EphemeralStorage == amount.Max {
		return true
	}
	for _, value := range r.ScalarResources {
		if value == amount.Max {
			return true
		}
	}
	return false
}

// IsScalarResourceName reports whether scheduling counts a resource besides cpu, memory,
// ephemeral-storage and pods: huge pages, attachable volumes, names of the kubernetes.io
// domain, and extended resources.
func IsScalarResourceName(name v1.ResourceName) bool { return model.IsScalarName(name) }
