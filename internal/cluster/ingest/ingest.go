// Package ingest converts API objects to changes for the loop.
//
// Its input is API objects, from watches and from answers to writes, and results of
// bindings and preemptions, from any goroutine. Its output is batches of model.Change,
// and requests of out-of-tree plugins. It owns the changes that the loop has not drained
// yet. Of each object from a watch it stores at most one change: a newer version replaces
// a version that was not drained. It compiles the needs of pods on the caller's
// goroutine, to relieve the loop. It never decides anything.
package ingest

import (
	"fmt"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// Compile computes a pending pod's needs.
type Compile func(pod *model.Pod)

// Ingest collects the changes of informers for the loop. It is safe for concurrent use.
type Ingest struct {
	compile   map[string]Compile // by scheduler name
	malformed func(ref model.Ref, problem any)
	ready     chan struct{}
	// pending and placed are the last compiled pods, because replicas often arrive in
	// sequence.
	pending, placed atomic.Pointer[model.Pod]

	mu      sync.Mutex
	changes []model.Change
	at      map[model.Ref]int // position in changes of the newest change of an object
	others  others
	// asks is set while requests of plugins are waiting. The loop checks it without the
	// lock, before and after each decision.
	asks atomic.Bool
	// activated has the pods to activate, each once, in the order of their first
	// requests.
	activated []model.PodKey
	asked     map[model.PodKey]struct{}
	// nominated has the newest nomination of each pod. order has the pods in the order of
	// their first requests.
	nominated map[model.PodKey]model.NominationRequest
	order     []model.PodKey
}

// New returns an ingest for the pods of the given scheduler names. It ignores pending
// pods with other names.
func New(compile map[string]Compile, options ...Option) *Ingest {
	in := &Ingest{compile: compile, ready: make(chan struct{}, 1), at: map[model.Ref]int{}, asked: map[model.PodKey]struct{}{}, nominated: map[model.PodKey]model.NominationRequest{}}
	for _, option := range options {
		option(in)
	}
	return in
}

// Option is an optional setting of an Ingest.
type Option func(*Ingest)

// OnMalformed sets a function to call for each object that is set aside because it cannot
// be compiled. The call is on the goroutine that adds the object.
func OnMalformed(f func(ref model.Ref, problem any)) Option {
	return func(in *Ingest) { in.malformed = f }
}

// Ready returns a channel that receives a value after a change was added.
func (in *Ingest) Ready() <-chan struct{} { return in.ready }

// Drain returns the changes since the last call, in the order of the first change of each
// object.
func (in *Ingest) Drain() []model.Change {
	in.mu.Lock()
	defer in.mu.Unlock()
	changes := in.changes
	if len(changes) > 0 {
		in.changes = nil
		in.others = others{}
		in.forget()
	}
	return changes
}

// forget empties at. After the list of a large cluster it makes a new map, because
// clearing the old one would take time in proportion to its largest size, each time.
func (in *Ingest) forget() {
	if len(in.at) > few {
		in.at = map[model.Ref]int{}
		return
	}
	clear(in.at)
}

// few is the usual maximum of changes in a batch.
const few = 1024

// Waiting returns the number of changes that Drain would return.
func (in *Ingest) Waiting() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.changes)
}

// Set adds a version of an object. It ignores kinds that scheduling does not read, and
// pending pods of other schedulers.
func (in *Ingest) Set(object kinds.Object) {
	row := kinds.Of(object)
	if row == nil {
		return
	}
	pod, ok := object.(*v1.Pod)
	if !ok {
		in.add(row.Ref(object), in.guarded(row, object, func() model.Change { return row.Change(object) }))
		return
	}
	compile, own := in.compile[pod.Spec.SchedulerName]
	if pod.Spec.NodeName != "" || own {
		in.add(row.Ref(pod), in.guarded(row, pod, func() model.Change { return in.compiled(row, pod, compile) }))
	}
}

// guarded returns the change for a version of an object. If compiling it panics, the
// object is set aside: one malformed object must not end the process.
func (in *Ingest) guarded(row *kinds.Row, object kinds.Object, compile func() model.Change) (change model.Change) {
	defer func() {
		problem := recover()
		if problem == nil {
			return
		}
		if pod, ok := object.(*v1.Pod); ok {
			change = malformed(pod, problem)
		} else {
			change = row.SetAside(object)
		}
		if in.malformed != nil {
			in.malformed(row.Ref(object), problem)
		}
	}()
	return compile()
}

// compiled returns the change for a version of a pod, with the needs of a pending pod.
func (in *Ingest) compiled(row *kinds.Row, object *v1.Pod, compile Compile) model.Change {
	last := &in.pending
	if object.Spec.NodeName != "" {
		last = &in.placed
	}
	if of := last.Load(); of != nil && !kinds.Finished(object) {
		if replica, ok := of.Replica(object); ok {
			return model.Change{Kind: model.PodSet, Pod: replica}
		}
	}
	change := row.Change(object)
	if change.Kind != model.PodSet {
		return change
	}
	if change.Pod.NodeName == "" {
		compile(change.Pod)
	}
	last.Store(change.Pod)
	return change
}

// malformed returns the change for a pod that cannot be compiled, with the reason.
func malformed(object *v1.Pod, problem any) model.Change {
	pod := &model.Pod{
		Object: object, UID: object.UID, Namespace: object.Namespace, Name: object.Name, Labels: object.Labels,
		SchedulerName: object.Spec.SchedulerName, NodeName: object.Spec.NodeName,
		Terminating: object.DeletionTimestamp != nil,
		Malformed:   fmt.Sprintf("the pod cannot be read: %v", problem),
	}
	// on a node, only pods of higher priority may evict it
	if priority := object.Spec.Priority; priority != nil {
		pod.Priority = *priority
	}
	return model.Change{Kind: model.PodSet, Pod: pod}
}

// Remove adds the removal of an object.
func (in *Ingest) Remove(ref model.Ref) { in.add(ref, kinds.Get(ref.Kind).Gone(ref)) }

// Learned adds a version of an object from the API server's answer to a write. It ignores
// kinds that reach the state uncompiled, because the state could not compare their
// versions with those from the watch. Learned versions are never replaced and never
// replace versions from the watch: the state determines the newer of the two.
func (in *Ingest) Learned(object kinds.Object) {
	row := kinds.Of(object)
	if row == nil {
		return
	}
	learns := true
	change := in.guarded(row, object, func() model.Change {
		change := row.Change(object)
		learns = change.Compiled != nil
		return change
	})
	if !learns || change.Compiled == nil {
		return
	}
	change.Learned = true
	in.mu.Lock()
	in.changes = append(in.changes, change)
	in.mu.Unlock()
	in.signal()
}

// Bound adds the result of a binding. Results are never replaced.
func (in *Ingest) Bound(result model.BindingResult) {
	in.mu.Lock()
	in.changes = append(in.changes, model.Change{Kind: model.BindDone, Bind: &result})
	in.mu.Unlock()
	in.signal()
}

// Preempted adds the result of a preemption. Results are never replaced.
func (in *Ingest) Preempted(result model.PreemptionResult) {
	in.mu.Lock()
	in.changes = append(in.changes, model.Change{Kind: model.PreemptionDone, Preemption: &result})
	in.mu.Unlock()
	in.signal()
}

// Written adds the end of a write that released a claim. Results are never replaced.
func (in *Ingest) Written(result model.WriteResult) {
	in.mu.Lock()
	in.changes = append(in.changes, model.Change{Kind: model.WriteDone, Write: &result})
	in.mu.Unlock()
	in.signal()
}

// Undecided reports a pod that an earlier process was deciding about when it stopped.
func (in *Ingest) Undecided(uid types.UID) {
	in.mu.Lock()
	in.changes = append(in.changes, model.Change{Kind: model.PodUndecided, UID: uid})
	in.mu.Unlock()
	in.signal()
}

func (in *Ingest) add(ref model.Ref, change model.Change) {
	in.mu.Lock()
	if at, ok := in.at[ref]; ok {
		if was := &in.changes[at]; was.Kind == model.PodSet && change.Kind == model.PodSet && was.Pod.UID == change.Pod.UID {
			change.WasNominated = was.WasNominated || was.Pod.Object.Status.NominatedNodeName != ""
		}
		in.changes[at] = change
	} else {
		in.at[ref] = len(in.changes)
		in.changes = append(in.changes, change)
	}
	in.mu.Unlock()
	in.signal()
}

func (in *Ingest) signal() {
	select {
	case in.ready <- struct{}{}:
	default:
	}
}
