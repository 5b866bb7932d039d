// Package ingest turns what the API shows into changes that the loop can take in.
//
// It takes API objects and outcomes of bindings, from any goroutine; it gives batches of model.Change. It owns the changes that
// the loop has not taken yet, at most one for each object: a newer version replaces an older one that nobody has seen. Objects are
// compiled here, on the caller's goroutine, so that the loop finds them ready. It never decides anything.
package ingest

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model"
)

// Compile works out a pending pod's needs.
type Compile func(pod *model.Pod)

// Ingest collects changes. It is safe for concurrent use.
type Ingest struct {
	compile map[string]Compile // by scheduler name
	ready   chan struct{}

	mu      sync.Mutex
	changes []model.Change
	at      map[key]int // position in changes of what is known of an object
}

// key names an object. Exactly one field is set; a node is named by its name alone.
type key struct {
	pod  model.PodKey
	node string
	ref  model.Ref
}

// New builds an ingest for the pods of the given scheduler names. Pending pods of other names are left out.
func New(compile map[string]Compile) *Ingest {
	return &Ingest{compile: compile, ready: make(chan struct{}, 1), at: map[key]int{}}
}

// Ready receives a value after something was added.
func (in *Ingest) Ready() <-chan struct{} { return in.ready }

// Drain returns what was added since the last call, in the order in which each object was first touched.
func (in *Ingest) Drain() []model.Change {
	in.mu.Lock()
	defer in.mu.Unlock()
	changes := in.changes
	if len(changes) > 0 {
		in.changes = nil
		clear(in.at)
	}
	return changes
}

// Waiting is how many changes Drain would return.
func (in *Ingest) Waiting() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.changes)
}

// SetPod takes in a version of a pod. A pod that has finished is gone as far as scheduling goes.
func (in *Ingest) SetPod(object *v1.Pod) {
	if object.Status.Phase == v1.PodSucceeded || object.Status.Phase == v1.PodFailed {
		in.RemovePod(object.Namespace, object.Name)
		return
	}
	compile, own := in.compile[object.Spec.SchedulerName]
	if object.Spec.NodeName == "" && !own {
		return
	}
	pod := compiled(object, compile)
	in.add(key{pod: pod.Key()}, model.Change{Kind: model.PodSet, Pod: pod})
}

// compiled compiles a pod. Whatever may be wrong with it, the pod is kept and says so.
func compiled(object *v1.Pod, compile Compile) (pod *model.Pod) {
	defer func() {
		if problem := recover(); problem != nil {
			pod = &model.Pod{
				Object: object, UID: object.UID, Namespace: object.Namespace, Name: object.Name, Labels: object.Labels,
				SchedulerName: object.Spec.SchedulerName, NodeName: object.Spec.NodeName,
				Terminating: object.DeletionTimestamp != nil,
				Malformed:   fmt.Sprintf("the pod cannot be read: %v", problem),
			}
		}
	}()
	pod = model.NewPod(object)
	if pod.NodeName == "" {
		compile(pod)
	}
	return pod
}

// RemovePod takes in that a pod is gone.
func (in *Ingest) RemovePod(namespace, name string) {
	k := model.PodKey{Namespace: namespace, Name: name}
	in.add(key{pod: k}, model.Change{Kind: model.PodGone, Key: k})
}

// SetNode takes in a version of a node.
func (in *Ingest) SetNode(object *v1.Node) {
	in.add(key{node: object.Name}, model.Change{Kind: model.NodeSet, Node: model.NewNode(object)})
}

// RemoveNode takes in that a node is gone.
func (in *Ingest) RemoveNode(name string) {
	in.add(key{node: name}, model.Change{Kind: model.NodeGone, Name: name})
}

// SetObject takes in a version of an object that is neither a pod nor a node. One that scheduling does not read is left out.
func (in *Ingest) SetObject(object runtime.Object) {
	if ref, ok := model.RefOf(object); ok {
		in.add(key{ref: ref}, model.Change{Kind: model.ObjectSet, Object: object, Ref: ref})
	}
}

// RemoveObject takes in that such an object is gone.
func (in *Ingest) RemoveObject(ref model.Ref) {
	in.add(key{ref: ref}, model.Change{Kind: model.ObjectGone, Ref: ref})
}

// Bound takes in how a binding ended. Outcomes are never replaced.
func (in *Ingest) Bound(outcome model.BindingResult) {
	in.mu.Lock()
	in.changes = append(in.changes, model.Change{Kind: model.BindDone, Bind: &outcome})
	in.mu.Unlock()
	in.signal()
}

func (in *Ingest) add(k key, change model.Change) {
	in.mu.Lock()
	if at, ok := in.at[k]; ok {
		in.changes[at] = change
	} else {
		in.at[k] = len(in.changes)
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
