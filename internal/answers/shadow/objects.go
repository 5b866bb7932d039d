package shadow

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// object is a version of an API object; the zero value is no object. Otherwise pod, node,
// or one or both of other and compiled are set.
type object struct {
	pod      *model.Pod
	node     *model.Node
	other    runtime.Object
	compiled model.Compiled
}

func (o *object) exists() bool {
	return o.pod != nil || o.node != nil || o.other != nil || o.compiled != nil
}

// api returns the API object; nil if it does not exist.
func (o *object) api() runtime.Object {
	switch {
	case o.pod != nil:
		return o.pod.Object
	case o.node != nil:
		return o.node.Object
	case o.compiled != nil:
		return model.APIObject(o.compiled)
	}
	return o.other
}

// objectOf returns the object that a change sets or removes, and its new version.
func objectOf(c *model.Change) (ref model.Ref, after object, ok bool) {
	switch c.Kind {
	case model.PodSet:
		return c.Pod.Key().Ref(), object{pod: c.Pod}, true
	case model.PodGone:
		return c.Key.Ref(), object{}, true
	case model.NodeSet:
		return model.Ref{Kind: model.NodeKind, Name: c.Node.Object.Name}, object{node: c.Node}, true
	case model.NodeGone:
		return model.Ref{Kind: model.NodeKind, Name: c.Name}, object{}, true
	case model.ObjectSet:
		return c.Ref, object{other: c.Object, compiled: c.Compiled}, true
	case model.ObjectGone:
		return c.Ref, object{}, true
	}
	return model.Ref{}, object{}, false
}

// change returns the change that sets this version of the object.
func (o *object) change(ref model.Ref) model.Change {
	switch {
	case o.pod != nil:
		return model.Change{Kind: model.PodSet, Pod: o.pod}
	case o.node != nil:
		return model.Change{Kind: model.NodeSet, Node: o.node}
	case o.exists():
		return model.Change{Kind: model.ObjectSet, Object: o.other, Compiled: o.compiled, Ref: ref}
	}
	return kinds.Get(ref.Kind).Gone(ref)
}

// set applies a version of an object to the state.
func (s *Shadow) set(ref model.Ref, o object) {
	s.state.Apply([]model.Change{o.change(ref)})
	if o.exists() {
		s.objects[ref] = o
	} else {
		delete(s.objects, ref)
	}
}

// step is a change that can be undone.
type step struct {
	ref           model.Ref
	before, after object
	// own is set if the change is a binding by the observed scheduler.
	own *binding
}

// binding holds further facts about a binding by the observed scheduler.
type binding struct {
	// since is the number of the step before which the pod was first seen. arrival is its
	// position among all pods first seen pending.
	since, arrival int
	// first is the verdict in the state before the binding.
	first Verdict
}

// keep appends a change to the steps, and drops the oldest ones.
func (s *Shadow) keep(one step) {
	if !s.synced {
		return
	}
	if len(s.steps) == kept {
		for i := range s.steps[:kept/4] {
			ref := s.steps[i].ref
			if s.stepsOf[ref]--; s.stepsOf[ref] == 0 {
				delete(s.stepsOf, ref)
			}
		}
		s.steps = append(s.steps[:0], s.steps[kept/4:]...)
		s.first += kept / 4
	}
	s.steps = append(s.steps, one)
	s.stepsOf[one.ref]++
}

// apply undoes or repeats steps until exactly the steps before number `to` are applied.
// from is the present position of the state.
func (s *Shadow) apply(from, to int) {
	for ; from > to; from-- {
		one := &s.steps[from-1-s.first]
		s.set(one.ref, one.before)
	}
	for ; from < to; from++ {
		one := &s.steps[from-s.first]
		s.set(one.ref, one.after)
	}
}

// assume applies steps after the present position, until the returned function is called.
func (s *Shadow) assume(ahead []int) (undo func()) {
	was := make([]object, len(ahead))
	for n, i := range ahead {
		one := s.step(i)
		was[n] = s.objects[one.ref]
		s.set(one.ref, one.after)
	}
	return func() {
		for n, i := range slices.Backward(ahead) {
			s.set(s.step(i).ref, was[n])
		}
	}
}

// what describes a change, such as "pod default/web bound to n1".
func (c *step) what() (kind, text string) {
	name := c.ref.Name
	if c.ref.Namespace != "" {
		name = c.ref.Namespace + "/" + name
	}
	before, after := c.before.pod, c.after.pod
	resource := kinds.Get(c.ref.Kind).Resource.Resource
	switch {
	case after != nil && after.NodeName != "" && (before == nil || before.NodeName == ""):
		return "pods bound", "pod " + name + " bound to " + after.NodeName
	case !c.after.exists():
		return resource + " gone", resource + " " + name + " gone"
	case !c.before.exists():
		return resource + " new", resource + " " + name + " new"
	}
	return resource + " changed", resource + " " + name + " changed"
}
