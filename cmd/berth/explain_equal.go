package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/berth-scheduler/berth/internal/answers/explain"
)

// equalAnswers collects short explanations. Pods of one controller with the same answer
// share one. The choice among equally good nodes, which depends on the pod's name, is no
// difference.
type equalAnswers struct {
	owner  map[string][2]string // the controllers and the requests of pods, by NAMESPACE/NAME
	order  []*equalAnswer
	byText map[string]*equalAnswer
}

// equalAnswer is the text of the first pod.
type equalAnswer struct {
	owner, text string
	others      []string // the first of the other pods
	more        int      // the number of the other pods
	tie         bool     // the others may go to other nodes that are equally good
}

// newEqualAnswers collects explanations of the pending pods of a snapshot.
func newEqualAnswers(snapshot *explain.Snapshot) *equalAnswers {
	x := &equalAnswers{owner: map[string][2]string{}, byText: map[string]*equalAnswer{}}
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
	if a == nil {
		a = &equalAnswer{owner: owner, text: text, tie: sum.Equals > 1}
		x.byText[key], x.order = a, append(x.order, a)
		return
	}
	if a.more++; len(a.others) < shortVictims {
		a.others = append(a.others, e.Pod)
	}
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
