package main

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// maxListed is the number of pods from which the table puts equal pods together.
const maxListed = 40

// choose drops the pods that the selectors and --pending leave out.
func (s *simulation) choose(result *simulate.Result, pods []*v1.Pod) {
	if !s.pending && s.choosesAll() {
		return
	}
	byName := podsByName(pods)
	result.Pods = slices.DeleteFunc(result.Pods, func(p simulate.Placement) bool {
		pod := byName[p.Namespace+"/"+p.Pod]
		selected := s.choosesAll() || pod != nil && s.chooses(pod)
		return s.pending && p.Node != "" || !selected
	})
}

func podsByName(pods []*v1.Pod) map[string]*v1.Pod {
	all := make(map[string]*v1.Pod, len(pods))
	for _, pod := range pods {
		all[nameOf(pod)] = pod
	}
	return all
}

// podTable has a row for each pod, or for equal pods if the pods are many.
func (s *simulation) podTable(placed []simulate.Placement, pods []*v1.Pod) *table {
	switch {
	case s.output == "wide":
		return widePods(placed)
	case len(placed) > maxListed:
		return equalTable(placed, podsByName(pods))
	}
	t := newTable("NAMESPACE", "POD", "NODE", "STATUS", "MESSAGE~")
	for i := range placed {
		p := &placed[i]
		t.add(p.Namespace, p.Pod, orNone(p.Node), p.Status, p.Message)
	}
	return t
}

// widePods has a row for each pod, with its score.
func widePods(placed []simulate.Placement) *table {
	t := newTable("NAMESPACE", "POD", "NODE", "STATUS", "FEASIBLE>", "SCORE>", "MESSAGE~")
	for i := range placed {
		p := &placed[i]
		score := "-"
		if p.Score != nil {
			score = fmt.Sprint(*p.Score)
		}
		t.add(p.Namespace, p.Pod, orNone(p.Node), p.Status, p.FeasibleNodes, score, p.Message)
	}
	return t
}

// equalPods has the pods of an owner with equal requests and the same result.
type equalPods struct{ namespace, owner, requests, status, message string }

// equalTable has a row for equal pods, in the order of their first pods.
func equalTable(placed []simulate.Placement, pods map[string]*v1.Pod) *table {
	t := newTable("NAMESPACE", "OWNER", "PODS>", "REQUESTS", "NODE", "STATUS", "MESSAGE~")
	var order []equalPods
	count, nodes := map[equalPods]int{}, map[equalPods]map[string]bool{}
	for i := range placed {
		p := &placed[i]
		owner, requests := shapeOf(p.Pod, pods[p.Namespace+"/"+p.Pod])
		key := equalPods{p.Namespace, owner, requests, string(p.Status), p.Message}
		if count[key]++; count[key] == 1 {
			order, nodes[key] = append(order, key), map[string]bool{}
		}
		nodes[key][p.Node] = true
	}
	for _, key := range order {
		on := ""
		for node := range nodes[key] {
			on = orNone(node)
		}
		if len(nodes[key]) > 1 {
			on = fmt.Sprintf("%d nodes", len(nodes[key]))
		}
		t.add(key.namespace, key.owner, count[key], key.requests, on, key.status, key.message)
	}
	return t
}

// shapeOf returns the controller and the requests of a pod. A pod without a controller
// owns itself, and an unknown pod requests nothing.
func shapeOf(name string, pod *v1.Pod) (owner, requests string) {
	owner = "Pod/" + name
	if pod == nil {
		return owner, ""
	}
	if by := metav1.GetControllerOfNoCopy(pod); by != nil {
		owner = by.Kind + "/" + by.Name
	}
	list := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	var all []string
	for name, q := range list {
		all = append(all, string(name)+"="+amount(string(name), q))
	}
	slices.Sort(all)
	return owner, strings.Join(all, " ")
}
