package ingest

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// MaxActivated bounds the pods waiting to be activated; further requests are rejected. A
// cluster has 150,000 pods.
const MaxActivated = 200_000

// Activate requests that pods are retried as soon as possible, even if they back off or
// wait for an event. It never blocks. Repeated requests for a pod are merged. Pods that
// are no longer pending are ignored. It returns false if some requests were rejected; see
// MaxActivated.
func (in *Ingest) Activate(pods ...model.PodKey) bool {
	in.mu.Lock()
	all := true
	for _, pod := range pods {
		if _, ok := in.asked[pod]; ok {
			continue
		}
		if len(in.activated) >= MaxActivated {
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

// MaxNominated bounds the pods with waiting nominations; further requests are rejected.
const MaxNominated = 10_000

// Nominate requests a nomination of a pending pod. It never blocks. A later request for a
// pod replaces an earlier one. Pods that are no longer pending are ignored. It returns
// false if the request was rejected; see MaxNominated.
func (in *Ingest) Nominate(request model.NominationRequest) bool {
	in.mu.Lock()
	_, known := in.nominated[request.Pod]
	room := known || len(in.order) < MaxNominated
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

// Asked returns the requests of plugins since the last call: one nomination for each pod,
// and the pods to activate, each once. Both are in the order of the first request for
// each pod.
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

// MaxOthers bounds the waiting changes of objects that Berth itself does not read. Beyond
// it, a single event of kind AnyEvent replaces them.
const MaxOthers = 10_000

// others indexes the changes of objects that Berth itself does not read and the loop has
// not drained.
type others struct {
	at    map[otherRef]int // position in Ingest.changes of the newest change of an object
	count int
	full  bool // too many changes: a single AnyEvent replaces them and all later ones
}

type otherRef struct {
	resource string
	object   types.NamespacedName
}

// Raise adds a change of an object that Berth itself does not read. Old is nil for a new
// object, New for a deleted one. Consecutive updates that were not drained are merged:
// the first old version and the last new version remain.
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
	if o.count++; o.count > MaxOthers {
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

// dropOthers removes the changes of objects that Berth itself does not read.
func (in *Ingest) dropOthers() {
	kept := in.changes[:0]
	// from old to new positions of the other changes
	moved := make(map[int]int, len(in.at))
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
