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
	reserves        // runs its calls at Reserve
	permits         // makes its steps at Permit
	preBinds        // makes its steps at PreBind
	binds           // is sent, or bound by a call, or asked for
	postBinds       // is bound, and makes its steps at PostBind
	undoes          // has failed, and undoes its steps, the last first
	over
	phases
)

var phaseNames = [phases]string{"starts", "reserves", "permits", "pre-binds", "binds", "post-binds", "undoes", "over"}

// String returns the phase in words.
func (p phase) String() string { return phaseNames[p] }

// next says where a binding may go from where it is. A move that is not here is a bug.
var next = [phases][]phase{
	starts:    {reserves, permits, preBinds, binds, undoes, over},
	reserves:  {permits, preBinds, binds, undoes, over},
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
	calling       // its call runs, and ends when it ends
	pausing       // on the timeline until the next try
	kept          // an event that was written and may repeat
	places
)

var placeNames = [places]string{"nowhere", "held", "ready", "sending", "waiting", "calling", "pausing", "kept"}

// String returns the place in a word.
func (p place) String() string { return placeNames[p] }

func phaseOf(stage plan.Stage) phase {
	switch stage {
	case plan.Reserve:
		return reserves
	case plan.Permit:
		return permits
	}
	return preBinds
}

// stageOf returns the extension point of the binding's phase; ok is false if it has none, or is observed as a write.
func (b *binding) stageOf() (stage plan.Stage, ok bool) {
	switch b.phase {
	case reserves:
		return plan.Reserve, true
	case binds:
		return plan.Bind, b.steps.handed
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
	if to > permits {
		o.unlistPermit(b)
	}
}

// endStage notes that the binding leaves its phase.
func (o *Outbox) endStage(now time.Time, b *binding, f failure) {
	if stage, ok := b.stageOf(); ok {
		o.ended.Stages = append(o.ended.Stages, StageEnd{
			Pod: b.placement.Pod, Stage: stage, Took: now.Sub(b.steps.entered), Err: f.err, Rejected: f.rejected, Waits: b.steps.waits,
		})
		b.steps.waits = nil
	}
}
