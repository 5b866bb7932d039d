package interpodaffinity

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// SetNeed returns the pod's namespace, labels and preferred terms. It is nil for pods
// without preferred terms if the arguments exclude them.
func (p *Plugin) SetNeed(pod *model.Pod) plugin.SetNeed {
	if p.ignorePreferred && !slices.ContainsFunc(pod.Terms, isPreferred) {
		return nil
	}
	return &preferred{need: p.need(pod, model.PreferredAffinity, model.PreferredAntiAffinity)}
}

func isPreferred(ref model.TermRef) bool {
	return ref.Kind == model.PreferredAffinity || ref.Kind == model.PreferredAntiAffinity
}

// Compile prepares the pod's preferred terms. It fails if any of its terms is malformed;
// the filter, unless disabled, rejects such a pod earlier.
func (n *preferred) Compile() (plugin.SetScores, error) {
	if n.err != nil {
		return nil, fmt.Errorf("failed to parse pod: %w", n.err)
	}
	c := &set{pod: likeness(n.pod), hardWeight: n.plugin.hardWeight}
	if n.isLong() {
		n.Prepare()
		c.long = n.prepared
		return c, nil
	}
	for ref := range n.terms {
		selected, err := n.plugin.selectionOf(n.pod, ref)
		if err != nil {
			return nil, err
		}
		of := c.under(selected.key)
		of.own = append(of.own, ownTerm{selected, weightOf(ref.Kind, ref.Weight)})
	}
	return c, nil
}

// Prepare compiles many terms, which are weighed together by topology key.
func (n *preferred) Prepare() {
	if n.prepared != nil || n.err != nil || !n.isLong() {
		return
	}
	byKey := map[string]*state.Matcher{}
	for ref := range n.terms {
		term, err := n.plugin.terms.parse(n.pod.Namespace, ref)
		if err != nil {
			continue // unreachable: every term could be parsed
		}
		m := byKey[term.Key]
		if m == nil {
			m = state.NewMatcher()
			byKey[term.Key] = m
			n.prepared = append(n.prepared, longTerms{state.TopologyKey{Label: term.Key}, m})
		}
		m.Add(term, state.EffectOf(ref.Kind, ref.Weight))
	}
}

// weightOf returns the weight that a preferred term adds for each selected pod.
func weightOf(kind model.TermKind, weight int32) int64 {
	if kind == model.PreferredAntiAffinity {
		return -int64(weight)
	}
	return int64(weight)
}

// set scores by a pod's preferred terms and by the terms of other pods that select it.
type set struct {
	pod        model.Pod // stands for the pod; equal for all terms
	hardWeight int64
	byKey      []relations
	long       []longTerms // instead of own terms in byKey; read-only
	version    uint64      // TermsVersion of theirs, plus one
	shares     shares
}

// relations are the terms of one topology key between the pod and placed pods.
type relations struct {
	key    state.TopologyKey
	own    []ownTerm
	theirs []theirTerm
}

// longTerms are many preferred terms of one topology key.
type longTerms struct {
	key     state.TopologyKey
	matcher *state.Matcher
}

type ownTerm struct {
	selection
	weight int64
}

type theirTerm struct {
	*state.TermCounts
	weight int64
}

// under returns the relations for a key.
func (c *set) under(key state.TopologyKey) *relations {
	i := slices.IndexFunc(c.byKey, func(r relations) bool { return r.key == key })
	if i < 0 {
		i = len(c.byKey)
		c.byKey = append(c.byKey, relations{key: key})
	}
	return &c.byKey[i]
}

// Score adds up the weights of the terms between the pod and the pods in each node's
// domains, and scales the sums to 0..100. It returns false if no term applies.
func (c *set) Score(v state.View, slots []int32, scores []int64) (bool, error) {
	c.catchUp(v)
	clear(scores)
	related := false
	for i := range c.byKey {
		if sums := c.byKey[i].sums(v); sums != nil {
			related = true
			add(scores, slots, v.Domains(c.byKey[i].key), sums)
		}
	}
	for i := range c.long {
		related = c.long[i].add(v, slots, scores) || related
	}
	if c.addTermsOfView(v, slots, scores) {
		related = true
	}
	if related {
		c.shares.stretch(scores)
	}
	return related, nil
}

// add adds the weights of the terms to the scores. It returns false if they select no
// pod.
func (l *longTerms) add(v state.View, slots []int32, scores []int64) bool {
	w := v.Weigh(l.matcher, l.key.Label)
	if w == nil {
		return false
	}
	var sums []int64
	if !v.AddWeighed(w, func() []int64 { sums = v.Sums(l.key); return sums }) {
		return false
	}
	add(scores, slots, w.Domains(), sums)
	return true
}

// Axes returns an axis for each topology key of a term between the pod and others: nodes
// in one domain score alike. Few nodes are alike if each is a domain of its own.
func (c *set) Axes(v state.View, to []plugin.Axis) ([]plugin.Axis, bool) {
	c.catchUp(v)
	for i := range c.byKey {
		if r := &c.byKey[i]; r.isRelated(v) {
			to = append(to, plugin.Axis{Domains: v.Domains(r.key), ByDomain: true, Layout: v.Layout(r.key)})
		}
	}
	for _, l := range c.long {
		if w := v.Weigh(l.matcher, l.key.Label); w != nil && v.IsRelated(w) {
			to = append(to, plugin.Axis{Domains: w.Domains(), ByDomain: true, Layout: w.Layout()})
		}
	}
	return to, !c.addTermsOfView(v, nil, nil)
}

// isRelated reports whether sums would return any.
func (r *relations) isRelated(v state.View) bool {
	for i := range r.own {
		if there := r.own[i].tally(v); there.TotalWith(v.Differences(there, nil)) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(r.theirs, func(t theirTerm) bool { return t.TotalWith(v.TermDifference(t.TermCounts)) > 0 })
}

// ScoreAlike is Score: the number of alike nodes does not matter.
func (c *set) ScoreAlike(v state.View, slots []int32, _ []int, scores []int64) (bool, error) {
	return c.Score(v, slots, scores)
}

// catchUp refreshes the terms that select the pod, if they may have changed.
func (c *set) catchUp(v state.View) {
	version := v.TermsVersion() + 1
	if c.version == version {
		return
	}
	c.version = version
	for i := range c.byKey {
		c.byKey[i].theirs = c.byKey[i].theirs[:0]
	}
	for _, t := range v.TermsMatching(&c.pod) {
		if weight, counts := c.weightOfTheirs(&t.Effect); counts {
			of := c.under(state.TopologyKey{Label: t.Key()})
			of.theirs = append(of.theirs, theirTerm{t.TermCounts, weight})
		}
	}
}

// weightOfTheirs returns the weight that a placed pod's terms add to its domain. counts
// is false if terms of their kinds add nothing.
func (c *set) weightOfTheirs(t *state.Effect) (weight int64, counts bool) {
	return t.Weights + c.hardWeight*int64(t.Near), t.Preferred > 0 || t.Near > 0 && c.hardWeight > 0
}

// sums adds up weights by domain. It is nil if no term of the state's pods relates the
// pod to a pod of the view. That differs from weights with the sum 0.
func (r *relations) sums(v state.View) []int64 {
	var sums []int64
	some := func() {
		if sums == nil {
			sums = v.Sums(r.key)
		}
	}
	for i := range r.own {
		term := &r.own[i]
		there := term.tally(v)
		differences := v.Differences(there, nil)
		if there.TotalWith(differences) <= 0 {
			continue
		}
		some()
		there.AddTo(sums, term.weight)
		weighDifferences(sums, differences, term.weight)
	}
	for _, term := range r.theirs {
		differences := v.TermDifference(term.TermCounts)
		if term.TotalWith(differences) <= 0 {
			continue
		}
		some()
		weighDifferences(sums, differences, term.weight)
		term.AddTo(sums, term.weight)
	}
	return sums
}

// addTermsOfView adds the terms of pods that are in the view but not in the state. It
// reports whether any exist.
func (c *set) addTermsOfView(v state.View, slots []int32, scores []int64) (some bool) {
	v.TermDifferences(&c.pod, func(t state.Matching, differences []state.Difference) {
		weight, counts := c.weightOfTheirs(&t.Effect)
		if !counts || t.InState() || t.TotalWith(differences) <= 0 {
			return
		}
		some = true
		for at, slot := range slots {
			for _, d := range differences {
				if t.Domains()[slot] == d.Domain {
					scores[at] += weight * int64(d.Pods)
				}
			}
		}
	})
	return some
}

func weighDifferences(sums []int64, differences []state.Difference, weight int64) {
	for _, d := range differences {
		sums[d.Domain] += weight * int64(d.Pods)
	}
}

// add adds to each slot the sum of its domain.
func add(scores []int64, slots, domains []int32, sums []int64) {
	scores = scores[:len(slots)]
	for at, slot := range slots {
		if domain := domains[slot]; domain >= 0 {
			scores[at] += sums[domain]
		}
	}
}

// shares are the scaled scores, by raw score above the lowest, for the last span.
type shares struct {
	span  int64
	table []uint8
}

// tabulated is the span up to which a table is cheaper than a division for each node.
const tabulated = 1024

// stretch scales scores so that the lowest is 0 and the highest 100.
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

// share divides first, then multiplies, then truncates, as kube-scheduler does: 29 of 100
// is 28.
func share(above, span int64) int64 {
	return int64(plugin.MaxScore * float64(float64(above)/float64(span)))
}
