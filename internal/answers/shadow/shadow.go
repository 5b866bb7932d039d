package shadow

import (
	"container/list"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Config is the configuration of a Shadow.
type Config struct {
	// Scheduler is the configuration of the observed scheduler.
	Scheduler *config.Config
	// SchedulerNames are the scheduler names whose pods are observed. Empty means all
	// profiles.
	SchedulerNames []string
	// Grace is how long Berth must find a node for a pending pod before the pod is
	// reported.
	Grace time.Duration
	// Settle is how long a disagreement waits for changes that arrive late.
	Settle time.Duration
	// Report is called with each decision.
	Report func(Decision)
	// Keep, if set, is called before a disagreement that is no race is reported. objects
	// is the cluster before the binding, including the pod. where is the place where Keep
	// stored it. Keep must not change the objects. It is called at most MaxKeep times,
	// and at most half as often for lesser nodes.
	Keep    func(d *Decision, objects []runtime.Object) (where string)
	MaxKeep int
}

const (
	// reach is the number of changes before and after a binding that are considered in a
	// search for a race. kube-scheduler has about a hundred bindings in flight when many
	// pods are created at once. It sends bursts of 100 requests, and decides faster than
	// they are answered.
	reach = 256
	// kept is the number of changes that can be undone: those within reach before a
	// binding, and those that arrive while its disagreement is open.
	kept = 4 * reach
	// While pods are pending, a contradiction settles inFlightTimes as long.
	inFlightTimes = 5
	// askedAtOnce limits the pending pods that one call of Tick judges.
	askedAtOnce = 50
	// Each binding adds credit repeated decisions to the budget for finding races, up to
	// maxCredit. Beyond the budget, disagreements are reported as they are.
	credit, maxCredit = 24, 8192
)

// Shadow observes another scheduler. One goroutine uses it.
type Shadow struct {
	state    *state.State
	engine   *engine.Engine
	profiles map[string]*plugin.Profile // profiles of the observed pods
	grace    time.Duration
	settle   time.Duration
	report   func(Decision)
	groups   bool

	now    time.Time
	synced bool
	// objects are the cluster's objects as the state has them.
	objects map[model.Ref]object
	// steps are the last changes; first is the number of steps[0].
	steps []step
	// stepsOf is the number of steps per object.
	stepsOf map[model.Ref]int
	first   int
	// open are disagreements that may be races, in the order of their bindings.
	open   []*question
	credit int
	// pending are the observed pods without a node. asks orders them by the time of their
	// next check.
	pending map[model.PodKey]*pending
	asks    *list.List
	// arrivals is the number of pods that were first seen pending.
	arrivals int
	summary  Summary

	keepObjects               func(d *Decision, objects []runtime.Object) (where string)
	maxKeep, kept, keptLesser int
}

// pending is a pod that the other scheduler has not bound.
type pending struct {
	pod   *model.Pod
	since int // number of the step before which it was first seen
	// arrival is its position among all pods that were first seen pending.
	arrival int
	seen    time.Time
	next    time.Time
	// found is the time since when Berth finds a node for it; zero if it does not. told
	// means that this was reported.
	found time.Time
	told  bool
	at    *list.Element
}

// New returns a Shadow of an empty cluster.
func New(c Config) (*Shadow, error) {
	if c.Grace <= 0 || c.Settle < 0 || c.Report == nil {
		return nil, errors.New("build the shadow: Grace must be positive, Settle must not be negative, and Report must be given")
	}
	judge, err := engine.New(engine.Config{Profiles: c.Scheduler.Profiles})
	if err != nil {
		return nil, fmt.Errorf("build the engine: %w", err)
	}
	s := &Shadow{
		state: state.New(), engine: judge, profiles: map[string]*plugin.Profile{}, grace: c.Grace, settle: c.Settle, report: c.Report, groups: c.Scheduler.Groups,
		objects: map[model.Ref]object{}, credit: maxCredit, pending: map[model.PodKey]*pending{}, asks: list.New(),
		keepObjects: c.Keep, maxKeep: c.MaxKeep,
	}
	for _, p := range c.Scheduler.Profiles {
		if len(c.SchedulerNames) == 0 || slices.Contains(c.SchedulerNames, p.Name) {
			s.profiles[p.Name] = p
		}
	}
	for _, name := range c.SchedulerNames {
		if s.profiles[name] == nil {
			return nil, fmt.Errorf("--scheduler-name %q: no profile has it; the profiles are %q", name, c.Scheduler.SchedulerNames())
		}
	}
	s.summary.Races, s.stepsOf = map[string]int{}, map[model.Ref]int{}
	return s, nil
}

// Synced marks the end of the initial lists. From now on, a pod that gets a node is a
// binding.
func (s *Shadow) Synced() { s.synced = true }

// Apply applies changes in their order.
func (s *Shadow) Apply(now time.Time, changes []model.Change) {
	s.setNow(now)
	for i := range changes {
		ref, after, ok := objectOf(&changes[i])
		if !ok {
			continue
		}
		before := s.objects[ref]
		var own *binding
		if s.synced {
			own = s.judge(before.pod, after.pod)
		}
		s.set(ref, after)
		// Changes that follow a kept change of the same object are kept, too. Undoing and
		// repeating the kept ones must end with the present object.
		if matters(before.pod, after.pod) || s.stepsOf[ref] > 0 {
			s.keep(step{ref, before, after, own})
		}
		if ref.Kind == model.PodKind {
			s.follow(ref, after.pod)
		}
		s.closeDue(false)
	}
}

// Tick performs the work that depends on time alone. Call it about once a second.
func (s *Shadow) Tick(now time.Time) {
	s.setNow(now)
	s.closeDue(false)
	s.askPending()
}

// End closes the open disagreements and returns the summary.
func (s *Shadow) End(now time.Time) Summary {
	s.setNow(now)
	s.closeDue(true)
	return s.Summary()
}

// Summary returns the counts so far.
func (s *Shadow) Summary() Summary {
	sum := s.summary
	sum.Pending, sum.Open = len(s.pending), len(s.open)
	return sum
}

func (s *Shadow) setNow(now time.Time) {
	s.now = now
	s.state.SetNow(now)
}

// matters reports whether a change can change a verdict about another pod. Changes of
// pods without a node and without a nomination cannot.
func matters(before, after *model.Pod) bool {
	idle := func(p *model.Pod) bool { return p == nil || p.NodeName == "" && p.NominatedNode == "" }
	return before == nil && after == nil || !idle(before) || !idle(after)
}

// judge compares a binding with Berth's decision in the state before it. It returns nil
// if the change is no binding.
func (s *Shadow) judge(before, after *model.Pod) *binding {
	switch {
	case after == nil || after.NodeName == "" || s.profiles[after.SchedulerName] == nil:
		return nil
	case before == nil || before.UID != after.UID:
		s.summary.Unseen++ // such as pods that kubelets create
		return nil
	case before.NodeName != "":
		return nil
	}
	q := &question{pod: before, node: after.NodeName, at: s.first + len(s.steps), seen: s.now}
	if p := s.pending[before.Key()]; p != nil {
		q.since, q.arrival = p.since, p.arrival
	}
	s.summary.Bindings++
	s.credit = min(s.credit+credit, maxCredit)
	if q.first = s.ask(q); q.first.Verdict == Agree {
		s.tell(q, q.first)
	} else {
		s.open = append(s.open, q)
	}
	return &binding{since: q.since, arrival: q.arrival, first: q.first.Verdict}
}

// follow updates the list of pending pods.
func (s *Shadow) follow(ref model.Ref, pod *model.Pod) {
	key := model.PodKey{Namespace: ref.Namespace, Name: ref.Name}
	known := s.pending[key]
	waits := pod != nil && pod.NodeName == "" && s.profiles[pod.SchedulerName] != nil
	if known != nil && (!waits || known.pod.UID != pod.UID) {
		s.asks.Remove(known.at)
		delete(s.pending, key)
		known = nil
	}
	switch {
	case !waits:
	case known != nil:
		known.pod = pod
	default:
		s.arrivals++
		p := &pending{pod: pod, since: s.first + len(s.steps), arrival: s.arrivals, seen: s.now, next: s.now.Add(s.grace)}
		p.at = s.asks.PushBack(p)
		s.pending[key] = p
	}
}

// askPending judges the pending pods that are due: each once per grace time, and few at
// once.
func (s *Shadow) askPending() {
	for range askedAtOnce {
		front := s.asks.Front()
		if front == nil || front.Value.(*pending).next.After(s.now) {
			return
		}
		p := front.Value.(*pending)
		p.next = s.now.Add(s.grace)
		s.asks.MoveToBack(front)
		s.askAbout(p)
	}
}

// askAbout reports a pending pod once if Berth has found a node for it throughout the
// grace time. Members of pod groups are left out, because they are scheduled together.
func (s *Shadow) askAbout(p *pending) {
	if p.told || p.pod.Terminating || p.pod.Malformed != "" || s.groups && p.pod.Group != (model.GroupKey{}) {
		return
	}
	if _, gated := s.profiles[p.pod.SchedulerName].RunPreEnqueue(s.state.View(), p.pod); gated != "" {
		p.found = time.Time{}
		return
	}
	rating, err := s.engine.Rate(s.state.View(), p.pod, "")
	switch {
	case err != nil || rating.Feasible == 0:
		p.found = time.Time{}
	case p.found.IsZero():
		p.found = s.now
	case s.now.Sub(p.found) >= s.grace:
		p.told = true
		s.summary.Placeable++
		s.report(Decision{Time: s.now, Pod: p.pod.String(), Scheduler: p.pod.SchedulerName, Verdict: Placeable, Best: rating.Best, BestTotal: rating.BestTotal,
			Feasible: rating.Feasible, Nodes: rating.Nodes, PendingSeconds: int64(s.now.Sub(p.seen) / time.Second)})
	}
}
