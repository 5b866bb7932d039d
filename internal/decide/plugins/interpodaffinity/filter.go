package interpodaffinity

import (
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

const (
	farFromWanted = reason.Unresolvable | 1
	nearUnwanted  = reason.Code(2)
	unwanted      = reason.Code(3)
)

// CountNeed returns the pod's namespace, labels and required terms. The anti-affinity of
// other pods may select it by namespace and labels, so the need is never nil: the pod
// alone does not show the terms of placed pods.
func (p *Plugin) CountNeed(pod *model.Pod) plugin.CountNeed {
	return &required{need: p.need(pod, model.RequiredAffinity, model.RequiredAntiAffinity)}
}

// demanded are a pod's required terms, compiled. They are read-only.
type demanded struct {
	// wanted are the pods that all affinity terms select. Each key requires such a pod in
	// the node's domain. wanted is empty without keys.
	wanted state.PodSet
	keys   []state.TopologyKey
	// unwanted are the pods of each anti-affinity term.
	unwanted []selection
}

// Prepare compiles the terms.
func (n *required) Prepare() {
	if n.prepared != nil || n.err != nil {
		return
	}
	d := &demanded{}
	n.prepared = d
	var texts []string // of the affinity terms
	keys := map[state.TopologyKey]bool{}
	for ref := range n.terms {
		selected, err := n.plugin.selectionOf(n.pod, ref)
		if err != nil {
			continue // unreachable: every term could be parsed
		}
		if ref.Kind == model.RequiredAntiAffinity {
			d.unwanted = append(d.unwanted, selected)
			continue
		}
		d.wanted.Terms = append(d.wanted.Terms, selected.pods.Terms...)
		texts = append(texts, selected.pods.Text)
		if !keys[selected.key] {
			keys[selected.key] = true
			d.keys = append(d.keys, selected.key)
		}
	}
	slices.Sort(texts)
	d.wanted.Text = strings.Join(slices.Compact(texts), "")
	if len(d.wanted.Terms) > few {
		d.wanted.Matcher = state.NewMatcher()
		for _, term := range d.wanted.Terms {
			d.wanted.Matcher.Add(term, state.EffectOf(model.RequiredAffinity, 0))
		}
		d.wanted.Terms = d.wanted.Terms[:1:1]
	}
	if len(d.unwanted) > few {
		d.unwanted = together(d.unwanted)
	}
}

// Compile returns the rules of the pod's required terms.
func (n *required) Compile() plugin.Counting {
	if n.err != nil {
		return &rules{rejection: "parsing pod: " + n.err.Error()}
	}
	n.Prepare()
	return &rules{pod: likeness(n.pod), demanded: *n.prepared}
}

// together merges the terms of each topology key. A domain with a pod that any of them
// selects is infeasible, whichever term it is.
func together(terms []selection) []selection {
	byKey := map[state.TopologyKey][]selection{}
	var keys []state.TopologyKey
	for _, term := range terms {
		if byKey[term.key] == nil {
			keys = append(keys, term.key)
		}
		byKey[term.key] = append(byKey[term.key], term)
	}
	all := make([]selection, 0, len(keys))
	for _, key := range keys {
		all = append(all, selection{pods: anyOf(byKey[key]), key: key})
	}
	return all
}

// anyOf returns the pods that at least one term selects.
func anyOf(terms []selection) state.PodSet {
	if len(terms) == 1 {
		return terms[0].pods
	}
	texts := make([]string, 0, len(terms))
	m := state.NewMatcher()
	for i := range terms {
		texts = append(texts, terms[i].pods.Text)
		m.Add(terms[i].pods.Terms[0], state.EffectOf(model.RequiredAntiAffinity, 0))
	}
	slices.Sort(texts)
	every := &model.Term{NamespaceSelector: labels.Everything(), Selector: labels.Everything()}
	return state.PodSet{Text: "any of" + strings.Join(texts, ""), Terms: []*model.Term{every}, Matcher: m, Any: true}
}

// rules are a pod's required terms, and other pods' anti-affinity terms that select it.
type rules struct {
	rejection string
	pod       model.Pod // stands for the pod; equal for all terms
	demanded

	version uint64 // TermsVersion of the fields below, plus one
	// first means that the affinity terms select the pod itself. If they select no placed
	// pod, this pod may be the first.
	first bool
	// repelling are the anti-affinity terms of placed pods that select the pod, by
	// topology key.
	repelling [][]*state.TermCounts

	found
}

// found are the counts that PreFilter found.
type found struct {
	wantedBy   []counted // by key
	unwantedBy []counted // by anti-affinity term
	repelled   []repelled
}

// counted is a tally with its counts by domain.
type counted struct {
	*state.Tally
	counts []int32
}

func count(v state.View, t *state.Tally) counted { return counted{t, v.Expanded(t)} }

// repelled counts the pods whose anti-affinity selects this pod, by the domains of a key.
type repelled struct {
	key     string
	domains []int32
	counts  []int32
	layout  state.Layout
}

// PreFilter finds the counts that the rules use. It has nothing to check for a pod
// without required terms that no pod repels.
func (r *rules) PreFilter(v state.View) (check bool, rejection string, err error) {
	if r.rejection != "" {
		return false, r.rejection, nil
	}
	r.catchUp(v)
	f := found{r.wantedBy[:0], r.unwantedBy[:0], r.repelled[:0]}
	if absent := slices.IndexFunc(r.keys, func(key state.TopologyKey) bool { return !isCarried(v, key) }); absent >= 0 {
		// Rejects every node
		f.wantedBy = append(f.wantedBy, count(v, v.None(r.keys[absent])))
	} else {
		for _, key := range r.keys {
			f.wantedBy = append(f.wantedBy, count(v, v.Tally(r.wanted, key, state.NodeSet{})))
		}
	}
	for i := range r.unwanted {
		if isCarried(v, r.unwanted[i].key) {
			f.unwantedBy = append(f.unwantedBy, count(v, r.unwanted[i].tally(v)))
		}
	}
	for _, terms := range r.repelling {
		if slices.ContainsFunc(terms, carried) {
			f.repelled = append(f.repelled, repelled{terms[0].Key(), terms[0].Domains(), v.State().SumCarriers(terms), terms[0].Layout()})
		}
	}
	r.found = f
	return len(r.keys) > 0 || len(r.unwanted) > 0 || r.repelledIn(v), "", nil
}

func carried(t *state.TermCounts) bool { return t.Total() > 0 }

// isCarried reports whether some node has a topology key.
func isCarried(v state.View, key state.TopologyKey) bool {
	return key.Label == "" || v.Carried(key.Label)
}

// repelledIn reports whether the view has a pod whose anti-affinity selects this pod, on
// a node with the term's topology key.
func (r *rules) repelledIn(v state.View) bool {
	for _, terms := range r.repelling {
		if slices.ContainsFunc(terms, func(t *state.TermCounts) bool { return t.TotalWith(v.TermDifference(t)) > 0 }) {
			return true
		}
	}
	only := false
	v.TermDifferences(&r.pod, func(t state.Matching, differences []state.Difference) {
		only = only || t.Repelling > 0 && !t.InState() && t.TotalWith(differences) > 0
	})
	return only
}

// catchUp refreshes the terms that select the pod, if they may have changed.
func (r *rules) catchUp(v state.View) {
	version := v.TermsVersion() + 1
	if r.version == version {
		return
	}
	r.version = version
	r.first = len(r.keys) > 0 && v.InSet(r.wanted, &r.pod)
	r.repelling = r.repelling[:0]
	for _, t := range v.TermsMatching(&r.pod) {
		if t.Repelling > 0 {
			r.repelling = byKey(r.repelling, t.TermCounts)
		}
	}
}

// byKey adds a term to the terms of its key.
func byKey(all [][]*state.TermCounts, t *state.TermCounts) [][]*state.TermCounts {
	for i := range all {
		if all[i][0].Key() == t.Key() {
			all[i] = append(all[i], t)
			return all
		}
	}
	return append(all, []*state.TermCounts{t})
}

// Rules returns the rules that apply in the view.
func (r *rules) Rules(v state.View, to []plugin.CountRule) []plugin.CountRule {
	to = r.near(v, to)
	to = r.far(v, to)
	return r.tolerated(v, to)
}

// near appends, for each key, the rule that requires a wanted pod. If this pod is the
// first, nodes only need the keys.
func (r *rules) near(v state.View, to []plugin.CountRule) []plugin.CountRule {
	own := len(to)
	anywhere := false
	for _, t := range r.wantedBy {
		differences := v.Differences(t.Tally, nil)
		anywhere = anywhere || t.TotalWith(differences) > 0
		to = append(to, plugin.CountRule{
			Domains: t.Domains(), Counts: t.counts, Differences: differences,
			Min: 1, Max: math.MaxInt32, Code: farFromWanted, Missing: farFromWanted, Layout: t.Layout(), Counted: t.Counted(),
		})
	}
	if !anywhere && r.first {
		for i := own; i < len(to); i++ {
			to[i].Min = 0
		}
	}
	return to
}

// far appends the rules against unwanted pods.
func (r *rules) far(v state.View, to []plugin.CountRule) []plugin.CountRule {
	for _, t := range r.unwantedBy {
		if differences := v.Differences(t.Tally, nil); t.Total() > 0 || len(differences) > 0 {
			to = append(to, plugin.CountRule{
				Domains: t.Domains(), Counts: t.counts, Differences: differences, Code: nearUnwanted, Layout: t.Layout(), Counted: t.Counted(),
			})
		}
	}
	return to
}

// tolerated appends the rules against pods whose anti-affinity selects this pod.
func (r *rules) tolerated(v state.View, to []plugin.CountRule) []plugin.CountRule {
	own := len(to)
	for _, x := range r.repelled {
		to = append(to, plugin.CountRule{Domains: x.domains, Counts: x.counts, Code: unwanted, Layout: x.layout, Counted: v.CountedCarriers()})
	}
	v.TermDifferences(&r.pod, func(t state.Matching, differences []state.Difference) {
		if t.Repelling == 0 {
			return
		}
		i := slices.IndexFunc(r.repelled, func(x repelled) bool { return x.key == t.Key() })
		if i < 0 {
			to = append(to, plugin.CountRule{Domains: t.Domains(), Differences: differences, Code: unwanted})
			return
		}
		rule := &to[own+i]
		rule.Differences = append(slices.Clone(rule.Differences), differences...)
	})
	return to
}

// AppendVersions appends the versions of the tallies and of the terms that select the
// pod, including terms that no pod in a domain has.
func (r *rules) AppendVersions(to []uint64) []uint64 {
	for _, counts := range [][]counted{r.wantedBy, r.unwantedBy} {
		for i := range counts {
			to = append(to, counts[i].Version())
		}
	}
	for _, terms := range r.repelling {
		for _, t := range terms {
			to = append(to, t.Version())
		}
	}
	return to
}

// Reasons returns kube-scheduler's message for a code.
func (*rules) Reasons(code reason.Code) []string {
	switch code {
	case farFromWanted:
		return []string{"node(s) didn't match pod affinity rules"}
	case nearUnwanted:
		return []string{"node(s) didn't match pod anti-affinity rules"}
	}
	return []string{"node(s) didn't satisfy existing pods anti-affinity rules"}
}
