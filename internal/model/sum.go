package model

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/berth-scheduler/berth/internal/model/amount"
)

// Sum is a sum of amounts that supports exact subtraction.
//
// Its Resources saturate at amount.Max. The excess is stored, so that a sum is exact
// again once it is small enough. Only pods that request more than any node has cause an
// excess.
//
// A sum owns its scalars. Copy it with Clone or CopyFrom.
type Sum struct {
	Resources
	// beyond is nil if no amount exceeds amount.Max.
	beyond map[ResourceKey]excess
}

// excess is the 128-bit amount by which a sum exceeds amount.Max. Invariant: it is
// positive.
type excess struct{ high, low uint64 }

// Clone returns a copy with its own memory.
func (s *Sum) Clone() Sum {
	var c Sum
	c.CopyFrom(s)
	return c
}

// CopyFrom makes the sum equal to another, reusing its own memory.
func (s *Sum) CopyFrom(o *Sum) {
	scalars := append(s.Scalars[:0], o.Scalars...)
	s.Resources, s.beyond = o.Resources, maps.Clone(o.beyond)
	s.Scalars = scalars
}

// Equal reports whether both sums are equal, including the excess over amount.Max.
func (s *Sum) Equal(o *Sum) bool {
	return s.Resources.Equal(&o.Resources) && maps.Equal(s.beyond, o.beyond)
}

// Add adds amounts (sign +1), or subtracts amounts that were added before (-1).
func (s *Sum) Add(o *Resources, sign int64) {
	s.CPUMilli = s.plus(ResourceKey{kind: cpuKind}, s.CPUMilli, sign*o.CPUMilli)
	s.MemoryBytes = s.plus(ResourceKey{kind: memoryKind}, s.MemoryBytes, sign*o.MemoryBytes)
	s.EphemeralBytes = s.plus(ResourceKey{kind: ephemeralKind}, s.EphemeralBytes, sign*o.EphemeralBytes)
	if len(o.Scalars) > fewScalars {
		s.addScalars(o.Scalars, sign)
		return
	}
	for _, scalar := range o.Scalars {
		s.addScalar(scalar.Name, sign*scalar.Value)
	}
}

// AddSum adds another sum (+1), or subtracts a sum that was added before (-1).
func (s *Sum) AddSum(o *Sum, sign int64) {
	s.Add(&o.Resources, sign)
	for key, more := range o.beyond {
		at := s.at(key)
		if sign > 0 {
			s.exceed(key, more)
			continue
		}
		*at = s.lower(key, *at, more)
	}
}

// plus returns an amount of the sum with another added to it. Invariant: an amount with
// an excess is amount.Max, so adding to it always overflows.
func (s *Sum) plus(key ResourceKey, have, more int64) int64 {
	sum := have + more
	if s.beyond == nil && (more <= 0 || sum >= have) {
		return sum // almost always
	}
	if more <= 0 {
		return s.lower(key, have, excess{low: uint64(-more)})
	}
	if sum < have {
		s.exceed(key, excess{low: uint64(have) + uint64(more) - amount.Max})
		return amount.Max
	}
	return sum
}

// exceed adds to the excess over amount.Max.
func (s *Sum) exceed(key ResourceKey, more excess) {
	if more == (excess{}) {
		return
	}
	if s.beyond == nil {
		s.beyond = map[ResourceKey]excess{}
	}
	e, carry := s.beyond[key], uint64(0)
	e.low, carry = bits.Add64(e.low, more.low, 0)
	e.high, _ = bits.Add64(e.high, more.high, carry)
	s.beyond[key] = e
}

// lower subtracts from an amount, first from its excess, and returns the result.
func (s *Sum) lower(key ResourceKey, have int64, less excess) int64 {
	e := s.beyond[key]
	low, borrow := bits.Sub64(e.low, less.low, 0)
	high, borrow := bits.Sub64(e.high, less.high, borrow)
	if borrow == 0 && (high != 0 || low != 0) {
		s.beyond[key] = excess{high, low}
		return have
	}
	delete(s.beyond, key)
	if len(s.beyond) == 0 {
		s.beyond = nil
	}
	return have - int64(-low)
}

// at returns a pointer to an amount of the sum.
func (s *Sum) at(key ResourceKey) *int64 {
	switch key.kind {
	case cpuKind:
		return &s.CPUMilli
	case memoryKind:
		return &s.MemoryBytes
	case ephemeralKind:
		return &s.EphemeralBytes
	}
	i, _ := s.indexOf(key.name)
	return &s.Scalars[i].Value
}

// scalarKey is the key of a scalar.
func scalarKey(name ResourceName) ResourceKey { return ResourceKey{scalarKind, name} }

// addScalars adds a long sorted list, in one pass over both lists.
func (s *Sum) addScalars(o []Scalar, sign int64) {
	missing, i := 0, 0
	for _, add := range o {
		for i < len(s.Scalars) && s.Scalars[i].Name != add.Name && s.Scalars[i].Name.Value() < add.Name.Value() {
			i++
		}
		if i < len(s.Scalars) && s.Scalars[i].Name == add.Name {
			s.Scalars[i].Value = s.plus(scalarKey(add.Name), s.Scalars[i].Value, sign*add.Value)
		} else {
			missing++
		}
	}
	if missing > 0 {
		s.insertScalars(o, sign, missing)
	}
}

// insertScalars inserts the elements of a sorted list that the sum does not list. It
// merges from the end, so that each element moves once.
func (s *Sum) insertScalars(o []Scalar, sign int64, missing int) {
	i := len(s.Scalars) - 1
	s.Scalars = append(s.Scalars, make([]Scalar, missing)...)
	for j, to := len(o)-1, len(s.Scalars)-1; j >= 0; to-- {
		switch {
		case i < 0 || s.Scalars[i].Name != o[j].Name && s.Scalars[i].Name.Value() < o[j].Name.Value():
			s.Scalars[to] = Scalar{o[j].Name, sign * o[j].Value}
			j--
		case s.Scalars[i].Name == o[j].Name:
			s.Scalars[to] = s.Scalars[i]
			i, j = i-1, j-1
		default:
			s.Scalars[to] = s.Scalars[i]
			i--
		}
	}
}

// DropZeros removes scalars of amount 0, which would otherwise stay listed for ever.
func (s *Sum) DropZeros() {
	s.Scalars = slices.DeleteFunc(s.Scalars, func(scalar Scalar) bool { return scalar.Value == 0 })
}

func (s *Sum) addScalar(name ResourceName, value int64) {
	if len(s.Scalars) > fewScalars {
		if at, listed := s.search(name); listed {
			s.Scalars[at].Value = s.plus(scalarKey(name), s.Scalars[at].Value, value)
		} else {
			s.Scalars = slices.Insert(s.Scalars, at, Scalar{Name: name, Value: value})
		}
		return
	}
	at := len(s.Scalars)
	for i := range s.Scalars {
		switch have := s.Scalars[i].Name; {
		case have == name:
			s.Scalars[i].Value = s.plus(scalarKey(name), s.Scalars[i].Value, value)
			return
		case have.Value() > name.Value() && at == len(s.Scalars):
			at = i
		}
	}
	s.Scalars = append(s.Scalars, Scalar{})
	copy(s.Scalars[at+1:], s.Scalars[at:])
	s.Scalars[at] = Scalar{Name: name, Value: value}
}
