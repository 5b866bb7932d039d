package shadow

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
)

const (
	// maxStates limits the states that are tried for one binding, including those for
	// pairs. Contradictions get a higher limit because they matter more.
	maxStates, maxStatesContradict = 96, 384
	// maxCuts limits the positions of the last received change that are combined with
	// each number of own decisions.
	maxCuts = 24
	// maxPairs limits the other bindings that are decided again to test another order.
	maxPairs = 16
	// maxDifferences limits the changes of each sort that a decision lists.
	maxDifferences = 8
)

// moment is a state of the cluster in which the other scheduler may have decided. It has
// all changes before number `at`, and some later ones, such as its own decisions whose
// bindings were stored later.
type moment struct {
	at    int
	ahead []int // ascending, each at least at
}

// An order returns whether an own binding was decided before the binding in question. The
// other scheduler decides serially, but the API server stores its bindings in any order.
type order func(q *question, number int, one *step) bool

// byStorage: decided in the order of storage.
func byStorage(q *question, number int, _ *step) bool { return number < q.at }

// byArrival: decided in the order of arrival of the pods.
func byArrival(q *question, _ int, one *step) bool { return one.own.arrival < q.arrival }

// byPriority: all pods were queued, and decided by priority, then by arrival.
func byPriority(q *question, _ int, one *step) bool {
	if p := one.before.pod.Priority; p != q.pod.Priority {
		return p > q.pod.Priority
	}
	return one.own.arrival < q.arrival
}

// search looks for a state where Berth agrees with a binding.
type search struct {
	*Shadow
	q *question
	// The changes from lowest to end are the window: each may be applied or not. counts
	// marks the applied ones. of has the numbers of an object's changes, ascending.
	lowest, end int
	counts      []bool
	of          map[model.Ref][]int
	// states is the number of further states that may be tried.
	states int
	// last is the decision in the state that was tried last.
	last Decision
	// lesser is, for a contradicted binding, the first state where the node is feasible.
	// Its at is -1 until it is found.
	lesser explanation
}

// explanation is a state that explains a binding, with the decision in it and the
// decisive change.
type explanation struct {
	moment
	moved  int
	answer Decision
}

// close determines whether a disagreement is a race, and reports it. The state is at
// position here, before and after.
func (s *Shadow) close(q *question, here int) {
	// Contradictions matter more, so they may use the last quarter of the budget.
	if s.credit <= 0 || q.first.Verdict == Lesser && s.credit < maxCredit/4 {
		q.first.Unsearched = true
		s.tell(q, q.first)
		return
	}
	f := newSearch(s, q, here)
	found, ok := f.search()
	f.move(func(int) bool { return true })
	s.apply(f.end, here)
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

// newSearch prepares the search for a binding. It moves the state from position here to
// the end of the window.
func newSearch(s *Shadow, q *question, here int) *search {
	f := &search{Shadow: s, q: q, lowest: max(q.since, q.at-reach, s.first), end: min(here, q.at+1+reach), of: map[model.Ref][]int{}, states: maxStates}
	f.lesser.at = -1
	if q.first.Verdict != Lesser {
		f.states = maxStatesContradict
	}
	s.apply(here, f.end)
	f.counts = make([]bool, f.end-f.lowest)
	for i := range f.counts {
		f.counts[i] = true
		ref := s.step(f.lowest + i).ref
		f.of[ref] = append(f.of[ref], f.lowest+i)
	}
	return f
}

// move applies the changes of the window that counts selects, and undoes the others. Its
// cost depends only on the changes that differ from the present state.
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

// search returns the first state where Berth agrees.
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

// decidedBefore returns the numbers of own bindings in the window that precede q in an
// order.
func (f *search) decidedBefore(q *question, decided order) []int {
	var before []int
	for i := f.lowest; i < f.end; i++ {
		if one := f.step(i); one.own != nil && i != q.at && decided(q, i, one) {
			before = append(before, i)
		}
	}
	return before
}

// assumedAt returns the own bindings that are applied at a moment although they were
// stored later. Their pods must have existed by then.
func (f *search) assumedAt(at int, before []int) []int {
	var ahead []int
	for _, i := range before {
		if i >= at && f.step(i).own.since <= at {
			ahead = append(ahead, i)
		}
	}
	return ahead
}

// backwards tries the states where the other scheduler had received the changes up to an
// earlier one, and had decided about the pods in before.
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

// difference compares two adjacent moments. It returns the number of a change that
// touches the choice and is applied at the later moment only, or -1 if none exists. at is
// the number of the earlier moment.
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

// forwards tries states that are newer than the state before the binding. They have the
// other scheduler's own decisions, and later changes of nodes and other objects except
// pods, because the watches of these kinds may be late here. Pod changes that were stored
// after the binding cannot have influenced it.
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

// atEachPlace tries, in an order, each position of the decision among the own decisions
// that touch it. Each position is combined with the possible last received changes.
func (f *search) atEachPlace(compare func(a, b int) int, decided order) (explanation, bool) {
	f.last = f.q.first
	cuts := 0
	for at := f.q.at; at >= f.lowest && cuts < maxCuts; at-- {
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
			case i < f.q.at: // This binding does not matter.
				rest = append(rest, i)
			}
		}
		if at == f.q.at && len(open) == 0 {
			continue // This is the state before the binding.
		}
		slices.SortFunc(open, compare)
		for n := len(open); n >= 0; n-- {
			moved := at // The decisive change is unknown.
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

// try judges the binding at a moment. If Berth agrees there, it also judges the
// scheduler's other bindings that this moment moves before or after the binding: a state
// that explains this binding must not make another one as wrong. It returns false when
// the limit of states is reached.
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
		f.states = min(f.states, maxStates)
	}
	return explanation{}, false
}

// askAt judges a binding at a moment, without some own bindings that were stored before
// it. Its pod must not be on a node there.
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

// ordered reports whether the scheduler's other bindings remain plausible in the order of
// a moment. A binding that was stored before this one, and would have been decided after
// it, is judged with this pod on its node. A binding that was stored after this one, and
// would have been decided before it, is judged without this pod. If the order is
// independent of this question, they are judged in that order first.
func (f *search) ordered(m moment, decided order) bool {
	var after []int // decided after the binding, stored before it
	for i := m.at; i < f.q.at; i++ {
		if f.step(i).own != nil && !slices.Contains(m.ahead, i) {
			after = append(after, i)
		}
	}
	pairs := 0
	for _, i := range slices.Backward(after) {
		if !f.related(i) || pairs == maxPairs {
			continue
		}
		pairs++
		// known returns the changes that are applied when the pod of i is decided about.
		known := func(at int) []int {
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
		if i < f.q.at || f.step(i).own == nil || pairs == maxPairs {
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

// inOrder judges another own binding with the bindings in place that precede it in an
// order. The binding in question must be among them if and only if with is true.
func (f *search) inOrder(number int, m moment, decided order, with bool) bool {
	own := f.step(number).own
	before := f.decidedBefore(&question{pod: f.step(number).before.pod, at: number, arrival: own.arrival}, decided)
	if slices.Contains(before, f.q.at) != with {
		return false
	}
	// It was decided after the binding in question or, without it, as soon as its pod
	// existed.
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

// bearable judges another own binding at a moment. The verdict must be its first verdict,
// or better than the first verdict of the binding in question.
func (f *search) bearable(number int, m moment, without []int) bool {
	one := f.step(number)
	if m.at > number || m.at < one.own.since || f.states <= 0 {
		// It was already stored, its pod did not exist, or the limit is reached.
		return false
	}
	q := &question{pod: one.before.pod, node: one.after.pod.NodeName, seen: f.q.seen}
	got := f.askAt(m, q, without).Verdict
	return got == one.own.first || badness(got) < badness(f.q.first.Verdict)
}

// badness orders verdicts.
func badness(v Verdict) int { return slices.Index([]Verdict{Agree, Lesser, Contradict, Failed}, v) }

// related reports whether the placement of the pod in question can make another own
// binding worse: both are on one node, or one counts for the other.
func (f *search) related(number int) bool {
	one := f.step(number)
	return one.after.pod.NodeName == f.q.node || isCounted(f.q.pod, one.before.pod)
}

// isCounted reports whether the placement of a pod can count for another pod on any node.
func isCounted(other, pod *model.Pod) bool {
	return len(pod.Terms) > 0 || len(other.Terms) > 0 ||
		// Constraints may also come from the profile.
		pod.Namespace == other.Namespace && (len(pod.Object.Spec.TopologySpreadConstraints) > 0 || maps.Equal(pod.Labels, other.Labels))
}

// touches reports whether a change concerns the choice: the chosen or the best node, an
// object that the pod needs, or a pod that counts for it. Changes of a third node only
// shift normalised scores, which can make nodes equal by chance.
func (f *search) touches(number int) bool {
	c := f.step(number)
	on := func(node string) bool { return node != "" && (node == f.q.node || node == f.last.Best) }
	switch c.ref.Kind {
	case model.NodeKind, model.CSINodeKind: // Both have the node's name.
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

// differences lists how an explanation differs from the state before the binding. unseen
// are changes that were stored before the binding and that the explanation leaves out.
// assumed are later changes that it applies. The decisive change comes first, then others
// that touch the original choice.
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
		if len(to) < maxDifferences && number != e.moved && f.touches(number) {
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
