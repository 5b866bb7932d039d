package state

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// PodSet is the set of pods that a tally counts: the pods that match every term.
type PodSet struct {
	// Text is the set in canonical form: equal texts, equal sets.
	Text string
	// Terms must all match a pod of the set. Only its name, or an empty selector, selects
	// an unknown namespace.
	Terms []*model.Term
	// Staying excludes terminating pods.
	Staying bool
	// Uncounted means that the set counts 0 by definition, as kube-scheduler defines it
	// for a spread constraint that selects every pod. Only the changes of a dry run are
	// counted.
	Uncounted bool
	// Matcher, if not nil, stands for all terms of the set. Terms then has one term,
	// which selects every pod of the set. A pod must match all terms or, with Any, one of
	// them.
	Matcher *Matcher
	Any     bool
}

// matches reports whether the terms of a matcher put pods with these labels in the set.
func (s *PodSet) matches(in inNamespace, of labels.Set) bool {
	effect, _ := s.Matcher.effect(in, of)
	n := int(effect.Repelling + effect.Near + effect.Preferred)
	return n > 0 && (s.Any || n == s.Matcher.size)
}

// selectsNamespaces reports whether the set depends on labels of namespaces.
func (s *PodSet) selectsNamespaces() bool {
	return slices.ContainsFunc(s.Terms, selectsNamespaces) || s.Matcher != nil && s.Matcher.byNamespaceLabels
}

// bytes returns the memory of the set beyond tallyBytes.
func (s *PodSet) bytes() int { return max(len(s.Text)-tallyBytes/4, 0) + s.Matcher.bytes() }

// NodeSet is the nodes whose pods a tally counts.
type NodeSet struct {
	// Text is the set in canonical form: equal texts, equal sets. Empty means every node.
	Text string
	// Match may depend only on the node's labels and taints. nil means every node.
	Match func(Node) bool
}

// Tally counts the pods of a set by domain. It is built on first use, and then updated
// with each pod and node.
//
// The slices it returns are its own, and valid until the state changes.
type Tally struct {
	// Invariant: the set lists the tally once, and the state has the membership, as long
	// as the tally is kept.
	pods  *podCounts
	nodes *membership
	// Invariant: counts has the pods of the set by the domain of their slot in the
	// membership; only domains with members have any.
	counts  domainCounts
	used    uint64 // when it was last used
	id      uint64 // the stamp of its creation
	changed uint64 // the stamp of the last change of counts
	// Invariant: a tally that is kept is not dropped.
	dropped bool
}

func (t *Tally) topology() *topology { return t.nodes.topology }

// Domains returns the domain of each slot under the tally's key, -1 for none, whether or
// not the node's pods count.
func (t *Tally) Domains() []int32 { return t.topology().of }

// AddTo adds weight × the number of pods to the sum of each domain.
func (t *Tally) AddTo(sums []int64, weight int64) { t.counts.addTo(sums, weight) }

// Total returns the number of pods counted in any domain.
func (t *Tally) Total() int64 { return t.counts.total }

// Present returns the number of domains with nodes whose pods count.
func (t *Tally) Present() int32 { return t.nodes.present }

// Least returns the smallest count of a domain with nodes whose pods count, in a view
// with these differences. Each difference costs logarithmic time in the number of
// domains, or a walk over a list of few domains. At least one such domain must exist, and
// KeepLeast must have been called.
func (t *Tally) Least(differences []Difference) int32 {
	// empty counts the domains without pods and differences.
	least, empty := int32(absent), t.nodes.present-t.counts.some
	for _, d := range differences {
		if !t.nodes.has(d.Domain) {
			continue
		}
		pods := t.counts.of(d.Domain)
		if pods == 0 {
			empty--
		}
		least = min(least, pods+d.Pods)
	}
	if empty > 0 {
		return min(least, 0)
	}
	return min(least, t.counts.leastExcept(sorted(differences)))
}

// sorted returns the differences sorted by domain.
func sorted(differences []Difference) []Difference {
	if slices.IsSortedFunc(differences, byDomain) {
		return differences
	}
	return slices.SortedFunc(slices.Values(differences), byDomain)
}

// podCounts is a set of pods that tallies count.
type podCounts struct {
	set PodSet
	// Invariant: tallies are the tallies of byKey that count the set, at least one.
	tallies []*Tally
	filed   filing[labelKey]
}

func (c *podCounts) filing() *filing[labelKey] { return &c.filed }

// counts reports whether the set counts a pod whose labels and namespace it selects.
func (c *podCounts) counts(pod *model.Pod) bool { return !c.set.Staying || !pod.Terminating }

// tallyKey identifies a tally.
type tallyKey struct {
	pods, nodes string
	topology    TopologyKey
}

// tallies are all tallies, bounded in bytes; the least recently used are evicted first.
type tallies struct {
	// Invariant: tallies, sets and memberships are listed under their own names. A
	// membership counts the tallies that use it, at least one.
	byKey       map[tallyKey]*Tally
	bySet       map[string]*podCounts
	memberships map[membershipKey]*membership
	// Invariant: chosen has the nodes of each set that a membership uses, under the set's
	// text.
	chosen map[string]*chosenNodes
	// dropped are the tallies dropped since the last batch of changes. A decision may
	// still read them.
	dropped []*Tally
	// Invariant: index lists exactly the sets of bySet that are not Uncounted, each by
	// its first term.
	index selectionIndex[*podCounts]
	// Invariant: selectNamespaces are the sets of bySet with a term that selects
	// namespaces by label.
	selectNamespaces map[*podCounts]struct{}
	// Invariant: bytes is the sum of bytes over tallies, sets of pods and of nodes, and
	// memberships.
	bytes, maxBytes int
	clock           uint64
	// Invariant: idle is the number of tallies without pods.
	idle int
	// updates counts changes of tallies by pods. visited counts label sets and pods
	// visited to build tallies. asked counts checks of a set against a new label set.
	// built counts built tallies, found reused ones.
	updates, visited, asked, built, found int64
	// matched counts how often a node was matched against a set of nodes.
	matched int64
}

// defaultTallyBytes holds the tallies of 50,000 apps of a few dozen pods each.
const defaultTallyBytes = 256 << 20

// fewIdle is the minimum number of tallies without pods that are kept.
const fewIdle = 64

// sweepTallies drops tallies without pods: each rollout adds new ones, and the old ones
// are never read again. It keeps the most recently used ones,
// as many as the tallies with pods, plus fewIdle. It waits until twice as many have
// gathered.
func (s *State) sweepTallies() {
	keep := fewIdle + len(s.tallies.byKey) - s.tallies.idle
	if s.tallies.idle <= 2*keep {
		return
	}
	horizon := s.tallies.clock - min(s.tallies.clock, uint64(keep))
	s.dropTallies(func(t *Tally) bool { return t.counts.total == 0 && t.used <= horizon })
}

// Tally returns the count of a set of pods by the domains of a key, over a set of nodes.
func (s *State) Tally(pods PodSet, key TopologyKey, nodes NodeSet) *Tally {
	s.tallies.clock++
	name := tallyKey{pods.Text, nodes.Text, key}
	t := s.tallies.byKey[name]
	if t == nil {
		if domains := s.topology(key); domains == s.absent {
			return domains.nothing(s)
		}
		s.evictTallies()
		t = s.buildTally(pods, key, nodes)
		s.tallies.byKey[name] = t
		s.tallies.built++
	} else {
		s.tallies.found++
	}
	t.used = s.tallies.clock
	return t
}

func (s *State) buildTally(pods PodSet, key TopologyKey, nodes NodeSet) *Tally {
	set := s.tallies.bySet[pods.Text]
	if set == nil {
		set = s.newSet(pods)
	}
	t := &Tally{pods: set, nodes: s.membership(nodes, key), id: s.stamp()}
	t.changed = t.id
	t.nodes.tallies++
	set.tallies = append(set.tallies, t)
	s.tallies.bytes += t.bytes()
	s.tallies.idle++
	s.eachCounted(set, func(p *placed) { s.add(t, t.nodes.in[p.slot], +1) })
	return t
}

// newSet starts to track a set of pods.
func (s *State) newSet(set PodSet) *podCounts {
	c := &podCounts{set: set}
	s.tallies.bySet[set.Text] = c
	s.tallies.bytes += set.bytes()
	if set.Uncounted {
		return c
	}
	if set.selectsNamespaces() {
		s.tallies.selectNamespaces[c] = struct{}{}
	}
	s.tallies.index.add(set.Terms[0], c)
	s.likely(set.Terms[0], func(l *labelSet) {
		if s.selects(set, l.namespace, l.labels) {
			l.sets = append(l.sets, c)
		}
	})
	return c
}

// eachCounted calls yield with each placed pod of a set.
func (s *State) eachCounted(set *podCounts, yield func(*placed)) {
	if set.set.Uncounted {
		return
	}
	s.likely(set.set.Terms[0], func(l *labelSet) {
		if !slices.Contains(l.sets, set) {
			return
		}
		for _, p := range l.pods {
			if s.tallies.visited++; set.counts(p.pod) {
				yield(p)
			}
		}
	})
}

// InSet reports whether a pod, on whatever node, is in the set.
func (s *State) InSet(set PodSet, pod *model.Pod) bool {
	return (!set.Staying || !pod.Terminating) && s.selects(set, pod.Namespace, pod.Labels)
}

// selects reports whether a set's terms select pods with these labels in a namespace.
func (s *State) selects(set PodSet, namespace string, of labels.Set) bool {
	if set.Matcher != nil {
		return set.matches(s.ownNamespace(namespace), of)
	}
	for _, term := range set.Terms {
		if !term.Selector.Matches(of) || !s.inNamespaces(term, namespace) {
			return false
		}
	}
	return true
}

// inNamespaces reports whether a term selects a namespace. A selector does not select an
// unknown namespace, unless it is empty.
func (s *State) inNamespaces(term *model.Term, name string) bool {
	if slices.Contains(term.Namespaces, name) {
		return true
	}
	if term.NamespaceSelector == nil {
		return false
	}
	namespace, known := s.namespaces[name]
	return (known || term.NamespaceSelector.Empty()) && term.NamespaceSelector.Matches(namespace)
}

// tally adds a placed pod (+1) to the counts of its node's domains, or removes it (-1).
func (s *State) tally(p *placed, sign int32) {
	s.turn.changes++
	for _, set := range p.like.sets {
		if !set.counts(p.pod) {
			continue
		}
		for _, t := range set.tallies {
			s.tallies.updates++
			s.add(t, t.nodes.in[p.slot], sign)
		}
	}
	s.weighPod(p, int64(sign))
}

// add adds pods to the count of a domain.
func (s *State) add(t *Tally, domain, pods int32) {
	before, idle := t.counts.bytes(), t.counts.total == 0
	t.counts.add(domain, pods, len(t.topology().value))
	t.changed = s.stamp()
	s.tallies.bytes += t.counts.bytes() - before
	switch now := t.counts.total == 0; {
	case idle && !now:
		s.tallies.idle--
	case now && !idle:
		s.tallies.idle++
	}
}

// TallyWork returns how often a pod was added to or removed from a tally, and the number
// of built tallies.
func (s *State) TallyWork() (updates, built int64) { return s.tallies.updates, s.tallies.built }

// TalliesFound returns how often a requested tally existed already.
func (s *State) TalliesFound() int64 { return s.tallies.found }

// Tallies returns the number of tallies.
func (s *State) Tallies() int { return len(s.tallies.byKey) }

// TallyBytes returns the approximate memory of the tallies, in bytes.
func (s *State) TallyBytes() int { return s.tallies.bytes }

func (t *Tally) bytes() int { return tallyBytes + t.counts.bytes() }

// tallyBytes is the approximate memory of a tally besides its counts: its selectors,
// texts and map entries. For most apps they dominate.
const tallyBytes = 1 << 10

// evictTallies drops tallies if the memory limit is reached.
func (s *State) evictTallies() {
	if s.tallies.bytes < s.tallies.maxBytes || len(s.tallies.byKey) == 0 {
		return
	}
	times := make([]uint64, 0, len(s.tallies.byKey))
	for _, t := range s.tallies.byKey {
		times = append(times, t.used)
	}
	slices.Sort(times)
	horizon := times[len(times)/8]
	s.dropTallies(func(t *Tally) bool { return t.used <= horizon })
}

// releaseTallies frees the memory of dropped tallies, which compiled needs may refer to
// for long.
func (s *State) releaseTallies() {
	for _, t := range s.tallies.dropped {
		*t = Tally{dropped: true}
	}
	clear(s.tallies.dropped)
	s.tallies.dropped = s.tallies.dropped[:0]
}

// dropTallies drops the chosen tallies. Their next use builds them again.
func (s *State) dropTallies(chosen func(*Tally) bool) {
	for _, t := range s.tallies.byKey {
		if chosen(t) {
			s.dropTally(t)
		}
	}
}

// dropSet drops all tallies of a set.
func (s *State) dropSet(set *podCounts) {
	for _, t := range slices.Clone(set.tallies) {
		s.dropTally(t)
	}
}

func (s *State) dropTally(t *Tally) {
	set := t.pods
	t.dropped = true
	s.tallies.dropped = append(s.tallies.dropped, t)
	s.tallies.bytes -= t.bytes()
	if t.counts.total == 0 {
		s.tallies.idle--
	}
	delete(s.tallies.byKey, t.name())
	s.forgetMembership(t.nodes)
	set.tallies = slices.DeleteFunc(set.tallies, func(other *Tally) bool { return other == t })
	if len(set.tallies) > 0 {
		return
	}
	delete(s.tallies.bySet, set.set.Text)
	s.tallies.bytes -= set.set.bytes()
	delete(s.tallies.selectNamespaces, set)
	if set.set.Uncounted {
		return
	}
	s.tallies.index.remove(set)
	s.likely(set.set.Terms[0], func(l *labelSet) {
		l.sets = slices.DeleteFunc(l.sets, func(other *podCounts) bool { return other == set })
	})
}

func (t *Tally) name() tallyKey {
	return tallyKey{t.pods.set.Text, t.nodes.nodes.Text, t.topology().key}
}
