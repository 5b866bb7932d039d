package loop

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// waits holds the placements with waiting steps. Waits are indexed by the objects that
// their steps name. So a change that concerns no wait costs nothing, and a wait is
// checked once for each batch of changes that touches it.
//
// A wait is added with the decision, before the outbox reaches its step, so no change in
// between is missed.
type waits struct {
	// Invariant: each pod is listed under its key. byRef lists exactly the waits of these
	// pods, by each of their objects; no list is empty.
	byPod map[model.PodKey]*waitingPod
	byRef map[model.Ref][]*wait
	// Invariant: between rounds nothing is touched.
	touched []*wait
	asked   int64 // calls of plugins
}

// waitingPod is a placement with steps that wait or call.
type waitingPod struct {
	placement plan.Placement
	waits     []*wait // without finished waits
}

type wait struct {
	pod *waitingPod
	// done is nil if only others can end the wait, as with out-of-tree plugins.
	done   plugin.Done
	plugin string
	refs   []model.Ref
	// Invariant: at has the position of the wait in waits.byRef for each of refs.
	at      []int
	touched bool
	// Invariant: a listed wait is not over.
	over bool
}

var errGone = errors.New("the pod is being deleted")

// wait adds the placement of a decision if it waits, or calls out-of-tree plugins.
func (l *Loop) wait(decision *plan.Decision) {
	if slices.ContainsFunc(decision.Placement.Steps, takesTime) {
		l.await(&decision.Placement)
	}
}

// takesTime reports whether the pod of a placement may be deleted during the step.
func takesTime(s plan.Step) bool { return s.Wait != nil || s.Call != nil }

func (l *Loop) await(placement *plan.Placement) {
	key := placement.Pod.Key()
	if former := l.waits.byPod[key]; former != nil {
		// an earlier pod of this name, whose binding has failed or will fail
		l.waits.forget(former)
	}
	pod := &waitingPod{placement: *placement}
	l.waits.byPod[key] = pod
	for i := range placement.Steps {
		if step := &placement.Steps[i]; step.Wait != nil {
			w := &wait{pod: pod, plugin: step.Plugin}
			if p := l.engine.Profile(placement.Pod.SchedulerName); p != nil {
				w.done = p.Done(step.Plugin)
			}
			for _, ref := range step.Wait.For {
				if !slices.Contains(w.refs, ref) {
					w.refs = append(w.refs, ref)
				}
			}
			l.waits.add(w)
		}
	}
	for _, w := range slices.Clone(pod.waits) {
		l.ask(w) // the wait may be over already
	}
}

// endWaits applies changes: it checks the waits that they touch, and cancels the bindings
// of deleted pods.
func (l *Loop) endWaits(changes []model.Change) {
	if len(l.waits.byPod) == 0 {
		return
	}
	for i := range changes {
		switch c := &changes[i]; c.Kind {
		case model.PodSet:
			key := c.Pod.Key()
			if pod := l.waits.byPod[key]; pod != nil {
				switch node := c.Pod.NodeName; {
				case c.Pod.Terminating || c.Pod.UID != pod.placement.Pod.UID:
					l.commit.Cancel(pod.placement.Pod.UID, errGone)
				case node != "" && node != pod.placement.NodeName:
					l.commit.Cancel(pod.placement.Pod.UID, fmt.Errorf("the pod is bound to %s", node))
				}
			}
			l.waits.touch(key.Ref())
		case model.PodGone:
			if pod := l.waits.byPod[c.Key]; pod != nil {
				l.commit.Cancel(pod.placement.Pod.UID, errGone)
			}
			l.waits.touch(c.Key.Ref())
		case model.BindDone:
			key := c.Bind.Pod.Key()
			if pod := l.waits.byPod[key]; pod != nil && pod.placement.Pod.UID == c.Bind.Pod.UID {
				l.waits.forget(pod)
			}
			l.waits.touch(key.Ref())
		case model.NodeSet:
			l.waits.touch(model.Ref{Kind: model.NodeKind, Name: c.Node.Name})
		case model.NodeGone:
			l.waits.touch(model.Ref{Kind: model.NodeKind, Name: c.Name})
		case model.ObjectSet, model.ObjectGone:
			l.waits.touch(c.Ref)
			// A volume also touches the claim that it names. A plugin that waits for a
			// claim cannot name the volume that will be provisioned, and the volume may
			// be the last change.
			if volume, ok := c.Compiled.(*model.Volume); ok {
				if claim, ok := volume.ClaimKey(); ok {
					l.waits.touch(claim.Ref())
				}
			}
		}
	}
	for _, w := range l.waits.touched {
		w.touched = false
		if !w.over {
			l.ask(w)
		}
	}
	clear(l.waits.touched)
	l.waits.touched = l.waits.touched[:0]
}

// ask checks with the plugin whether a wait is over, and reports its end to commit.
func (l *Loop) ask(w *wait) {
	if w.done == nil {
		return
	}
	l.waits.asked++
	uid := w.pod.placement.Pod.UID
	done, err := w.done(l.state.View(), &w.pod.placement)
	switch {
	case err != nil:
		l.commit.Reject(uid, w.plugin, err)
	case done:
		l.commit.Allow(uid, w.plugin)
	default:
		return
	}
	l.waits.drop(w)
}

func newWaits() waits {
	return waits{byPod: map[model.PodKey]*waitingPod{}, byRef: map[model.Ref][]*wait{}}
}

func (ws *waits) add(w *wait) {
	w.pod.waits = append(w.pod.waits, w)
	w.at = make([]int, len(w.refs))
	for i, ref := range w.refs {
		w.at[i] = len(ws.byRef[ref])
		ws.byRef[ref] = append(ws.byRef[ref], w)
	}
}

// touch marks the waits for a changed object.
func (ws *waits) touch(ref model.Ref) {
	for _, w := range ws.byRef[ref] {
		if !w.touched {
			w.touched = true
			ws.touched = append(ws.touched, w)
		}
	}
}

// drop removes a finished wait. The last wait for each of its objects moves to its
// position.
func (ws *waits) drop(w *wait) {
	w.over = true
	for i, ref := range w.refs {
		list := ws.byRef[ref]
		last := len(list) - 1
		moved := list[last]
		list[w.at[i]] = moved
		moved.at[slices.Index(moved.refs, ref)] = w.at[i]
		list[last] = nil
		if ws.byRef[ref] = list[:last]; last == 0 {
			delete(ws.byRef, ref)
		}
	}
	w.pod.waits = slices.DeleteFunc(w.pod.waits, func(other *wait) bool { return other == w })
}

// forget removes a pod whose binding has ended.
func (ws *waits) forget(pod *waitingPod) {
	for len(pod.waits) > 0 {
		ws.drop(pod.waits[0])
	}
	if key := pod.placement.Pod.Key(); ws.byPod[key] == pod {
		delete(ws.byPod, key)
	}
}

// WaitsAsked returns the number of calls of plugins that checked a wait.
func (l *Loop) WaitsAsked() int64 { return l.waits.asked }

// Waiting returns the number of placements with unfinished steps that wait or call.
func (l *Loop) Waiting() int { return len(l.waits.byPod) }

// Cancel fails a binding that has not been sent, for example because its place is needed.
// It returns false if the binding was sent already. The pod returns through the source.
func (l *Loop) Cancel(pod types.UID, reason error) bool { return l.commit.Cancel(pod, reason) }
