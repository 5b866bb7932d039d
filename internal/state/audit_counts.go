package state

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

// selected is the selector by which an index lists something, and a text to name it by.
type selected struct {
	selector labels.Selector
	text     string
}

func (s *State) auditTopologies(v *audit.Violations) {
	for key, t := range s.topologies {
		if t.key != key {
			v.Add("the topology of %+v is listed as that of %+v", t.key, key)
		}
		s.auditTopology(v, t)
	}
}

func (s *State) auditTopology(v *audit.Violations, t *topology) {
	if len(t.nodes) != len(t.value) {
		v.Add("topology %+v has nodes of %d domains and values of %d", t.key, len(t.nodes), len(t.value))
		return
	}
	nodes := make([]int32, len(t.value))
	for slot := range s.alive {
		value, in := t.valueOf(s, int32(slot))
		switch domain := t.of[slot]; {
		case !in && domain == noDomain:
		case !in || domain < 0 || int(domain) >= len(t.value) || t.value[domain] != value:
			v.Add("slot %d (%s) is in domain %d of topology %+v; it should be in one: %t, with the value %q", slot, s.name[slot], domain, t.key, in, value)
		default:
			nodes[domain]++
		}
	}
	free := map[int32]int{}
	for _, domain := range t.free {
		free[domain]++
	}
	used := 0
	for domain, n := range nodes {
		wantFree := 1
		if n > 0 {
			wantFree = 0
			used++
			if id, known := t.ids[t.value[domain]]; !known || id != int32(domain) {
				v.Add("domain %d of topology %+v has the value %q, which ids has as %d (%t)", domain, t.key, t.value[domain], id, known)
			}
		}
		if free[int32(domain)] != wantFree {
			v.Add("domain %d of topology %+v has %d nodes and is free %d times", domain, t.key, n, free[int32(domain)])
		}
		if t.nodes[domain] != n {
			v.Add("domain %d of topology %+v counts %d nodes, recounted %d", domain, t.key, t.nodes[domain], n)
		}
	}
	if len(t.ids) != used {
		v.Add("topology %+v has ids for %d values, %d are in use", t.key, len(t.ids), used)
	}
}

func (s *State) auditTallies(v *audit.Violations) {
	sets := map[*podCounts]selected{}
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
			sets[c] = selected{c.set.Terms[0].Selector, text}
		}
		s.auditOnNode(v, c)
	}
	s.tallies.index.audit(v, "set", sets)
	for key, t := range s.tallies.byKey {
		if t.name() != key || t.dropped || t.used > s.tallies.clock {
			v.Add("tally %+v is listed as %+v; dropped: %t; asked for at %d of %d", t.name(), key, t.dropped, t.used, s.tallies.clock)
		}
		if s.tallies.bySet[key.pods] != t.pods || countOf(t.pods.tallies, t) != 1 {
			v.Add("tally %+v does not follow the counts of its set", key)
		}
		if s.topologies[key.topology] != t.topology {
			v.Add("tally %+v uses a topology that is not followed", key)
			continue
		}
		s.auditTally(v, t)
	}
}

func (t *Tally) name() tallyKey { return tallyKey{t.pods.set.Text, t.nodes.Text, t.topology.key} }

func (s *State) auditOnNode(v *audit.Violations, c *podCounts) {
	for slot, on := range s.pods {
		pods := int32(0)
		for _, p := range on {
			if !c.set.Uncounted && s.InSet(c.set, p.pod) {
				pods++
			}
		}
		if c.onNode[slot] != pods {
			v.Add("the set %q counts %d pods on slot %d (%s), recounted %d", c.set.Text, c.onNode[slot], slot, s.name[slot], pods)
		}
	}
}

func (s *State) auditTally(v *audit.Violations, t *Tally) {
	name := t.name()
	if len(t.counts) != len(t.members) || len(t.counts) > len(t.topology.value) {
		v.Add("tally %+v has counts of %d domains, members of %d; the topology has %d", name, len(t.counts), len(t.members), len(t.topology.value))
		return
	}
	counts, members := make([]int32, len(t.counts)), make([]int32, len(t.counts))
	for slot := range s.alive {
		want := t.topology.of[slot]
		if want != noDomain && t.nodes.Match != nil && !t.nodes.Match(s.Node(int32(slot))) {
			want = noDomain
		}
		if t.in[slot] != want || int(want) >= len(counts) {
			v.Add("tally %+v counts slot %d (%s) in domain %d, want %d", name, slot, s.name[slot], t.in[slot], want)
			continue
		}
		if want >= 0 {
			counts[want] += t.pods.onNode[slot]
			members[want]++
		}
	}
	total, present := int64(0), int32(0)
	for domain := range counts {
		total += int64(counts[domain])
		if members[domain] > 0 {
			present++
		}
		if t.counts[domain] != counts[domain] || t.members[domain] != members[domain] {
			v.Add("tally %+v counts %d pods on %d nodes in domain %d, recounted %d on %d",
				name, t.counts[domain], t.members[domain], domain, counts[domain], members[domain])
		}
	}
	if t.total != total || t.present != present {
		v.Add("tally %+v has %d pods in total and %d domains, recounted %d and %d", name, t.total, t.present, total, present)
	}
	if t.least != nil {
		t.auditLeast(v, counts, members)
	}
}

func (t *Tally) auditLeast(v *audit.Violations, counts, members []int32) {
	if t.least.size < len(counts) {
		v.Add("tally %+v keeps the least count of %d domains, there are %d", t.name(), t.least.size, len(counts))
		return
	}
	for domain, number := range t.least.leaves() {
		want := int32(absent)
		if domain < len(counts) && members[domain] > 0 {
			want = counts[domain]
		}
		if number != want {
			v.Add("tally %+v keeps %d for domain %d among the least counts, want %d", t.name(), number, domain, want)
		}
	}
	for i := 1; i < t.least.size; i++ {
		if smaller := min(t.least.tree[2*i], t.least.tree[2*i+1]); t.least.tree[i] != smaller {
			v.Add("tally %+v: position %d of the tree of least counts has %d, below it the least is %d", t.name(), i, t.least.tree[i], smaller)
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
	terms := map[*TermCounts]selected{}
	for key, t := range s.terms.byKey {
		terms[t] = selected{t.Term.Selector, key.text}
		if t.key != key || t.Kind != key.kind || t.Weight != key.weight || s.topologies[TopologyKey{Label: t.Term.Key}] != t.topology {
			v.Add("term %+v is listed as %+v, or uses a topology that is not followed", t.key, key)
		}
		if t.pods != carried[t] || t.pods == 0 {
			v.Add("term %+v is carried by %d pods, recounted %d", key, t.pods, carried[t])
		}
		t.auditCarriers(v, byDomain[t])
	}
	s.terms.index.audit(v, "term", terms)
}

// auditCarried checks that a pod carries the counts of exactly those of its terms that can be parsed, in their order.
func (s *State) auditCarried(v *audit.Violations, p *placed) {
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

func (t *TermCounts) auditCarriers(v *audit.Violations, want map[int32]int32) {
	c, total := &t.carriers, int64(0)
	have := map[int32]int32{}
	t.Carriers(func(domain, pods int32) { have[domain] += pods })
	for domain := range have {
		if have[domain] != want[domain] {
			v.Add("term %+v has %d carriers in domain %d, recounted %d", t.key, have[domain], domain, want[domain])
		}
	}
	for domain, pods := range want {
		total += int64(pods)
		if _, ok := have[domain]; !ok {
			v.Add("term %+v has no carriers in domain %d, recounted %d", t.key, domain, pods)
		}
	}
	if c.total != total {
		v.Add("term %+v has %d carriers in total, recounted %d", t.key, c.total, total)
	}
	if c.dense != nil && len(c.domains)+len(c.counts)+len(c.at) > 0 {
		v.Add("the carriers of term %+v are kept both as an array and as a list", t.key)
	}
	for i, domain := range c.domains {
		if at, ok := c.at[domain]; !ok || at != int32(i) || c.counts[i] == 0 {
			v.Add("domain %d of term %+v is at position %d of the list, the map says %d (%t); it has %d carriers", domain, t.key, i, at, ok, c.counts[i])
		}
	}
	if len(c.counts) != len(c.domains) || len(c.at) != len(c.domains) {
		v.Add("the list of carriers of term %+v has %d domains, %d counts and %d positions", t.key, len(c.domains), len(c.counts), len(c.at))
	}
}
