package model_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// TestPodWayIsMetBySelectedPods draws random selectors, namespaces (a few or very many)
// and pods. Each selected pod must meet every clause of the way. No clause may be much
// longer than maxClause.
func TestPodWayIsMetBySelectedPods(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	some := func(prefix string) (values []string) {
		for range []int{1, 2, 5, 100}[r.IntN(4)] {
			values = append(values, fmt.Sprint(prefix, r.IntN(4)))
		}
		return values
	}
	met, unmet := 0, 0
	for range 20_000 {
		s := &metav1.LabelSelector{}
		for range r.IntN(3) {
			requirement := metav1.LabelSelectorRequirement{Key: some("k")[0]}
			requirement.Operator = []metav1.LabelSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist"}[r.IntN(4)]
			if requirement.Operator == "In" || requirement.Operator == "NotIn" {
				requirement.Values = some("v")
			}
			s.MatchExpressions = append(s.MatchExpressions, requirement)
		}
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(20) == 0 {
			selector = labels.Nothing()
		}
		namespaces := some("n")
		if r.IntN(4) == 0 {
			namespaces = []string{""}
		}
		pod := model.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: some("n")[0], Labels: map[string]string{some("k")[0]: some("v")[0], some("k")[0]: ""}}})
		keys := model.AppendPodKeys(nil, "pod", pod)
		meets := true
		for _, clause := range model.PodWay("pod", namespaces, selector) {
			if len(clause) > 100 {
				t.Fatalf("a clause of %d keys", len(clause))
			}
			meets = meets && slices.ContainsFunc(clause, func(key model.Key) bool { return slices.Contains(keys, key) })
		}
		selected := selector.Matches(pod.Labels) && (namespaces[0] == "" || slices.Contains(namespaces, pod.Namespace))
		if selected && !meets {
			t.Fatalf("%v in %v selects pod %s with %v, which does not meet the way", selector, namespaces, pod, pod.Labels)
		}
		if meets {
			met++
		} else {
			unmet++
		}
	}
	if met < 1000 || unmet < 1000 {
		t.Errorf("%d pods meet the ways, %d do not: the draw is too dull", met, unmet)
	}
}
