package absent

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ExtenderName is the name under which kube-scheduler counts what extenders reject.
const ExtenderName = "Extender"

// Extender is an HTTP extender that may keep a pod off a node, or binds it.
type Extender struct {
	// Field is where the configuration names it, such as extenders[0].
	Field string
	// Managed are the resources that it manages. It has a say about the pods that request one of them; about every pod if there are none.
	Managed []string
}

// NewExtenders returns the stand-in for extenders. Whatever an extender would say, the pods that it has a say about are rejected.
func NewExtenders(extenders []Extender) *Plugin {
	return &Plugin{ExtenderName, func(pod *v1.Pod) string {
		const prefix = "Asking extenders is not part of this version of Berth: "
		for i := range extenders {
			e := &extenders[i]
			if len(e.Managed) == 0 {
				return prefix + e.Field + " has a say about every pod"
			}
			name := requested(pod, func(name v1.ResourceName, _ resource.Quantity) bool {
				return slices.Contains(e.Managed, string(name)) // even if it is 0 of it
			})
			if name != "" {
				return prefix + e.Field + " manages " + name + ", which the pod requests"
			}
		}
		return ""
	}}
}
