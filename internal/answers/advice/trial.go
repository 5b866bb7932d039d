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

// trial is a search for changes that help one pod.
type trial struct {
	Cluster
	Question
	advice Advice
	// compiled is the unchanged pod.
	compiled *model.Pod
	// kindsOfNodes are computed on first use.
	kindsOfNodes []Pool
}

func newTrial(c Cluster, q Question) *trial {
	t := &trial{Cluster: c, Question: q, advice: Advice{Version: Version}}
	t.compiled = t.compile(q.Pod)
	return t
}

// knob is a change with settings. If the pod fits with one setting, it fits with every
// later one.
type knob struct {
	kind Kind
	// group is equal for alternative changes. Only the first that helps is suggested.
	// Empty for a change without alternatives.
	group string
	// settings is the number of settings, at least 1. The first is the least change.
	settings int
	at       func(setting int) Change
	// inPairs means that the change is only tried together with another one, because it
	// does not help alone.
	inPairs bool
}

// upTo returns the last setting of at most the given size, or the first setting. Sizes
// never decrease from one setting to the next.
func (k *knob) upTo(size int64) int {
	return max(0, sort.Search(k.settings, func(setting int) bool { return k.at(setting).Size > size })-1)
}

// within returns the knob with the settings up to a size.
func (k *knob) within(size int64) *knob {
	part := *k
	part.settings = k.upTo(size) + 1
	return &part
}

// single returns a change with one setting.
func single(group string, change Change) knob {
	return knob{kind: change.Kind, group: group, settings: 1, at: func(int) Change { return change }}
}

// least returns the least setting with which the pod has a node, and the node, beside
// other changes.
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

// bisection finds the least setting of a knob with which the pod has a node, one decision
// at a time. The last setting is tried first: if it does not help, none does.
type bisection struct {
	knob *knob
	// Invariant: the pod has no node with tooLittle and all settings before it. Once
	// found is set, it has a node with enough and all settings after it.
	tooLittle, enough int
	tried             int // the last setting that next returned
	trying            Change
	// found means that change, the setting enough, helps. node is then the pod's node.
	found  bool
	failed bool
	change Change
	node   string
}

func newBisection(k *knob) bisection { return bisection{knob: k, tooLittle: -1} }

// next returns the change to try next; more is false if the bisection is over.
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

// note records whether the pod has a node with the change that next returned, and the
// node.
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

// mayGoOn reports whether another decision may be made, and sets CutShort if not.
func (t *trial) mayGoOn() bool {
	if t.advice.Decisions >= MaxDecisions {
		t.advice.CutShort = true
	}
	return t.advice.Decisions < MaxDecisions
}

// try applies the changes, decides, and reverts them. It returns the pod's node. No pod
// is preempted.
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
			node = d.Placement.NodeName
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
	return t.Engine.Decide(t.State.View().Restricted(t.Within), plan.Alone(pod))
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

// compile compiles a version of the pod that never reaches the state.
func (t *trial) compile(pod *v1.Pod) *model.Pod {
	t.In.Set(pod)
	return t.In.Drain()[0].Pod
}

// with calls do while the changes of the cluster are applied.
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

// follow counts, for each suggestion, the other pods of the owner that find a node after
// this pod. Suggestions for which too few decisions are left get no count.
func (t *trial) follow() {
	if t.Question.Pending == 0 || t.compiled.Devices != nil || t.compiled.Volumes != nil && len(t.compiled.Volumes.Claims) > 0 {
		return
	}
	for i := range t.advice.Suggestions {
		s := &t.advice.Suggestions[i]
		if s.Changes[0].Kind == Priority {
			continue // The count would preempt pods for each.
		}
		t.with(s.Changes, func() {
			if n, ok := t.countFollowing(edited(t.Pod, s.Changes), min(maxFollow, t.Question.Pending)); ok {
				s.Pending, s.Follow = t.Question.Pending, n
			}
		})
	}
}

// countFollowing counts the pods like the given one that find a node after it, at most
// `most`. ok is false if the limit of decisions is reached first.
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
		t.State.Assume(d.Placement)
		placed = append(placed, d.Placement)
	}
	return most, true
}
