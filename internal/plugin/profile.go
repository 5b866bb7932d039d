package plugin

import (
	"slices"
	"sync"
	"time"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// Profile is the plugins of one scheduler name, at each extension point in the order in
// which they run. It is built by package config and never changes.
type Profile struct {
	// Name is the pods' spec.schedulerName.
	Name              string
	QueueSort         *QueueSort
	PreEnqueue        []*PreEnqueue
	EnqueueExtensions []*EnqueueExtensions
	PreFilters        []*PreFilter
	// PreFilterOrder names the plugins at PreFilter in order, including filters with
	// NeedIn. The first plugin that rejects a pod is reported. If it is empty, these
	// filters come last, in the order of Filters.
	PreFilterOrder []string
	// Filters run in this order. The first filter that rejects a node is reported.
	Filters     []*Filter
	PostFilters []*PostFilter
	PreScores   []*PreScore
	Scores      []Weighted
	Reserve     []*Reserve
	Permit      []*Permit
	PreBind     []*PreBind
	// BindSteps are tried before Bind, in this order.
	BindSteps []*BindSteps
	Bind      []*Bind
	PostBind  []*PostBind
	// Placements divide the nodes for pod groups. Nil means that members may use any
	// nodes.
	Placements *Placements
	// External runs the profile's out-of-tree plugins. It is nil without such plugins.
	External External
	// Extenders are called after Filters, beside Scores, at preemption and at Bind.
	Extenders []Extender
}

// Weighted is a Score plugin with its weight in the profile.
type Weighted struct {
	*Score
	Weight int64
}

// Queued determines a waiting pod's position in the queue.
type Queued struct {
	Pod *model.Pod
	// Since is the time at which the pod was queued, or queued again after its last
	// failed attempt.
	Since time.Time
	// Waiting is the queue's other data about the pod. It is nil for a pod that does not
	// come from the queue.
	Waiting Waiting
}

// Waiting is the queue's data about a waiting pod. It must be read only in Less, and not
// be retained.
type Waiting interface {
	// Sorted is a place for a QueueSort plugin to cache a value for its comparisons while
	// the pod waits. It is nil at first. The value may stem from an older version of the
	// pod.
	Sorted() *Sorted
	// Turns counts the pod's turns.
	Turns() Turns
	// Ready is the time at which the pod could first be tried, or zero if it never could.
	Ready() time.Time
	// BackoffEnd is the second in which the pod's last backoff ends. It is zero if the
	// pod has not failed.
	BackoffEnd() time.Time
	// Rejectors are the plugins that rejected the pod in its last turn. Pending are the
	// Rejectors that returned Pending. Neither slice may be changed.
	Rejectors() []string
	Pending() []string
	// Gate is the PreEnqueue plugin that holds the pod, or empty.
	Gate() string
}

// Sorted is the value that a QueueSort plugin caches for a waiting pod, a type of the
// plugin.
type Sorted interface{ IsSorted() }

// Turns counts the turns of a pod. Rejections ended in a rejection. Errors ended in an
// error since the last rejection.
type Turns struct{ Attempts, Rejections, Errors int }

// PreFilterAt returns the position of a plugin in PreFilterOrder. A plugin that is not
// listed comes after all others.
func (p *Profile) PreFilterAt(name string) int {
	if i := slices.Index(p.PreFilterOrder, name); i >= 0 {
		return i
	}
	return len(p.PreFilterOrder)
}

// Done returns the function that ends the waits of the named plugin's steps, or nil if no
// step of the plugin waits.
func (p *Profile) Done(name string) Done {
	for _, x := range p.Permit {
		if x.Done != nil && x.Name == name {
			return x.Done
		}
	}
	for _, x := range p.PreBind {
		if x.Done != nil && x.Name == name {
			return x.Done
		}
	}
	return nil
}

// RunPreEnqueue returns the reason to hold the pod back, and the plugin that gave it.
// Both are empty if the pod may be tried.
func (p *Profile) RunPreEnqueue(v state.View, pod *model.Pod) (plugin, reason string) {
	for _, pre := range p.PreEnqueue {
		if reason := pre.run(v, pod); reason != "" {
			return pre.Name, reason
		}
	}
	return "", ""
}

func (p *PreEnqueue) run(v state.View, pod *model.Pod) (reason string) {
	switch {
	case p.Pod != nil:
		return p.Pod(pod)
	case p.In != nil:
		return p.In(v, pod)
	}
	return "" // Group decides about groups
}

// Compile computes the pod's needs, first of each filter, then of each score plugin of
// the profile. It also determines the PreFilter plugins that skip the pod. It is called
// before the pod reaches the loop, in the goroutine that compiles pods.
func (p *Profile) Compile(pod *model.Pod) {
	needs := make([]model.Need, len(p.Filters)+len(p.Scores))
	var ready prepared
	pod.Prepared = nil
	add := func(need preparedNeed) {
		interned, long := needOf(need.need)
		if needs[need.at] = interned; !long {
			return
		}
		if preparing, ok := need.need.(Preparing); ok {
			preparing.Prepare()
			ready = append(ready, need)
		}
	}
	// others have their needs in the pod's turn
	for i, f := range p.Filters {
		switch {
		case f.Need != nil:
			need := f.Need(pod)
			add(preparedNeed{at: i, need: need, filter: need})
		case f.Count != nil:
			need := f.Count(pod)
			add(preparedNeed{at: i, need: need, count: need})
		}
	}
	for i, s := range p.Scores {
		switch {
		case s.Need != nil:
			need := s.Need(pod)
			add(preparedNeed{at: len(p.Filters) + i, need: need, score: need})
		case s.Set != nil:
			need := s.Set(pod)
			add(preparedNeed{at: len(p.Filters) + i, need: need, set: need})
		}
	}
	if ready != nil {
		pod.Prepared = ready
	}
	pod.Needs, pod.SkipsPreFilter = needs, p.skipped(pod)
}

// FilterNeed returns the pod's need of a Filter plugin with Need at a position of the
// profile. A long need has been prepared.
func (p *Profile) FilterNeed(at int, pod *model.Pod) FilterNeed {
	if ready := preparedOf(pod).at(at).filter; ready != nil {
		return ready
	}
	return p.Filters[at].Need(pod)
}

// ScoreNeed is FilterNeed for a Score plugin with Need.
func (p *Profile) ScoreNeed(at int, pod *model.Pod) ScoreNeed {
	if ready := preparedOf(pod).at(len(p.Filters) + at).score; ready != nil {
		return ready
	}
	return p.Scores[at].Need(pod)
}

// CountNeed is FilterNeed for a Filter plugin with Count.
func (p *Profile) CountNeed(at int, pod *model.Pod) CountNeed {
	if ready := preparedOf(pod).at(at).count; ready != nil {
		return ready
	}
	return p.Filters[at].Count(pod)
}

// SetNeed is FilterNeed for a Score plugin with Set.
func (p *Profile) SetNeed(at int, pod *model.Pod) SetNeed {
	if ready := preparedOf(pod).at(len(p.Filters) + at).set; ready != nil {
		return ready
	}
	return p.Scores[at].Set(pod)
}

// skipped returns the PreFilter plugins that restrict nothing for the pod, as bits.
func (p *Profile) skipped(pod *model.Pod) (bits uint64) {
	for i, f := range p.PreFilters {
		if f.Skips != nil && f.Skips(pod) {
			bits |= 1 << i // a shift of 64 or more yields 0, so later plugins always run
		}
	}
	return bits
}

// texts pools buffers for the texts of needs until they are interned. Pods are compiled
// in several goroutines.
var texts = sync.Pool{New: func() any { return new([]byte) }}

// NeedOf interns a need. A nil need is the zero value.
func NeedOf(need Text) model.Need {
	interned, _ := needOf(need)
	return interned
}

// needOf is NeedOf. long reports whether the need has a long text.
func needOf(need Text) (interned model.Need, long bool) {
	if need == nil {
		return model.Need{}, false
	}
	text := texts.Get().(*[]byte)
	*text = need.AppendText((*text)[:0])
	// long buffers are not pooled, to limit memory
	if interned, long = model.NeedOfText(*text); !long {
		texts.Put(text)
	}
	return interned, long
}
