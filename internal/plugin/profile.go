package plugin

import (
	"slices"
	"sync"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/state"
)

// Profile is the plugins of one scheduler name, at each extension point in the order in which they run. It is built by config and never changes.
type Profile struct {
	// Name is the scheduler name that pods choose the profile by.
	Name              string
	QueueSort         QueueSort
	PreEnqueue        []PreEnqueue
	EnqueueExtensions []EnqueueExtensions
	PreFilters        []PreFilter
	// PreFilterOrder are the names of the plugins at PreFilter in their order, StateFilters among them: the first that rejects a pod is reported. It may
	// be empty; StateFilters then follow in the order of Filters.
	PreFilterOrder []string
	// Filters run in this order; the first that rejects a node is reported.
	Filters     []Filter
	PostFilters []PostFilter
	PreScores   []PreScore
	Scores      []Weighted
	Reserve     []Reserve
	Permit      []Permit
	PreBind     []PreBind
	// BindSteps are tried before Bind, in this order.
	BindSteps []BindSteps
	Bind      []Bind
	PostBind  []PostBind
	// Placements are asked about pod groups; nil means that members may go to any nodes.
	Placements *Placements
	// Outside runs those of the plugins that come from outside; nil if there is none.
	Outside Outside
	// Extenders are asked after Filters, beside Scores, and at preemption and Bind.
	Extenders []Extender
}

// Weighted is a Score plugin with its weight in the profile.
type Weighted struct {
	Score
	Weight int64
}

// Queued is what determines a waiting pod's place in the queue.
type Queued struct {
	Pod *model.Pod
	// Since is when the pod was queued, or queued again after its last failed attempt.
	Since time.Time
	// Waiting is what else the queue knows of the pod; nil for a pod that does not come from the queue.
	Waiting Waiting
}

// Waiting is what the queue knows of a pod that waits in it. It must not be kept: it is read in Less and nowhere else.
type Waiting interface {
	// Kept is where a QueueSort plugin keeps what it has made of the pod for its comparisons, as long as the pod waits; nil at first. It may be of a
	// former version of the pod.
	Kept() *any
	// Attempts counts the pod's turns so far; Rejections those of them that ended in a rejection, Errors those that ended in an error since the last
	// rejection.
	Attempts() int
	Rejections() int
	Errors() int
	// Ready is when the pod could first be tried; zero if it could not yet.
	Ready() time.Time
	// BackoffEnd is the second with which its last backoff ends; zero if it has not failed.
	BackoffEnd() time.Time
	// Rejectors are the plugins that rejected it in its last turn, Pending those of them that answered Pending. They must not be changed.
	Rejectors() []string
	Pending() []string
	// Gate is the PreEnqueue plugin that holds it, empty if none does.
	Gate() string
}

// PreFilterAt returns the position of a plugin in PreFilterOrder, which is behind all others for one that is not in it.
func (p *Profile) PreFilterAt(name string) int {
	if i := slices.Index(p.PreFilterOrder, name); i >= 0 {
		return i
	}
	return len(p.PreFilterOrder)
}

// Waiter returns the named plugin of the profile if it has steps that wait, nil otherwise.
func (p *Profile) Waiter(name string) Waiter {
	for _, x := range p.Permit {
		if w, ok := x.(Waiter); ok && w.Name() == name {
			return w
		}
	}
	for _, x := range p.PreBind {
		if w, ok := x.(Waiter); ok && w.Name() == name {
			return w
		}
	}
	return nil
}

// RunPreEnqueue returns the reason why the pod must not be tried yet, and the plugin that gave it; both are empty if it may be tried.
func (p *Profile) RunPreEnqueue(v state.View, pod *model.Pod) (plugin, reason string) {
	for _, pre := range p.PreEnqueue {
		if reason := preEnqueue(pre, v, pod); reason != "" {
			return pre.Name(), reason
		}
	}
	return "", ""
}

func preEnqueue(p PreEnqueue, v state.View, pod *model.Pod) (reason string) {
	switch p := p.(type) {
	case PodPreEnqueue:
		return p.PreEnqueue(pod)
	case StatePreEnqueue:
		return p.PreEnqueueIn(v, pod)
	}
	return ""
}

// Compile computes the pod's needs of each filter and then each score plugin of the profile, and which PreFilter plugins need not be run for it. It
// is called before the pod reaches the loop, on the goroutine that compiles pods.
func (p *Profile) Compile(pod *model.Pod) {
	needs := make([]model.Need, len(p.Filters)+len(p.Scores))
	pod.Prepared = nil
	set := func(at int, text Text) {
		need, long := needOf(text)
		if needs[at] = need; !long {
			return
		}
		if preparing, ok := text.(Preparing); ok {
			preparing.Prepare()
			pod.Prepared = append(pod.Prepared, model.PreparedNeed{At: at, Need: text})
		}
	}
	for i, f := range p.Filters {
		set(i, filterText(f, pod))
	}
	for i, s := range p.Scores {
		set(len(p.Filters)+i, scoreText(s.Score, pod))
	}
	pod.Needs, pod.SkipsPreFilter = needs, p.skipped(pod)
}

// FilterNeed returns the need of a pod for the filter at a position of the profile, prepared if it
// is long.
func (p *Profile) FilterNeed(at int, f NodeFilter, pod *model.Pod) FilterNeed {
	if prepared, ok := pod.PreparedAt(at).(FilterNeed); ok {
		return prepared
	}
	return f.FilterNeed(pod)
}

// ScoreNeed returns the need of a pod for the Score plugin at a position of the profile, prepared
// if it is long.
func (p *Profile) ScoreNeed(at int, s NodeScore, pod *model.Pod) ScoreNeed {
	if prepared, ok := pod.PreparedAt(len(p.Filters) + at).(ScoreNeed); ok {
		return prepared
	}
	return s.ScoreNeed(pod)
}

// CountNeed returns the need of a pod for the CountFilter at a position of the profile,
// prepared if it is long.
func (p *Profile) CountNeed(at int, f CountFilter, pod *model.Pod) CountNeed {
	if prepared, ok := pod.PreparedAt(at).(CountNeed); ok {
		return prepared
	}
	return f.CountNeed(pod)
}

// SetNeed returns the need of a pod for the SetScore at a position of the profile, prepared
// if it is long.
func (p *Profile) SetNeed(at int, s SetScore, pod *model.Pod) SetNeed {
	if prepared, ok := pod.PreparedAt(len(p.Filters) + at).(SetNeed); ok {
		return prepared
	}
	return s.SetNeed(pod)
}

// skipped returns the PreFilter plugins that restrict nothing for the pod, as bits.
func (p *Profile) skipped(pod *model.Pod) (bits uint64) {
	for i, f := range p.PreFilters {
		if f, ok := f.(PodPreFilter); ok && f.Skips(pod) {
			bits |= 1 << i // of more than 64 plugins the rest is always run
		}
	}
	return bits
}

// texts is memory for the texts of needs, until they are interned: pods are compiled on several goroutines.
var texts = sync.Pool{New: func() any { return new([]byte) }}

// NeedOf interns a need; one that is nil is zero.
func NeedOf(need Text) model.Need {
	interned, _ := needOf(need)
	return interned
}

// needOf is NeedOf; long is whether the text is.
func needOf(need Text) (interned model.Need, long bool) {
	if need == nil {
		return model.Need{}, false
	}
	text := texts.Get().(*[]byte)
	*text = need.AppendText((*text)[:0])
	if interned, long = model.NeedOfText(*text); !long { // the pool keeps no memory for long texts
		texts.Put(text)
	}
	return interned, long
}

func filterText(f Filter, pod *model.Pod) Text {
	switch f := f.(type) {
	case NodeFilter:
		return f.FilterNeed(pod)
	case CountFilter:
		return f.CountNeed(pod)
	}
	return nil // a StateFilter's needs are computed in the pod's turn
}

func scoreText(s Score, pod *model.Pod) Text {
	switch s := s.(type) {
	case NodeScore:
		return s.ScoreNeed(pod)
	case SetScore:
		return s.SetNeed(pod)
	}
	return nil // a StateScore's needs are computed in the pod's turn
}
