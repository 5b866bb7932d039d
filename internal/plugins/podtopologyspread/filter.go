package podtopologyspread

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugins/compiled"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

const (
	skewed       = reason.Code(1)
	missingLabel = reason.Unresolvable | 2
)

// CompileLayers prepares the hard constraints.
func (p *Plugin) CompileLayers(pod *model.Pod) compiled.Layers {
	all, err := p.compile(pod, v1.DoNotSchedule, true)
	return &layers{constraints: all, err: err}
}

// layers are hard constraints, or why they make no sense.
type layers struct {
	constraints
	err error
}

// Layers gives one rule for each hard constraint.
func (l *layers) Layers(s *state.State, to []compiled.Layer) ([]compiled.Layer, string, error) {
	if l.err != nil {
		return to, "", fmt.Errorf("get constraints from pod: %w", l.err)
	}
	if !l.apply(s) {
		return to, "", nil
	}
	for i := range l.list {
		to = append(to, l.list[i].layer(s))
	}
	return to, "", nil
}

// Reasons puts a verdict into words.
func (*layers) Reasons(code reason.Code) []string {
	if code == missingLabel {
		return []string{"node(s) didn't match pod topology spread constraints (missing required label)"}
	}
	return []string{"node(s) didn't match pod topology spread constraints"}
}

// layer is the rule that follows from the present counts: a domain may take the pod if that leaves it at most maxSkew above the smallest
// domain. Where nothing is counted, a maxSkew of 1, which is the least there is, has room for the pod itself.
func (c *constraint) layer(s *state.State) compiled.Layer {
	key := state.TopologyKey{Label: c.key}
	if c.selected.none {
		if c.selected.everything {
			if layer, ok := c.layerOfTrial(s); ok {
				return layer
			}
		}
		return compiled.Layer{Domains: s.Domains(key), Max: math.MaxInt32, Code: skewed, Missing: missingLabel}
	}
	t := s.Tally(c.selected.pods, key, c.nodes)
	most := int64(c.maxSkew) - int64(c.selected.self) + int64(smallest(t, c.minDomains))
	return compiled.Layer{
		Domains: t.Domains(), Counts: t.Counts(), Max: int32(min(most, math.MaxInt32)), Code: skewed, Missing: missingLabel,
	}
}

// layerOfTrial is the rule of a constraint that selects everything, which is defined to count 0, while something is tried: pods that are
// tried are counted all the same, as in kube-scheduler. ok is false when none are.
func (c *constraint) layerOfTrial(s *state.State) (layer compiled.Layer, ok bool) {
	trial, key := s.Trial(), state.TopologyKey{Label: c.key}
	tried := int32(0)
	for _, pod := range trial.Pods {
		if pod.Namespace == c.selected.pods.Terms[0].Namespaces[0] {
			tried++
		}
	}
	domain := int32(-1)
	if tried > 0 {
		domain = s.Domains(key)[trial.Slot]
	}
	if domain < 0 {
		return layer, false
	}
	t := s.Tally(c.selected.pods, key, c.nodes)
	if !t.Counted(trial.Slot) {
		return layer, false
	}
	counts := make([]int32, domain+1)
	counts[domain] = tried
	domains := int32(0)
	for _, members := range t.Members() {
		if members > 0 {
			domains++
		}
	}
	least := int32(0)
	if domains == 1 && c.minDomains <= 1 {
		least = tried
	}
	most := int64(c.maxSkew) - int64(c.selected.self) + int64(least)
	return compiled.Layer{
		Domains: t.Domains(), Counts: counts, Max: int32(min(most, math.MaxInt32)), Code: skewed, Missing: missingLabel,
	}, true
}

// smallest returns the count that skew is measured from: that of the smallest domain, or 0 while there are fewer domains than there
// should be. Domains without a node that counts do not exist.
func smallest(t *state.Tally, minDomains int32) int32 {
	counts, members := t.Counts(), t.Members()
	members = members[:len(counts)]
	least := int32(math.MaxInt32)
	var domains int32
	for domain, count := range counts {
		if members[domain] == 0 {
			continue
		}
		if count == 0 {
			return 0
		}
		domains++
		least = min(least, count)
	}
	if domains == 0 || domains < minDomains {
		return 0
	}
	return least
}
