package model

import (
	"slices"
	"strings"
	"unique"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ResourceName is an interned name of a scalar resource, such as nvidia.com/gpu or hugepages-2Mi.
type ResourceName = unique.Handle[string]

// Scalar is an amount of one resource other than cpu, memory, ephemeral-storage and pods, in whole units.
type Scalar struct {
	Name  ResourceName
	Value int64
}

// Resources is a dense vector of amounts.
//
// The three resources of every pod are fields; the others are a short list sorted by name. A scalar that is listed with value 0 is present: a
// pod that requests zero of a resource differs from one that does not request it.
type Resources struct {
	CPUMilli       int64
	MemoryBytes    int64
	EphemeralBytes int64
	Scalars        []Scalar
}

// Scalar returns the amount of the named scalar resource, 0 when it is not listed.
func (r *Resources) Scalar(name ResourceName) int64 {
	for i := range r.Scalars {
		if r.Scalars[i].Name == name {
			return r.Scalars[i].Value
		}
	}
	return 0
}

// ResourceKey finds a resource's amount in a vector without comparing names where that can be avoided.
type ResourceKey struct {
	kind resourceKind
	name ResourceName // of a scalar
}

type resourceKind uint8

const (
	cpuKind resourceKind = iota
	memoryKind
	ephemeralKind
	scalarKind
)

// KeyOf returns the key of a resource.
func KeyOf(name v1.ResourceName) ResourceKey {
	switch name {
	case v1.ResourceCPU:
		return ResourceKey{kind: cpuKind}
	case v1.ResourceMemory:
		return ResourceKey{kind: memoryKind}
	case v1.ResourceEphemeralStorage:
		return ResourceKey{kind: ephemeralKind}
	}
	return ResourceKey{scalarKind, unique.Make(string(name))}
}

// In returns the amount in the vector; 0 for a scalar that it does not list.
func (k ResourceKey) In(r *Resources) int64 {
	switch k.kind {
	case cpuKind:
		return r.CPUMilli
	case memoryKind:
		return r.MemoryBytes
	case ephemeralKind:
		return r.EphemeralBytes
	}
	return r.Scalar(k.name)
}

// IsCPU reports whether it is CPU, which has a default in scoring.
func (k ResourceKey) IsCPU() bool { return k.kind == cpuKind }

// IsMemory reports whether it is memory, which has a default in scoring.
func (k ResourceKey) IsMemory() bool { return k.kind == memoryKind }

// IsScalar reports whether it is one of those in the list.
func (k ResourceKey) IsScalar() bool { return k.kind == scalarKind }

// Equal reports whether both vectors name the same resources in the same amounts.
func (r *Resources) Equal(o *Resources) bool {
	if r.CPUMilli != o.CPUMilli || r.MemoryBytes != o.MemoryBytes || r.EphemeralBytes != o.EphemeralBytes ||
		len(r.Scalars) != len(o.Scalars) {
		return false
	}
	for i := range r.Scalars {
		if r.Scalars[i] != o.Scalars[i] {
			return false
		}
	}
	return true
}

// Add adds o times sign (+1 or -1) to r. The scalars of r are changed in place, so r must own them.
func (r *Resources) Add(o *Resources, sign int64) {
	r.CPUMilli += sign * o.CPUMilli
	r.MemoryBytes += sign * o.MemoryBytes
	r.EphemeralBytes += sign * o.EphemeralBytes
	for _, s := range o.Scalars {
		r.addScalar(s.Name, sign*s.Value)
	}
}

// DropZeros removes scalars of amount 0 from a sum, which would otherwise list each resource that it ever had.
func (r *Resources) DropZeros() {
	r.Scalars = slices.DeleteFunc(r.Scalars, func(s Scalar) bool { return s.Value == 0 })
}

func (r *Resources) addScalar(name ResourceName, value int64) {
	at := len(r.Scalars)
	for i := range r.Scalars {
		switch have := r.Scalars[i].Name; {
		case have == name:
			r.Scalars[i].Value += value
			return
		case have.Value() > name.Value() && at == len(r.Scalars):
			at = i
		}
	}
	r.Scalars = append(r.Scalars, Scalar{})
	copy(r.Scalars[at+1:], r.Scalars[at:])
	r.Scalars[at] = Scalar{Name: name, Value: value}
}

// ResourcesOf converts a list of quantities: cpu to milli, everything else to whole units, both rounded up. Names that scheduling does not count
// (see IsScalarName) are dropped, and so is "pods", which only a node has.
func ResourcesOf(list v1.ResourceList) Resources {
	var r Resources
	for name, q := range list {
		switch name {
		case v1.ResourceCPU:
			r.CPUMilli += q.MilliValue()
		case v1.ResourceMemory:
			r.MemoryBytes += q.Value()
		case v1.ResourceEphemeralStorage:
			r.EphemeralBytes += q.Value()
		case v1.ResourcePods:
		default:
			if IsScalarName(name) {
				r.addScalar(unique.Make(string(name)), q.Value())
			}
		}
	}
	return r
}

// isComplete reports whether ResourcesOf loses nothing of the list: every resource is counted, no amount was rounded, and no field is present with
// the value 0.
func isComplete(list v1.ResourceList) bool {
	for name, q := range list {
		switch name {
		case v1.ResourceCPU:
			if q.MilliValue() == 0 {
				return false
			}
		case v1.ResourceMemory, v1.ResourceEphemeralStorage:
			if q.Value() == 0 || q.MilliValue() != 1000*q.Value() {
				return false
			}
		default:
			if !IsScalarName(name) || q.MilliValue() != 1000*q.Value() {
				return false
			}
		}
	}
	return true
}

// AllowedPods returns how many pods a node with this allocatable list allows; without an entry, none.
func AllowedPods(list v1.ResourceList) int64 {
	q := list[v1.ResourcePods]
	return q.Value()
}

// IsScalarName reports whether scheduling counts the named resource besides cpu, memory and ephemeral-storage: huge pages, attachable volumes,
// names of the kubernetes.io domain, and extended resources.
func IsScalarName(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(name), v1.ResourceAttachableVolumesPrefix) ||
		isNativeName(name) || IsExtendedName(name)
}

func isNativeName(name v1.ResourceName) bool {
	return strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix)
}

// IsExtendedName reports whether the name is an extended resource: qualified by a domain that is not kubernetes.io, not
// a quota name ("requests."), and still a qualified name when quota prefixes it.
func IsExtendedName(name v1.ResourceName) bool {
	if !strings.Contains(string(name), "/") || isNativeName(name) || strings.HasPrefix(string(name), v1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+string(name))) == 0
}
