package commit

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

// phase is the progress of a binding. Its steps belong to extension points of
// kube-scheduler.
type phase uint8

const (
	starts    phase = iota
	reserves        // calls at Reserve
	permits         // steps at Permit
	preBinds        // steps at PreBind
	binds           // the Bind request, its reads, or a call that binds
	postBinds       // bound; steps at PostBind
	undoes          // failed; steps are undone in reverse order
	over
	phases
)

var phaseNames = [phases]string{"starts", "reserves", "permits", "pre-binds", "binds", "post-binds", "undoes", "over"}

// String returns the phase in words.
func (p phase) String() string { return phaseNames[p] }

// next are the allowed moves of a binding between phases. Any other move is a bug.
var next = [phases][]phase{
	starts:    {reserves, permits, preBinds, binds, undoes, over},
	reserves:  {permits, preBinds, binds, undoes, over},
	permits:   {permits, preBinds, binds, undoes, over},
	preBinds:  {preBinds, binds, undoes, over},
	binds:     {postBinds, undoes, over},
	postBinds: {over},
	undoes:    {over},
}

// move changes the phase of a binding.
func (b *binding) move(to phase) {
	if !slices.Contains(next[b.phase], to) {
		panic(fmt.Sprintf("commit: binding of pod %s cannot go from %s to %s", b.placement.Pod, b.phase, to))
	}
	b.phase = to
}

// place is where a binding is within its phase, or where an event, eviction or effect is.
type place uint8

const (
	nowhere place = iota
	held          // until the write of its pod's status has ended
	ready         // in the backlog, or in a lane of events
	sending       // its request is in flight
	waiting       // for the plugin of its step; on the timeline until the timeout
	calling       // until its call returns
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

// stageOf returns the extension point of the binding's phase; ok is false if the phase
// has none or is observed as a write.
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

// enter moves a binding to a phase and records the end of the phase before.
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

// endStage records that the binding leaves its phase.
func (o *Outbox) endStage(now time.Time, b *binding, f failure) {
	if stage, ok := b.stageOf(); ok {
		b.endPlugin(now, f.err)
		o.ended.Stages = append(o.ended.Stages, StageEnd{
			Pod: b.placement.Pod, Stage: stage, Took: now.Sub(b.steps.entered), Err: f.err, Rejected: f.rejected, Waits: b.steps.waits, Plugins: b.steps.plugins,
		})
		b.steps.waits, b.steps.plugins = nil, nil
	}
}

// turnTo records that a step begins, which may be the first of its plugin. The calls of
// out-of-tree plugins are measured where they run.
func (b *binding) turnTo(now time.Time, step *plan.Step) {
	name := step.Plugin
	if b.phase != preBinds || step.Call != nil {
		name = ""
	}
	if name != b.steps.plugin {
		b.endPlugin(now, nil)
		b.steps.plugin, b.steps.since = name, now
	}
}

// endPlugin records that the steps of the present plugin at PreBind have ended.
func (b *binding) endPlugin(now time.Time, err error) {
	if b.steps.plugin != "" {
		b.steps.plugins = append(b.steps.plugins, PluginEnd{b.steps.plugin, now.Sub(b.steps.since), err})
		b.steps.plugin = ""
	}
}
