package model

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// ChangeKind determines which fields of a Change are set.
type ChangeKind uint8

// The kinds of change.
const (
	// PodSet: a pod exists in this version. Set again for every newer version.
	PodSet ChangeKind = iota
	// PodGone: the pod with that key no longer exists, or has finished.
	PodGone
	// NodeSet: a node exists in this version.
	NodeSet
	// NodeGone: the node with that name no longer exists.
	NodeGone
	// ObjectSet: an object that is neither a pod nor a node exists in this version.
	ObjectSet
	// ObjectGone: the object with that reference no longer exists.
	ObjectGone
	// BindDone: the result of a binding that the scheduler started.
	BindDone
	// PreemptionDone: the result of a preemption that the scheduler started.
	PreemptionDone
	// WriteDone: a write that gave something back has ended.
	WriteDone
	// EventRaised: something has happened that only matters to waiting pods.
	EventRaised
	// PodUndecided: an earlier process stopped while it decided about the pod. Once, the
	// pod has its turn after the other pods that are ready, and after pods of earlier
	// such changes.
	PodUndecided
)

// Change is one new fact about the cluster. Exactly the fields that its kind names are set.
type Change struct {
	Kind ChangeKind
	Pod  *Pod // PodSet
	// WasNominated means that the pod's status named a nominated node in a version that came before this one, and that this one stands for too.
	WasNominated bool           // PodSet
	Key          PodKey         // PodGone
	Node         *Node          // NodeSet
	Name         string         // NodeGone
	Bind         *BindingResult // BindDone
	// PreemptionDone
	Preemption *PreemptionResult
	Write      *WriteResult // WriteDone
	Event      *Event       // EventRaised
	UID        types.UID    // PodUndecided

	Object   runtime.Object // ObjectSet
	Compiled Compiled       // ObjectSet: what the object was compiled to, nil for kinds that are not
	// Learned means that the API server answered a write with the object, and the watch need not have shown it yet. Such a version replaces an older one of
	// the same object, and nothing else.
	Learned bool // ObjectSet
	Ref     Ref  // ObjectSet, ObjectGone
}

// BindingResult is how a binding ended.
type BindingResult struct {
	Pod      *Pod
	NodeName string
	// Err is nil if the API server stored the binding. Otherwise its text starts with the step that failed.
	Err error
	// Rejectors are the plugins that rejected the pod in Permit, if that is what Err says. The pod waits for an event that can change their
	// mind.
	Rejectors []string
}

// PreemptionResult is how the evictions of one preemption ended: each victim is gone or on its way out, or stays.
type PreemptionResult struct {
	// Tree is the CompositePodGroup at the top of the tree that the preemptor belongs to, if the evictions are for that; zero otherwise.
	Tree GroupKey
	// Preemptor is the pod for which room was to be made, in the version that was decided about.
	Preemptor *Pod
	// Victims are all pods that were to be evicted; Kept those of them that stay, because their eviction failed or was not tried.
	Victims, Kept []*Pod
	// InMemory means that the last victim was a pod that had not been bound yet: its binding was cancelled, and no deletion will be seen.
	InMemory bool
	// Err is why the preemption failed, nil if it did not.
	Err error
}

// WriteResult is the end of a write of a decision that gave something back: it is stored,
// refused or given up, and cannot be stored any more.
type WriteResult struct {
	// Object is the version from which something was given back.
	Object Compiled
	// Deleted means that the object was deleted. It may be shown for a while.
	Deleted bool
	// Decisions is the number of decisions that made the write.
	Decisions int
}

// NominationRequest is what a plugin from outside asks to be noted of a pod: that it is nominated to a node, or to none if the name is empty.
type NominationRequest struct {
	Pod      PodKey
	UID      types.UID
	NodeName string
}
