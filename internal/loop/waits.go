package loop

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// waits are the placements that wait for something to happen. A wait is found by the objects that its step names, so a change costs nothing
// that nobody waits for, and asks about each wait that it touches once.
//
// A wait is here from the decision on, before the outbox has come to its step: what happens in between is not missed.
type waits struct {
	// Invariant: each pod is listed under its key. byRef lists exactly the waits of these pods, by each of their objects; no list is empty.
	byPod map[model.PodKey]*waitingPod
	byRef map[model.Ref][]*wait
	// Invariant: between rounds nothing is touched.
	touched []*wait
	asked   int64 // how often a plugin was asked
}

// waitingPod is a placement with steps that wait or call.
type waitingPod struct {
	placement plan.Placement
	waits     []*wait // those that are not over
}

type wait struct {
	pod    *waitingPod
	waiter plugin.Waiter // nil if only others can end it, as with plugins from outside
	plugin string
	refs   []model.Ref
	// Invariant: at is where waits.byRef lists the wait, once for each object.
	at      []int // by refs: position in waits.byRef
	touched bool
	// Invariant: a wait that is listed is not over.
	over bool
}

var errGone = errors.New("the pod is being deleted")

// wait takes in the placements of a decision that was given to commit and that wait, or for which plugins from outside are called.
func (l *Loop) wait(decision *plan.Decision) {
	for i := range decision.Placements {
		if p := &decision.Placements[i]; slices.ContainsFunc(p.Steps, takesTime) {
			l.await(p)
		}
	}
}

// takesTime reports whether the pod of a placement may go while the step is made.
func takesTime(s plan.Step) bool { return s.Wait != nil || s.Call != nil }

func (l *Loop) await(placement *plan.Placement) {
	key := placement.Pod.Key()
	if former := l.waits.byPod[key]; former != nil {
		l.waits.forget(former) // another pod of that name, whose binding has failed or will
	}
	pod := &waitingPod{placement: *placement}
	l.waits.byPod[key] = pod
	for i := range placement.Steps {
		if step := &placement.Steps[i]; step.Wait != nil {
			w := &wait{pod: pod, plugin: step.Plugin}
			if p := l.engine.Profile(placement.Pod.SchedulerName); p != nil {
				w.waiter = p.Waiter(step.Plugin)
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
		l.ask(w) // it may have happened already
	}
}

// endWaits takes in changes: it asks the plugins whose waits they touch, and cancels the bindings of pods that go.
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
			// A volume is news about the claim that it names: who waits for a claim cannot name the volume that is made for it, and may see that last.
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

// ask asks a plugin whether a wait is over, and tells commit if it is.
func (l *Loop) ask(w *wait) {
	if w.waiter == nil {
		return
	}
	l.waits.asked++
	uid := w.pod.placement.Pod.UID
	done, err := w.waiter.Done(l.state.View(), &w.pod.placement)
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

// touch notes that an object has changed.
func (ws *waits) touch(ref model.Ref) {
	for _, w := range ws.byRef[ref] {
		if !w.touched {
			w.touched = true
			ws.touched = append(ws.touched, w)
		}
	}
}

// drop takes out a wait that is over. The last wait for each of its objects takes its position.
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

// forget takes out a pod whose binding has ended.
func (ws *waits) forget(pod *waitingPod) {
	for len(pod.waits) > 0 {
		ws.drop(pod.waits[0])
	}
	if key := pod.placement.Pod.Key(); ws.byPod[key] == pod {
		delete(ws.byPod, key)
	}
}

// WaitsAsked returns how often plugins were asked whether a wait is over.
func (l *Loop) WaitsAsked() int64 { return l.waits.asked }

// Waiting returns how many placements with steps that wait or call have not ended.
func (l *Loop) Waiting() int { return len(l.waits.byPod) }

// Cancel fails a binding that has not been sent, because its place is needed, say. It reports whether it could; the pod comes back through
// the source.
func (l *Loop) Cancel(pod types.UID, reason error) bool { return l.commit.Cancel(pod, reason) }
