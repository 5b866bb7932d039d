package devices

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/internal/model"
)

// newsMax is how many objects News names at most.
const newsMax = 10_000

// News returns the objects that have changed since it was asked last, and the claims that were promised something or no longer are; one may be gone. All may
// have changed when it is asked for the first time, or after very long. There is one who asks, and nothing is noted for nobody.
func (s *Store) News() (changed map[model.Ref]struct{}, all bool) {
	changed, all = s.news, s.news == nil
	s.news = map[model.Ref]struct{}{}
	return changed, all
}

// note notes for News that an object has changed.
func (s *Store) note(ref model.Ref) {
	if s.news == nil {
		return
	}
	if s.news[ref] = struct{}{}; len(s.news) > newsMax {
		s.news = nil
	}
}

// Refs calls yield with each claim, class and slice, and with each claim that is promised something, in no order.
func (s *Store) Refs(yield func(model.Ref) bool) {
	for key := range s.claims {
		if !yield(key.DeviceRef()) {
			return
		}
	}
	for name := range s.classes {
		if !yield(model.Ref{Kind: model.DeviceClassKind, Name: name}) {
			return
		}
	}
	for name := range s.slices {
		if !yield(model.Ref{Kind: model.ResourceSliceKind, Name: name}) {
			return
		}
	}
}

// Promised returns what a placement has promised to a claim, nil if nothing or if a version of the claim shows what came of it.
func (s *Store) Promised(key model.ClaimKey) *Promise {
	if c := s.claims[key]; c != nil {
		return c.promise
	}
	return nil
}

// Slice returns a slice with the taints of rules, nil if it does not exist.
func (s *Store) Slice(name string) *resourcev1.ResourceSlice {
	slice := s.slices[name]
	if slice == nil {
		return nil
	}
	return tainted(slice.Object, s.rulesFor(poolOf(slice)))
}

// AllocatedBy returns what is allocated if these are all allocations.
func AllocatedBy(allocations func(yield func(*resourcev1.AllocationResult) bool)) *structured.AllocatedState {
	s := New(nil)
	for a := range allocations {
		s.count(a, +1, nil) // of no pool, so none is touched
	}
	return &s.allocated
}
