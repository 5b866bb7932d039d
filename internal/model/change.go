package model

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

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

	Object runtime.Object // ObjectSet: a namespace, service or controller of pods
	Ref    Ref            // ObjectSet, ObjectGone
}

// Kind is the kind of an object.
type Kind uint8

// The kinds of object that scheduling reads.
const (
	PodKind Kind = iota
	NodeKind
	NamespaceKind
	ServiceKind
	ReplicationControllerKind
	ReplicaSetKind
	StatefulSetKind
)

// Ref names an object. One that belongs to no namespace has no Namespace.
type Ref struct {
	Kind            Kind
	Namespace, Name string
}

// Ref returns the reference of the pod of a key.
func (k PodKey) Ref() Ref { return Ref{PodKind, k.Namespace, k.Name} }

// RefOf returns the reference of an object that is neither a pod nor a node; ok is false when scheduling does not read its kind.
func RefOf(object runtime.Object) (ref Ref, ok bool) {
	switch o := object.(type) {
	case *v1.Namespace:
		return Ref{NamespaceKind, "", o.Name}, true
	case *v1.Service:
		return Ref{ServiceKind, o.Namespace, o.Name}, true
	case *v1.ReplicationController:
		return Ref{ReplicationControllerKind, o.Namespace, o.Name}, true
	case *appsv1.ReplicaSet:
		return Ref{ReplicaSetKind, o.Namespace, o.Name}, true
	case *appsv1.StatefulSet:
		return Ref{StatefulSetKind, o.Namespace, o.Name}, true
	}
	return Ref{}, false
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
