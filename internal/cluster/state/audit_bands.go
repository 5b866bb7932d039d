package state

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

// auditBands recounts the input of preemption: the use by priority, the terminating pods
// and the budgets.
func (s *State) auditBands(v *audit.Violations) {
	byPriority, stamped := map[int32]int{}, map[uint64]string{}
	for slot, on := range s.pods {
		s.auditBandsOf(v, slot)
		for _, p := range on {
			byPriority[p.pod.Priority]++
		}
		switch other, taken := stamped[s.banded[slot]]; {
		case s.banded[slot] == 0 && len(on) > 0:
			v.Add("slot %d (%s) has pods, and bands that never changed", slot, s.name[slot])
		case s.banded[slot] > s.stamps:
			v.Add("the bands of slot %d (%s) changed at %d of %d", slot, s.name[slot], s.banded[slot], s.stamps)
		case taken && s.banded[slot] != 0:
			v.Add("the bands of slot %d (%s) changed at the same time as those of %s", slot, s.name[slot], other)
		}
		stamped[s.banded[slot]] = s.name[slot]
	}
	compareCounts(v, "priority %d is that of %d pods, recounted %d", byPriority, s.byPriority, func(n int) int { return n })
}

func (s *State) auditBandsOf(v *audit.Violations, slot int) {
	recounted, starts := map[int32]*Band{}, map[int32][]int64{}
	for _, p := range s.pods[slot] {
		band := recounted[p.pod.Priority]
		if band == nil {
			band = &Band{Priority: p.pod.Priority}
			recounted[p.pod.Priority] = band
		}
		band.Pods++
		band.Used.Add(&p.pod.Occupies, +1)
		if seconds, started := p.pod.Started(); started {
			starts[band.Priority] = append(starts[band.Priority], seconds)
		} else {
			band.Unstarted++
		}
	}
	for i := range s.bands[slot] {
		have := &s.bands[slot][i]
		want := recounted[have.Priority]
		if i > 0 && s.bands[slot][i-1].Priority >= have.Priority {
			v.Add("slot %d (%s) has the band of priority %d behind that of %d", slot, s.name[slot], have.Priority, s.bands[slot][i-1].Priority)
		}
		if want == nil {
			v.Add("slot %d (%s) has a band of priority %d, which no pod has", slot, s.name[slot], have.Priority)
			continue
		}
		delete(recounted, have.Priority)
		if have.Pods != want.Pods || have.Unstarted != want.Unstarted || !sameAmounts(have.Used, want.Used) {
			v.Add("the band of priority %d on slot %d (%s) has %d pods, %d unstarted, that occupy %+v; recounted %d, %d, %+v",
				have.Priority, slot, s.name[slot], have.Pods, have.Unstarted, have.Used, want.Pods, want.Unstarted, want.Used)
		}
		latest := starts[have.Priority]
		slices.SortFunc(latest, func(a, b int64) int { return cmp.Compare(b, a) })
		for n, seconds := range latest[:min(len(latest), fewLatest)] {
			if have.latest[n] < seconds || n > 0 && have.latest[n] > have.latest[n-1] {
				v.Add("the pods of priority %d on slot %d (%s) that started last did at %v, not at or before %v", have.Priority, slot, s.name[slot], latest, have.latest)
				break
			}
		}
		for _, c := range have.Used.Scalars {
			if !slices.ContainsFunc(want.Used.Scalars, func(has model.Scalar) bool { return has.Name == c.Name }) {
				v.Add("the band of priority %d on slot %d (%s) lists %d %s, which no pod has", have.Priority, slot, s.name[slot], c.Value, c.Name.Value())
			}
		}
	}
	for priority, want := range recounted {
		v.Add("slot %d (%s) has no band of priority %d, which %d pods have", slot, s.name[slot], priority, want.Pods)
	}
	for _, p := range s.pods[slot] {
		bands := s.bands[slot]
		if at, found := bands.find(p.pod.Priority); found {
			s.auditBounds(v, &bands[at], p)
		}
	}
}

// auditBounds checks that the bounds of a band hold for a pod.
func (s *State) auditBounds(v *audit.Violations, band *Band, p *placed) {
	o, most := &p.pod.Occupies, band.Most
	if o.CPUMilli > most.CPUMilli || o.MemoryBytes > most.MemoryBytes || o.EphemeralBytes > most.EphemeralBytes {
		v.Add("pod %s occupies %+v, more than %+v, which no pod of priority %d on slot %d (%s) exceeds",
			p.pod, *o, most, band.Priority, p.slot, s.name[p.slot])
	}
}

func (s *State) auditEvicted(v *audit.Violations) {
	for uid, e := range s.evicted {
		key := e.key
		if p := s.placed[key]; p == nil || p.pod.UID != uid || p.pod.Terminating {
			v.Add("pod %s, UID %s, is to be evicted, and is not on a node or being deleted", key, uid)
		}
	}
}

func (s *State) auditBudgets(v *audit.Violations) {
	selecting := map[*Budget]string{}
	for namespace, in := range s.budgets.byNamespace {
		if len(in) == 0 {
			v.Add("namespace %q has no budgets, and is listed", namespace)
		}
		for i, b := range in {
			if b.Namespace != namespace {
				v.Add("budget %s of namespace %q is listed under %q", b.Object.Name, b.Namespace, namespace)
			}
			if i > 0 && strings.Compare(in[i-1].Object.Name, b.Object.Name) >= 0 {
				v.Add("budget %s of namespace %q is behind %s", b.Object.Name, namespace, in[i-1].Object.Name)
			}
			if b.term.Selector.String() != b.Selector.String() {
				v.Add("budget %s of namespace %q selects %s, and is filed for %s", b.Object.Name, namespace, b.Selector, b.term.Selector)
			}
			if _, selectable := b.Selector.Requirements(); selectable {
				selecting[b] = namespace + "/" + b.Object.Name
			}
		}
	}
	s.budgets.index.index.audit(v, "budget", selecting)
}
