package simulate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-scheduler/berth/internal/explain"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugins/defaultbinder"
)

// committer carries decisions out on the cluster's own API objects. Like the real one it does nothing at once: what it was given
// happens after the round.
type committer struct {
	c    *Cluster
	room chan struct{} // closed
}

func newCommitter(c *Cluster) committer {
	m := committer{c, make(chan struct{})}
	close(m.room)
	return m
}

// Room never makes anybody wait.
func (m committer) Room() <-chan struct{} { return m.room }

// Start plans the binding of a pod that got a node, and the condition of one that did not.
func (m committer) Start(d plan.Decision, report explain.Report) {
	c := m.c
	c.round.Decided, c.round.Decision = true, d
	c.record(d, report)
	if !d.Settled() {
		c.agenda.plan(c.now, 0, func() { c.tell(d, report) })
		return
	}
	life := c.life
	c.agenda.plan(c.now.Add(c.chaos.bindDelay(d.Pod.Key())), 0, func() { c.bind(d, 1, life) })
}

func (c *Cluster) record(d plan.Decision, report explain.Report) {
	key := d.Pod.Key()
	verdict := c.verdicts[key]
	if verdict.UID != string(d.Pod.UID) {
		verdict = Verdict{UID: string(d.Pod.UID)}
	}
	verdict.Decision, verdict.Report, verdict.changes = d, report, c.changes
	verdict.Attempts++
	c.verdicts[key] = verdict
}

// bind sends the binding for the try-th time, and plans another try where that is worth it.
func (c *Cluster) bind(d plan.Decision, try, life int) {
	key := d.Pod.Key()
	fault := c.chaos.bindFault(key)
	var err error
	switch fault {
	case Conflict:
		err = apierrors.NewConflict(v1.Resource("pods/binding"), key.Name, fmt.Errorf("the binding was made to fail"))
	case Unavailable:
		err = apierrors.NewServiceUnavailable("the binding was made to fail")
	default:
		var bound *v1.Pod
		if bound, err = c.store.bind(key, d.Pod.UID, d.NodeName); err == nil {
			c.changes++
			c.showPod(bound)
			if fault == Lost {
				err = apierrors.NewTimeoutError("the answer to the binding was made to get lost", 0)
			}
		}
	}
	if wait, again := defaultbinder.Retry(err, try); again && life == c.life {
		c.agenda.plan(c.now.Add(wait), 0, func() { c.bind(d, try+1, life) })
		return
	}
	if err != nil {
		err = fmt.Errorf("running Bind plugin %q: %w", defaultbinder.Name, err)
	}
	c.answer(d, err, life)
}

// answer plans that the scheduler hears how the binding ended.
func (c *Cluster) answer(d plan.Decision, err error, life int) {
	if life != c.life {
		return // the process that asked is gone
	}
	outcome := model.Outcome{Pod: d.Pod, NodeName: d.NodeName, Err: err}
	c.agenda.plan(c.now.Add(c.chaos.upTo(c.chaos.BindDelayMax)), life, func() {
		c.deliver(Shown{Bound: &outcome})
		if err == nil {
			return
		}
		report := explain.OfFailedBinding(d, err)
		if verdict, ok := c.verdicts[d.Pod.Key()]; ok && verdict.UID == string(d.Pod.UID) {
			verdict.Report = report
			verdict.Decision.NodeName, verdict.Decision.Err = "", err
			c.verdicts[d.Pod.Key()] = verdict
		}
		c.tell(d, report)
	})
}

// tell writes the condition that a report asks for.
func (c *Cluster) tell(d plan.Decision, report explain.Report) {
	if report.Condition == nil && !report.ClearNomination {
		return
	}
	condition := v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse}
	if report.Condition != nil {
		condition = *report.Condition
	} else if have := explain.ScheduledCondition(d.Pod.Object); have != nil {
		condition = *have
	}
	if pod, ok := c.store.setCondition(d.Pod.Key(), d.Pod.UID, condition, report.ClearNomination); ok {
		c.showPod(pod)
	}
}
