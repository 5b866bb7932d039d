package framework

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model"
)

// registrationFor returns a registration for a resource; ok is false if there are no events of it.
func registrationFor(resource fwk.EventResource) (r model.EventToRegister, ok bool) {
	for known := model.NodeEvent; known <= model.VolumeAttachmentEvent; known++ {
		if known.String() == string(resource) {
			return model.EventToRegister{Resource: known}, true
		}
	}
	return r, false
}

// sameOther reports whether two events are about the same versions of an object that Berth itself does not read.
func sameOther(a, b *model.Event) bool { return true }

// otherObjects returns copies of the objects of an event that is not about a node or pod, nil where Berth does not have them.
func otherObjects(e *model.Event) (before, after any) { return nil, nil }
