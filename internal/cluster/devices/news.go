package devices

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/internal/model"
)

// maxNews bounds the objects in News.
const maxNews = 10_000

// News returns the objects that changed since its last call, and the claims whose promise
// was made or ended. An object may be gone. all means that everything may have changed:
// on the first call, and after too many changes. Only one caller may use News; before its
// first call nothing is recorded.
func (s *Store) News() (changed map[model.Ref]struct{}, all bool) {
	changed, all = s.news, s.news == nil
	s.news = map[model.Ref]struct{}{}
	return changed, all
}

// note records a changed object for News.
func (s *Store) note(ref model.Ref) {
	if s.news == nil {
		return
	}
	if s.news[ref] = struct{}{}; len(s.news) > maxNews {
		s.news = nil
	}
}

// Refs yields each claim, class and slice, and each claim with a promise, in no order.
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

// Promised returns a placement's promise to a claim. It is nil without one, and once a
// version of the claim shows the result.
func (s *Store) Promised(key model.ClaimKey) *Promise {
	if c := s.claims[key]; c != nil {
		return c.promise
	}
	return nil
}

// Slice returns a slice with the taints of rules, or nil if it does not exist.
func (s *Store) Slice(name string) *resourcev1.ResourceSlice {
	slice := s.slices[name]
	if slice == nil {
		return nil
	}
	return tainted(slice.Object, s.rulesFor(poolOf(slice)))
}

// AllocatedBy returns the allocation state for the given allocations.
func AllocatedBy(allocations func(yield func(*resourcev1.AllocationResult) bool)) *structured.AllocatedState {
	s := New(nil)
	for a := range allocations {
		s.count(a, +1, nil) // touched is nil: no pool must be updated
	}
	return &s.allocated
}
