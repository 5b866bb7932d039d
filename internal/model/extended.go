package model

import (
	"strings"
	"unique"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// ClassResolver finds the DeviceClasses whose devices can be requested as extended
// resources.
type ClassResolver interface {
	// ClassFor returns the class whose devices provide a resource, or nil.
	ClassFor(name ResourceName) *DeviceClass
	// HasClasses reports whether any class exists.
	HasClasses() bool
}

// ImpliedClass returns the class that a resource name implies, or empty. For example,
// deviceclass.resource.kubernetes.io/gpu implies gpu.
func ImpliedClass(name ResourceName) string {
	class, ok := strings.CutPrefix(name.Value(), resourcev1.ResourceDeviceClassPrefix)
	if !ok {
		return ""
	}
	return class
}

// ImpliedResource returns the name of the resource that a class provides implicitly.
func ImpliedResource(class string) string { return resourcev1.ResourceDeviceClassPrefix + class }

// ResourceNameOf interns the name of a resource.
func ResourceNameOf(name string) ResourceName { return unique.Make(name) }

// CanBeDevices reports whether the devices of a class could provide the resource.
func CanBeDevices(name ResourceName) bool { return NameCanBeDevices(v1.ResourceName(name.Value())) }

// NameCanBeDevices is CanBeDevices for a name that is not interned.
func NameCanBeDevices(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) || IsExtendedName(name)
}

// AreDevices reports whether devices of a class provide any resource with a nonzero
// amount in r.
func (r *Resources) AreDevices(classes ClassResolver) bool {
	for _, s := range r.Scalars {
		if s.Value != 0 && classes.ClassFor(s.Name) != nil {
			return true
		}
	}
	return false
}
