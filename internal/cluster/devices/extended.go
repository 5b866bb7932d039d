package devices

import (
	"cmp"
	"slices"
	"strings"
	"unique"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// Devices can be requested as extended resources. A class has two names for its resource:
// a chosen name, and a name implied by its own. If several classes choose a name, the
// youngest provides it. For such a pod the scheduler creates a claim.

// ClassFor returns the class whose devices provide an extended resource, or nil.
func (s *Store) ClassFor(name model.ResourceName) *model.DeviceClass {
	if list := s.standIns[name]; len(list) > 0 {
		return list[0]
	}
	if class := model.ImpliedClass(name); class != "" {
		return s.classes[class]
	}
	return nil
}

// HasClasses reports whether any classes exist.
func (s *Store) HasClasses() bool { return len(s.classes) > 0 }

// setClass stores a version of a class; nil deletes it.
func (s *Store) setClass(name string, now *model.DeviceClass) (before *model.DeviceClass) {
	before = s.classes[name]
	if before != nil {
		delete(s.classes, name)
		s.standIn(before, false)
	}
	if now != nil {
		s.classes[name] = now
		s.standIn(now, true)
	}
	return before
}

// standIn adds a class to the list of the resource that it names, or removes it.
func (s *Store) standIn(c *model.DeviceClass, listed bool) {
	if c.Object.Spec.ExtendedResourceName == nil {
		return
	}
	resource := unique.Make(*c.Object.Spec.ExtendedResourceName)
	list := slices.DeleteFunc(s.standIns[resource], func(other *model.DeviceClass) bool { return other.Name == c.Name })
	if listed {
		list = append(list, c)
		slices.SortFunc(list, func(a, b *model.DeviceClass) int {
			return cmp.Or(b.Object.CreationTimestamp.Compare(a.Object.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
		})
	}
	if len(list) == 0 {
		delete(s.standIns, resource)
		return
	}
	s.standIns[resource] = list
}

// MadeFor returns the claim that a scheduler created for the extended resources of a pod,
// or nil.
func (s *Store) MadeFor(pod types.UID) *model.ResourceClaim {
	if keys := s.made[pod]; len(keys) > 0 {
		return s.claims[keys[0]].ResourceClaim
	}
	return nil
}

// IsAwaited reports whether a placement will create a claim and no version of it has been
// stored yet. The response to its creation can then be stored, since the watch cannot
// have shown the claim's deletion.
func (s *Store) IsAwaited(key model.ClaimKey) bool {
	c := s.claims[key]
	return c != nil && c.promise != nil && c.promise.Made != nil && !c.shown
}

// OwnerOfMade returns the pod for whose extended resources a claim was created, or "".
func OwnerOfMade(c *model.ResourceClaim) types.UID {
	if c == nil || c.Object.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
		return ""
	}
	if owner := metav1.GetControllerOf(c.Object); owner != nil {
		return owner.UID
	}
	return ""
}

// listMade updates made from two versions of a claim.
func (s *Store) listMade(before, now *model.ResourceClaim) {
	from, to := OwnerOfMade(before), OwnerOfMade(now)
	if from == to {
		return
	}
	if from != "" {
		keys := slices.DeleteFunc(s.made[from], func(key model.ClaimKey) bool { return key == before.Key })
		if s.made[from] = keys; len(keys) == 0 {
			delete(s.made, from)
		}
	}
	if to != "" {
		keys := append(s.made[to], now.Key)
		slices.SortFunc(keys, model.ClaimKey.Compare)
		s.made[to] = keys
	}
}
