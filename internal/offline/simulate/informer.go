package simulate

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/kube"
	"github.com/berth-scheduler/berth/internal/model"
)

// informer stands in for a client-go informer of one kind, but acts at once and without
// goroutines. It decodes objects, stores them, and calls the handler that package kube
// adds to informers. TestInformer compares it with client-go's.
type informer struct {
	c       *Cluster
	row     *kinds.Row
	store   cache.Store
	handler cache.ResourceEventHandler
}

func newInformer(c *Cluster, kind model.Kind, handler cache.ResourceEventHandler) *informer {
	i := &informer{c: c, row: kinds.Get(kind), handler: handler}
	i.store = cache.NewStore(func(object any) (string, error) { return i.key(object.(kinds.Object)), nil })
	return i
}

// key returns an object's key in the store.
func (i *informer) key(object kinds.Object) string {
	ref := i.row.Ref(object)
	return cache.NewObjectName(ref.Namespace, ref.Name).String()
}

// known returns the informer's version of an object, or nil.
func (i *informer) known(object kinds.Object) kinds.Object {
	known, exists, err := i.store.Get(object)
	if must(err); !exists {
		return nil
	}
	return known.(kinds.Object)
}

// set applies a watch event of an added or changed object.
func (i *informer) set(object kinds.Object) {
	before := i.known(object)
	after := i.decode(object, before)
	must(i.store.Update(after))
	i.pass(before, after, false)
}

// remove applies a watch event of a deleted object.
func (i *informer) remove(object kinds.Object) {
	last := i.decode(object, i.known(object))
	must(i.store.Delete(last))
	i.handler.OnDelete(last)
}

// replace applies a list of all objects. Objects that are missing in it were deleted
// unseen.
func (i *informer) replace(list []kinds.Object, initial bool) {
	before, listed, decoded := map[string]any{}, map[string]bool{}, make([]any, len(list))
	for at, object := range list {
		decoded[at] = i.decode(object, i.known(object))
		listed[i.key(object)] = true
	}
	for _, object := range i.store.List() {
		before[i.key(object.(kinds.Object))] = object
	}
	must(i.store.Replace(decoded, ""))
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if !listed[key] {
			i.handler.OnDelete(i.missed(key, before[key].(kinds.Object)))
		}
	}
	for at, object := range list {
		known, _ := before[i.key(object)].(kinds.Object)
		i.pass(known, decoded[at].(kinds.Object), initial)
	}
}

// pass calls the handler for a version of an object.
func (i *informer) pass(before, after kinds.Object, initial bool) {
	switch {
	case before == nil:
		i.handler.OnAdd(after, initial)
		return
	case before.GetUID() != after.GetUID():
		i.c.happened["informer: update under another UID"]++
	case before.GetResourceVersion() == after.GetResourceVersion():
		i.c.happened["informer: update without a change"]++
	case i.row.Same(before, after):
		i.c.happened["informer: update with nothing new to scheduling"]++
	}
	i.handler.OnUpdate(before, after)
}

// missed returns the tombstone of an object that is missing in a list, with the
// informer's last version or, at random, with the key alone.
func (i *informer) missed(key string, last kinds.Object) cache.DeletedFinalStateUnknown {
	i.c.happened["informer: tombstone"]++
	if i.c.chaos.chance(i.c.chaos.KeyOnlyPercent) {
		i.c.happened["informer: tombstone without an object"]++
		return cache.DeletedFinalStateUnknown{Key: key}
	}
	return cache.DeletedFinalStateUnknown{Key: key, Obj: last}
}

// decode returns the object to keep for a received one. It is a copy, so that a resent
// version is another object in memory, as in a real process. It is trimmed if configured,
// and then transformed as for informers. known is the informer's version, or nil.
func (i *informer) decode(object, known kinds.Object) kinds.Object {
	decoded := object
	switch {
	case i.c.config.Trim:
		trimmed, err := i.c.trim(object.DeepCopyObject())
		must(err)
		decoded = trimmed.(kinds.Object)
	case known != nil && known.GetResourceVersion() == object.GetResourceVersion():
		again := reflect.New(reflect.TypeOf(object).Elem())
		again.Elem().Set(reflect.ValueOf(object).Elem())
		decoded = again.Interface().(kinds.Object)
	}
	if known == nil {
		return decoded // no held object can be reused
	}
	held, err := kube.Held(i.row, i.store, decoded)
	must(err)
	return held.(kinds.Object)
}

// must panics on errors that cannot occur in memory.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("simulate: an informer in memory failed: %v", err))
	}
}

// sink delivers the handlers' calls to the scheduler.
type sink struct{ c *Cluster }

// Set delivers an object to the scheduler.
func (s sink) Set(object kinds.Object) { s.c.deliver(Shown{Object: object}) }

// Remove delivers a deletion to the scheduler.
func (s sink) Remove(ref model.Ref) {
	// Until now the scheduler may have decided about a deleted pod.
	if key := (model.PodKey{Namespace: ref.Namespace, Name: ref.Name}); ref.Kind == model.PodKind && s.c.store.pods[key] == nil {
		s.c.forget(key)
	}
	s.c.deliver(Shown{Gone: ref})
}

// selected reports whether the scheduler's watches select an object: their field selector
// leaves out finished pods.
func selected(object kinds.Object) bool {
	pod, ok := object.(*v1.Pod)
	return !ok || !kinds.Finished(pod)
}
