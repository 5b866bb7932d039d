package storage

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

// filing is a recount of the reaches under which the labels of nodes are filed.
type filing struct {
	mentions, demands map[string]int // by label key
	general           int            // reaches that are filed nowhere
	listed            map[label]int
}

// add counts a reach.
func (f *filing) add(r *reach) {
	for _, key := range r.selector.Mentions() {
		f.mentions[key]++
	}
	for _, key := range demanded(r.selector) {
		f.demands[key]++
	}
	if r.filed == nil {
		f.general++
	}
	for _, l := range r.filed {
		f.listed[l]++
	}
}

// auditReaches checks the parts of reaches that depend on history: which are wide, and
// under which label they are filed.
func (s *Store) auditReaches(v *audit.Violations) {
	rs := &s.reaches
	recount := filing{mentions: map[string]int{}, demands: map[string]int{}, listed: map[label]int{}}
	for text, r := range rs.byText {
		recount.add(r)
		rs.auditIdle(v, text, r)
		rs.auditFiling(v, text, r)
		r.audit(v)
	}
	if len(rs.idle) > maxIdle {
		v.Add("%d reaches are idle", len(rs.idle))
	}
	for _, r := range rs.idle {
		if rs.byText[r.text] != r {
			v.Add("reach %q is idle and not kept", r.text)
		}
	}
	if len(rs.general) != recount.general {
		v.Add("%d reaches are filed nowhere, recounted %d", len(rs.general), recount.general)
	}
	rs.auditMentions(v, recount.mentions)
	s.auditDemands(v, &recount)
}

// auditIdle checks that a reach is idle if and only if no class uses it.
func (rs *reaches) auditIdle(v *audit.Violations, text model.Need, r *reach) {
	idle := 0
	for _, other := range rs.idle {
		if other == r {
			idle++
		}
	}
	if (idle != 0) != (len(r.of) == 0) || idle > 1 {
		v.Add("reach %q is idle %d times, and of %d classes", text, idle, len(r.of))
	}
}

// auditFiling checks that a reach is filed under the labels that it demands.
func (rs *reaches) auditFiling(v *audit.Violations, text model.Need, r *reach) {
	if r.filed == nil && !slices.Contains(rs.general, r) {
		v.Add("reach %q is filed nowhere", text)
	}
	for _, l := range r.filed {
		if by := rs.byKey[l.key]; by == nil || !slices.Contains(by.reaches[l.value], r) {
			v.Add("reach %q is not filed under %v", text, l)
		}
	}
	if demands := r.selector.Demands(); (demands == nil) != (r.filed == nil) || !covers(r.filed, demands) {
		v.Add("reach %q is filed under %v, it demands %v", text, r.filed, demands)
	}
}

// auditMentions checks the number of reaches that mention each label key.
func (rs *reaches) auditMentions(v *audit.Violations, recounted map[string]int) {
	for key, n := range rs.mentions {
		if n != recounted[key] || n <= 0 {
			v.Add("label %s is mentioned by %d reaches, recounted %d", key, n, recounted[key])
		}
	}
	for key, n := range recounted {
		if rs.mentions[key] == 0 {
			v.Add("label %s is mentioned by 0 reaches, recounted %d", key, n)
		}
	}
}

// auditDemands checks the reaches and nodes that are filed under each label.
func (s *Store) auditDemands(v *audit.Violations, recount *filing) {
	for key, by := range s.reaches.byKey {
		if by.demanded != recount.demands[key] || by.demanded == 0 {
			v.Add("values of label %s are demanded by %d reaches, recounted %d", key, by.demanded, recount.demands[key])
		}
		s.auditFiled(v, key, by, recount.listed)
	}
	for key, n := range recount.demands {
		if s.reaches.byKey[key] == nil {
			v.Add("values of label %s are demanded by no reach, recounted %d", key, n)
		}
	}
}

// covers reports whether each term demands values of a label that are all filed.
func covers(filed []label, demands [][]model.Zone) bool {
	return !slices.ContainsFunc(demands, func(term []model.Zone) bool {
		return !slices.ContainsFunc(term, func(z model.Zone) bool {
			return !slices.ContainsFunc(z.Values, func(value string) bool { return !slices.Contains(filed, label{z.Label, value}) })
		})
	})
}

func (r *reach) audit(v *audit.Violations) {
	if len(r.at) != len(r.nodes) {
		v.Add("reach %q has %d nodes, and positions of %d", r.text, len(r.nodes), len(r.at))
	}
	for i, n := range r.nodes {
		if at, ok := r.at[n]; !ok || at != i {
			v.Add("node %s is not at position %d of reach %q", n.name, i, r.text)
		}
		times := 0
		for _, other := range n.reaches {
			if other == r {
				times++
			}
		}
		if times != 1 {
			v.Add("node %s lists the reach %q %d times", n.name, r.text, times)
		}
		if !n.alive || !r.selector.Matches(n.labels) {
			v.Add("node %s is in reach %q, and should not be", n.name, r.text)
		}
	}
	if n := len(r.nodes); r.narrow && n > 2*maxNarrow || !r.narrow && n <= maxNarrow {
		v.Add("reach %q of %d nodes is narrow: %t", r.text, n, r.narrow)
	}
	for _, share := range r.of {
		if len(share.groups) == 0 && len(share.capacities) == 0 {
			v.Add("reach %q is of a class that has nothing in it", r.text)
		}
		for i, g := range share.groups {
			if g.at != i {
				v.Add("a group says position %d, and is at position %d of reach %q", g.at, i, r.text)
			}
		}
		for i, c := range share.capacities {
			if c.at != i {
				v.Add("capacity %s says position %d, and is at position %d of reach %q", c.ref.Name, c.at, i, r.text)
			}
		}
	}
}

// auditFiled checks the reaches and nodes that are filed under values of a label.
func (s *Store) auditFiled(v *audit.Violations, key string, by *filedReaches, listed map[label]int) {
	for value, list := range by.reaches {
		if len(list) != listed[label{key, value}] || len(list) == 0 {
			v.Add("%d reaches are filed under %s=%s, recounted %d", len(list), key, value, listed[label{key, value}])
		}
	}
	nodes := map[string]int{}
	for _, n := range s.bySlot {
		if n == nil || !n.alive {
			continue
		}
		if value, has := n.labels[key]; has {
			nodes[value]++
			if !slices.Contains(by.nodes[value], n) {
				v.Add("node %s is not listed under %s=%s", n.name, key, value)
			}
		}
	}
	for value, list := range by.nodes {
		if len(list) != nodes[value] || len(list) == 0 {
			v.Add("%d nodes are listed under %s=%s, recounted %d", len(list), key, value, nodes[value])
		}
	}
}
