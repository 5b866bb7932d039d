package commit

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// announce writes the chosen node to the pod's status.nominatedNodeName before the pod
// waits at Permit or PreBind plugins do work, as kube-scheduler does. A cluster
// autoscaler can then see where the pod is about to go. The binding does not depend on
// the result of this write.
func (o *Outbox) announce(now time.Time, b *binding) {
	p := &b.placement
	if !o.config.Announce || b.nominated || p.Pod.NominatedNode == p.NodeName || !b.takesTime() {
		return
	}
	b.nominated, b.steps.announced = true, true
	o.queueReport(now, p.Pod, report.Report{Nomination: plan.Nomination{Pod: p.Pod, Mode: plan.Set, NodeName: p.NodeName}})
}

// announces reports whether a binding must wait, before its first call at PreBind, until
// the nomination of its node is written: plugins read the nomination there. A nomination
// that is still queued is sent with the bindings, because statuses may wait for minutes.
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

// announced handles the result of writing a nomination that the binding sent itself. As
// in kube-scheduler, the binding continues even if the write failed.
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

// takesTime reports whether a binding waits at Permit or has work at PreBind: a step of a
// built-in plugin, or work that an out-of-tree plugin announced in its PreBindPreFlight.
func (b *binding) takesTime() bool {
	return b.steps.permit != nil || b.steps.works || slices.ContainsFunc(b.placement.Steps, func(s plan.Step) bool {
		return s.Stage == plan.PreBind && s.Call == nil
	})
}
