package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/model"
)

// equalAnswers collects short explanations. Pods of one controller with the same answer
// share one. The choice among equally good nodes, which depends on the pod's name, is no
// difference.
type equalAnswers struct {
	owner  map[string][2]string // the controllers and the requests of pods, by NAMESPACE/NAME
	order  []*equalAnswer
	byText map[string]*equalAnswer
	// explained are pods whose equals need no explanation of their own, by controller and
	// requests. latest is the last answer.
	explained map[[2]string][]explainedPod
	latest    *equalAnswer
}

// explainedPod is a pod with its answer.
type explainedPod struct {
	pod    *v1.Pod
	answer *equalAnswer
}

// maxExplained bounds the pods of a controller that others are compared with.
const maxExplained = 8

// equalAnswer is the text of the first pod.
type equalAnswer struct {
	owner, text string
	others      []string // the first of the other pods
	more        int      // the number of the other pods
	tie         bool     // the others may go to other nodes that are equally good
}

// newEqualAnswers collects explanations of the pending pods of a snapshot.
func newEqualAnswers(snapshot *explain.Snapshot) *equalAnswers {
	x := &equalAnswers{owner: map[string][2]string{}, byText: map[string]*equalAnswer{}, explained: map[[2]string][]explainedPod{}}
	for _, pod := range snapshot.Pending() {
		if owner, requests := shapeOf("", pod.Object); owner != "Pod/" {
			x.owner[pod.String()] = [2]string{owner, requests}
		}
	}
	return x
}

// add adds the explanation of a pod with its text.
func (x *equalAnswers) add(e *explain.Explanation, sum *explain.Summary, text string) {
	owner, requests := x.owner[e.Pod][0], x.owner[e.Pod][1]
	key := e.Pod
	if owner != "" {
		namespace, _, _ := strings.Cut(e.Pod, "/")
		key = namespace + " " + owner + " " + requests + "\n" + answerOf(e, sum, text)
	}
	a := x.byText[key]
	if x.latest = a; a == nil {
		a = &equalAnswer{owner: owner, text: text, tie: sum.Equals > 1}
		x.byText[key], x.order, x.latest = a, append(x.order, a), a
		return
	}
	a.join(e.Pod)
}

// join counts another pod with the answer.
func (a *equalAnswer) join(pod string) {
	if a.more++; len(a.others) < shortVictims {
		a.others = append(a.others, pod)
	}
}

// addEqual adds a pod that differs from an explained pod in nothing but its name. It
// returns false for other pods: each of them needs an explanation.
func (x *equalAnswers) addEqual(pod *model.Pod) bool {
	for _, like := range x.explained[x.owner[pod.String()]] {
		if equalButName(pod.Object, like.pod) {
			like.answer.join(pod.String())
			return true
		}
	}
	return false
}

// note records that a pod was explained by the latest answer.
func (x *equalAnswers) note(pod *model.Pod) {
	key := x.owner[pod.String()]
	if key[0] != "" && len(x.explained[key]) < maxExplained && sharesAnswers(pod.Object) {
		x.explained[key] = append(x.explained[key], explainedPod{pod.Object, x.latest})
	}
}

// sharesAnswers reports whether the answer depends on the pod's name only in the choice
// among equally good nodes. Members of pod groups have the answer of their group, and
// nominated pods a node of their own. Claims from templates have the name of their pod.
func sharesAnswers(pod *v1.Pod) bool {
	return pod.Spec.SchedulingGroup == nil && pod.Status.NominatedNodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.ResourceClaims) == 0 &&
		!slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Ephemeral != nil })
}

// equalButName reports whether a pod shares the answer of another.
func equalButName(pod, like *v1.Pod) bool {
	return pod.Namespace == like.Namespace && sharesAnswers(pod) && maps.Equal(pod.Labels, like.Labels) &&
		equality.Semantic.DeepEqual(pod.OwnerReferences, like.OwnerReferences) && equality.Semantic.DeepEqual(&pod.Spec, &like.Spec)
}

// answerOf returns a text that is equal for equal answers.
func answerOf(e *explain.Explanation, sum *explain.Summary, text string) string {
	if sum.Equals <= 1 || e.Group != nil {
		return strings.ReplaceAll(text, e.Pod, "")
	}
	key := fmt.Sprintf("%d of %d, %d equal, gated %q, error %q", sum.Feasible, sum.Nodes, sum.Equals, e.Gated, e.Error)
	if len(sum.Best) > 0 && sum.Best[0].Total != nil {
		key += fmt.Sprintf(", total %d", *sum.Best[0].Total)
	}
	for i := range sum.Reported {
		r := &sum.Reported[i]
		key += fmt.Sprintf("\n%d %s %s", r.Nodes, r.Plugin, r.Reasons)
	}
	return key
}

// print prints each text once, with the number of pods that share it.
func (x *equalAnswers) print(w io.Writer) {
	for i, a := range x.order {
		if i > 0 {
			fmt.Fprint(w, "\n\n")
		}
		fmt.Fprint(w, a.text)
		if a.more > 0 {
			fmt.Fprintf(w, "The same holds for %s of %s: %s%s", counted(a.more, "other pod", "other pods"), a.owner,
				strings.Join(a.others, ", "), more(" and %d more", a.more-len(a.others)))
			if a.tie {
				fmt.Fprint(w, "; each may go to another of the equally good nodes")
			}
			fmt.Fprintln(w, ".")
		}
	}
}
