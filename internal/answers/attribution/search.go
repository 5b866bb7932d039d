package attribution

import (
	"cmp"
	"slices"
	"strings"
)

// search looks for causes. It starts from the snapshot with the answer that is worse for
// the pod, or from the newer one if only the node differs. A set of units, which are
// groups of differences, suffices if applying or undoing them leads to the wanted answer.
type search struct {
	*world
	result *Result
	want   *Answer
}

// run finds causes. from is the answer at the start, want the wanted one.
func (s *search) run(direction Direction, from, want *Answer) {
	s.result.Direction, s.want = direction, want
	s.result.Lost = lostOf(from, want)
	everything := make([]int, len(s.units))
	for u := range everything {
		everything[u] = u
	}
	wide, nodes := s.groups(from, want)
	// Try all differences that concern no node together. If they do not suffice, no kind
	// of them is tried separately.
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
	// Without a cause yet, several nodes are involved, or a node and something else.
	if len(s.result.Causes) == 0 {
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

// groups divides the units into sets to try. wide has the units of the pod itself, and
// for each kind of object the units that concern no node. nodes has the units of each
// node, for the most promising nodes.
//
// If the pod gets no node, these are the nodes that are feasible with all differences
// applied, those with the fewest differences first. Their causes are the smallest, and a
// node with many differences would use up all decisions. If the pod gets another node,
// the two nodes come first.
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
	// Members are on several nodes. The units of all these nodes are tried together
	// first, then those per node.
	if s.group != nil {
		names = slices.Compact(slices.Sorted(slices.Values(want.on)))
		fewestFirst(names)
		if together := unionOf(byNode, names); len(names) > 1 && len(together) > 0 {
			nodes = append(nodes, together)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return len(byNode[name]) == 0 })
	for _, name := range names[:min(maxNodes, len(names))] {
		group := byNode[name]
		slices.SortStableFunc(group, func(a, b int) int { return cmp.Compare(s.units[b].weight, s.units[a].weight) })
		nodes = append(nodes, group)
	}
	return wide, nodes
}

// unionOf returns the units of several nodes, each once.
func unionOf(byNode map[string][]int, names []string) (all []int) {
	for _, name := range names {
		all = append(all, byNode[name]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// byRelevance lists all units, the most likely to matter first.
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

// enough reports whether units suffice. It is also false if the limit is reached.
func (s *search) enough(units []int) bool {
	if len(units) == 0 || !s.mayGoOn() {
		return false
	}
	a := s.at(units)
	return a.Verdict == s.want.Verdict && (a.Node == s.want.Node || s.result.Then.Verdict != s.result.Now.Verdict)
}

// at returns the answer when some units are done.
func (s *search) at(units []int) Answer {
	done := make([]bool, len(s.units))
	for _, u := range units {
		done[u] = true
	}
	s.moveTo(func(u int) bool { return done[u] == (s.result.Direction == Undo) })
	return s.answer()
}

// tryGroup adds the cause in a group of units if the group suffices.
func (s *search) tryGroup(group []int) {
	if len(s.result.Causes) < maxCauses && s.enough(group) {
		s.addCause(group)
	}
}

// addCause adds the cause in sufficient units. It is left out if it is a duplicate, or if
// the search reached its limit while the set was still long.
func (s *search) addCause(units []int) {
	r := reduction{enough: s.enough, mayGoOn: s.mayGoOn}
	set, minimal, exact := r.reduce(units)
	if !minimal && len(set) > maxSpare {
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

// lostOf returns the reasons of nodes that are infeasible in the answer from and feasible
// in the answer want.
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
		if of.Nodes++; len(of.Examples) < maxExamples {
			of.Examples = append(of.Examples, name)
		}
	}
	slices.SortStableFunc(all, func(a, b Lost) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return all
}
