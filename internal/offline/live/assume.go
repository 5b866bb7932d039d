package live

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// without lists, for each kind that a user may not list, the assumption made instead.
var without = []struct{ resource, assumed string }{
	{"namespaces", "a namespace has no label but its name, so selectors of namespaces may find fewer pods"},
	{"services", "pods are not spread by the selectors of services"},
	{"replicationcontrollers", "pods of a ReplicationController are not spread by default"},
	{"replicasets", "pods of a ReplicaSet are not spread by default"},
	{"statefulsets", "pods of a StatefulSet are not spread by default"},
	{"poddisruptionbudgets", "no PodDisruptionBudget protects a pod"},
	{"priorityclasses", "a pod of a file that names a class has priority 0, unless it is one of the system classes"},
	{"persistentvolumes", setAside},
	{"persistentvolumeclaims", setAside},
	{"storageclasses", setAside},
	{"csinodes", "a node takes any number of volumes"},
	{"csidrivers", "storage has capacity for every volume"},
	{"csistoragecapacities", "storage has capacity for every volume"},
	{"volumeattachments", "no volume is attached for a pod that is gone"},
	{"resourceclaims", devicesAside},
	{"resourceslices", devicesAside},
	{"deviceclasses", devicesAside},
	{"devicetaintrules", "no rule taints a device"},
	{"resourceclaimtemplates", "claims are not made of templates"},
	{"podgroups", "no PodGroup exists"},
	{"compositepodgroups", "no CompositePodGroup exists"},
}

const (
	setAside     = "claims for volumes are set aside: a pending pod is judged as if its volumes could be used on every node"
	devicesAside = "claims for devices are set aside: a pending pod is judged as if its devices were on every node"
)

// assume changes the cluster to the assumptions for the forbidden kinds, and adds notes.
func (r *Result) assume(forbidden map[string]bool) {
	var order []string // the assumptions, in the order of the table
	resources := map[string][]string{}
	for _, row := range without {
		if !forbidden[row.resource] {
			continue
		}
		if resources[row.assumed] == nil {
			order = append(order, row.assumed)
		}
		resources[row.assumed] = append(resources[row.assumed], row.resource)
	}
	for _, assumed := range order {
		note := fmt.Sprintf("you may not list %s: %s", strings.Join(resources[assumed], ", "), assumed)
		var pods []string
		switch assumed {
		case setAside:
			r.aside = append(r.aside, withoutClaims)
			pods = r.strip(hasClaims, withoutClaims)
		case devicesAside:
			r.aside = append(r.aside, withoutDevices)
			pods = r.strip(hasDevices, withoutDevices)
		}
		if len(pods) > 0 {
			note += fmt.Sprintf(" (%d pending: %s)", len(pods), strings.Join(pods[:min(3, len(pods))], ", ")+more(len(pods)-3))
		}
		r.Notes = append(r.Notes, note)
	}
	// Without capacities, a driver that publishes them would seem to have none.
	if forbidden["csistoragecapacities"] {
		r.Cluster.CSIDrivers = nil
	}
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// strip changes the pending pods for which has is true, and returns their names.
func (r *Result) strip(has func(*v1.Pod) bool, strip func(*v1.Pod)) []string {
	var names []string
	for _, pod := range r.Cluster.Pods {
		if pod.Spec.NodeName == "" && has(pod) {
			strip(pod)
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

func isClaim(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }

func hasClaims(pod *v1.Pod) bool { return slices.ContainsFunc(pod.Spec.Volumes, isClaim) }

// withoutClaims clones the volumes, because pods of one template share them.
func withoutClaims(pod *v1.Pod) {
	pod.Spec.Volumes = slices.DeleteFunc(slices.Clone(pod.Spec.Volumes), isClaim)
}

func hasDevices(pod *v1.Pod) bool { return len(pod.Spec.ResourceClaims) > 0 }

func withoutDevices(pod *v1.Pod) { pod.Spec.ResourceClaims = nil }
