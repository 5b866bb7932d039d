package framework

import (
	"k8s.io/apimachinery/pkg/runtime"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model"
)

// registrationFor returns a registration for a resource.
func registrationFor(resource fwk.EventResource) model.EventToRegister {
	known, other := model.EventResourceNamed(string(resource))
	return model.EventToRegister{Resource: known, Other: other}
}

// objectsOf returns copies of an event's objects for hints; known is false if Berth does
// not have the objects.
func (c *copies) objectsOf(e model.Event) (before, after any, known bool) {
	if !c.known || !sameEvent(&c.event, &e) {
		before, after := e.Objects()
		c.event, c.known, c.before, c.after = e, true, deepCopy(before), deepCopy(after)
	}
	return c.before, c.after, c.before != nil || c.after != nil
}

// deepCopy returns a copy of an API object, nil for nil.
func deepCopy(object any) any {
	if o, ok := object.(runtime.Object); ok {
		return o.DeepCopyObject()
	}
	return nil
}

// sameEvent reports whether two events are equal.
func sameEvent(a, b *model.Event) bool {
	return a.Resource == b.Resource && a.Action == b.Action && a.OldNode == b.OldNode && a.Node == b.Node && a.OldPod == b.OldPod && a.Pod == b.Pod &&
		a.OldObject == b.OldObject && a.Object == b.Object && a.Other == b.Other
}
