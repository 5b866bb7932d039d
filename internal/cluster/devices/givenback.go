package devices

import "github.com/berth-scheduler/berth/internal/model"

// A claim from which a decision takes its allocation or a reservation, or which it
// deletes, is being given back until that write has ended. Until then its devices stay in
// use, and the claim is no allocation and no reservation to any decision.

// GiveBack notes that a write takes something from this version of a claim.
func (s *Store) GiveBack(claim *model.ResourceClaim) {
	c := s.claims[claim.Key]
	if c == nil || c.ResourceClaim == nil || c.Object.UID != claim.Object.UID {
		return
	}
	if c.givingBack == 0 {
		s.givenBack++
	}
	c.givingBack++
}

// EndGiveBack notes the end of a write. A deleted claim is being given back until it is
// gone. It reports whether the last write to the claim has ended.
func (s *Store) EndGiveBack(result *model.WriteResult) (over bool) {
	of := result.Object.(*model.ResourceClaim)
	c := s.claims[of.Key]
	if result.Deleted || c == nil || c.givingBack == 0 || c.Object.UID != of.Object.UID {
		return false
	}
	c.givingBack = max(0, c.givingBack-result.Decisions)
	if c.givingBack == 0 {
		s.givenBack--
	}
	return c.givingBack == 0
}

// IsGivenBack reports whether something is being taken from a claim.
func (s *Store) IsGivenBack(key model.ClaimKey) bool {
	c := s.claims[key]
	return c != nil && c.givingBack > 0
}

// GivenBack returns the number of claims from which something is being taken.
func (s *Store) GivenBack() int { return s.givenBack }

// keepClaim ends the giving back of a claim that is gone: a new claim of its name is not
// affected.
func (s *Store) keepClaim(c *claim) {
	if c.givingBack > 0 {
		c.givingBack = 0
		s.givenBack--
	}
}
