package attribution

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
)

// maxListed limits the listed differences of a map or list.
const maxListed = 3

// few lists the first texts, and the number of the remaining ones.
func few(texts []string) string {
	if len(texts) <= maxListed {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:maxListed], ", "), len(texts)-maxListed)
}

// keysOf returns the keys of two maps, sorted.
func keysOf[K ~string, V any](a, b map[K]V) []K {
	all := maps.Clone(a)
	if all == nil {
		all = map[K]V{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// textOfMaps describes how labels differ.
func textOfMaps(before, after map[string]string) string {
	var texts []string
	for _, key := range keysOf(before, after) {
		was, had := before[key]
		is, has := after[key]
		switch {
		case had && !has:
			texts = append(texts, "without "+key+"="+was)
		case has && !had:
			texts = append(texts, key+"="+is)
		case was != is:
			texts = append(texts, key+"="+is+" instead of "+was)
		}
	}
	return few(texts)
}

// textOfAmounts describes how amounts differ; empty if they do not.
func textOfAmounts(before, after v1.ResourceList) string {
	var texts []string
	for _, name := range keysOf(before, after) {
		was, is := before[name], after[name]
		if was.Cmp(is) != 0 {
			texts = append(texts, fmt.Sprintf("%s %s instead of %s", name, is.String(), was.String()))
		}
	}
	return few(texts)
}

func textOfTaints(before, after *v1.Node) string {
	was, is := textsOf(taintsOf(before, false)), textsOf(taintsOf(after, false))
	var texts []string
	for _, t := range is {
		if !slices.Contains(was, t) {
			texts = append(texts, "has the taint "+t)
		}
	}
	for _, t := range was {
		if !slices.Contains(is, t) {
			texts = append(texts, "is without the taint "+t)
		}
	}
	if len(texts) == 0 {
		return "has its taints in another order, or from another time"
	}
	return few(texts)
}

func textsOf(taints []v1.Taint) []string {
	var all []string
	for i := range taints {
		all = append(all, taints[i].ToString())
	}
	return all
}

// amounts returns the requests of a pod in parentheses.
func amounts(pod *v1.Pod) string {
	var texts []string
	requests := requestsOf(pod)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if asks := requests[name]; !asks.IsZero() {
			texts = append(texts, string(name)+" "+asks.String())
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return " (" + few(texts) + ")"
}

// textOfOthers describes how an object that is neither a node nor a pod differs. Most
// differences are only "has changed".
func textOfOthers(before, after kinds.Object) string {
	was, ok := before.(*schedulingv1beta1.PodGroup)
	is, both := after.(*schedulingv1beta1.PodGroup)
	if ok && both && was.Spec.SchedulingPolicy.Gang != nil && is.Spec.SchedulingPolicy.Gang != nil {
		if a, b := was.Spec.SchedulingPolicy.Gang.MinCount, is.Spec.SchedulingPolicy.Gang.MinCount; a != b {
			return fmt.Sprintf("has minCount %d instead of %d", b, a)
		}
	}
	return "has changed"
}

// textOfPods describes how a pod that stayed on its node differs.
func textOfPods(before, after *v1.Pod) string {
	if text := textOfAmounts(requestsOf(before), requestsOf(after)); text != "" {
		return "requests another amount: " + text
	}
	switch {
	case before.UID != after.UID:
		return "is another one of that name"
	case before.DeletionTimestamp == nil && after.DeletionTimestamp != nil:
		return "is being deleted"
	case priorityOf(before) != priorityOf(after):
		return fmt.Sprintf("has priority %d instead of %d", priorityOf(after), priorityOf(before))
	case !equality.Semantic.DeepEqual(before.Labels, after.Labels):
		return "has other labels: " + textOfMaps(before.Labels, after.Labels)
	case before.Spec.NodeName != after.Spec.NodeName:
		return "is bound, and was nominated"
	}
	return "has changed"
}
