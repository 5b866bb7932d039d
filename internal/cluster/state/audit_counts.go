package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

func (s *State) auditTallies(v *audit.Violations) {
	bytes := s.auditSets(v)
	used, idle := map[*membership]int{}, 0
	for key, t := range s.tallies.byKey {
		if !s.auditListed(v, key, t) {
			continue
		}
		used[t.nodes]++
		bytes += t.bytes()
		if t.counts.total == 0 {
			idle++
		}
		s.auditTally(v, t)
	}
	bytes += s.auditChosen(v)
	bytes += s.auditMemberships(v, used)
	if s.tallies.idle != idle {
		v.Add("%d tallies count no pod, recounted %d", s.tallies.idle, idle)
	}
	if s.tallies.bytes != bytes {
		v.Add("tallies and memberships use %d bytes, recounted %d", s.tallies.bytes, bytes)
	}
}

// auditSets checks the sets of pods that tallies count, and returns their bytes.
func (s *State) auditSets(v *audit.Violations) (bytes int) {
	counted := map[*podCounts]string{}
	for text, c := range s.tallies.bySet {
		if c.set.Text != text {
			v.Add("the counts of the set %q are listed as those of %q", c.set.Text, text)
		}
		if len(c.tallies) == 0 {
			v.Add("no tally needs the counts of the set %q", text)
		}
		for _, t := range c.tallies {
			if s.tallies.byKey[t.name()] != t || countOf(c.tallies, t) != 1 {
				v.Add("tally %+v follows the set %q and is not kept, or follows it twice", t.name(), text)
			}
		}
		if !c.set.Uncounted {
			counted[c] = text
			if !filedBy(c.set.Terms[0], c.filed.keys) {
				v.Add("set %s is filed under %v, which its first term does not demand", text, c.filed.keys)
			}
		}
		bytes += c.set.bytes()
		if _, listed := s.tallies.selectNamespaces[c]; listed != c.set.selectsNamespaces() {
			v.Add("set %s is among those that select namespaces by label: %t", text, listed)
		}
	}
	s.tallies.index.index.audit(v, "set", counted)
	return bytes
}

// auditListed checks the links of a tally to its set and its membership. It returns false
// if the membership is not followed.
func (s *State) auditListed(v *audit.Violations, key tallyKey, t *Tally) bool {
	if t.name() != key || t.dropped || t.used > s.tallies.clock {
		v.Add("tally %+v is listed as %+v; dropped: %t; asked for at %d of %d", t.name(), key, t.dropped, t.used, s.tallies.clock)
	}
	if s.tallies.bySet[key.pods] != t.pods || countOf(t.pods.tallies, t) != 1 {
		v.Add("tally %+v does not follow the counts of its set", key)
	}
	if s.tallies.memberships[t.nodes.key()] != t.nodes {
		v.Add("tally %+v uses a membership that is not followed", key)
		return false
	}
	return true
}

// auditMemberships checks the memberships, and returns their memory in bytes. used are
// the recounted tallies of each.
func (s *State) auditMemberships(v *audit.Violations, used map[*membership]int) (bytes int) {
	for key, m := range s.tallies.memberships {
		bytes += m.bytes()
		if m.key() != key || m.tallies != used[m] || m.tallies == 0 || s.topologies[key.topology] != m.topology {
			v.Add("membership %+v is listed as %+v, or uses a topology that is not followed, or is used by %d tallies, recounted %d", m.key(), key, m.tallies, used[m])
			continue
		}
		s.auditMembership(v, m)
	}
	return bytes
}

// auditChosen checks the sets of nodes, and returns their memory in bytes.
func (s *State) auditChosen(v *audit.Violations) (bytes int) {
	used := map[*chosenNodes]int{}
	for _, m := range s.tallies.memberships {
		if m.chosen != nil {
			used[m.chosen]++
		}
	}
	for text, c := range s.tallies.chosen {
		bytes += c.bytes()
		if c.nodes.Text != text || c.memberships != used[c] || c.memberships == 0 {
			v.Add("the set of nodes %q is listed as %q, or is used by %d memberships, recounted %d", c.nodes.Text, text, c.memberships, used[c])
		}
		for slot, has := range c.has {
			if want := s.alive[slot] && c.nodes.Match(s.Node(int32(slot))); has != want {
				v.Add("the set of nodes %q has slot %d: %t", text, slot, has)
			}
		}
	}
	return bytes
}

func selectsNamespaces(term *model.Term) bool {
	return term.NamespaceSelector != nil && !term.NamespaceSelector.Empty()
}

func (s *State) auditMembership(v *audit.Violations, m *membership) {
	members, present := make([]int32, max(len(m.members), len(m.topology.value))), int32(0)
	for slot, want := range m.topology.of {
		if want != noDomain && m.nodes.Match != nil && !m.nodes.Match(s.Node(int32(slot))) {
			want = noDomain
		}
		if m.in[slot] != want {
			v.Add("membership %+v has slot %d (%s) in domain %d, want %d", m.key(), slot, s.name[slot], m.in[slot], want)
		}
		if want != noDomain {
			if members[want]++; members[want] == 1 {
				present++
			}
		}
	}
	for domain, n := range members {
		if have := m.has(int32(domain)); have != (n > 0) || have && m.members[domain] != n {
			v.Add("membership %+v counts other nodes than %d in domain %d", m.key(), n, domain)
		}
	}
	if m.present != present {
		v.Add("membership %+v has %d domains, recounted %d", m.key(), m.present, present)
	}
}

func (s *State) auditTally(v *audit.Violations, t *Tally) {
	want := map[int32]int32{}
	for _, p := range s.placed {
		if in := t.nodes.in; !t.pods.set.Uncounted && s.InSet(t.pods.set, p.pod) && in[p.slot] != noDomain {
			want[in[p.slot]]++
		}
	}
	t.counts.audit(v, fmt.Sprintf("tally %+v", t.name()), want)
}

// audit compares counts with the expected ones.
func (c *domainCounts) audit(v *audit.Violations, of string, want map[int32]int32) {
	total, some := int64(0), int32(0)
	have := map[int32]int32{}
	c.each(func(domain, pods int32) { have[domain] += pods })
	for domain, pods := range have {
		if some++; pods != want[domain] {
			v.Add("%s counts %d pods in domain %d, recounted %d", of, pods, domain, want[domain])
		}
	}
	for domain, pods := range want {
		total += int64(pods)
		if _, ok := have[domain]; !ok {
			v.Add("%s counts no pods in domain %d, recounted %d", of, domain, pods)
		}
	}
	if c.total != total || c.some != some {
		v.Add("%s has %d pods in total in %d domains, recounted %d in %d", of, c.total, c.some, total, some)
	}
	if c.dense != nil && c.listed != nil {
		v.Add("the counts of %s are kept both as an array and as a list", of)
	}
	if !slices.IsSortedFunc(c.listed, func(a, b domainCount) int { return cmp.Compare(a.domain, b.domain) }) ||
		slices.ContainsFunc(c.listed, func(x domainCount) bool { return x.pods == 0 }) {
		v.Add("the list of counts of %s is not sorted, or has an empty domain: %v", of, c.listed)
	}
	if keeps := c.least != nil; keeps != (c.keepLeast && c.dense != nil) {
		v.Add("%s keeps its least counts: %t", of, keeps)
	} else if keeps {
		c.auditLeast(v, of)
	}
}

func (c *domainCounts) auditLeast(v *audit.Violations, of string) {
	for domain := c.least.size; domain < len(c.dense); domain++ {
		if c.dense[domain] != 0 {
			v.Add("%s keeps the least count of %d domains, and domain %d has %d pods", of, c.least.size, domain, c.dense[domain])
		}
	}
	for domain, number := range c.least.leaves() {
		want := int32(absent)
		if domain < len(c.dense) {
			want = leaf(c.dense[domain])
		}
		if number != want {
			v.Add("%s keeps %d for domain %d among the least counts, want %d", of, number, domain, want)
		}
	}
	for i := 1; i < c.least.size; i++ {
		if smaller := min(c.least.tree[2*i], c.least.tree[2*i+1]); c.least.tree[i] != smaller {
			v.Add("%s: position %d of the tree of least counts has %d, below it the least is %d", of, i, c.least.tree[i], smaller)
		}
	}
}

func (s *State) auditPopulation(v *audit.Violations) {
	pods, empty, sets, namespaces := 0, 0, map[*labelSet]string{}, map[string]int{}
	for of, l := range s.population.sets {
		pods += len(l.pods)
		namespaces[l.namespace]++
		if len(l.pods) == 0 {
			empty++
		}
		sets[l] = fmt.Sprintf("%s %v", l.namespace, l.labels)
		s.auditLabelSet(v, of, l)
	}
	s.population.index.audit(v, "label set", sets)
	if s.population.isAnywhere {
		anywhere := map[anyLabelSet]string{}
		for l, name := range sets {
			anywhere[anyLabelSet{l}] = name
		}
		s.population.anywhere.audit(v, "label set of any namespace", anywhere)
	}
	if empty != s.population.empty {
		v.Add("%d label sets have no pods, recounted %d", s.population.empty, empty)
	}
	if pods != len(s.placed) {
		v.Add("label sets have %d pods, placed has %d", pods, len(s.placed))
	}
	if !maps.Equal(namespaces, s.population.namespaces) {
		v.Add("namespaces count the label sets %v, recounted %v", s.population.namespaces, namespaces)
	}
}

func (s *State) auditLabelSet(v *audit.Violations, of model.LabelSet, l *labelSet) {
	name := fmt.Sprintf("%s %v", l.namespace, l.labels)
	for i, p := range l.pods {
		if p.like != l || int(p.likeAt) != i || s.placed[p.pod.Key()] != p || p.pod.LabelSet() != of {
			v.Add("pod %s is at position %d of the label set %s, and says %d, or has other labels, or is not placed", p.pod, i, name, p.likeAt)
		}
	}
	keys := []labelKey{{namespace: l.namespace}}
	for key, value := range l.labels {
		if key == "" {
			continue
		}
		keys = append(keys, labelKey{l.namespace, model.Label{Key: key, Value: value}})
	}
	if !sameKeys(l.filed.keys, keys) {
		v.Add("label set %s is filed under %v, want %v", name, l.filed.keys, keys)
	}
	for _, set := range s.tallies.bySet {
		want := 0
		if !set.set.Uncounted && s.selects(set.set, l.namespace, l.labels) {
			want = 1
		}
		if listed := countOf(l.sets, set); listed != want {
			v.Add("label set %s lists the set %q %d times, want %d", name, set.set.Text, listed, want)
		}
	}
	for _, set := range l.sets {
		if s.tallies.bySet[set.set.Text] != set {
			v.Add("label set %s lists the set %q, which is not kept", name, set.set.Text)
		}
	}
}

func (s *State) auditTerms(v *audit.Violations) {
	carried := map[*TermCounts]int{}
	byDomain := map[*TermCounts]map[int32]int32{}
	for _, p := range s.placed {
		s.auditCarried(v, p)
		for _, t := range p.terms {
			carried[t]++
			if byDomain[t] == nil {
				byDomain[t] = map[int32]int32{}
			}
			if of := t.topology.of; int(p.slot) < len(of) && of[p.slot] != noDomain {
				byDomain[t][of[p.slot]]++
			}
		}
	}
	terms, absent := map[*TermCounts]string{}, map[string]int{}
	for key, t := range s.terms.byKey {
		terms[t] = key.text
		if t.topology == s.absent {
			absent[t.label]++
			delete(terms, t)
		} else if !filedBy(t.Term, t.filed.keys) {
			v.Add("term %s is filed under %v, which it does not demand", key.text, t.filed.keys)
		}
		if t.key != key || t.Kind != key.kind || t.Weight != key.weight || !s.isTopologyOf(t) {
			v.Add("term %+v is listed as %+v, or uses a topology that is not followed", t.key, key)
		}
		if t.pods != carried[t] || t.pods == 0 {
			v.Add("term %+v is carried by %d pods, recounted %d", key, t.pods, carried[t])
		}
		t.counts.audit(v, fmt.Sprintf("term %+v", key), byDomain[t])
	}
	s.terms.index.index.audit(v, "term", terms)
	s.auditLists(v, absent)
	if !maps.Equal(absent, s.terms.absent) {
		v.Add("terms with a key that no node carries are %v, recounted %v", s.terms.absent, absent)
	}
}

// isTopologyOf reports whether a term has the topology of its key.
func (s *State) isTopologyOf(t *TermCounts) bool {
	own := s.topologies[TopologyKey{Label: t.label}]
	if t.topology == s.absent {
		return s.labelled[t.label] == 0
	}
	return own == t.topology
}

// auditLists checks the lists of terms. It counts the keys without a topology of their
// own.
func (s *State) auditLists(v *audit.Violations, absent map[string]int) {
	carriers := map[*termList]int{}
	byDomain := map[*TermCounts]map[int32]int32{}
	for _, p := range s.placed {
		if p.list == nil {
			continue
		}
		carriers[p.list]++
		for _, t := range p.list.keys {
			if domain := t.topology.of[p.slot]; domain != noDomain {
				if byDomain[t] == nil {
					byDomain[t] = map[int32]int32{}
				}
				byDomain[t][domain]++
			}
		}
	}
	bytes, listed := 0, 0
	for _, same := range s.terms.lists {
		listed += len(same)
	}
	for at, l := range s.terms.all {
		bytes += l.bytes()
		if l.pods == 0 || l.pods != carriers[l] || int(l.at) != at || !slices.Contains(s.terms.lists[l.hash], l) {
			v.Add("a list of %d terms is carried by %d pods, recounted %d, at position %d of %d", len(l.terms), l.pods, carriers[l], l.at, at)
		}
		for _, t := range l.keys {
			if t.topology == s.absent {
				absent[t.label]++
			}
			if !s.isTopologyOf(t) || t.pods != l.pods || (t.matcher != nil) != slices.Contains(l.prepared, t) || t.matcher == nil && t.topology != s.absent {
				v.Add("key %q of a list has a topology that is not followed, or %d carriers instead of %d, or is not prepared", t.label, t.pods, l.pods)
			}
			t.counts.audit(v, fmt.Sprintf("key %q of a list", t.label), byDomain[t])
		}
	}
	if bytes != s.terms.listBytes || listed != len(s.terms.all) {
		v.Add("%d lists of terms use %d bytes, recounted %d in %d lists", len(s.terms.all), s.terms.listBytes, bytes, listed)
	}
}

// auditWeighed recounts the sums of weighed terms.
func (s *State) auditWeighed(v *audit.Violations) {
	bytes := 0
	for m, w := range s.weighed.byName {
		bytes += w.bytes()
		sums, total := map[int32]int64{}, int64(0)
		for _, p := range s.placed {
			effect, _ := m.effect(s.ownNamespace(p.pod.Namespace), p.pod.Labels)
			if domain := w.topology.of[p.slot]; domain != noDomain {
				sums[domain] += effect.Weights
				total += int64(effect.Preferred)
			}
		}
		for domain, sum := range w.sums {
			if sum != sums[int32(domain)] {
				v.Add("weighed terms sum up to %d in domain %d, recounted %d", sum, domain, sums[int32(domain)])
			}
			delete(sums, int32(domain))
		}
		for domain, sum := range sums {
			if sum != 0 {
				v.Add("weighed terms have no sum in domain %d, recounted %d", domain, sum)
			}
		}
		listed := 0
		for _, l := range s.population.sets {
			for _, x := range l.weighed {
				if x.Weighed == w {
					listed++
				}
			}
		}
		if w.total != total || w.listed != listed || s.topologies[w.topology.key] != w.topology {
			v.Add("weighed terms select %d pods of %d label sets, recounted %d of %d", w.total, w.listed, total, listed)
		}
	}
	if bytes != s.weighed.bytes {
		v.Add("weighed terms use %d bytes, recounted %d", s.weighed.bytes, bytes)
	}
}

// auditCarried checks that a pod carries the counts of exactly its valid terms, in their
// order.
func (s *State) auditCarried(v *audit.Violations, p *placed) {
	if isLong(p.pod) != (p.list != nil) || p.list != nil && (len(p.terms) > 0 || !p.list.has(p.pod)) {
		v.Add("pod %s has %d terms and carries a list of others, or none", p.pod, len(p.pod.Terms))
	}
	if p.list != nil {
		return
	}
	at := 0
	for i := range p.pod.Terms {
		ref := &p.pod.Terms[i]
		t := s.terms.byKey[termKey{ref.Kind, ref.Weight, ref.Text.Value()}]
		if t == nil {
			if _, err := model.NewTerm(p.pod.Namespace, ref.Source); err == nil {
				v.Add("pod %s has the term %s, which is not kept", p.pod, ref.Text.Value())
			}
			continue
		}
		if at >= len(p.terms) || p.terms[at] != t {
			v.Add("pod %s has the term %s and does not carry its counts", p.pod, ref.Text.Value())
			return
		}
		at++
	}
	if at != len(p.terms) {
		v.Add("pod %s carries the counts of %d terms, it has %d", p.pod, len(p.terms), at)
	}
}
