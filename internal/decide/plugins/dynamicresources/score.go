package dynamicresources

import (
	"errors"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// ScoreReads returns the same aspects as the filter: both find the same devices.
func (p *Plugin) ScoreReads() model.Aspect { return reads }

// Normalization gives the best node a score of 100.
func (*Plugin) Normalization() model.Normalization { return model.Largest }

// ScoreNeedIn returns the demands of the pod's claims without an allocation. It is nil
// unless a request of the pod's claims has alternatives.
func (p *Plugin) ScoreNeedIn(v state.View, pod *model.Pod) (plugin.ScoreNeed, error) {
	if pod.Devices == nil {
		return nil, nil
	}
	d, err := p.demandsOf(v, pod)
	if d == nil || err != nil || len(d.find) == 0 && d.extended == nil {
		return nil, err
	}
	need := scoreNeed{demands: d}
	alternatives := false
	for _, claim := range d.given { // a constant for all nodes; it affects normalization
		need.base += ratingOf(claim.Object, claim.Allocation())
	}
	for _, claim := range d.find {
		for i := range claim.Object.Spec.Devices.Requests {
			alternatives = alternatives || len(claim.Object.Spec.Devices.Requests[i].FirstAvailable) > 0
		}
	}
	if !alternatives && need.base == 0 {
		return nil, nil
	}
	return need, nil
}

// scoreNeed is the need for scores.
type scoreNeed struct {
	*demands
	// base is the rating of existing allocations.
	base int32
}

func (n scoreNeed) AppendText(text []byte) []byte {
	return n.appendText(append(text, 'b', byte(n.base>>8), byte(n.base)))
}

func (n scoreNeed) Compile() (plugin.NodeScores, error) {
	s := &scores{n.compile(), n.base}
	return plugin.NodeScores{RawScores: s, Following: s, Costly: s.searches()}, nil
}

type scores struct {
	*finder
	base int32
}

// Score rates the alternatives that the pod's claims would get on the node.
func (s *scores) Score(node state.Node) int32 {
	switch a := s.allocate(node); {
	case errors.Is(a.err, plugin.ErrUnfinished):
		return plugin.Unasked
	case a.gives:
		return s.base + a.rating
	}
	return 0
}
