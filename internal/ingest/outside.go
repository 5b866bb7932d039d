package ingest

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// ActivatedMax is how many pods can wait to be activated; more are not taken. A cluster has 150,000 pods.
const ActivatedMax = 200_000

// Activate asks to have pods tried as soon as possible although they back off or wait for an event. It never blocks. A pod that is asked for again
// before the loop has taken it counts once; one that does not wait by then is ignored. It reports whether there was room for all; see ActivatedMax.
func (in *Ingest) Activate(pods ...model.PodKey) bool {
	in.mu.Lock()
	all := true
	for _, pod := range pods {
		if _, ok := in.asked[pod]; ok {
			continue
		}
		if len(in.activated) >= ActivatedMax {
			all = false
			break
		}
		in.asked[pod] = struct{}{}
		in.activated = append(in.activated, pod)
	}
	in.asks.Store(true)
	in.mu.Unlock()
	in.signal()
	return all
}

// NominatedMax is how many pods can wait to be nominated by plugins; more are not taken.
const NominatedMax = 10_000

// Nominate asks to have a pending pod's nomination noted. It never blocks. Of a pod that is asked for again before the loop has taken it, the last word
// counts; one that does not wait by then is ignored. It reports whether there was room; see NominatedMax.
func (in *Ingest) Nominate(request model.NominationRequest) bool {
	in.mu.Lock()
	_, known := in.nominated[request.Pod]
	room := known || len(in.order) < NominatedMax
	if room {
		if !known {
			in.order = append(in.order, request.Pod)
		}
		in.nominated[request.Pod] = request
	}
	in.asks.Store(true)
	in.mu.Unlock()
	in.signal()
	return room
}

// Asked returns what plugins have asked for since it was last called: of Nominate one request for each pod, and the pods of Activate, each once; both in
// the order in which a pod was first asked for.
func (in *Ingest) Asked() (nominated []model.NominationRequest, activated []model.PodKey) {
	if !in.asks.Load() {
		return nil, nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.asks.Store(false)
	return in.takeNominated(), in.takeActivated()
}

func (in *Ingest) takeActivated() []model.PodKey {
	pods := in.activated
	if len(pods) == 0 {
		return nil
	}
	in.activated = nil
	if len(in.asked) > few {
		in.asked = map[model.PodKey]struct{}{}
	} else {
		clear(in.asked)
	}
	return pods
}

func (in *Ingest) takeNominated() []model.NominationRequest {
	if len(in.order) == 0 {
		return nil
	}
	requests := make([]model.NominationRequest, len(in.order))
	for i, pod := range in.order {
		requests[i] = in.nominated[pod]
	}
	in.nominated, in.order = map[model.PodKey]model.NominationRequest{}, nil
	return requests
}

// OthersMax is how many changes of objects that Berth itself does not read can wait. When there are more they are replaced by one event about anything.
const OthersMax = 10_000

// others are the changes of objects that Berth itself does not read, which the loop has not drained.
type others struct {
	at    map[otherRef]int // position in Ingest.changes of the newest one about an object
	count int
	full  bool // there were too many, and the event about anything stands for those and all that follow
}

type otherRef struct {
	resource string
	object   types.NamespacedName
}

// Raise adds a change of an object that Berth itself does not read: before is nil if it is new, after if it is gone. Of consecutive updates that were not
// drained the first old version and the last new one are kept.
func (in *Ingest) Raise(object types.NamespacedName, change model.OtherChange) {
	action := model.Update
	switch {
	case change.Old == nil:
		action = model.Add
	case change.New == nil:
		action = model.Delete
	}
	in.mu.Lock()
	in.raise(otherRef{change.Resource, object}, action, change)
	in.mu.Unlock()
	in.signal()
}

func (in *Ingest) raise(ref otherRef, action model.Action, change model.OtherChange) {
	o := &in.others
	if o.full {
		return
	}
	if at, ok := o.at[ref]; ok && action == model.Update {
		if last := in.changes[at].Event; last.Action != model.Delete {
			change.Old = last.Other.Old
			in.changes[at].Event = &model.Event{Resource: model.OtherEvent, Action: last.Action, Other: &change}
			return
		}
	}
	event := &model.Event{Resource: model.OtherEvent, Action: action, Other: &change}
	if o.count++; o.count > OthersMax {
		o.full = true
		event = &model.Event{Resource: model.AnyEvent, Action: model.Update}
		in.dropOthers()
	}
	if o.at == nil {
		o.at = map[otherRef]int{}
	}
	o.at[ref] = len(in.changes)
	in.changes = append(in.changes, model.Change{Kind: model.EventRaised, Event: event})
}

// dropOthers takes out the changes of objects that Berth itself does not read.
func (in *Ingest) dropOthers() {
	kept := in.changes[:0]
	moved := make(map[int]int, len(in.at)) // from and to where the others move up
	for i, change := range in.changes {
		if change.Kind != model.EventRaised {
			moved[i] = len(kept)
			kept = append(kept, change)
		}
	}
	clear(in.changes[len(kept):])
	in.changes = kept
	for ref, at := range in.at {
		in.at[ref] = moved[at]
	}
}
