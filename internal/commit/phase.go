package commit

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/internal/plan"
)

// phase is how far a binding has come. Its steps belong to extension points of kube-scheduler.
type phase uint8

const (
	starts    phase = iota
	permits         // makes its steps at Permit
	preBinds        // makes its steps at PreBind
	binds           // is sent, or asked for
	postBinds       // is bound, and makes its steps at PostBind
	undoes          // has failed, and undoes its steps, the last first
	over
	phases
)

var phaseNames = [phases]string{"starts", "permits", "pre-binds", "binds", "post-binds", "undoes", "over"}

// String returns the phase in words.
func (p phase) String() string { return phaseNames[p] }

// next says where a binding may go from where it is. A move that is not here is a bug.
var next = [phases][]phase{
	starts:    {permits, preBinds, binds, over},
	permits:   {permits, preBinds, binds, undoes, over},
	preBinds:  {preBinds, binds, undoes, over},
	binds:     {postBinds, undoes, over},
	postBinds: {over},
	undoes:    {over},
}

// move takes a binding from its phase to another.
func (b *binding) move(to phase) {
	if !slices.Contains(next[b.phase], to) {
		panic(fmt.Sprintf("commit: binding of pod %s cannot go from %s to %s", b.placement.Pod, b.phase, to))
	}
	b.phase = to
}

// place is where a binding is while it is in a phase, or where an event is.
type place uint8

const (
	nowhere place = iota
	held          // until the write of its pod's status has ended
	ready         // in the backlog, or in the lane of events
	sending       // its request is in flight
	waiting       // for what its step waits for; on the timeline until the timeout
	pausing       // on the timeline until the next try
	kept          // an event that was written and may repeat
	places
)

var placeNames = [places]string{"nowhere", "held", "ready", "sending", "waiting", "pausing", "kept"}

// String returns the place in a word.
func (p place) String() string { return placeNames[p] }

func phaseOf(stage plan.Stage) phase {
	if stage == plan.Permit {
		return permits
	}
	return preBinds
}

// stageOf returns the extension point of a phase; ok is false if it has none, or is observed as a write.
func stageOf(p phase) (stage plan.Stage, ok bool) {
	switch p {
	case permits:
		return plan.Permit, true
	case preBinds:
		return plan.PreBind, true
	case postBinds:
		return plan.PostBind, true
	}
	return 0, false
}

// enter takes a binding to a phase, and notes how the one before ended.
func (o *Outbox) enter(now time.Time, b *binding, to phase) {
	if to == b.phase {
		return
	}
	if b.steps != nil {
		o.endStage(now, b, b.failure)
		b.steps.entered = now
	}
	b.move(to)
}

// endStage notes that the binding leaves its phase.
func (o *Outbox) endStage(now time.Time, b *binding, f failure) {
	if stage, ok := stageOf(b.phase); ok {
		o.ended.Stages = append(o.ended.Stages, StageEnd{
			Pod: b.placement.Pod, Stage: stage, Took: now.Sub(b.steps.entered), Err: f.err, Rejected: f.rejector != "",
		})
	}
}
