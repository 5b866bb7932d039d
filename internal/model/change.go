package model

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// ChangeKind determines which fields of a Change are set.
type ChangeKind uint8

// The kinds of change.
const (
	// PodSet: a pod exists in this version. It is repeated for every newer version.
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
	// WriteDone: a write that released an allocation, a reservation or an object has
	// ended.
	WriteDone
	// EventRaised: an event that only matters to waiting pods.
	EventRaised
	// PodUndecided: an earlier process stopped while it decided about the pod. The pod's
	// next turn comes after the other ready pods, and after pods of earlier changes of
	// this kind. This applies once.
	PodUndecided
)

// Change is one new fact about the cluster. Only the fields of its kind are set.
type Change struct {
	Kind ChangeKind
	Pod  *Pod // PodSet
	// WasNominated means that an earlier version of the pod, merged into this one, had a
	// nominated node in its status.
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
	Compiled Compiled       // ObjectSet; nil for kinds that are not compiled
	// Learned means that the object comes from the API server's response to a write. The
	// watch may not have shown it yet. A learned version only replaces an older version
	// of the same object.
	Learned bool // ObjectSet
	Ref     Ref  // ObjectSet, ObjectGone
}

// BindingResult is the result of a binding.
type BindingResult struct {
	Pod      *Pod
	NodeName string
	// Err is nil if the API server stored the binding. Otherwise its text starts with the
	// failed step.
	Err error
	// Rejectors are the plugins that rejected the pod at Permit, if Err is such a
	// rejection. The pod then waits for an event that can change their verdict.
	Rejectors []string
}

// PreemptionResult is the result of one preemption. Each victim is gone, terminating, or
// kept.
type PreemptionResult struct {
	// Tree is the root of the preemptor's CompositePodGroup tree, if the evictions make
	// room for the tree. Otherwise it is zero.
	Tree GroupKey
	// Preemptor is the pod that needs the room, in the version that was decided about.
	Preemptor *Pod
	// Victims are all pods to evict. Kept are the Victims that stay, because their
	// eviction failed or was not tried.
	Victims, Kept []*Pod
	// InMemory means that the last victim was not bound yet. Its binding was cancelled,
	// so no deletion event will follow.
	InMemory bool
	// Err is the reason why the preemption failed, or nil.
	Err error
}

// WriteResult is the end of a decision's write that released something. The write is
// stored, refused or given up, and can no longer be stored later.
type WriteResult struct {
	// Object is the version that the write changed or deleted.
	Object Compiled
	// Deleted means that the object was deleted. The watch may still show it for a while.
	Deleted bool
	// Decisions is the number of decisions that made the write.
	Decisions int
}

// NominationRequest is a nomination by an out-of-tree plugin. An empty node name removes
// the pod's nomination.
type NominationRequest struct {
	Pod      PodKey
	UID      types.UID
	NodeName string
}
