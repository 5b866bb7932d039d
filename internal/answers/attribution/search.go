package attribution

import (
	"cmp"
	"slices"
	"strings"
)

// search looks for causes. What is done to units begins at the answer that is worse for the pod, or at the newer snapshot where the pod has another node, and a set of units is enough if the answer is the wanted one then.
type search struct {
	*world
	result *Result
	want   *Answer
}

// run finds causes, given the answer where it begins and the one that is wanted.
func (s *search) run(direction Direction, from, want *Answer) {
	s.result.Direction, s.want = direction, want
	s.result.Lost = lostOf(from, want)
	everything := make([]int, len(s.units))
	for u := range everything {
		everything[u] = u
	}
	wide, nodes := s.groups(from, want)
	// Undone or made together, the differences that are about no node: if these are not enough, no kind of them by itself is tried.
	if s.enough(slices.Concat(wide...)) {
		found := len(s.result.Causes)
		for _, group := range wide {
			s.tryGroup(group)
		}
		if len(s.result.Causes) == found {
			s.addCause(slices.Concat(wide...))
		}
	}
	for _, group := range nodes {
		s.tryGroup(group)
	}
	if len(s.result.Causes) == 0 { // several nodes, or a node and something else, have to do with it
		s.addCause(s.byRelevance(slices.Concat(wide...), nodes, everything))
	}
	slices.SortStableFunc(s.result.Causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(len(a.Changes), len(b.Changes)), cmp.Compare(textsOfCause(&a), textsOfCause(&b)))
	})
}

func textsOfCause(c *Cause) string {
	var all []string
	for i := range c.Changes {
		all = append(all, c.Changes[i].Text)
	}
	return strings.Join(all, "\n")
}

// groups puts units together: those about the pod itself and those of each kind of object that are about no node; and those about a node, for the nodes that matter most. Those are, if the pod has no node, the ones
// that would do with all of the differences, and of these the ones with the fewest differences: their causes are the smallest, and many differences of one node take all decisions there are. If it has another node, they are both.
func (s *search) groups(from, want *Answer) (wide, nodes [][]int) {
	byNode, byKind := map[string][]int{}, map[string]int{}
	for u := range s.units {
		of := &s.units[u]
		if len(of.nodes) == 0 {
			kind, _, _ := strings.Cut(of.Object, " ")
			at, ok := byKind[kind]
			if !ok {
				at = len(wide)
				byKind[kind] = at
				wide = append(wide, nil)
			}
			wide[at] = append(wide[at], u)
		}
		for _, node := range of.nodes {
			byNode[node] = append(byNode[node], u)
		}
	}
	var names []string
	for i := range want.answers {
		if n := &want.answers[i]; n.Feasible && n.Name != want.Node && n.Name != from.Node {
			names = append(names, n.Name)
		}
	}
	fewestFirst := func(names []string) {
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(len(byNode[a]), len(byNode[b])) })
	}
	fewestFirst(names)
	names = append([]string{want.Node, from.Node}, names...)
	if s.result.Then.Verdict != s.result.Now.Verdict {
		fewestFirst(names)
	}
	if s.group != nil { // members are on several nodes: what is about any of them goes together first, then each by itself
		names = slices.Compact(slices.Sorted(slices.Values(want.on)))
		fewestFirst(names)
		if together := unionOf(byNode, names); len(names) > 1 && len(together) > 0 {
			nodes = append(nodes, together)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return len(byNode[name]) == 0 })
	for _, name := range names[:min(nodesMax, len(names))] {
		group := byNode[name]
		slices.SortStableFunc(group, func(a, b int) int { return cmp.Compare(s.units[b].weight, s.units[a].weight) })
		nodes = append(nodes, group)
	}
	return wide, nodes
}

// unionOf returns the units about any of some nodes, each once.
func unionOf(byNode map[string][]int, names []string) (all []int) {
	for _, name := range names {
		all = append(all, byNode[name]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// byRelevance lists all units, those first that are the likeliest to matter.
func (s *search) byRelevance(wide []int, nodes [][]int, everything []int) []int {
	listed := make([]bool, len(s.units))
	var all []int
	for _, group := range append(append([][]int{wide}, nodes...), everything) {
		for _, u := range group {
			if !listed[u] {
				listed[u] = true
				all = append(all, u)
			}
		}
	}
	return all
}

// enough reports whether units are enough; false, too, if the search has to end.
func (s *search) enough(units []int) bool {
	if len(units) == 0 || !s.mayGoOn() {
		return false
	}
	a := s.at(units)
	return a.Verdict == s.want.Verdict && (a.Node == s.want.Node || s.result.Then.Verdict != s.result.Now.Verdict)
}

// at is the answer if something is done to some units.
func (s *search) at(units []int) Answer {
	done := make([]bool, len(s.units))
	for _, u := range units {
		done[u] = true
	}
	s.moveTo(func(u int) bool { return done[u] == (s.result.Direction == Undo) })
	return s.answer()
}

// tryGroup adds the cause in a group of units, if it is enough.
func (s *search) tryGroup(group []int) {
	if len(s.result.Causes) < causesMax && s.enough(group) {
		s.addCause(group)
	}
}

// addCause adds the cause in units that are enough, unless it is known, or the search had to end while it was still long.
func (s *search) addCause(units []int) {
	r := reduction{enough: s.enough, mayGoOn: s.mayGoOn}
	set, minimal, exact := r.reduce(units)
	if !minimal && len(set) > spareMax {
		return
	}
	slices.Sort(set)
	if slices.ContainsFunc(s.result.Causes, func(c Cause) bool { return slices.Equal(c.units, set) }) {
		return
	}
	c := Cause{units: set, Node: s.at(set).Node, Minimal: minimal, Exact: exact}
	for _, u := range set {
		c.Changes = append(c.Changes, s.units[u].Change)
	}
	s.result.Causes = append(s.result.Causes, c)
}

// lostOf says what rejects nodes in one answer that do in another.
func lostOf(from, want *Answer) []Lost {
	at := map[string]int{}
	for i := range from.answers {
		at[from.answers[i].Name] = i
	}
	var all []Lost
	seen := map[string]int{}
	for i := range want.answers {
		name := want.answers[i].Name
		if !want.answers[i].Feasible {
			continue
		}
		l := Lost{Reasons: []string{"the node is not there"}}
		if j, ok := at[name]; ok {
			if from.answers[j].Feasible || len(from.answers[j].Rejections) == 0 {
				continue
			}
			l.Plugin, l.Reasons = from.answers[j].Rejections[0].Plugin, from.answers[j].Rejections[0].Reasons
		}
		key := l.Plugin + "\n" + strings.Join(l.Reasons, "\n")
		if _, ok := seen[key]; !ok {
			seen[key] = len(all)
			all = append(all, l)
		}
		of := &all[seen[key]]
		if of.Nodes++; len(of.Examples) < examplesMax {
			of.Examples = append(of.Examples, name)
		}
	}
	slices.SortStableFunc(all, func(a, b Lost) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return all
}
