package framework

import (
	"context"
	"maps"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
)

// tryLocker is a mutex.
type tryLocker interface {
	Lock()
	TryLock() bool
	Unlock()
}

// list is the value that plugins store in the CycleState under PodsToActivateKey: a
// pointer to a struct that is a mutex and has a field Map. Any package's type is
// accepted, because existing plugins use the type of the Kubernetes repository.
type list struct {
	tryLocker
	pods reflect.Value // a settable map[string]*v1.Pod
}

func listIn(state fwk.CycleState) (l list, ok bool) {
	data, err := state.Read(public.PodsToActivateKey)
	if err != nil || data == nil {
		return l, false
	}
	value := reflect.ValueOf(data)
	if value.Kind() != reflect.Pointer || value.IsNil() || value.Elem().Kind() != reflect.Struct {
		return l, false
	}
	l.pods = value.Elem().FieldByName("Map")
	if !l.pods.IsValid() || !l.pods.CanSet() || l.pods.Type() != reflect.TypeFor[map[string]*v1.Pod]() {
		return l, false
	}
	l.tryLocker, ok = data.(tryLocker)
	return l, ok
}

// take empties the list, whose mutex is held.
func (l *list) take() []*v1.Pod {
	pods := l.pods.Interface().(map[string]*v1.Pod)
	if len(pods) == 0 {
		return nil
	}
	l.pods.Set(reflect.ValueOf(map[string]*v1.Pod{}))
	taken := make([]*v1.Pod, 0, len(pods))
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		if pods[name] != nil {
			taken = append(taken, pods[name])
		}
	}
	return taken
}

// activate moves the pods that plugins left in a turn's CycleState to the active queue.
// The loop does not wait for a plugin that holds the mutex.
func (r *Runtime) activate(state fwk.CycleState) {
	l, ok := listIn(state)
	if !ok {
		return
	}
	var pods []*v1.Pod
	if l.TryLock() {
		pods = l.take()
		l.Unlock()
	} else {
		var err error
		pods, err = call(r.lane, "PodsToActivate", "", func(context.Context) []*v1.Pod {
			l.Lock()
			defer l.Unlock()
			return l.take()
		})
		if err != nil {
			r.config.Log.Error(err, "Could not activate pods requested by plugins")
		}
	}
	r.activatePods(pods)
}

func (r *Runtime) activatePods(pods []*v1.Pod) {
	if len(pods) > 0 && r.config.Queue != nil {
		r.config.Queue.Activate(pods)
	}
}
