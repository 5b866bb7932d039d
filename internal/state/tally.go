package state

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
)

// PodSet is the pods that a tally counts: those that match every term.
type PodSet struct {
	// Text is the set in canonical form: equal texts, equal sets.
	Text string
	// Terms must all match a pod of the set. A namespace that is not known is selected only by its name, or by an empty selector.
	Terms []*model.Term
	// Staying excludes pods that are being deleted.
	Staying bool
	// Uncounted means that the set counts 0 by definition, as kube-scheduler defines it for a spread constraint that selects every pod. Only
	// what a dry run adds or removes is counted.
	Uncounted bool
}

// NodeSet is the nodes whose pods a tally counts.
type NodeSet struct {
	// Text is the set in canonical form: equal texts, equal sets. Empty means every node.
	Text string
	// Match may depend only on the node's labels and taints. nil means every node.
	Match func(Node) bool
}

// Tally counts the pods of a set by domain. It is built on first use, and then updated with each pod and node.
//
// The slices it returns are its own, and valid until the state changes.
type Tally struct {
	// Invariant: the set's counts list the tally once, and the state has the topology, as long as the tally is kept.
	pods     *podCounts
	nodes    NodeSet
	topology *topology
	// Invariant: in is the domain of each node of the node set.
	in []int32 // by slot: the domain in which the node's pods are counted, noDomain if they are not
	// Invariant: counts sums pods.onNode, and members counts the nodes, over the slots that are in the domain.
	counts  []int32 // by domain
	members []int32 // by domain: nodes whose pods are counted there
	// Invariant: total is the sum of counts, present the number of domains with members.
	total   int64 // of counts
	present int32 // domains with members
	// Invariant: least has the count of each domain with members and no other; each inner node has the smaller of its children.
	least *minima // of the counts of domains with members; nil until KeepLeast is called
	used  uint64  // when it was last used
	// Invariant: a tally that is kept is not dropped.
	dropped bool
}

// Domains returns the domain of each slot under the tally's key, -1 for none, whether or not the node's pods are counted.
func (t *Tally) Domains() []int32 { return t.topology.of }

// Counts returns the number of pods by domain.
func (t *Tally) Counts() []int32 { return t.counts }

// Counted reports whether the pods on a node are counted in any domain.
func (t *Tally) Counted(slot int32) bool { return t.in[slot] != noDomain }

// Total returns the sum of Counts.
func (t *Tally) Total() int64 { return t.total }

// Present returns the number of domains with members.
func (t *Tally) Present() int32 { return t.present }

// KeepLeast makes Least available. From now on the least count is kept up to date, without a walk over the domains.
func (t *Tally) KeepLeast() {
	if t.least != nil {
		return
	}
	t.least = &minima{}
	t.least.grow(len(t.counts))
	for domain := range t.counts {
		t.keepLeast(int32(domain))
	}
}

// keepLeast updates the least count if it is kept.
func (t *Tally) keepLeast(domain int32) {
	switch {
	case t.least == nil:
	case t.members[domain] > 0:
		t.least.set(domain, t.counts[domain])
	default:
		t.least.set(domain, absent)
	}
}

// Least returns the smallest count of a domain with members, in a view with these differences. It takes time in the logarithm of the number of
// domains for each difference. There must be such a domain, and KeepLeast must have been called.
func (t *Tally) Least(differences []Difference) int32 {
	least := t.least.except(differences)
	for _, d := range differences {
		if t.members[d.Domain] > 0 {
			least = min(least, t.counts[d.Domain]+d.Pods)
		}
	}
	return least
}

// podCounts counts the pods of a set on each node, for all tallies of that set.
type podCounts struct {
	set PodSet
	// Invariant: onNode is how many pods on the slot are in the set; 0 for a set that is Uncounted.
	onNode []int32 // by slot
	// Invariant: tallies are those of byKey that count the set, at least one.
	tallies []*Tally
}

// tallyKey identifies a tally.
type tallyKey struct {
	pods, nodes string
	topology    TopologyKey
}

// tallies are all tallies, bounded in bytes; the least recently used are evicted first.
type tallies struct {
	// Invariant: tallies and counts of sets are listed under their own names.
	byKey map[tallyKey]*Tally
	bySet map[string]*podCounts
	// dropped are the tallies that were dropped since the last batch of changes. A decision may still read them.
	dropped []*Tally
	// Invariant: index lists exactly the sets that are counted, each by the selector of its first term.
	index    selectionIndex[*podCounts]
	maxBytes int
	clock    uint64
	// updates counts how often a pod was added to or removed from a tally; built how many tallies were built, found how often one existed
	// already.
	updates, built, found int64
}

// defaultTallyBytes holds a thousand tallies of a cluster of 20,000 nodes.
const defaultTallyBytes = 256 << 20

// Tally returns the count of a set of pods by the domains of a key, over a set of nodes.
func (s *State) Tally(pods PodSet, key TopologyKey, nodes NodeSet) *Tally {
	s.tallies.clock++
	name := tallyKey{pods.Text, nodes.Text, key}
	t := s.tallies.byKey[name]
	if t == nil {
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
	counts := s.tallies.bySet[pods.Text]
	if counts == nil {
		counts = s.countPods(pods)
	}
	t := &Tally{pods: counts, nodes: nodes, topology: s.topology(key), in: make([]int32, s.Slots())}
	counts.tallies = append(counts.tallies, t)
	for slot := range t.in {
		t.in[slot] = noDomain
		t.enter(s, int32(slot))
	}
	return t
}

func (s *State) countPods(set PodSet) *podCounts {
	counts := &podCounts{set: set, onNode: make([]int32, s.Slots())}
	s.tallies.bySet[set.Text] = counts
	if set.Uncounted {
		return counts
	}
	s.tallies.index.add(set.Terms[0].Selector, counts)
	for slot, pods := range s.pods {
		for _, p := range pods {
			if s.InSet(set, p.pod) {
				counts.onNode[slot]++
			}
		}
	}
	return counts
}

// InSet reports whether a pod, on whatever node, is in the set.
func (s *State) InSet(set PodSet, pod *model.Pod) bool {
	if set.Staying && pod.Terminating {
		return false
	}
	for _, term := range set.Terms {
		if !term.Selector.Matches(pod.Labels) || !s.inNamespaces(term, pod.Namespace) {
			return false
		}
	}
	return true
}

// inNamespaces reports whether a term selects a namespace. A selector does not select a namespace that is not known, unless it is empty.
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

// enter adds a node's pods to the count, if the node is in the tally's set and has a domain.
func (t *Tally) enter(s *State, slot int32) {
	domain := t.topology.of[slot]
	if domain == noDomain || t.nodes.Match != nil && !t.nodes.Match(s.Node(slot)) {
		return
	}
	for int(domain) >= len(t.counts) {
		t.counts, t.members = append(t.counts, 0), append(t.members, 0)
	}
	t.in[slot] = domain
	if t.members[domain]++; t.members[domain] == 1 {
		t.present++
	}
	t.add(domain, t.pods.onNode[slot])
}

// leave removes a node's pods from the count.
func (t *Tally) leave(slot int32) {
	domain := t.in[slot]
	if domain == noDomain {
		return
	}
	t.in[slot] = noDomain
	if t.members[domain]--; t.members[domain] == 0 {
		t.present--
	}
	t.add(domain, -t.pods.onNode[slot])
}

func (t *Tally) add(domain, pods int32) {
	t.counts[domain] += pods
	t.total += int64(pods)
	t.keepLeast(domain)
}

// tally adds one pod (+1) on a node to the counts, or removes one (-1).
func (s *State) tally(slot int32, pod *model.Pod, sign int32) {
	if len(s.tallies.bySet) == 0 {
		return
	}
	s.tallies.index.candidates(pod, func(counts *podCounts) {
		if !s.InSet(counts.set, pod) {
			return
		}
		counts.onNode[slot] += sign
		for _, t := range counts.tallies {
			s.tallies.updates++
			if domain := t.in[slot]; domain != noDomain {
				t.add(domain, sign)
			}
		}
	})
}

// TallyWork returns how often a pod was added to or removed from a tally, and how many tallies were built.
func (s *State) TallyWork() (updates, built int64) { return s.tallies.updates, s.tallies.built }

// TalliesFound returns how often a requested tally existed already.
func (s *State) TalliesFound() int64 { return s.tallies.found }

// Tallies returns how many tallies are kept.
func (s *State) Tallies() int { return len(s.tallies.byKey) }

// TallyBytes returns about how many bytes the tallies use. It reads each of them.
func (s *State) TallyBytes() int {
	bytes := 0
	for _, t := range s.tallies.byKey {
		bytes += t.bytes()
	}
	return bytes
}

func (t *Tally) bytes() int {
	return tallyBytes + 4*(len(t.in)+len(t.counts)+len(t.members)+len(t.pods.onNode)) + t.least.bytes()
}

// tallyBytes is about what a tally uses besides its arrays: its selectors, texts and map entries. In a small cluster that is most of it.
const tallyBytes = 1 << 10

// evictTallies makes room for a new tally.
func (s *State) evictTallies() {
	if s.TallyBytes() < s.tallies.maxBytes {
		return
	}
	var times []uint64
	for _, t := range s.tallies.byKey {
		times = append(times, t.used)
	}
	slices.Sort(times)
	horizon := times[len(times)/8]
	s.dropTallies(func(t *Tally) bool { return t.used <= horizon })
}

// releaseTallies frees the memory of dropped tallies, which compiled needs may refer to for long.
func (s *State) releaseTallies() {
	for _, t := range s.tallies.dropped {
		t.in, t.counts, t.members, t.least, t.pods, t.topology = nil, nil, nil, nil, nil, nil
	}
	clear(s.tallies.dropped)
	s.tallies.dropped = s.tallies.dropped[:0]
}

// dropTallies drops the chosen tallies. Those that are still needed are built again on their next use.
func (s *State) dropTallies(chosen func(*Tally) bool) {
	for key, t := range s.tallies.byKey {
		if !chosen(t) {
			continue
		}
		t.dropped = true
		s.tallies.dropped = append(s.tallies.dropped, t)
		delete(s.tallies.byKey, key)
		counts := t.pods
		counts.tallies = slices.DeleteFunc(counts.tallies, func(other *Tally) bool { return other == t })
		if len(counts.tallies) == 0 {
			delete(s.tallies.bySet, counts.set.Text)
			if !counts.set.Uncounted {
				s.tallies.index.remove(counts.set.Terms[0].Selector, counts)
			}
		}
	}
}
