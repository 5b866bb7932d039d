package preempt

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/model"
)

// sortByImportance puts the more important pods first: those of higher priority, then those that started earlier. Pods that have not started come
// last. Equals go by namespace and name, where kube-scheduler's order is unspecified.
func sortByImportance(pods []*model.Pod) { slices.SortFunc(pods, byImportance) }

func byImportance(a, b *model.Pod) int {
	if c := cmp.Compare(b.Priority, a.Priority); c != 0 {
		return c
	}
	if c := cmp.Compare(startOf(a), startOf(b)); c != 0 {
		return c
	}
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// unstarted is later than every start time.
const unstarted = math.MaxInt64

func startOf(pod *model.Pod) int64 {
	if seconds, ok := pod.Started(); ok {
		return seconds
	}
	return unstarted
}

// rank is how good a candidate is: less is better, rung by rung, except where it says otherwise.
type rank struct {
	violations int
	// highest is the highest priority of a victim.
	highest int32
	// sum is that of the victims' priorities, each counted from the lowest that there is.
	sum   int64
	count int
	// start is the earliest start time of the victims of the highest priority. Later is better.
	start int64
	// tie decides between equals. More is better.
	tie uint64
}

func (s *search) rankOf(c *Candidate) rank {
	r := rank{violations: c.Violations, highest: c.Victims[0].Priority, count: len(c.Victims), start: startOf(c.Victims[0]), tie: s.cycle.Tie(c.Slot)}
	for _, pod := range c.Victims {
		r.sum += int64(pod.Priority) - math.MinInt32
	}
	return r
}

// isBetter reports whether a candidate of rank r is taken before one of rank o.
func (r *rank) isBetter(o *rank) bool { return r.compare(o) < 0 }

func (r *rank) compare(o *rank) int {
	return cmp.Or(
		cmp.Compare(r.violations, o.violations), cmp.Compare(r.highest, o.highest), cmp.Compare(r.sum, o.sum), cmp.Compare(r.count, o.count),
		cmp.Compare(o.start, r.start), cmp.Compare(o.tie, r.tie),
	)
}
