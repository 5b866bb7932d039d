package advice

import (
	"slices"
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// trial is a search for what helps one pod.
type trial struct {
	Cluster
	Question
	advice Advice
	// compiled is the pod as it is.
	compiled *model.Pod
	// kindsOfNodes are worked out when they are first asked for.
	kindsOfNodes []Pool
}

func newTrial(c Cluster, q Question) *trial {
	t := &trial{Cluster: c, Question: q, advice: Advice{Version: Version}}
	t.compiled = t.compile(q.Pod)
	return t
}

// knob is a change with settings: if the pod fits with one of them, it fits with each that is further from what there is now.
type knob struct {
	kind Kind
	// group is equal for changes of which only the first that helps is suggested; empty for a change by itself.
	group string
	// settings is how many there are, at least 1. The first is the least change.
	settings int
	at       func(setting int) Change
	// inPairs means that something else is in the way of this change, so that it is tried with another one alone.
	inPairs bool
}

// upTo returns the last setting of at most some size, or the first. Sizes do not fall from one setting to the next.
func (k *knob) upTo(size int64) int {
	return max(0, sort.Search(k.settings, func(setting int) bool { return k.at(setting).Size > size })-1)
}

// within is the knob with the settings up to some size.
func (k *knob) within(size int64) *knob {
	part := *k
	part.settings = k.upTo(size) + 1
	return &part
}

// single returns a change with one setting.
func single(group string, change Change) knob {
	return knob{kind: change.Kind, group: group, settings: 1, at: func(int) Change { return change }}
}

// least returns the least setting with which the pod has a node, and that node, given other changes.
func (t *trial) least(k *knob, others ...Change) (change Change, node string, ok bool) {
	b := newBisection(k)
	for change, more := b.next(); more; change, more = b.next() {
		if b.found && !t.mayGoOn() {
			break
		}
		on, fits := t.try(append(others, change)...)
		b.note(on, fits)
	}
	return b.change, b.node, b.found
}

// bisection finds the least setting of a knob with which the pod has a node, one decision at a time. The furthest setting is tried first: if that does not help, none does.
type bisection struct {
	knob *knob
	// With the setting tooLittle and those before the pod has no node; with enough, once that was found, and those behind it has one.
	tooLittle, enough int
	tried             int // the setting that next returned last
	trying            Change
	// found says whether change helps, which is the setting enough. The pod goes to node then.
	found  bool
	failed bool
	change Change
	node   string
}

func newBisection(k *knob) bisection { return bisection{knob: k, tooLittle: -1} }

// next returns the change to be tried; more is false if there is none.
func (b *bisection) next() (change Change, more bool) {
	switch {
	case b.failed || b.found && b.enough-b.tooLittle <= 1:
		return Change{}, false
	case b.found:
		b.tried = (b.enough + b.tooLittle) / 2
	default:
		b.tried = b.knob.settings - 1
	}
	b.trying = b.knob.at(b.tried)
	return b.trying, true
}

// note takes in whether the pod has a node with the change that next returned, and which.
func (b *bisection) note(node string, fits bool) {
	switch {
	case fits:
		b.change, b.node, b.enough, b.found = b.trying, node, b.tried, true
	case b.found:
		b.tooLittle = b.tried
	default:
		b.failed = true
	}
}

// mayGoOn reports whether a further decision may be made.
func (t *trial) mayGoOn() bool {
	if t.advice.Decisions >= DecisionsMax {
		t.advice.CutShort = true
	}
	return t.advice.Decisions < DecisionsMax
}

// try makes the changes, decides, and takes them back. It returns the node that the pod would go to. Nobody is evicted.
func (t *trial) try(changes ...Change) (node string, ok bool) {
	if !t.mayGoOn() {
		return "", false
	}
	pod := edited(t.Pod, changes)
	never := v1.PreemptNever
	pod.Spec.PreemptionPolicy = &never
	t.with(changes, func() {
		d := t.decide(t.compile(pod))
		if ok = d.Outcome == plan.Placed; ok {
			node = d.Placements[0].NodeName
		}
	})
	return node, ok
}

// decide decides about a pod, unless a PreEnqueue plugin holds it back.
func (t *trial) decide(pod *model.Pod) plan.Decision {
	t.advice.Decisions++
	if by, _ := t.Profiles[pod.SchedulerName].RunPreEnqueue(t.State.View(), pod); by != "" {
		return plan.Decision{}
	}
	return t.Engine.Decide(t.State.View().Restricted(t.Within), plan.WorkFor(pod))
}

// edited returns a copy of the pod with the changes.
func edited(pod *v1.Pod, changes []Change) *v1.Pod {
	pod = pod.DeepCopy()
	for i := range changes {
		if changes[i].edit != nil {
			changes[i].edit(pod)
		}
	}
	return pod
}

// compile compiles a version of the pod, which does not reach the state.
func (t *trial) compile(pod *v1.Pod) *model.Pod {
	t.In.Set(pod)
	return t.In.Drain()[0].Pod
}

// with calls do while the cluster is changed.
func (t *trial) with(changes []Change, do func()) {
	swaps := swapsOf(changes)
	if len(swaps) == 0 {
		do()
		return
	}
	for _, s := range swaps {
		t.put(s.before, s.after)
	}
	t.State.Apply(t.In.Drain())
	do()
	for _, s := range slices.Backward(swaps) {
		t.put(s.after, s.before)
	}
	t.State.Apply(t.In.Drain())
}

// put replaces one object by another.
func (t *trial) put(was, now kinds.Object) {
	if now == nil {
		t.In.Remove(kinds.Of(was).Ref(was))
		return
	}
	t.In.Set(now)
}

// follow counts, for each suggestion, how many of the other pods of the owner find a node after the pod. It says nothing of those suggestions for which the decisions do not suffice.
func (t *trial) follow() {
	if t.Question.Pending == 0 || t.compiled.Devices != nil || t.compiled.Volumes != nil && len(t.compiled.Volumes.Claims) > 0 {
		return
	}
	for i := range t.advice.Suggestions {
		s := &t.advice.Suggestions[i]
		if s.Changes[0].Kind == Priority {
			continue // pods are evicted for each
		}
		t.with(s.Changes, func() {
			if n, ok := t.countFollowing(edited(t.Pod, s.Changes), min(followMax, t.Question.Pending)); ok {
				s.Pending, s.Follow = t.Question.Pending, n
			}
		})
	}
}

// countFollowing counts how many pods like one find a node after it, at most so many. It is not ok if no further decision may be made before that is known.
func (t *trial) countFollowing(pod *v1.Pod, most int) (count int, ok bool) {
	never := v1.PreemptNever
	pod.Spec.PreemptionPolicy, pod.Status.NominatedNodeName = &never, ""
	var placed []plan.Placement
	defer func() { t.State.Unassume(placed...) }()
	for n := range most + 1 {
		if !t.mayGoOn() {
			return 0, false
		}
		like := *pod
		like.Name, like.UID = nth(pod.Name, n), types.UID(nth(string(pod.UID), n))
		d := t.decide(t.compile(&like))
		if d.Outcome != plan.Placed {
			return max(0, n-1), true
		}
		t.State.Assume(d.Placements...)
		placed = append(placed, d.Placements...)
	}
	return most, true
}
