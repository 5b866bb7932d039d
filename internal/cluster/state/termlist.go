package state

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
)

// longFrom is the minimum number of terms that are counted as a list.
const longFrom = 17

func isLong(pod *model.Pod) bool { return len(pod.Terms) >= longFrom }

// termList represents the pods that have the same terms, and many of them. The API does
// not limit the number of terms, and each decision about other pods reads the terms that
// select these pods. So the carriers are counted once for all terms of a topology key,
// and a single matcher sums up the terms. The cost of other pods' decisions depends on
// the number of lists and of topology keys on nodes, but not on the number of terms.
//
// Short lists are counted term by term, because most pods share single terms with pods of
// other apps.
type termList struct {
	owner string // the namespace of the pods
	terms []model.TermRef
	hash  uint64
	// Invariant: pods is the number of placed pods with these terms, at least one.
	pods int
	// Invariant: keys has the terms by topology key, prepared the entries whose key a
	// node has carried.
	keys     []*TermCounts
	byLabel  map[string]*TermCounts
	prepared []*TermCounts
	at       int32 // the position in all
	// memo caches the effects of prepared on pods, if many terms had to be checked.
	memo map[model.LabelSet][]Effect
}

// A list caches effects that took more than memoFrom checks. All lists together cache at
// most memosKept of them.
const (
	memoFrom  = 32
	memosKept = 1 << 16
)

// A term in a list takes about termRefBytes, a topology key in it about termCountsBytes.
const (
	termRefBytes    = 48
	termCountsBytes = 1 << 9
)

func (l *termList) bytes() int {
	n := termRefBytes*len(l.terms) + termCountsBytes*len(l.keys)
	for _, t := range l.prepared {
		n += t.matcher.bytes()
	}
	return n
}

// hashOf returns a hash of a pod's terms.
func hashOf(pod *model.Pod) uint64 {
	const prime = 1099511628211 // of FNV-1a
	h := HashName(pod.Namespace)
	for i := range pod.Terms {
		ref := &pod.Terms[i]
		h = (h ^ uint64(ref.Kind) ^ uint64(ref.Weight)<<8) * prime
		text := ref.Text.Value()
		for at := range len(text) {
			h = (h ^ uint64(text[at])) * prime
		}
	}
	return h
}

// has reports whether a pod has the namespace and the terms of the list.
func (l *termList) has(pod *model.Pod) bool {
	return l.owner == pod.Namespace && slices.EqualFunc(l.terms, pod.Terms, func(a, b model.TermRef) bool {
		return a.Kind == b.Kind && a.Weight == b.Weight && a.Text == b.Text
	})
}

// listOf returns the list of a pod's terms, nil if no pod on a node has the same terms.
func (x *termStore) listOf(pod *model.Pod, hash uint64) *termList {
	for _, l := range x.lists[hash] {
		if l.has(pod) {
			return l
		}
	}
	return nil
}

// newTermList groups a pod's terms by topology key.
func newTermList(pod *model.Pod, hash uint64, topology func(label string) *topology) *termList {
	l := &termList{owner: pod.Namespace, terms: pod.Terms, hash: hash, byLabel: map[string]*TermCounts{}}
	for i := range pod.Terms {
		label := pod.Terms[i].Source.TopologyKey
		t := l.byLabel[label]
		if t == nil {
			t = &TermCounts{label: label, list: l, topology: topology(label)}
			l.byLabel[label] = t
			l.keys = append(l.keys, t)
		}
		t.terms = append(t.terms, int32(i))
	}
	return l
}

// prepare parses the terms of a key that a node carries. Terms that cannot be parsed
// select no pod; the API server rejects them.
func (l *termList) prepare(t *TermCounts) {
	t.matcher = NewMatcher()
	for _, at := range t.terms {
		ref := &l.terms[at]
		if term, err := model.NewTerm(l.owner, ref.Source); err == nil {
			t.matcher.Add(term, EffectOf(ref.Kind, ref.Weight))
		}
	}
	l.prepared, l.memo = append(l.prepared, t), nil
}

// listsMatching appends the terms of lists that select the pod.
func (s *State) listsMatching(pod *model.Pod, to []Matching) []Matching {
	if len(s.terms.all) == 0 {
		return to
	}
	if s.terms.memos > memosKept || s.terms.memosOf != s.terms.namespaces {
		s.forgetMemos()
	}
	in, of := s.theirNamespace(pod.Namespace), pod.LabelSet()
	for _, l := range s.terms.all {
		effects, known := l.memo[of]
		if !known {
			effects = s.effectsOf(l, in, of, pod)
		}
		for i, effect := range effects {
			if effect != (Effect{}) {
				to = append(to, Matching{l.prepared[i], effect})
			}
		}
	}
	return to
}

// effectsOf returns the effects of a list's prepared keys on a pod, valid until the next
// call.
func (s *State) effectsOf(l *termList, in inNamespace, of model.LabelSet, pod *model.Pod) []Effect {
	effects, looked := s.terms.effects[:0], int64(0)
	for _, t := range l.prepared {
		effect, asked := t.matcher.effect(in, pod.Labels)
		effects, looked = append(effects, effect), looked+asked
	}
	s.terms.effects = effects
	s.terms.asked += looked
	if looked > memoFrom {
		if l.memo == nil {
			l.memo = map[model.LabelSet][]Effect{}
		}
		l.memo[of] = slices.Clone(effects)
		s.terms.memos++
	}
	return effects
}

// forgetMemos drops the cached effects of all lists, when they are too many or a
// namespace has changed.
func (s *State) forgetMemos() {
	for _, l := range s.terms.all {
		l.memo = nil
	}
	s.terms.memos, s.terms.memosOf = 0, s.terms.namespaces
}

// carryList adds a pod with many terms to its node's domains.
func (s *State) carryList(p *placed) {
	hash := hashOf(p.pod)
	l := s.terms.listOf(p.pod, hash)
	if l == nil {
		l = s.newList(p.pod, hash)
	}
	l.pods++
	p.list = l
	for _, t := range l.keys {
		t.pods++
		if t.topology != s.absent {
			s.addCarriers(t, p.slot, +1)
		}
	}
}

// newList adds the list of a pod's terms, without carriers.
func (s *State) newList(pod *model.Pod, hash uint64) *termList {
	l := newTermList(pod, hash, func(label string) *topology { return s.topology(TopologyKey{Label: label}) })
	for _, t := range l.keys {
		t.changed = s.stamp()
		if !s.listAbsent(t) {
			l.prepare(t)
		}
	}
	l.at = int32(len(s.terms.all))
	s.terms.all = append(s.terms.all, l)
	s.terms.lists[hash] = append(s.terms.lists[hash], l)
	s.terms.listBytes += l.bytes()
	s.terms.version++
	return l
}

// uncarryList removes a pod with many terms from its node's domains.
func (s *State) uncarryList(p *placed) {
	l := p.list
	if l == nil {
		return
	}
	p.list = nil
	for _, t := range l.keys {
		t.pods--
		if t.topology != s.absent {
			s.addCarriers(t, p.slot, -1)
		}
	}
	if l.pods--; l.pods == 0 {
		s.dropList(l)
	}
}

func (s *State) dropList(l *termList) {
	for _, t := range l.keys {
		s.unlistAbsent(t)
	}
	s.terms.listBytes -= l.bytes()
	s.terms.memos -= len(l.memo)
	last := len(s.terms.all) - 1
	s.terms.all[last].at = l.at
	s.terms.all[l.at] = s.terms.all[last]
	s.terms.all[last] = nil
	s.terms.all = s.terms.all[:last]
	same := slices.DeleteFunc(s.terms.lists[l.hash], func(other *termList) bool { return other == l })
	if s.terms.lists[l.hash] = same; len(same) == 0 {
		delete(s.terms.lists, l.hash)
	}
	s.terms.version++
}

// TermListBytes returns the approximate bytes of all term lists.
func (s *State) TermListBytes() int { return s.terms.listBytes }
