package kube

import (
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// Sink receives the objects of the watches. Its methods are called by one goroutine for each kind of object.
type Sink interface {
	// Set takes in a version of an object.
	Set(object kinds.Object)
	// Remove takes the reference of an object that is gone, or that the watch no longer selects.
	Remove(ref model.Ref)
}

// Handler passes on to a sink what an informer delivers about the objects of one kind. A version that is the same for scheduling as the one before is
// left out; one that replaces the one before, as an object under another UID does, is passed on as the end of that and as a new object.
//
// It needs neither a client nor a goroutine: a Watch adds it to the informers of client-go, and the simulation calls it in their place.
type Handler struct {
	row   *kinds.Row
	sink  Sink
	count atomic.Int64
}

// NewHandler returns a handler for the informer of a kind.
func NewHandler(kind model.Kind, sink Sink) *Handler {
	return &Handler{row: kinds.Get(kind), sink: sink}
}

// Count is how many objects the sink holds. Any goroutine may ask.
func (h *Handler) Count() int { return int(h.count.Load()) }

// OnAdd takes in an object that the informer did not have before.
func (h *Handler) OnAdd(object any, _ bool) {
	h.count.Add(1)
	h.sink.Set(object.(kinds.Object))
}

// OnUpdate takes in another version of an object. After a new list it may be the same one, or another object under the name.
func (h *Handler) OnUpdate(old, newer any) {
	before, after := old.(kinds.Object), newer.(kinds.Object)
	if h.row.Replaces(before, after) {
		h.sink.Remove(h.row.Ref(before))
		h.sink.Set(after)
	} else if !h.same(before, after) {
		h.sink.Set(after)
	}
}

// same compares two versions. Malformed ones that cannot be compared differ.
func (h *Handler) same(before, after kinds.Object) (same bool) {
	defer func() { _ = recover() }()
	return h.row.Same(before, after)
}

// OnDelete takes in the last version of an object that is gone. If the watch missed the deletion, and only a new list shows that the object is gone, then
// the version that the informer had is wrapped, or it may only be known by its key.
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

// keyed returns an object that has nothing but the name that is in an informer's key.
func keyed(key string) any {
	name, err := cache.ParseObjectName(key)
	if err != nil {
		return nil
	}
	return &metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}
}

// Held is the transform of an informer: in the place of an object that was decoded again it puts the one that is held already. After a
// restart of the API server everything is listed again; without this the informer would hold the new copies and the state, which is not told of
// versions that it knows, the old ones. An informer may transform an object twice; nothing is written, so that does no harm.
func Held(row *kinds.Row, store cache.Store, decoded kinds.Object) (held any, err error) {
	before, exists, err := store.Get(decoded)
	if err != nil || !exists {
		return decoded, err
	}
	held = decoded // also if the two cannot be compared because one is malformed
	defer func() { _ = recover() }()
	return row.Held(before.(kinds.Object), decoded), nil
}
