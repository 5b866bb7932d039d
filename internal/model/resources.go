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

// fewScalars is up to how many scalars are compared one by one. Only pods that are made to be
// expensive have more; their lists are searched by name.
const fewScalars = 16

// Scalar returns the amount of the named scalar resource, 0 when it is not listed.
func (r *Resources) Scalar(name ResourceName) int64 {
	if i, listed := r.indexOf(name); listed {
		return r.Scalars[i].Value
	}
	return 0
}

// IsListed reports whether the scalar resource is listed, with whatever amount.
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

// search returns the position of a scalar, or the position where it would have to be inserted.
func (r *Resources) search(name ResourceName) (at int, listed bool) {
	return slices.BinarySearchFunc(r.Scalars, name, func(s Scalar, name ResourceName) int {
		if s.Name == name {
			return 0
		}
		return strings.Compare(s.Name.Value(), name.Value())
	})
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
	if len(o.Scalars) > fewScalars {
		r.addScalars(o.Scalars, sign)
		return
	}
	for _, s := range o.Scalars {
		r.addScalar(s.Name, sign*s.Value)
	}
}

// addScalars adds a long sorted list, in one pass over both lists.
func (r *Resources) addScalars(o []Scalar, sign int64) {
	missing, i := 0, 0
	for _, s := range o {
		for i < len(r.Scalars) && r.Scalars[i].Name != s.Name && r.Scalars[i].Name.Value() < s.Name.Value() {
			i++
		}
		if i < len(r.Scalars) && r.Scalars[i].Name == s.Name {
			r.Scalars[i].Value += sign * s.Value
		} else {
			missing++
		}
	}
	if missing > 0 {
		r.insertScalars(o, sign, missing)
	}
}

// insertScalars inserts those of a sorted list that r does not list. It merges from the end, so
// that each element moves once.
func (r *Resources) insertScalars(o []Scalar, sign int64, missing int) {
	i := len(r.Scalars) - 1
	r.Scalars = append(r.Scalars, make([]Scalar, missing)...)
	for j, to := len(o)-1, len(r.Scalars)-1; j >= 0; to-- {
		switch {
		case i < 0 || r.Scalars[i].Name != o[j].Name && r.Scalars[i].Name.Value() < o[j].Name.Value():
			r.Scalars[to] = Scalar{o[j].Name, sign * o[j].Value}
			j--
		case r.Scalars[i].Name == o[j].Name:
			r.Scalars[to] = r.Scalars[i]
			i, j = i-1, j-1
		default:
			r.Scalars[to] = r.Scalars[i]
			i--
		}
	}
}

// DropZeros removes scalars of amount 0 from a sum, which would otherwise list each resource that it ever had.
func (r *Resources) DropZeros() {
	r.Scalars = slices.DeleteFunc(r.Scalars, func(s Scalar) bool { return s.Value == 0 })
}

func (r *Resources) addScalar(name ResourceName, value int64) {
	if len(r.Scalars) > fewScalars {
		if at, listed := r.search(name); listed {
			r.Scalars[at].Value += value
		} else {
			r.Scalars = slices.Insert(r.Scalars, at, Scalar{Name: name, Value: value})
		}
		return
	}
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
	if len(list) > fewScalars {
		r.Scalars = make([]Scalar, 0, len(list))
	}
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
				r.Scalars = append(r.Scalars, Scalar{unique.Make(string(name)), q.Value()})
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
