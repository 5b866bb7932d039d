package model

import "k8s.io/apimachinery/pkg/runtime"

// ChangeKind says what a Change carries.
type ChangeKind uint8

// The kinds of change.
const (
	// PodSet: a pod exists in this version. Set again for every newer version.
	PodSet ChangeKind = iota
	// PodGone: the pod of that key exists no longer, or has finished.
	PodGone
	// NodeSet: a node exists in this version.
	NodeSet
	// NodeGone: the node of that name exists no longer.
	NodeGone
	// ObjectSet: an object that is neither a pod nor a node exists in this version.
	ObjectSet
	// ObjectGone: the object of that reference exists no longer.
	ObjectGone
	// BindDone: the result of a binding that the scheduler started.
	BindDone
)

// Change is one thing that became known to the scheduler. Exactly the fields that its kind names are set.
type Change struct {
	Kind ChangeKind
	Pod  *Pod           // PodSet
	Key  PodKey         // PodGone
	Node *Node          // NodeSet
	Name string         // NodeGone
	Bind *BindingResult // BindDone

	Object runtime.Object // ObjectSet
	Ref    Ref            // ObjectSet, ObjectGone
}

// BindingResult is how a binding ended.
type BindingResult struct {
	Pod      *Pod
	NodeName string
	// Err is nil when the API server stored the binding. Otherwise it says what was being done when it failed.
	Err error
	// Rejectors are the plugins that rejected the pod in Permit, if that is what Err says. The pod waits for an event that can change their
	// mind.
	Rejectors []string
}
