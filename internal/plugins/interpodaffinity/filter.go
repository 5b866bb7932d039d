package interpodaffinity

import (
	"math"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugins/compiled"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

const (
	farFromWanted = reason.Unresolvable | 1
	nearUnwanted  = reason.Code(2)
	unwanted      = reason.Code(3)
)

// FilterNeed is the pod's namespace and labels, by which it may be unwanted anywhere, and its required terms. It is never zero: which
// terms the pods on nodes carry is not the pod's to know.
func (p *Plugin) FilterNeed(pod *model.Pod) model.Need {
	if err := p.check(pod); err != nil {
		return model.NeedOf("error " + err.Error())
	}
	return model.NeedOf(needText(pod, model.RequiredAffinity, model.RequiredAntiAffinity))
}

// CompileLayers prepares the pod's required terms.
func (p *Plugin) CompileLayers(pod *model.Pod) compiled.Layers {
	if err := p.check(pod); err != nil {
		return &layers{rejection: "parsing pod: " + err.Error()}
	}
	l := &layers{pod: likeness(pod)}
	for i := range pod.Terms {
		ref := &pod.Terms[i]
		if ref.Kind != model.RequiredAffinity && ref.Kind != model.RequiredAntiAffinity {
			continue
		}
		selected, err := p.selectionOf(pod, ref)
		if err != nil {
			continue // check has found none
		}
		if ref.Kind == model.RequiredAffinity {
			l.want(selected)
		} else {
			l.unwanted = append(l.unwanted, selected)
		}
	}
	slices.Sort(l.texts)
	for _, text := range slices.Compact(l.texts) {
		l.wanted.Text += text
	}
	return l
}

// layers are a pod's required terms, and the groups of others' that select it.
type layers struct {
	rejection string
	pod       *model.Pod // its likeness
	// wanted are the pods that all affinity terms select; some must be near by each of the keys. It is nobody when there are no keys.
	wanted state.PodSet
	texts  []string // of the terms of wanted
	keys   []state.TopologyKey
	// unwanted are the pods of each anti-affinity term.
	unwanted []selection

	version uint64 // of the state's groups plus one, for which the following is true
	// first says that the pod is one of those it wants: if there are none anywhere, it may be the first.
	first bool
	// repelling are the groups of anti-affinity terms that select the pod, by topology key.
	repelling [][]*state.Group
	// idle says that there is nothing to check in the state as it is.
	idle bool
}

// want adds an affinity term.
func (l *layers) want(selected selection) {
	l.wanted.Terms = append(l.wanted.Terms, selected.pods.Terms...)
	l.texts = append(l.texts, selected.pods.Text)
	if !slices.Contains(l.keys, selected.key) {
		l.keys = append(l.keys, selected.key)
	}
}

// Layers gives the rules that hold at present.
func (l *layers) Layers(s *state.State, to []compiled.Layer) ([]compiled.Layer, string, error) {
	if l.rejection != "" {
		return to, l.rejection, nil
	}
	l.catchUp(s)
	// A filter that had nothing to check is not asked while something is tried, as in kube-scheduler, whose PreFilter has skipped it.
	if len(s.Trial().Pods) == 0 {
		l.idle = len(l.keys) == 0 && len(l.unwanted) == 0 && !slices.ContainsFunc(l.repelling, carriedSomewhere)
	} else if l.idle {
		return to, "", nil
	}
	to = l.near(s, to)
	to = l.far(s, to)
	return l.tolerated(s, to), "", nil
}

// catchUp looks again for the terms that select the pod, if they may have changed.
func (l *layers) catchUp(s *state.State) {
	version := s.GroupsVersion() + 1
	if l.version == version {
		return
	}
	l.version = version
	l.first = len(l.keys) > 0 && s.InSet(l.wanted, l.pod)
	l.repelling = l.repelling[:0]
	for _, g := range s.GroupsMatching(l.pod) {
		if g.Kind == model.RequiredAntiAffinity {
			l.repelling = grouped(l.repelling, g)
		}
	}
}

// grouped adds a group to those of its key.
func grouped(all [][]*state.Group, g *state.Group) [][]*state.Group {
	for i := range all {
		if all[i][0].Term.Key == g.Term.Key {
			all[i] = append(all[i], g)
			return all
		}
	}
	return append(all, []*state.Group{g})
}

// near asks for wanted pods by each key. Where the pod is the first of its kind, having the keys is enough.
func (l *layers) near(s *state.State, to []compiled.Layer) []compiled.Layer {
	own := len(to)
	anywhere := false
	for _, key := range l.keys {
		wanted := s.Tally(l.wanted, key, state.NodeSet{})
		anywhere = anywhere || wanted.Total() > 0
		to = append(to, compiled.Layer{
			Domains: wanted.Domains(), Counts: wanted.Counts(), Min: 1, Max: math.MaxInt32, Code: farFromWanted, Missing: farFromWanted,
		})
	}
	if !anywhere && l.first {
		for i := own; i < len(to); i++ {
			to[i].Min = 0
		}
	}
	return to
}

// far keeps away from unwanted pods.
func (l *layers) far(s *state.State, to []compiled.Layer) []compiled.Layer {
	for i := range l.unwanted {
		if there := l.unwanted[i].tally(s); there.Total() > 0 {
			to = append(to, compiled.Layer{Domains: there.Domains(), Counts: there.Counts(), Code: nearUnwanted})
		}
	}
	return to
}

// tolerated keeps away from pods that do not want this one.
func (l *layers) tolerated(s *state.State, to []compiled.Layer) []compiled.Layer {
	for _, groups := range l.repelling {
		if carriedSomewhere(groups) {
			to = append(to, compiled.Layer{Domains: groups[0].Domains(), Counts: s.SumCarriers(groups), Code: unwanted})
		}
	}
	return to
}

func carriedSomewhere(groups []*state.Group) bool {
	return slices.ContainsFunc(groups, (*state.Group).CarriedSomewhere)
}

// Reasons puts a code into words.
func (*layers) Reasons(code reason.Code) []string {
	switch code {
	case farFromWanted:
		return []string{"node(s) didn't match pod affinity rules"}
	case nearUnwanted:
		return []string{"node(s) didn't match pod anti-affinity rules"}
	}
	return []string{"node(s) didn't satisfy existing pods anti-affinity rules"}
}
