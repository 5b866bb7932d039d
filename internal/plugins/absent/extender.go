package absent

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ExtenderName is the name under which kube-scheduler counts the rejections of extenders.
const ExtenderName = "Extender"

// Extender is an HTTP extender that filters or binds.
type Extender struct {
	// Field is its path in the configuration, such as extenders[0].
	Field string
	// Managed are the resources that it manages. It judges the pods that request one of them; every pod if there are none.
	Managed []string
}

// NewExtenders returns the stand-in for extenders. It rejects the pods that any of them judges.
func NewExtenders(extenders []Extender) *Plugin {
	return &Plugin{ExtenderName, func(pod *v1.Pod) string {
		const prefix = "Asking extenders is not part of this version of Berth: "
		for i := range extenders {
			e := &extenders[i]
			if len(e.Managed) == 0 {
				return prefix + e.Field + " has a say about every pod"
			}
			name := requested(pod, func(name v1.ResourceName, _ resource.Quantity) bool {
				return slices.Contains(e.Managed, string(name)) // even an amount of 0
			})
			if name != "" {
				return prefix + e.Field + " manages " + name + ", which the pod requests"
			}
		}
		return ""
	}}
}
