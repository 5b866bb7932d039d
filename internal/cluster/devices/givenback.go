package devices

import "github.com/berth-scheduler/berth/internal/model"

// A decision can release a claim: remove its allocation or a reservation, or delete it.
// Until that write has ended, the devices stay in use, and no decision may use the
// claim's allocation or reservation.

// GiveBack records that a write releases this version of a claim.
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

// EndGiveBack records the end of a write. A claim that is being deleted counts as being
// released until it is gone. EndGiveBack reports whether the last write to the claim has
// ended.
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

// IsGivenBack reports whether a claim is being released.
func (s *Store) IsGivenBack(key model.ClaimKey) bool {
	c := s.claims[key]
	return c != nil && c.givingBack > 0
}

// GivenBack returns the number of claims that are being released.
func (s *Store) GivenBack() int { return s.givenBack }

// keepClaim ends the release of a deleted claim, so that a new claim of the name is not
// affected.
func (s *Store) keepClaim(c *claim) {
	if c.givingBack > 0 {
		c.givingBack = 0
		s.givenBack--
	}
}
