package podtopologyspread

import (
	"fmt"
	"math"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
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

// rules are compiled hard constraints, or the error that makes them invalid.
type rules struct {
	constraints
	err    error
	counts []counted // by constraint
}

// counted is a tally with its counts by domain.
type counted struct {
	*state.Tally
	counts []int32
}

// PreFilter finds the counts of each constraint.
func (r *rules) PreFilter(v state.View) (check bool, rejection string, err error) {
	if r.err != nil {
		return false, "", fmt.Errorf("get constraints from pod: %w", r.err)
	}
	if !r.apply(v) {
		return false, "", nil
	}
	r.counts = r.counts[:0]
	if r.anyAbsent(v) {
		r.countNothing(v)
		return true, "", nil
	}
	for i := range r.list {
		c := &r.list[i]
		t := v.Tally(c.selected.pods, state.TopologyKey{Label: c.key}, c.nodes)
		v.KeepLeast(t)
		r.counts = append(r.counts, counted{t, v.Expanded(t)})
	}
	return true, "", nil
}

// countNothing sets all counts to zero, if no node has the key of some constraint. The
// first such constraint rejects every node, so later constraints do not matter.
func (r *rules) countNothing(v state.View) {
	for i := range r.list {
		c := &r.list[i]
		r.counts = append(r.counts, counted{v.None(state.TopologyKey{Label: c.key}), nil})
		if c.isAbsent(v) {
			return
		}
	}
}

// Rules returns a rule for each hard constraint with an effect.
func (r *rules) Rules(v state.View, to []plugin.CountRule) []plugin.CountRule {
	for i, t := range r.counts {
		to = append(to, r.list[i].rule(t, v.Differences(t.Tally, nil)))
	}
	return to
}

// AppendVersions appends the version of each constraint's tally.
func (r *rules) AppendVersions(to []uint64) []uint64 {
	for i := range r.counts {
		to = append(to, r.counts[i].Version())
	}
	return to
}

// Reasons returns kube-scheduler's message for a code.
func (*rules) Reasons(code reason.Code) []string {
	if code == missingLabel {
		return []string{"node(s) didn't match pod topology spread constraints (missing required label)"}
	}
	return []string{"node(s) didn't match pod topology spread constraints"}
}

// rule returns the constraint's rule for the present counts. A domain is allowed if one
// more pod leaves it at most maxSkew above the smallest domain.
func (c *constraint) rule(t counted, differences []state.Difference) plugin.CountRule {
	most := int64(c.maxSkew) - int64(c.selected.self) + int64(smallest(t.Tally, differences, c.minDomains))
	return plugin.CountRule{
		Domains: t.Domains(), Counts: t.counts, Differences: differences,
		Min: math.MinInt32, Max: int32(min(most, math.MaxInt32)), Code: skewed, Missing: missingLabel,
		Layout: t.Layout(), Counted: t.Counted(),
	}
}

// smallest returns the count that skew is measured from: the count of the smallest
// domain, or 0 with fewer than minDomains domains. Domains without a node that counts do
// not exist.
func smallest(t *state.Tally, differences []state.Difference, minDomains int32) int32 {
	if t.Present() == 0 || t.Present() < minDomains {
		return 0
	}
	return t.Least(differences)
}
