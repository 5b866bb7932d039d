package commit

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/report"
)

// announce makes the placement's node the pod's nominated one in the API, as kube-scheduler does before it waits at Permit or PreBind plugins work: others, such as a
// cluster autoscaler, see where the pod is about to go. Whether that is written changes nothing for the pod.
func (o *Outbox) announce(now time.Time, b *binding) {
	p := &b.placement
	if !o.config.Announce || b.nominated || p.Pod.NominatedNode == p.NodeName || !b.takesTime() {
		return
	}
	b.nominated, b.steps.announced = true, true
	o.queueReport(now, p.Pod, report.Report{Nomination: plan.Nomination{Pod: p.Pod, Mode: plan.Set, NodeName: p.NodeName}})
}

// announces reports whether a binding waits, before the first call at PreBind, until the nomination of
// its node is written: plugins read it there. A nomination that has not been sent is sent with the
// bindings, because statuses may wait for minutes.
func (o *Outbox) announces(b *binding) bool {
	if !b.steps.announced {
		return false
	}
	if p := o.pods[b.placement.Pod.UID]; p != nil {
		if p.latest != nil {
			b.steps.announcement, p.latest = p.latest, nil
		}
		if p.writing != nil {
			p.held, b.place = b, held
			return true
		}
	}
	if b.steps.announced = false; b.steps.announcement == nil {
		return false
	}
	o.send(b)
	return true
}

// announced takes in how the write of a nomination ended that a binding has sent. As in
// kube-scheduler, the binding goes on although the write has failed.
func (o *Outbox) announced(now time.Time, b *binding, err error) {
	s := b.steps.announcement
	b.steps.announcement = nil
	if err == nil {
		o.stats.Statuses++
		o.remember(now, s)
	} else {
		delete(o.written, s.pod.UID)
		o.stats.StatusesFailed++
		if !isGone(err) {
			o.giveUp(s.pod.Key(), fmt.Errorf("write the nominated node of %s: %w", s.pod, err))
		}
	}
	switch {
	case o.stopped != nil:
		o.settleStopped(now, b)
	case b.steps.interrupted != nil:
		o.fail(now, b, *b.steps.interrupted)
	default:
		o.advance(now, b)
	}
}

// takesTime reports whether a binding waits at Permit, or does anything at PreBind: the steps of our own plugins there, or what those from outside have
// said in their preflight.
func (b *binding) takesTime() bool {
	return b.steps.permit != nil || b.steps.works || slices.ContainsFunc(b.placement.Steps, func(s plan.Step) bool {
		return s.Stage == plan.PreBind && s.Call == nil
	})
}
