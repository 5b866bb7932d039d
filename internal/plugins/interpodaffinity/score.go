package interpodaffinity

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugins/compiled"
	"github.com/berth-scheduler/berth/internal/state"
)

const maxScore = 100

// ScoreNeed is the pod's namespace and labels, and its preferred terms. It is zero when the arguments leave pods without preferred terms
// alone.
func (p *Plugin) ScoreNeed(pod *model.Pod) model.Need {
	if p.ignorePreferred && !slices.ContainsFunc(pod.Terms, isPreferred) {
		return model.Need{}
	}
	if err := p.check(pod); err != nil {
		return model.NeedOf("error " + err.Error())
	}
	return model.NeedOf(needText(pod, model.PreferredAffinity, model.PreferredAntiAffinity))
}

func isPreferred(ref model.TermRef) bool {
	return ref.Kind == model.PreferredAffinity || ref.Kind == model.PreferredAntiAffinity
}

// CompileSet prepares the pod's preferred terms. It fails when any of its terms cannot be parsed, which the filter finds first unless it is
// disabled.
func (p *Plugin) CompileSet(pod *model.Pod) (compiled.Set, error) {
	if err := p.check(pod); err != nil {
		return nil, fmt.Errorf("failed to parse pod: %w", err)
	}
	c := &set{pod: likeness(pod), hardWeight: p.hardWeight}
	for i := range pod.Terms {
		ref := &pod.Terms[i]
		if !isPreferred(*ref) {
			continue
		}
		selected, err := p.selectionOf(pod, ref)
		if err != nil {
			return nil, err
		}
		of := c.under(selected.key)
		of.own = append(of.own, ownTerm{selected, weightOf(ref.Kind, ref.Weight)})
	}
	return c, nil
}

// weightOf returns what a preferred term adds for each pod that it relates.
func weightOf(kind model.TermKind, weight int32) int64 {
	if kind == model.PreferredAntiAffinity {
		return -int64(weight)
	}
	return int64(weight)
}

// set scores by a pod's preferred terms and by the groups of others' terms that select it.
type set struct {
	pod        *model.Pod // its likeness
	hardWeight int64
	byKey      []relations
	version    uint64 // of the state's groups plus one, for which theirs are true
	shares     shares
}

// relations are the terms of one topology key that relate the pod to pods on nodes.
type relations struct {
	key    state.TopologyKey
	own    []ownTerm
	theirs []theirTerm
}

type ownTerm struct {
	selection
	weight int64
}

type theirTerm struct {
	*state.Group
	weight int64
}

// under returns the relations of a key.
func (c *set) under(key state.TopologyKey) *relations {
	i := slices.IndexFunc(c.byKey, func(r relations) bool { return r.key == key })
	if i < 0 {
		i = len(c.byKey)
		c.byKey = append(c.byKey, relations{key: key})
	}
	return &c.byKey[i]
}

// Score adds up the weights of the terms that relate the pod to the pods around each node, and stretches the sums to 0..100. It has no
// say when nothing relates them.
func (c *set) Score(s *state.State, slots []int32, scores []int64) (bool, error) {
	c.catchUp(s)
	clear(scores)
	related := false
	for i := range c.byKey {
		if sums := c.byKey[i].sums(s); sums != nil {
			related = true
			add(scores, slots, s.Domains(c.byKey[i].key), sums)
		}
	}
	if related {
		c.shares.stretch(scores)
	}
	return related, nil
}

// catchUp looks again for the terms that select the pod, if they may have changed.
func (c *set) catchUp(s *state.State) {
	version := s.GroupsVersion() + 1
	if c.version == version {
		return
	}
	c.version = version
	for i := range c.byKey {
		c.byKey[i].theirs = c.byKey[i].theirs[:0]
	}
	for _, g := range s.GroupsMatching(c.pod) {
		weight, counts := weightOf(g.Kind, g.Weight), true
		switch g.Kind {
		case model.RequiredAffinity:
			weight, counts = c.hardWeight, c.hardWeight > 0
		case model.RequiredAntiAffinity:
			counts = false
		}
		if counts {
			of := c.under(state.TopologyKey{Label: g.Term.Key})
			of.theirs = append(of.theirs, theirTerm{g, weight})
		}
	}
}

// sums adds up weights by domain. It is nil when no pod is related: that differs from weights that cancel out.
func (r *relations) sums(s *state.State) []int64 {
	var sums []int64
	for i := range r.own {
		term := &r.own[i]
		if there := term.tally(s); there.Total() > 0 {
			if sums == nil {
				sums = s.Sums(r.key)
			}
			weigh(sums, there.Counts(), term.weight)
		}
	}
	for _, term := range r.theirs {
		if !term.CarriedSomewhere() {
			continue
		}
		if sums == nil {
			sums = s.Sums(r.key)
		}
		if counts := term.Counts(); counts != nil {
			weigh(sums, counts, term.weight)
			continue
		}
		term.Carriers(func(domain, pods int32) { sums[domain] += term.weight * int64(pods) })
	}
	return sums
}

func weigh(sums []int64, counts []int32, weight int64) {
	sums = sums[:len(counts)]
	for domain, count := range counts {
		sums[domain] += weight * int64(count)
	}
}

// add gives each slot what its domain has.
func add(scores []int64, slots, domains []int32, sums []int64) {
	scores = scores[:len(slots)]
	for at, slot := range slots {
		if domain := domains[slot]; domain >= 0 {
			scores[at] += sums[domain]
		}
	}
}

// shares are the stretched scores by raw score above the lowest, for the last span between lowest and highest.
type shares struct {
	span  int64
	table []uint8
}

// tabulated is up to which span a table is cheaper than a division for each node.
const tabulated = 1024

// stretch puts the lowest score at 0 and the highest at 100.
func (t *shares) stretch(scores []int64) {
	low, high := scores[0], scores[0]
	for _, score := range scores {
		low, high = min(low, score), max(high, score)
	}
	span := high - low
	if span == 0 {
		clear(scores)
		return
	}
	if span > tabulated || span > int64(len(scores)) && span != t.span {
		for at, score := range scores {
			scores[at] = share(score-low, span)
		}
		return
	}
	t.tabulate(span)
	table := t.table
	for at, score := range scores {
		scores[at] = int64(table[score-low])
	}
}

func (t *shares) tabulate(span int64) {
	if t.span == span {
		return
	}
	t.span, t.table = span, t.table[:0]
	for above := range span + 1 {
		t.table = append(t.table, uint8(share(above, span)))
	}
}

// share divides first, then multiplies, then truncates, as kube-scheduler does: 29 of 100 is 28.
func share(above, span int64) int64 {
	return int64(maxScore * float64(float64(above)/float64(span)))
}
