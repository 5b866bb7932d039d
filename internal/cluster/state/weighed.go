package state

import (
	"slices"
	"unsafe"

	"k8s.io/apimachinery/pkg/labels"
)

// Weighed sums up, by the domains of a topology key, the pods that many terms of a
// pending pod select, each with the weights of the terms that select it. It replaces a
// tally for each term: each label set is matched once, and a pod that comes or goes
// changes one sum.
//
// It is valid until the state changes.
type Weighed struct {
	name     *Matcher
	topology *topology
	// Invariant: sums has the weights by domain; total counts the pairs of a term and a
	// pod that it selects in a domain.
	sums    []int64
	total   int64
	used    uint64
	changed uint64
	listed  int // label sets that have an effect
}

// weighedBy is the effect of the terms on the pods of a label set.
type weighedBy struct {
	*Weighed
	effect Effect
}

// weighings are all sums, bounded in bytes; the least recently used are dropped first.
type weighings struct {
	byName map[*Matcher]*Weighed
	// Invariant: bytes is the sum over byName.
	bytes, maxBytes int
	clock           uint64
}

// defaultWeighedBytes suffices for a hundred pods with thousands of terms at 5,000 nodes.
const defaultWeighedBytes = 32 << 20

// weighedBytes is the approximate memory of a sum besides its arrays.
const weighedBytes = 1 << 9

func (w *Weighed) bytes() int {
	return weighedBytes + w.name.bytes() + 8*cap(w.sums) + int(unsafe.Sizeof(weighedBy{}))*w.listed
}

// Weigh returns the sums for the terms of a matcher, by the domains of a label; nil if no
// node carries the label.
func (v View) Weigh(m *Matcher, label string) *Weighed { return v.s.weigh(m, label) }

func (s *State) weigh(m *Matcher, label string) *Weighed {
	s.weighed.clock++
	w := s.weighed.byName[m]
	if w == nil {
		t := s.topology(TopologyKey{Label: label})
		if t == s.absent {
			return nil
		}
		s.makeRoomForWeighed()
		w = s.newWeighed(m, t)
	}
	w.used = s.weighed.clock
	return w
}

func (s *State) newWeighed(m *Matcher, t *topology) *Weighed {
	w := &Weighed{name: m, topology: t, changed: s.stamp(), sums: make([]int64, len(t.value))}
	for _, l := range s.population.sets {
		if effect, ok := s.weighSet(w, l); ok {
			for _, p := range l.pods {
				w.add(t.of[p.slot], effect, +1)
			}
		}
	}
	s.weighed.byName[m] = w
	s.weighed.bytes += w.bytes()
	return w
}

// weighSet adds the sums to a label set, unless no term selects it.
func (s *State) weighSet(w *Weighed, l *labelSet) (effect Effect, some bool) {
	s.tallies.visited++
	effect, asked := w.name.effect(s.ownNamespace(l.namespace), l.labels)
	s.terms.asked += asked
	if effect == (Effect{}) {
		return effect, false
	}
	l.weighed = append(l.weighed, weighedBy{w, effect})
	w.listed++
	return effect, true
}

// weighNewSet adds all sums to a new label set.
func (s *State) weighNewSet(l *labelSet) {
	for _, w := range s.weighed.byName {
		before := w.bytes()
		s.weighSet(w, l)
		s.weighed.bytes += w.bytes() - before
	}
}

// unlistSet removes a label set from the sums.
func (s *State) unlistSet(l *labelSet) {
	for _, w := range l.weighed {
		before := w.bytes()
		w.listed--
		s.weighed.bytes += w.bytes() - before
	}
	l.weighed = nil
}

// weighIn adds n pods of a label set in a domain.
func (s *State) weighIn(w *weighedBy, domain int32, n int64) {
	before := cap(w.sums)
	w.add(domain, w.effect, n)
	w.changed = s.stamp()
	s.weighed.bytes += 8 * (cap(w.sums) - before)
}

// add adds n pods of an effect in a domain. Newer domains have a sum of 0 before.
func (w *Weighed) add(domain int32, effect Effect, n int64) {
	if domain == noDomain {
		return
	}
	if missing := len(w.topology.value) - len(w.sums); missing > 0 {
		w.sums = append(w.sums, make([]int64, missing)...)
	}
	w.sums[domain] += n * effect.Weights
	w.total += n * int64(effect.Preferred)
}

// weighPod adds a placed pod (+1) to the sums, or removes it (-1).
func (s *State) weighPod(p *placed, sign int64) {
	for i := range p.like.weighed {
		w := &p.like.weighed[i]
		s.weighIn(w, w.topology.of[p.slot], sign)
		s.tallies.updates++
	}
}

func (s *State) makeRoomForWeighed() {
	if s.weighed.bytes < s.weighed.maxBytes || len(s.weighed.byName) == 0 {
		return
	}
	var times []uint64
	for _, w := range s.weighed.byName {
		times = append(times, w.used)
	}
	slices.Sort(times)
	horizon := times[len(times)/8]
	s.dropWeighed(func(w *Weighed) bool { return w.used <= horizon })
}

// dropWeighed drops the chosen sums, which visits each label set.
func (s *State) dropWeighed(chosen func(*Weighed) bool) {
	gone := map[*Weighed]bool{}
	for m, w := range s.weighed.byName {
		if chosen(w) {
			gone[w] = true
			s.weighed.bytes -= w.bytes()
			delete(s.weighed.byName, m)
		}
	}
	if len(gone) == 0 {
		return
	}
	for _, l := range s.population.sets {
		l.weighed = slices.DeleteFunc(l.weighed, func(w weighedBy) bool { return gone[w.Weighed] })
	}
}

// dropByNamespaceLabels drops the sums of terms that select namespaces by label.
func (s *State) dropByNamespaceLabels() {
	s.dropWeighed(func(w *Weighed) bool { return w.name.byNamespaceLabels })
}

// WeighedBytes returns the approximate memory of the sums of weighed terms, in bytes.
func (s *State) WeighedBytes() int { return s.weighed.bytes }

// Layout returns the distribution of nodes over the domains.
func (w *Weighed) Layout() Layout { return w.topology.layout() }

// Domains returns the domain of each slot, -1 for none.
func (w *Weighed) Domains() []int32 { return w.topology.of }

// WeighedDifference is the difference between the sum of a view and of the state in a
// domain.
type WeighedDifference struct {
	Domain int32
	Weight int64
}

// AddWeighed adds the sums of a view to sums, by domain. It adds nothing and returns
// false if no term selects a pod of the view in a domain.
func (v View) AddWeighed(w *Weighed, sums func() []int64) (related bool) {
	total, differences := v.weighedDifferences(w)
	if total <= 0 {
		return false
	}
	to := sums()
	for domain, sum := range w.sums {
		to[domain] += sum
	}
	for _, d := range differences {
		to[d.Domain] += d.Weight
	}
	return true
}

// IsRelated reports whether a term selects a pod of the view in a domain.
func (v View) IsRelated(w *Weighed) bool {
	total, _ := v.weighedDifferences(w)
	return total > 0
}

func (v View) weighedDifferences(w *Weighed) (total int64, differences []WeighedDifference) {
	if v.d == nil {
		return w.total, nil
	}
	total = w.total
	for i := range v.d.changes {
		c := &v.d.changes[i]
		domain := w.topology.of[c.slot]
		if domain == noDomain {
			continue
		}
		effect, _ := w.name.effect(v.s.ownNamespace(c.pod.Namespace), labels.Set(c.pod.Labels))
		total += int64(c.n) * int64(effect.Preferred)
		differences = append(differences, WeighedDifference{domain, int64(c.n) * effect.Weights})
	}
	return total, differences
}
