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

// Config is what a Shadow needs.
type Config struct {
	// Scheduler is the configuration of the scheduler that is followed.
	Scheduler *config.Config
	// SchedulerNames are the scheduler names whose pods are followed; empty means those of all profiles.
	SchedulerNames []string
	// Grace is how long Berth must find a node for a pending pod before that is reported.
	Grace time.Duration
	// Settle is how long a disagreement waits for changes that the watches may show late.
	Settle time.Duration
	// Report is called with each decision.
	Report func(Decision)
	// Keep, unless it is nil, is called with disagreements that are no races before they are reported, and with the objects of the cluster as they were before the binding, the
	// pod among them; what it returns says where they are kept. The objects must not be changed. It is called KeepMax times at most, for lesser nodes half as often.
	Keep    func(d *Decision, objects []runtime.Object) (where string)
	KeepMax int
}

const (
	// reach is how many changes before and after a binding are undone, or awaited, to find out whether a disagreement is a race. kube-scheduler has a hundred bindings in flight
	// where many pods are made at once, as it sends 100 requests in a burst and decides faster than that.
	reach = 256
	// kept is how many changes can be undone: those of the reach before a binding, and those that come while its disagreement is open.
	kept = 4 * reach
	// inFlightTimes is how many times as long a contradiction settles while pods are pending.
	inFlightTimes = 5
	// askedAtOnce bounds the pending pods that one call of Tick asks about.
	askedAtOnce = 50
	// credit is how many further decisions each binding allows for finding races, and creditMax how many are saved up. What costs more is reported as it is.
	credit, creditMax = 24, 8192
)

// Shadow follows another scheduler. One goroutine uses it.
type Shadow struct {
	state    *state.State
	engine   *engine.Engine
	profiles map[string]*plugin.Profile // of the pods that are followed
	grace    time.Duration
	settle   time.Duration
	report   func(Decision)
	groups   bool

	now    time.Time
	synced bool
	// objects are those of the cluster, as the state has them.
	objects map[model.Ref]object
	// steps are the last changes; first is the number of steps[0].
	steps []step
	// stepsOf is how many of the steps are of each object.
	stepsOf map[model.Ref]int
	first   int
	// open are disagreements that may be races, in the order of their bindings.
	open   []*question
	credit int
	// pending are the followed pods without a node; asks has them in the order in which they are asked about next.
	pending map[model.PodKey]*pending
	asks    *list.List
	// arrivals is how many pods were first seen pending.
	arrivals int
	summary  Summary

	keepObjects               func(d *Decision, objects []runtime.Object) (where string)
	keepMax, kept, keptLesser int
}

// pending is a pod that the other scheduler has not bound.
type pending struct {
	pod   *model.Pod
	since int // the number of the step before which it was first seen
	// arrival is its place among all pods that were first seen pending.
	arrival int
	seen    time.Time
	next    time.Time
	// found is since when Berth finds a node for it, zero if it does not. told means that this was reported.
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
		objects: map[model.Ref]object{}, credit: creditMax, pending: map[model.PodKey]*pending{}, asks: list.New(),
		keepObjects: c.Keep, keepMax: c.KeepMax,
	}
	for _, p := range c.Scheduler.Profiles {
		if len(c.SchedulerNames) == 0 || slices.Contains(c.SchedulerNames, p.Name) {
			s.profiles[p.Name] = p
		}
	}
	for _, name := range c.SchedulerNames {
		if s.profiles[name] == nil {
			return nil, fmt.Errorf("scheduler name %q: no profile has it; the profiles are %q", name, c.Scheduler.SchedulerNames())
		}
	}
	s.summary.Races, s.stepsOf = map[string]int{}, map[model.Ref]int{}
	return s, nil
}

// Synced says that everything that exists has been applied: from now on a pod that gets a node is a binding.
func (s *Shadow) Synced() { s.synced = true }

// Apply takes in changes, in their order.
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
		// What follows a kept change of the same object is kept, too: whoever undoes and repeats that one must end with the object as it is.
		if matters(before.pod, after.pod) || s.stepsOf[ref] > 0 {
			s.keep(step{ref, before, after, own})
		}
		if ref.Kind == model.PodKind {
			s.follow(ref, after.pod)
		}
		s.closeDue(false)
	}
}

// Tick does what is due by time alone. Call it about once a second.
func (s *Shadow) Tick(now time.Time) {
	s.setNow(now)
	s.closeDue(false)
	s.askPending()
}

// End closes what is open, and returns the summary.
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

// matters reports whether a change can change a verdict about another pod: one of a pod that is, and stays, on no node and nominated to none cannot.
func matters(before, after *model.Pod) bool {
	idle := func(p *model.Pod) bool { return p == nil || p.NodeName == "" && p.NominatedNode == "" }
	return before == nil && after == nil || !idle(before) || !idle(after)
}

// judge compares a binding, if it is one, with what Berth says before the state knows of it. It returns nil if it is none.
func (s *Shadow) judge(before, after *model.Pod) *binding {
	switch {
	case after == nil || after.NodeName == "" || s.profiles[after.SchedulerName] == nil:
		return nil
	case before == nil || before.UID != after.UID:
		s.summary.Unseen++ // such as the pods that kubelets make
		return nil
	case before.NodeName != "":
		return nil
	}
	q := &question{pod: before, node: after.NodeName, at: s.first + len(s.steps), seen: s.now}
	if p := s.pending[before.Key()]; p != nil {
		q.since, q.arrival = p.since, p.arrival
	}
	s.summary.Bindings++
	s.credit = min(s.credit+credit, creditMax)
	if q.first = s.ask(q); q.first.Verdict == Agree {
		s.tell(q, q.first)
	} else {
		s.open = append(s.open, q)
	}
	return &binding{since: q.since, arrival: q.arrival, first: q.first.Verdict}
}

// follow keeps the list of pending pods.
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

// askPending asks about pending pods whose time has come: each once in the grace time, and few at once.
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

// askAbout reports a pending pod once if Berth has found a node for it for the grace time. Members of pod groups are decided about together, and left out.
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
