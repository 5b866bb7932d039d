package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/spelling"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// only returns the pods that the explanation of a named pod needs: all pods except the
// other pending ones.
//
// The named pod must be pending and belong to a profile. Pending pods stay if they are
// nominated to a node, or are scheduled together with the named pod, as members of its
// group or tree.
func only(cluster *manifest.Cluster, name string, scheduler *config.Config) ([]*v1.Pod, error) {
	pods := cluster.Pods
	if !isQualified(name) {
		return nil, fmt.Errorf("--pod %q: must be NAMESPACE/NAME%s", name, hint(pods, name))
	}
	named := findPod(pods, name)
	switch {
	case named == nil:
		return nil, fmt.Errorf("--pod %q: pod not found in the snapshot%s%s", name, hint(pods, name), wordHint(name))
	case named.Spec.NodeName != "":
		return nil, fmt.Errorf("--pod %q: the pod is not pending, it is bound to node %q%s", name, named.Spec.NodeName, hint(pods, name))
	case !isPending(named):
		return nil, fmt.Errorf("--pod %q: the pod is not pending, its phase is %s%s", name, named.Status.Phase, hint(pods, name))
	case !hasProfile(scheduler, named.Spec.SchedulerName):
		return nil, fmt.Errorf("--pod %q: no profile has the pod's scheduler name %q; the profiles are %s",
			name, named.Spec.SchedulerName, quoted(scheduler.SchedulerNames()))
	}
	beside := map[string]bool{}
	if group := groupOf(named); scheduler.Groups && group != "" {
		beside = decidedWith(cluster, group, scheduler)
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool {
		return pod != named && isPending(pod) && pod.Status.NominatedNodeName == "" && !beside[groupOf(pod)]
	}), nil
}

// isQualified reports whether a name is NAMESPACE/NAME.
func isQualified(name string) bool {
	namespace, rest, _ := strings.Cut(name, "/")
	return namespace != "" && rest != "" && !strings.Contains(rest, "/")
}

// findPod returns the pod with the name NAMESPACE/NAME, or nil.
func findPod(pods []*v1.Pod, name string) (named *v1.Pod) {
	for _, pod := range pods {
		if nameOf(pod) == name {
			named = pod
		}
	}
	return named
}

// decidedWith returns the PodGroups, as namespace/name, that are scheduled together with
// a group: its whole tree, including the group.
func decidedWith(cluster *manifest.Cluster, group string, scheduler *config.Config) map[string]bool {
	all := map[string]bool{group: true}
	if !scheduler.Trees {
		return all
	}
	parents := map[string]string{} // of composite groups
	for _, g := range cluster.CompositePodGroups {
		if above := g.Spec.ParentCompositePodGroupName; above != nil {
			parents[g.Namespace+"/"+g.Name] = g.Namespace + "/" + *above
		}
	}
	roots := map[string]string{} // of PodGroups
	for _, g := range cluster.PodGroups {
		if above := g.Spec.ParentCompositePodGroupName; above != nil {
			root := g.Namespace + "/" + *above
			for range parents { // bounded by the number of groups, because parents may form a cycle
				if parents[root] == "" {
					break
				}
				root = parents[root]
			}
			roots[g.Namespace+"/"+g.Name] = root
		}
	}
	for name, root := range roots {
		if root == roots[group] {
			all[name] = true
		}
	}
	return all
}

// onlyGroup returns the key of the named PodGroup, and the pods that its explanation
// needs.
//
// The PodGroup, or a pod that names it, must exist. Pending pods stay only if they are
// members of the group or its tree, or are nominated to a node.
func onlyGroup(cluster *manifest.Cluster, name string, scheduler *config.Config) (model.GroupKey, []*v1.Pod, error) {
	known := map[string]bool{}
	for _, group := range cluster.PodGroups {
		known[group.Namespace+"/"+group.Name] = true
	}
	for _, pod := range cluster.Pods {
		if group := groupOf(pod); group != "" {
			known[group] = true
		}
	}
	names := slices.Sorted(maps.Keys(known))
	namespace, short, ok := strings.Cut(name, "/")
	switch {
	case !scheduler.Groups:
		return model.GroupKey{}, nil, fmt.Errorf("--pod-group %q: needs a feature gate: add --feature-gates GenericWorkload=true", name)
	case !ok || namespace == "" || short == "" || strings.Contains(short, "/"):
		return model.GroupKey{}, nil, fmt.Errorf("--pod-group %q: must be NAMESPACE/NAME%s", name, hintOf(names, name, "pod group"))
	case !known[name]:
		return model.GroupKey{}, nil, fmt.Errorf("--pod-group %q: PodGroup not found in the snapshot, and no pod names it%s", name, hintOf(names, name, "pod group"))
	}
	with := decidedWith(cluster, name, scheduler)
	return model.GroupKey{Namespace: namespace, Name: short}, slices.DeleteFunc(slices.Clone(cluster.Pods), func(pod *v1.Pod) bool {
		return isPending(pod) && pod.Status.NominatedNodeName == "" && !with[groupOf(pod)]
	}), nil
}

func nameOf(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// isPending reports whether a pod needs a node.
func isPending(pod *v1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed
}

func hasProfile(scheduler *config.Config, name string) bool {
	return slices.Contains(scheduler.SchedulerNames(), name)
}

func quoted(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, fmt.Sprintf("%q", name))
	}
	return strings.Join(all, ", ")
}

// hint names the pending pods with similar names.
func hint(pods []*v1.Pod, name string) string {
	var names []string
	for _, pod := range pods {
		if isPending(pod) {
			names = append(names, nameOf(pod))
		}
	}
	if len(names) == 0 {
		return "; no pod of the snapshot is pending"
	}
	if similar := hintOf(names, name, ""); similar != "" {
		return similar
	}
	return fmt.Sprintf(" (%d pods are pending, no similar name)", len(names))
}

// hintOf lists similar names among names of the form NAMESPACE/NAME. Without a similar
// name it returns the number of names, with the noun in what; with an empty noun it
// returns "".
func hintOf(names []string, name, what string) string {
	const most = 3
	type candidate struct {
		name string
		far  int
	}
	_, short, _ := strings.Cut(name, "/")
	if short == "" {
		short = strings.Trim(name, "/")
	}
	var near []candidate
	for _, known := range names {
		far := spelling.Distance(known, name)
		if _, rest, _ := strings.Cut(known, "/"); rest == short {
			far = min(far, 1) // in another namespace
		} else if strings.Contains(rest, short) {
			far = min(far, 2)
		}
		if far <= max(2, len(short)/4) {
			near = append(near, candidate{known, far})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.name, b.name)) })
	var similar []string
	for _, c := range near[:min(most, len(near))] {
		similar = append(similar, c.name)
	}
	switch {
	case len(similar) > 0:
		return "; did you mean " + strings.Join(similar, " or ") + "?"
	case what == "":
		return ""
	}
	return fmt.Sprintf(" (%d %ss, no similar name)", len(names), what)
}
