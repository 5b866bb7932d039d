package model

import (
	"slices"
	"strings"
	"unique"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-scheduler/berth/internal/model/amount"
)

// ResourceName is the interned name of a scalar resource, such as nvidia.com/gpu or
// hugepages-2Mi.
type ResourceName = unique.Handle[string]

// Scalar is an amount in whole units of a resource other than cpu, memory,
// ephemeral-storage and pods.
type Scalar struct {
	Name  ResourceName
	Value int64
}

// Resources is a dense vector of amounts.
//
// The three resources of every pod are fields. The others are a short list sorted by
// name. A scalar with value 0 is present in the list: a pod that requests zero of a
// resource differs from a pod that does not request it.
type Resources struct {
	CPUMilli       int64
	MemoryBytes    int64
	EphemeralBytes int64
	Scalars        []Scalar
}

// fewScalars is the number of scalars up to which a linear search is used. Only pods made
// to be expensive have more; their lists are searched by name.
const fewScalars = 16

// Scalar returns the amount of the named scalar resource, or 0 if it is not listed.
func (r *Resources) Scalar(name ResourceName) int64 {
	if i, listed := r.indexOf(name); listed {
		return r.Scalars[i].Value
	}
	return 0
}

// IsListed reports whether the scalar resource is listed, with any amount.
func (r *Resources) IsListed(name ResourceName) bool {
	_, listed := r.indexOf(name)
	return listed
}

// indexOf returns the position of a scalar, if it is listed.
func (r *Resources) indexOf(name ResourceName) (i int, listed bool) {
	if len(r.Scalars) > fewScalars {
		return r.search(name)
	}
	for i := range r.Scalars {
		if r.Scalars[i].Name == name {
			return i, true
		}
	}
	return 0, false
}

// search returns the position of a scalar, or the position at which to insert it.
func (r *Resources) search(name ResourceName) (at int, listed bool) {
	return slices.BinarySearchFunc(r.Scalars, name, func(s Scalar, name ResourceName) int {
		if s.Name == name {
			return 0
		}
		return strings.Compare(s.Name.Value(), name.Value())
	})
}

// ResourceKey identifies an amount in a vector. Except for scalars, a lookup compares no
// names.
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

// In returns the amount in the vector, or 0 for a scalar that is not listed.
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

// IsCPU reports whether the resource is cpu, which has a default in scoring.
func (k ResourceKey) IsCPU() bool { return k.kind == cpuKind }

// IsMemory reports whether the resource is memory, which has a default in scoring.
func (k ResourceKey) IsMemory() bool { return k.kind == memoryKind }

// IsScalar reports whether the resource is a scalar.
func (k ResourceKey) IsScalar() bool { return k.kind == scalarKind }

// Equal reports whether both vectors contain the same resources in the same amounts.
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

// ResourcesOf converts a list of quantities, rounding up: cpu to milli, all others to
// whole units. It drops names that scheduling does not count (see IsScalarName), and
// "pods", which only a node has. Amounts saturate, see package amount.
func ResourcesOf(list v1.ResourceList) Resources {
	var r Resources
	if len(list) > fewScalars {
		r.Scalars = make([]Scalar, 0, len(list))
	}
	for name, q := range list {
		switch name {
		case v1.ResourceCPU:
			r.CPUMilli = amount.Milli(q)
		case v1.ResourceMemory:
			r.MemoryBytes = amount.Whole(q)
		case v1.ResourceEphemeralStorage:
			r.EphemeralBytes = amount.Whole(q)
		case v1.ResourcePods:
		default:
			if IsScalarName(name) {
				r.Scalars = append(r.Scalars, Scalar{unique.Make(string(name)), amount.Whole(q)})
			}
		}
	}
	if len(r.Scalars) == 0 {
		r.Scalars = nil
	} else if len(r.Scalars) > 1 {
		slices.SortFunc(r.Scalars, func(a, b Scalar) int { return strings.Compare(a.Name.Value(), b.Name.Value()) })
	}
	return r
}

// allocatableOf returns the resources that a node offers. Each is less than amount.Max,
// which represents requests larger than any node.
func allocatableOf(list v1.ResourceList) Resources {
	r := ResourcesOf(list)
	r.CPUMilli, r.MemoryBytes = min(r.CPUMilli, amount.Max-1), min(r.MemoryBytes, amount.Max-1)
	r.EphemeralBytes = min(r.EphemeralBytes, amount.Max-1)
	for i := range r.Scalars {
		r.Scalars[i].Value = min(r.Scalars[i].Value, amount.Max-1)
	}
	return r
}

// isComplete reports whether comparisons of ResourcesOf(list) in thousandths give the
// same results as comparisons of the list. Every resource must be counted, no amount may
// be rounded except cpu to milli, and no field may be present with the value 0.
func isComplete(list v1.ResourceList) bool {
	for name, q := range list {
		switch name {
		case v1.ResourceCPU:
			if amount.Milli(q) == 0 {
				return false
			}
		case v1.ResourceMemory, v1.ResourceEphemeralStorage:
			if amount.Whole(q) == 0 || !isWhole(q) {
				return false
			}
		default:
			if !IsScalarName(name) || !isWhole(q) {
				return false
			}
		}
	}
	return true
}

// isWhole reports whether a quantity is a whole number of units that fits into
// thousandths.
func isWhole(q resource.Quantity) bool {
	whole := amount.Whole(q)
	return whole <= amount.Max/1000 && amount.Milli(q) == 1000*whole
}

// AllowedPods returns the number of pods that a node with this allocatable list allows. A
// list without "pods" allows none.
func AllowedPods(list v1.ResourceList) int64 {
	q := list[v1.ResourcePods]
	return amount.Whole(q)
}

// IsScalarName reports whether scheduling counts the resource as a scalar: huge pages,
// attachable volumes, names of the kubernetes.io domain, and extended resources.
func IsScalarName(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(name), v1.ResourceAttachableVolumesPrefix) ||
		isNativeName(name) || IsExtendedName(name)
}

func isNativeName(name v1.ResourceName) bool {
	return strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix)
}

// IsExtendedName reports whether the name is an extended resource. Its domain is not
// kubernetes.io, it has no quota prefix "requests.", and it is still a qualified name
// with that prefix.
func IsExtendedName(name v1.ResourceName) bool {
	if !strings.Contains(string(name), "/") || isNativeName(name) || strings.HasPrefix(string(name), v1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+string(name))) == 0
}
