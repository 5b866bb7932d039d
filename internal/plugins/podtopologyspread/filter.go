package podtopologyspread

import (
	"fmt"
	"math"

	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

const (
	skewed       = reason.Code(1)
	missingLabel = reason.Unresolvable | 2
)

// Compile prepares the hard constraints.
func (h hard) Compile() plugin.Counting {
	all, err := h.compile()
	return &rules{constraints: all, err: err}
}

// rules are hard constraints, or why they make no sense.
type rules struct {
	constraints
	err     error
	tallies []*state.Tally // by constraint
}

// PreFilter finds the counts of each constraint.
func (r *rules) PreFilter(v state.View) (check bool, rejection string, err error) {
	if r.err != nil {
		return false, "", fmt.Errorf("get constraints from pod: %w", r.err)
	}
	if !r.apply(v) {
		return false, "", nil
	}
	r.tallies = r.tallies[:0]
	for i := range r.list {
		c := &r.list[i]
		t := v.Tally(c.selected.pods, state.TopologyKey{Label: c.key}, c.nodes)
		t.KeepLeast()
		r.tallies = append(r.tallies, t)
	}
	return true, "", nil
}

// Layers gives one rule for each hard constraint.
func (r *rules) Layers(v state.View, to []plugin.Layer) []plugin.Layer {
	for i, t := range r.tallies {
		to = append(to, r.list[i].layer(t, v.Differences(t, nil)))
	}
	return to
}

// Reasons puts a verdict into words.
func (*rules) Reasons(code reason.Code) []string {
	if code == missingLabel {
		return []string{"node(s) didn't match pod topology spread constraints (missing required label)"}
	}
	return []string{"node(s) didn't match pod topology spread constraints"}
}

// layer is the rule that follows from the present counts: a domain may take the pod if that leaves it at most maxSkew above the smallest
// domain.
func (c *constraint) layer(t *state.Tally, differences []state.Difference) plugin.Layer {
	most := int64(c.maxSkew) - int64(c.selected.self) + int64(smallest(t, differences, c.minDomains))
	return plugin.Layer{
		Domains: t.Domains(), Counts: t.Counts(), Differences: differences,
		Min: math.MinInt32, Max: int32(min(most, math.MaxInt32)), Code: skewed, Missing: missingLabel,
	}
}

// smallest returns the count that skew is measured from: that of the smallest domain, or 0 while there are fewer domains than there
// should be. Domains without a node that counts do not exist.
func smallest(t *state.Tally, differences []state.Difference, minDomains int32) int32 {
	if t.Present() == 0 || t.Present() < minDomains {
		return 0
	}
	return t.Least(differences)
}
