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

// informer does what client-go's informers do with what a watch of one kind shows, but at once and without goroutines: it decodes objects, keeps them, and
// calls the handler that package kube adds to informers. TestInformer compares it with client-go's.
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

// key is an object's key in the store.
func (i *informer) key(object kinds.Object) string {
	ref := i.row.Ref(object)
	return cache.NewObjectName(ref.Namespace, ref.Name).String()
}

// known returns the version of an object that the informer has, nil if there is none.
func (i *informer) known(object kinds.Object) kinds.Object {
	known, exists, err := i.store.Get(object)
	if must(err); !exists {
		return nil
	}
	return known.(kinds.Object)
}

// set takes in that an object was added or changed.
func (i *informer) set(object kinds.Object) {
	before := i.known(object)
	after := i.decode(object, before)
	must(i.store.Update(after))
	i.pass(before, after, false)
}

// remove takes in that an object was deleted.
func (i *informer) remove(object kinds.Object) {
	last := i.decode(object, i.known(object))
	must(i.store.Delete(last))
	i.handler.OnDelete(last)
}

// replace takes in a list of all objects: what is not there any more was deleted unseen.
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

// pass hands a version of an object to the handler.
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

// missed returns what takes the place of an object that is missing in a list: with the version that the informer had, or now and then with the key alone.
func (i *informer) missed(key string, last kinds.Object) cache.DeletedFinalStateUnknown {
	i.c.happened["informer: tombstone"]++
	if i.c.chaos.chance(i.c.chaos.KeyOnlyPercent) {
		i.c.happened["informer: tombstone without an object"]++
		return cache.DeletedFinalStateUnknown{Key: key}
	}
	return cache.DeletedFinalStateUnknown{Key: key, Obj: last}
}

// decode returns the object that is kept of one that the API server sends: a copy, so that a version that is sent again is another object in memory, as
// in a process of its own; trimmed, where the configuration says so; and then transformed as for informers. known is the version that the informer has, nil if there is none.
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
		return decoded // nothing is held that could take its place
	}
	held, err := kube.Held(i.row, i.store, decoded)
	must(err)
	return held.(kinds.Object)
}

// must is for errors of functions that have no reason to fail, in memory.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("simulate: an informer in memory failed: %v", err))
	}
}

// sink passes what the handlers say on to the scheduler.
type sink struct{ c *Cluster }

// Set shows an object to the scheduler.
func (s sink) Set(object kinds.Object) { s.c.deliver(Shown{Object: object}) }

// Remove shows the scheduler that an object is gone.
func (s sink) Remove(ref model.Ref) {
	// Until now the scheduler may have decided about a pod that was gone.
	if key := (model.PodKey{Namespace: ref.Namespace, Name: ref.Name}); ref.Kind == model.PodKind && s.c.store.pods[key] == nil {
		s.c.forget(key)
	}
	s.c.deliver(Shown{Gone: ref})
}

// selected reports whether the scheduler's watches are about an object: those of pods are not about pods that have finished.
func selected(object kinds.Object) bool {
	pod, ok := object.(*v1.Pod)
	return !ok || !kinds.Finished(pod)
}
