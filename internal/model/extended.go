package model

import (
	"strings"
	"unique"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// ClassResolver finds the DeviceClasses whose devices can be requested as extended resources.
type ClassResolver interface {
	// ClassFor returns the class whose devices stand for a resource, nil if there is none.
	ClassFor(name ResourceName) *DeviceClass
	// HasClasses reports whether there are any classes.
	HasClasses() bool
}

// ImpliedClass returns the name of the class that the name of a resource alone implies, as deviceclass.resource.kubernetes.io/gpu implies gpu; empty if it
// implies none.
func ImpliedClass(name ResourceName) string {
	class, ok := strings.CutPrefix(name.Value(), resourcev1.ResourceDeviceClassPrefix)
	if !ok {
		return ""
	}
	return class
}

// ImpliedResource returns the name of the resource that a class stands for by its own name.
func ImpliedResource(class string) string { return resourcev1.ResourceDeviceClassPrefix + class }

// ResourceNameOf interns the name of a resource.
func ResourceNameOf(name string) ResourceName { return unique.Make(name) }

// CanBeDevices reports whether the devices of some class could stand for a resource.
func CanBeDevices(name ResourceName) bool { return NameCanBeDevices(v1.ResourceName(name.Value())) }

// NameCanBeDevices is CanBeDevices by the resource's name.
func NameCanBeDevices(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) || IsExtendedName(name)
}

// AreDevices reports whether the devices of some class stand for any resource of which r has an amount.
func (r *Resources) AreDevices(classes ClassResolver) bool {
	for _, s := range r.Scalars {
		if s.Value != 0 && classes.ClassFor(s.Name) != nil {
			return true
		}
	}
	return false
}
