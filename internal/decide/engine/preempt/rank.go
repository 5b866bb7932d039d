package preempt

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// sortByImportance sorts the more important pods first: higher priority, then earlier
// start. Pods that have not started come last. The rules break ties by UID, or by
// namespace and name where kube-scheduler's order is unspecified.
func (m *Memory) sortByImportance(pods []*model.Pod) {
	if m.rules.TiesByUID {
		slices.SortFunc(pods, func(a, b *model.Pod) int {
			return cmp.Or(byPriorityAndStart(a, b), cmp.Compare(a.UID, b.UID))
		})
		return
	}
	slices.SortFunc(pods, func(a, b *model.Pod) int {
		return cmp.Or(byPriorityAndStart(a, b), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

func byPriorityAndStart(a, b *model.Pod) int {
	if c := cmp.Compare(b.Priority, a.Priority); c != 0 {
		return c
	}
	return cmp.Compare(startOf(a), startOf(b))
}

// unstarted is later than every start time.
const unstarted = math.MaxInt64

func startOf(pod *model.Pod) int64 {
	if seconds, ok := pod.Started(); ok {
		return seconds
	}
	return unstarted
}

// rank is the cost of a candidate, compared field by field. Less is better, except for
// start and tie.
type rank struct {
	violations int32
	// highest is the highest priority of a victim.
	highest int32
	// sum adds up the victims' priorities, each counted from the lowest possible one.
	sum   int64
	count int32
	// start is the earliest start time of the victims of the highest priority. Later is
	// better.
	start int64
	// tie decides between equals; cached bounds have none. More is better.
	tie uint64
}

// ideal is at least as good as every rank.
var ideal = rank{highest: math.MinInt32, start: unstarted}

// weightOf counts a priority from the lowest possible one.
func weightOf(priority int32) int64 { return int64(priority) - math.MinInt32 }

func (s *search) rankOf(c *plugin.Candidate) rank {
	r := rank{violations: int32(c.Violations), highest: c.Victims[0].Priority, count: int32(len(c.Victims)), start: startOf(c.Victims[0]), tie: s.cycle.tie(c.Slot)}
	for _, pod := range c.Victims {
		r.sum += weightOf(pod.Priority)
	}
	return r
}

// isBetter reports whether a candidate of rank r is taken before another of rank o.
func (r *rank) isBetter(o *rank) bool { return r.compare(o) < 0 }

func (r *rank) compare(o *rank) int {
	if c := r.compareRungs(o); c != 0 {
		return c
	}
	return cmp.Compare(o.tie, r.tie)
}

// compareRungs compares without ties.
func (r *rank) compareRungs(o *rank) int {
	switch {
	case r.violations != o.violations:
		return cmp.Compare(r.violations, o.violations)
	case r.highest != o.highest:
		return cmp.Compare(r.highest, o.highest)
	case r.sum != o.sum:
		return cmp.Compare(r.sum, o.sum)
	case r.count != o.count:
		return cmp.Compare(r.count, o.count)
	}
	return cmp.Compare(o.start, r.start)
}
