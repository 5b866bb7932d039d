package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/spelling"
)

// only returns the pods without the pending ones except the named one, which must be a pending pod of one of the profiles, and those that are nominated
// to a node.
func only(pods []*v1.Pod, name string, scheduler *config.Config) ([]*v1.Pod, error) {
	if namespace, rest, ok := strings.Cut(name, "/"); !ok || namespace == "" || rest == "" || strings.Contains(rest, "/") {
		return nil, fmt.Errorf("--pod %q: must be NAMESPACE/NAME%s", name, hint(pods, name))
	}
	var named *v1.Pod
	var kept []*v1.Pod
	for _, pod := range pods {
		if nameOf(pod) == name {
			named = pod
		} else if !isPending(pod) || pod.Status.NominatedNodeName != "" {
			kept = append(kept, pod)
		}
	}
	switch {
	case named == nil:
		return nil, fmt.Errorf("--pod %q: there is no such pod in the snapshot%s", name, hint(pods, name))
	case named.Spec.NodeName != "":
		return nil, fmt.Errorf("--pod %q: the pod is not pending, it is bound to node %q%s", name, named.Spec.NodeName, hint(pods, name))
	case !isPending(named):
		return nil, fmt.Errorf("--pod %q: the pod is not pending, its phase is %s%s", name, named.Status.Phase, hint(pods, name))
	case !hasProfile(scheduler, named.Spec.SchedulerName):
		return nil, fmt.Errorf("--pod %q: no profile has the pod's scheduler name %q; the profiles are %s",
			name, named.Spec.SchedulerName, quoted(scheduler.SchedulerNames()))
	}
	return append(kept, named), nil
}

func nameOf(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// isPending reports whether a pod waits for a node.
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

// hint names the pending pods whose names are similar.
func hint(pods []*v1.Pod, name string) string {
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
	pending := 0
	for _, pod := range pods {
		if !isPending(pod) {
			continue
		}
		pending++
		far := spelling.Distance(nameOf(pod), name)
		if pod.Name == short {
			far = min(far, 1) // in another namespace
		} else if strings.Contains(pod.Name, short) {
			far = min(far, 2)
		}
		if far <= max(2, len(short)/4) {
			near = append(near, candidate{nameOf(pod), far})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.name, b.name)) })
	var names []string
	for _, c := range near[:min(most, len(near))] {
		names = append(names, c.name)
	}
	switch {
	case len(names) > 0:
		return "; did you mean " + strings.Join(names, " or ") + "?"
	case pending == 0:
		return "; no pod of the snapshot is pending"
	}
	return fmt.Sprintf("; %d pods are pending, none with a name like this", pending)
}
