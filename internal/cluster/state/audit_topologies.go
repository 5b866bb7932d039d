package state

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/internal/kit/audit"
)

func (s *State) auditTopologies(v *audit.Violations) {
	for key, t := range s.topologies {
		if t.key != key {
			v.Add("the topology of %+v is listed as that of %+v", t.key, key)
		}
		s.auditTopology(v, t)
		if t.key.isEverywhere() != slices.Contains(s.everywhere, t) {
			v.Add("topology %+v is found by each node's change: %t", key, !t.key.isEverywhere())
		}
	}
	for slot, domain := range s.absent.of {
		if domain != noDomain {
			v.Add("slot %d is in domain %d of the topology of absent keys", slot, domain)
		}
	}
	labelled := map[string]int32{}
	for slot := range s.alive {
		for label := range s.labelsOf(int32(slot)) {
			labelled[label]++
		}
	}
	if !maps.Equal(labelled, s.labelled) {
		v.Add("nodes by label key are %v, recounted %v", s.labelled, labelled)
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
	used, shared := 0, 0
	for domain, n := range nodes {
		wantFree := 1
		if n > 1 {
			shared++
		}
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
	if t.shared != shared {
		v.Add("topology %+v counts %d domains with several nodes, recounted %d", t.key, t.shared, shared)
	}
	if len(t.ids) != used {
		v.Add("topology %+v has ids for %d values, %d are in use", t.key, len(t.ids), used)
	}
}
