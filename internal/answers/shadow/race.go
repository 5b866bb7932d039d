package shadow

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
)

const (
	// statesMax is how many states one binding is asked about, those of pairs included; contradictions matter more.
	statesMax, statesMaxContradict = 96, 384
	// cutsMax is how many last changes known are combined with each number of own decisions.
	cutsMax = 24
	// pairsMax is how many other bindings are asked again whether they can have been decided in another order.
	pairsMax = 16
	// differencesMax is how many changes of each sort a decision lists.
	differencesMax = 8
)

// moment is a state in which the other scheduler can have decided: the changes before a number, and later ones that it knew all the same, such as its own decisions, whose bindings
// were stored later.
type moment struct {
	at    int
	ahead []int // ascending, each at least at
}

// An order says which own binding was decided before the one in question. The other scheduler decides about one pod after another, but its bindings are stored in whatever
// order the API server answers.
type order func(q *question, number int, one *step) bool

// byStorage: decided as they were stored.
func byStorage(q *question, number int, _ *step) bool { return number < q.at }

// byArrival: decided as the pods came.
func byArrival(q *question, _ int, one *step) bool { return one.own.arrival < q.arrival }

// byPriority: all of them waited, and the queue gave them out by priority, and then as they came.
func byPriority(q *question, _ int, one *step) bool {
	if p := one.before.pod.Priority; p != q.pod.Priority {
		return p > q.pod.Priority
	}
	return one.own.arrival < q.arrival
}

// search is the search for a state in which Berth agrees with a binding.
type search struct {
	*Shadow
	q *question
	// The changes from lowest to end are the window: they may count or not. counts says which do now, and of has the numbers of those of an object, ascending.
	lowest, end int
	counts      []bool
	of          map[model.Ref][]int
	// states is how many further states may be asked about.
	states int
	// last is the answer about the state that was asked last.
	last Decision
	// lesser is the first state found in which the node is feasible, if the binding was contradicted; its at is -1 before.
	lesser explanation
}

// explanation is a state that explains a binding: the answer there, and the change that made the difference.
type explanation struct {
	moment
	moved  int
	answer Decision
}

// close finds out whether a disagreement is a race, and reports it. The state stands at here, before and after.
func (s *Shadow) close(q *question, here int) {
	if s.credit <= 0 || q.first.Verdict == Lesser && s.credit < creditMax/4 { // contradictions matter more
		q.first.Unsearched = true
		s.tell(q, q.first)
		return
	}
	f := newSearch(s, q, here)
	found, ok := f.search()
	f.move(func(int) bool { return true })
	s.goTo(f.end, here)
	d := q.first
	switch {
	case ok:
		d.Verdict = Race
	case f.lesser.at >= 0:
		found, d = f.lesser, f.lesser.answer
		q.known = &found.moment
	default:
		s.tell(q, d)
		return
	}
	d.First, d.Later = q.first.Verdict, found.moved >= q.at
	kind, text := s.step(found.moved).what()
	d.Moved = text
	d.Unseen, d.Assumed = f.differences(&found)
	if ok {
		s.summary.Races[kind]++
	} else {
		s.summary.Feasible++
	}
	s.tell(q, d)
}

// newSearch prepares the search about a binding, and takes the state from here to the end of its window.
func newSearch(s *Shadow, q *question, here int) *search {
	f := &search{Shadow: s, q: q, lowest: max(q.since, q.at-reach, s.first), end: min(here, q.at+1+reach), of: map[model.Ref][]int{}, states: statesMax}
	f.lesser.at = -1
	if q.first.Verdict != Lesser {
		f.states = statesMaxContradict
	}
	s.goTo(here, f.end)
	f.counts = make([]bool, f.end-f.lowest)
	for i := range f.counts {
		f.counts[i] = true
		ref := s.step(f.lowest + i).ref
		f.of[ref] = append(f.of[ref], f.lowest+i)
	}
	return f
}

// move makes the changes of the window count for which counts is true, at the cost of those for which it was another.
func (f *search) move(counts func(number int) bool) {
	var differ []model.Ref
	for i := range f.counts {
		if now := counts(f.lowest + i); now != f.counts[i] {
			f.counts[i] = now
			differ = append(differ, f.step(f.lowest+i).ref)
		}
	}
	for _, ref := range differ {
		numbers := f.of[ref]
		o := f.step(numbers[0]).before
		for _, i := range numbers {
			if f.counts[i-f.lowest] {
				o = f.step(i).after
			}
		}
		if f.objects[ref] != o {
			f.set(ref, o)
		}
	}
}

func (s *Shadow) step(number int) *step { return &s.steps[number-s.first] }

// search returns the first state in which Berth agrees.
func (f *search) search() (explanation, bool) {
	var asked [][]int
	var orders []order
	for _, decided := range []order{byArrival, byStorage, byPriority} {
		before := f.decidedBefore(f.q, decided)
		if slices.ContainsFunc(asked, func(other []int) bool { return slices.Equal(before, other) }) {
			continue
		}
		asked, orders = append(asked, before), append(orders, decided)
		if e, ok := f.backwards(before, decided); ok {
			return e, true
		}
	}
	for i, before := range asked {
		if e, ok := f.forwards(before, orders[i]); ok {
			return e, true
		}
	}
	if f.q.first.Verdict == Lesser {
		return explanation{}, false
	}
	if e, ok := f.atEachPlace(cmp.Compare[int], byStorage); ok {
		return e, true
	}
	if e, ok := f.atEachPlace(func(a, b int) int { return cmp.Compare(f.step(a).own.arrival, f.step(b).own.arrival) }, byArrival); ok {
		return e, true
	}
	return explanation{}, false
}

// decidedBefore returns the numbers of the own bindings in the window that were decided before one of them in an order.
func (f *search) decidedBefore(q *question, decided order) []int {
	var before []int
	for i := f.lowest; i < f.end; i++ {
		if one := f.step(i); one.own != nil && i != q.at && decided(q, i, one) {
			before = append(before, i)
		}
	}
	return before
}

// assumedAt returns those of the own bindings that count at a moment although they were stored later: their pods must have been there.
func (f *search) assumedAt(at int, before []int) []int {
	var ahead []int
	for _, i := range before {
		if i >= at && f.step(i).own.since <= at {
			ahead = append(ahead, i)
		}
	}
	return ahead
}

// backwards asks about the states in which the other scheduler had seen the changes up to some earlier one, and had decided about some pods before this one.
func (f *search) backwards(before []int, decided order) (explanation, bool) {
	f.last = f.q.first
	ahead := f.assumedAt(f.q.at, before)
	if i := slices.IndexFunc(ahead, f.touches); i >= 0 {
		if e, ok := f.try(moment{f.q.at, ahead}, ahead[i], decided); ok {
			return e, true
		}
	}
	for at := f.q.at - 1; at >= f.lowest; at-- {
		now := f.assumedAt(at, before)
		moved := f.difference(ahead, now, at)
		ahead = now
		if moved < 0 {
			continue
		}
		if e, ok := f.try(moment{at, now}, moved, decided); ok {
			return e, true
		}
	}
	return explanation{}, false
}

// difference returns a change that touches the choice and that the later of two moments next to each other knows and the earlier one, which is at a number, does not; -1 if there is none.
func (f *search) difference(later, earlier []int, at int) int {
	if !slices.Contains(earlier, at) && f.touches(at) {
		return at
	}
	for _, i := range later {
		if !slices.Contains(earlier, i) && f.touches(i) {
			return i
		}
	}
	return -1
}

// forwards asks about the state before the binding with later changes of other kinds than pods, whose watches may show them late, and with own decisions. Of pods nothing can have been
// known that was stored after the binding.
func (f *search) forwards(before []int, decided order) (explanation, bool) {
	f.last = f.q.first
	ahead := f.assumedAt(f.q.at, before)
	for i := f.q.at + 1; i < f.end; i++ {
		if f.step(i).ref.Kind == model.PodKind {
			continue
		}
		ahead = append(ahead, i)
		if !f.touches(i) {
			continue
		}
		if e, ok := f.try(moment{f.q.at, slices.Sorted(slices.Values(ahead))}, i, decided); ok {
			return e, true
		}
	}
	return explanation{}, false
}

// atEachPlace asks about the states in which the decision was taken at each place among the own decisions that touch it, in an order, combined with the last changes that were known.
func (f *search) atEachPlace(compare func(a, b int) int, decided order) (explanation, bool) {
	f.last = f.q.first
	cuts := 0
	for at := f.q.at; at >= f.lowest && cuts < cutsMax; at-- {
		if at < f.q.at && !f.touches(at) {
			continue
		}
		cuts++
		var open, rest []int
		for i := at; i < f.end; i++ {
			switch one := f.step(i); {
			case one.own == nil || i == f.q.at || one.own.since > at:
			case f.touches(i):
				open = append(open, i)
			case i < f.q.at: // it makes no difference
				rest = append(rest, i)
			}
		}
		if at == f.q.at && len(open) == 0 {
			continue // the state before the binding
		}
		slices.SortFunc(open, compare)
		for n := len(open); n >= 0; n-- {
			moved := at // it is not known
			switch {
			case n < len(open):
				moved = open[n]
			case n > 0:
				moved = open[n-1]
			}
			if e, ok := f.try(moment{at, slices.Sorted(slices.Values(slices.Concat(open[:n], rest)))}, moved, decided); ok {
				return e, true
			}
		}
	}
	return explanation{}, false
}

// try asks about the binding at a moment. If Berth agrees there, the own bindings that change places with it are asked about, too: what makes this one right must not make another one as
// wrong. When no states are left the answer is no.
func (f *search) try(m moment, moved int, decided order) (explanation, bool) {
	if f.states <= 0 {
		return explanation{}, false
	}
	f.last = f.askAt(m, f.q, nil)
	e := explanation{m, moved, f.last}
	switch {
	case f.last.Verdict == Agree:
		return e, f.ordered(m, decided)
	case f.last.Verdict == Lesser && f.q.first.Verdict == Contradict && f.lesser.at < 0 && f.ordered(m, decided):
		f.lesser = e
		f.states = min(f.states, statesMax)
	}
	return explanation{}, false
}

// askAt asks about a binding at a moment, without some own bindings that were stored before it. Its pod must be on no node there.
func (f *search) askAt(m moment, q *question, without []int) Decision {
	f.credit--
	f.states--
	f.move(func(i int) bool {
		if i < m.at {
			return !slices.Contains(without, i)
		}
		_, ahead := slices.BinarySearch(m.ahead, i)
		return ahead
	})
	return f.ask(q)
}

// ordered reports whether the own bindings that change places with the one in question can be so: those stored before it that count as decided after it, with it in place; and those
// stored after it that count as decided before, without it. Where all of them are in an order that follows from something else than this question, they are asked about in that order first.
func (f *search) ordered(m moment, decided order) bool {
	var after []int // decided after it, and stored before
	for i := m.at; i < f.q.at; i++ {
		if f.step(i).own != nil && !slices.Contains(m.ahead, i) {
			after = append(after, i)
		}
	}
	pairs := 0
	for _, i := range slices.Backward(after) {
		if !f.related(i) || pairs == pairsMax {
			continue
		}
		pairs++
		known := func(at int) []int { // what counts at a moment at which the pod of i was decided about
			ahead := []int{f.q.at}
			for _, j := range m.ahead {
				if j >= at {
					ahead = append(ahead, j)
				}
			}
			for _, j := range after {
				if j >= at && j < i {
					ahead = append(ahead, j)
				}
			}
			return slices.Sorted(slices.Values(ahead))
		}
		if !f.inOrder(i, m, decided, true) && !f.bearable(i, moment{i, known(i)}, nil) && !f.bearable(i, moment{m.at, known(m.at)}, nil) {
			return false
		}
	}
	for _, i := range m.ahead {
		if i < f.q.at || f.step(i).own == nil || pairs == pairsMax {
			continue
		}
		pairs++
		rest := slices.DeleteFunc(slices.Clone(m.ahead), func(j int) bool { return j >= i })
		if !f.inOrder(i, m, decided, false) && !f.bearable(i, moment{i, nil}, append(slices.Clone(after), f.q.at)) && !f.bearable(i, moment{m.at, rest}, nil) {
			return false
		}
	}
	return true
}

// inOrder asks about another own binding with those in place that were decided before it in an order. The one in question must be among them, or not, as it says.
func (f *search) inOrder(number int, m moment, decided order, with bool) bool {
	own := f.step(number).own
	before := f.decidedBefore(&question{pod: f.step(number).before.pod, at: number, arrival: own.arrival}, decided)
	if slices.Contains(before, f.q.at) != with {
		return false
	}
	// It was decided after the one in question, or before it, and as soon as its pod was there.
	first := max(m.at, own.since, f.lowest)
	if !with {
		first = min(max(own.since, f.lowest), number)
	}
	if f.bearable(number, moment{first, f.assumedAt(first, before)}, nil) {
		return true
	}
	var without []int
	for i := f.lowest; i < number; i++ {
		if f.step(i).own != nil && !slices.Contains(before, i) {
			without = append(without, i)
		}
	}
	return f.bearable(number, moment{number, f.assumedAt(number, before)}, without)
}

// bearable asks about another own binding at a moment: its verdict must be as it was first, or better than the first one of the binding in question.
func (f *search) bearable(number int, m moment, without []int) bool {
	one := f.step(number)
	if m.at > number || m.at < one.own.since || f.states <= 0 {
		return false // it was stored already, its pod was not there, or enough was asked
	}
	q := &question{pod: one.before.pod, node: one.after.pod.NodeName, seen: f.q.seen}
	got := f.askAt(m, q, without).Verdict
	return got == one.own.first || badness(got) < badness(f.q.first.Verdict)
}

// badness orders verdicts about a state.
func badness(v Verdict) int { return slices.Index([]Verdict{Agree, Lesser, Contradict, Failed}, v) }

// related reports whether the placement of the pod in question can make another own binding worse: both are on one node, or count each other.
func (f *search) related(number int) bool {
	one := f.step(number)
	return one.after.pod.NodeName == f.q.node || isCounted(f.q.pod, one.before.pod)
}

// isCounted reports whether the placement of a pod can count for another one, whatever the node.
func isCounted(other, pod *model.Pod) bool {
	return len(pod.Terms) > 0 || len(other.Terms) > 0 ||
		pod.Namespace == other.Namespace && (len(pod.Object.Spec.TopologySpreadConstraints) > 0 || maps.Equal(pod.Labels, other.Labels)) // or those of the profile
}

// touches reports whether a change concerns what the choice was between: it is of the chosen node or of the best one, of what the pod needs, or of pods that are
// counted for it. A change of a third node shifts normalised scores, too, and so makes nodes equally good by chance.
func (f *search) touches(number int) bool {
	c := f.step(number)
	on := func(node string) bool { return node != "" && (node == f.q.node || node == f.last.Best) }
	switch c.ref.Kind {
	case model.NodeKind, model.CSINodeKind: // both are called like the node
		return on(c.ref.Name)
	case model.PodKind:
	default:
		return true
	}
	for _, p := range []*model.Pod{c.before.pod, c.after.pod} {
		if p != nil && (on(p.NodeName) || on(p.NominatedNode) || isCounted(p, f.q.pod)) {
			return true
		}
	}
	return false
}

// differences lists what an explanation does not know of what was stored before the binding, and what it knows of what came later: the change that made the difference, and others that
// touch what the choice was between at first.
func (f *search) differences(e *explanation) (unseen, assumed []string) {
	f.last = f.q.first
	text := func(number int) string {
		_, text := f.step(number).what()
		return text
	}
	if e.moved < f.q.at {
		unseen = append(unseen, text(e.moved))
	} else {
		assumed = append(assumed, text(e.moved))
	}
	list := func(to []string, number int) []string {
		if len(to) < differencesMax && number != e.moved && f.touches(number) {
			to = append(to, text(number))
		}
		return to
	}
	for i := f.q.at - 1; i >= e.at; i-- {
		if !slices.Contains(e.ahead, i) {
			unseen = list(unseen, i)
		}
	}
	for _, i := range e.ahead {
		if i > f.q.at {
			assumed = list(assumed, i)
		}
	}
	return unseen, assumed
}
