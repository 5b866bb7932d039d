package simulate

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/report"
)

// committer carries decisions out on the cluster's own API objects. What is to be written, in which order and when again, the real docket
// says; requests and their answers take virtual time, and nothing happens during a round.
type committer struct {
	c        *Cluster
	life     int
	docket   *commit.Docket
	room     chan struct{}                // closed
	busy     [commit.DefaultInFlight]bool // by worker
	inFlight int
	wakes    time.Time // when the docket is looked at again; in the past if that is not planned
	stopping bool      // the process ends when nothing is to be written any more
}

func newCommitter(c *Cluster) (*committer, error) {
	docket, err := commit.NewDocket(commit.DefaultDocket(c.chaos.jitter))
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	m := &committer{c: c, life: c.life, docket: docket, room: make(chan struct{})}
	close(m.room)
	return m, nil
}

// Room never makes anybody wait.
func (m *committer) Room() <-chan struct{} { return m.room }

// Start takes a decision in. Requests go out after the round.
func (m *committer) Start(d plan.Decision) {
	m.c.round.Decided, m.c.round.Decision = true, d
	for i := range d.Pods {
		m.c.record(&d, i)
	}
	m.docket.Start(&d)
}

// pump sends what the docket has to send, and plans to look again.
func (m *committer) pump() {
	for m.inFlight < commit.DefaultInFlight {
		worker := slices.Index(m.busy[:], false)
		job, ok := m.docket.Next(m.c.now, commit.EventsFirst(worker, commit.DefaultInFlight))
		if !ok {
			break
		}
		m.busy[worker] = true
		m.inFlight++
		delay := m.c.chaos.upTo(m.c.chaos.BindDelayMax)
		if job.Errand == commit.Bind {
			delay = m.c.chaos.bindDelay(job.Pod.Key())
		}
		m.c.agenda.plan(m.c.now.Add(delay), 0, func() { m.arrive(worker, job) })
	}
	if at, ok := m.docket.Due(); ok && m.inFlight < commit.DefaultInFlight && (!m.wakes.After(m.c.now) || at.Before(m.wakes)) {
		m.wakes = at
		m.c.agenda.plan(at, m.life, func() {}) // every step pumps
	}
}

// arrive has the API server carry a request out, and plans the answer.
func (m *committer) arrive(worker int, job commit.Job) {
	c := m.c
	fault := c.faultOf(job)
	answer, wait := commit.Answer{Err: fault.refusal(job)}, time.Duration(0)
	switch {
	case fault == Late:
		c.agenda.plan(c.now.Add(c.chaos.upTo(lateMax)), 0, func() { c.carryOut(job) })
	case fault == TimedOut:
		wait = commit.DefaultTimeout
		if c.chaos.chance(50) {
			c.carryOut(job)
		}
	case fault == Internal && c.chaos.chance(50), fault == Lost:
		c.carryOut(job)
	case fault == NoFault:
		answer = c.carryOut(job)
	}
	c.count(job, fault, answer.Err)
	c.agenda.plan(c.now.Add(wait+c.chaos.upTo(c.chaos.BindDelayMax)), m.life, func() { m.done(worker, job, answer) })
}

// done tells the docket how a request ended, and the loop how a binding did.
func (m *committer) done(worker int, job commit.Job, answer commit.Answer) {
	m.busy[worker] = false
	m.inFlight--
	if settled, _ := m.docket.Done(m.c.now, job, answer); settled != nil {
		m.settle(settled)
	}
}

// stop ends the bindings that no request is under way for. What else there is to write may be written for a while.
func (m *committer) stop(reason error) {
	m.stopping = true
	for _, settled := range m.docket.Stop(reason) {
		m.settle(settled)
	}
}

// idle reports whether nothing is on its way and nothing is left to write.
func (m *committer) idle() bool { return m.inFlight == 0 && m.docket.Empty() }

// settle tells the loop how a binding ended.
func (m *committer) settle(settled *commit.Settled) {
	result := settled.Result()
	m.c.deliver(Shown{Bound: &result})
	if settled.Err != nil {
		m.c.recordFailure(settled)
	}
}

// record keeps what was decided about one pod of a decision.
func (c *Cluster) record(d *plan.Decision, at int) {
	pod := d.Pods[at].Pod
	key := pod.Key()
	verdict := Verdict{UID: string(pod.UID), Decision: *d, changes: c.changes, Attempts: 1}
	if before := c.verdicts[key]; before.UID == verdict.UID {
		verdict.Attempts += before.Attempts
	}
	if d.Outcome == plan.Placed {
		verdict.Placement = d.Placements[at]
		verdict.Report = report.OfBinding(&verdict.Placement)
	} else {
		verdict.Report, verdict.message = report.Of(d, pod), report.Message(d)
	}
	c.verdicts[key] = verdict
}

func (c *Cluster) recordFailure(s *commit.Settled) {
	key := s.Placement.Pod.Key()
	if verdict, ok := c.verdicts[key]; ok && verdict.UID == string(s.Placement.Pod.UID) {
		verdict.Report, verdict.message = report.OfFailedBinding(&s.Placement, s.Err), s.Err.Error()
		verdict.Decision.Outcome, verdict.Decision.Err, verdict.Placement = plan.Failed, s.Err, plan.Placement{}
		c.verdicts[key] = verdict
	}
}

// carryOut does what the API server does with a request that nothing is wrong with.
func (c *Cluster) carryOut(job commit.Job) commit.Answer {
	key := job.Pod.Key()
	switch job.Errand {
	case commit.Bind:
		bound, err := c.store.bind(key, job.Pod.UID, job.NodeName)
		if err != nil {
			return commit.Answer{Err: err}
		}
		c.changes++
		c.round.Stored = append(c.round.Stored, bound)
		c.show(bound)
	case commit.Ask:
		pod := c.store.pods[key]
		if pod == nil || pod.UID != job.Pod.UID {
			return commit.Answer{Err: apierrors.NewNotFound(v1.Resource("pods"), key.Name)}
		}
		return commit.Answer{NodeName: pod.Spec.NodeName}
	case commit.Patch:
		if c.store.pods[key] == nil {
			return commit.Answer{Err: apierrors.NewNotFound(v1.Resource("pods"), key.Name)}
		}
		condition := v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse}
		if job.Condition != nil {
			condition = *job.Condition
		} else if have := report.ScheduledCondition(job.Pod.Object); have != nil {
			condition = *have
		}
		pod, ok := c.store.setCondition(key, job.Pod.UID, condition, job.Nomination)
		if !ok {
			return commit.Answer{Err: apierrors.NewConflict(v1.Resource("pods"), key.Name, fmt.Errorf("the UID is another pod's"))}
		}
		c.show(pod)
	}
	return commit.Answer{}
}
