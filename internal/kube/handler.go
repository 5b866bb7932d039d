package kube

import (
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// Sink receives the objects of the watches. Each kind has one goroutine that calls its
// methods.
type Sink interface {
	// Set stores a version of an object.
	Set(object kinds.Object)
	// Remove deletes an object that is gone, or that the watch no longer selects.
	Remove(ref model.Ref)
}

// Handler passes an informer's objects of one kind to a sink. It drops a version that is
// equal for scheduling to the previous one. A version that replaces the previous one, as
// an object with another UID does, is passed on as a deletion and a new object.
//
// It needs neither a client nor a goroutine. A Watch adds it to the informers of
// client-go, and the simulation calls it directly.
type Handler struct {
	row   *kinds.Row
	sink  Sink
	count atomic.Int64
}

// NewHandler returns a handler for the informer of a kind.
func NewHandler(kind model.Kind, sink Sink) *Handler {
	return &Handler{row: kinds.Get(kind), sink: sink}
}

// Count returns the number of objects in the sink. Any goroutine may call it.
func (h *Handler) Count() int { return int(h.count.Load()) }

// OnAdd passes on an object that is new to the informer.
func (h *Handler) OnAdd(object any, _ bool) {
	h.count.Add(1)
	h.sink.Set(object.(kinds.Object))
}

// OnUpdate passes on another version of an object. After a new list it may be the same
// version, or another object of the same name.
func (h *Handler) OnUpdate(old, newer any) {
	before, after := old.(kinds.Object), newer.(kinds.Object)
	if h.row.Replaces(before, after) {
		h.sink.Remove(h.row.Ref(before))
		h.sink.Set(after)
	} else if !h.same(before, after) {
		h.sink.Set(after)
	}
}

// same compares two versions. Malformed versions that cannot be compared differ.
func (h *Handler) same(before, after kinds.Object) (same bool) {
	defer func() { _ = recover() }()
	return h.row.Same(before, after)
}

// OnDelete passes on the deletion of an object. If the watch missed the deletion and a
// new list revealed it, the informer's last version is wrapped, or only the key is known.
func (h *Handler) OnDelete(object any) {
	h.count.Add(-1)
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		if object = missed.Obj; object == nil {
			object = keyed(missed.Key)
		}
	}
	if last, ok := object.(metav1.Object); ok {
		h.sink.Remove(h.row.Ref(last))
	}
}

// keyed returns an object with only the name of an informer's key.
func keyed(key string) any {
	name, err := cache.ParseObjectName(key)
	if err != nil {
		return nil
	}
	return &metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}
}

// Held is the transform of an informer: it replaces a newly decoded object by the kept
// one if they are equal. After a restart of the API server everything is listed again.
// Without Held the informer would keep the new copies, and the state the old ones,
// because equal versions are not passed on. An informer may transform an object twice.
// Nothing is written, so that is harmless.
func Held(row *kinds.Row, store cache.Store, decoded kinds.Object) (held any, err error) {
	before, exists, err := store.Get(decoded)
	if err != nil || !exists {
		return decoded, err
	}
	held = decoded // also if a malformed object cannot be compared
	defer func() { _ = recover() }()
	return row.Held(before.(kinds.Object), decoded), nil
}
