package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-scheduler/berth/internal/model"
)

// budgetAttributes are the grammar of PodDisruptionBudgets.
var budgetAttributes = []attribute[*policyv1.PodDisruptionBudget]{
	{key: "select", value: "SELECTOR", apply: func(b *policyv1.PodDisruptionBudget, _, value string) (err error) {
		b.Spec.Selector, err = labelSelector(value)
		return err
	}},
	{key: "allowed", value: "NUMBER", apply: func(b *policyv1.PodDisruptionBudget, _, value string) error {
		number, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return fmt.Errorf("%q is not a number of pods", value)
		}
		b.Status.DisruptionsAllowed = int32(number)
		return nil
	}},
	{key: "disrupted", value: "POD or none", apply: func(b *policyv1.PodDisruptionBudget, _, value string) error {
		if value == none {
			b.Status.DisruptedPods = nil
			return nil
		}
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = map[string]metav1.Time{}
		}
		b.Status.DisruptedPods[value] = metav1.NewTime(firstDay)
		return nil
	}},
	{key: "minavailable", value: amountForm, apply: func(b *policyv1.PodDisruptionBudget, _, value string) (err error) {
		b.Spec.MinAvailable, err = intOrPercent(value)
		return err
	}},
	{key: "maxunavailable", value: amountForm, apply: func(b *policyv1.PodDisruptionBudget, _, value string) (err error) {
		b.Spec.MaxUnavailable, err = intOrPercent(value)
		return err
	}},
}

// firstDay is the day on which scenarios begin.
var firstDay = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const amountForm = "NUMBER, PERCENT% or none"

func intOrPercent(value string) (*intstr.IntOrString, error) {
	if value == none {
		return nil, nil
	}
	number, err := strconv.Atoi(strings.TrimSuffix(value, "%"))
	if err != nil || number < 0 {
		return nil, fmt.Errorf("%q is neither a number nor a percentage", value)
	}
	amount := intstr.Parse(value)
	return &amount, nil
}

// budgetStatements are the commands for PodDisruptionBudgets.
func budgetStatements() []statement {
	return statementsOf("pdb", model.PodDisruptionBudgetKind, budgetAttributes, func(meta metav1.ObjectMeta) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{ObjectMeta: meta}
	})
}

// preemptionAttributes are the attributes of pods that preemption reads.
var preemptionAttributes = []attribute[*v1.Pod]{
	{key: "preempts", value: "never or lower", apply: podPolicy},
	{key: "started", value: "HH:MM or none", apply: podStarted},
	{key: "grace", value: "DURATION or none", apply: podGrace},
	{key: "disrupted", bare: true, value: "true, REASON or none", apply: podDisrupted},
}

func podPolicy(p *v1.Pod, _, value string) error {
	policies := map[string]v1.PreemptionPolicy{"never": v1.PreemptNever, "lower": v1.PreemptLowerPriority}
	policy, ok := policies[value]
	if !ok {
		return fmt.Errorf("%q is not a policy", value)
	}
	p.Spec.PreemptionPolicy = &policy
	return nil
}

// podStarted sets the start time of the pod, on the day before the scenario begins.
func podStarted(p *v1.Pod, _, value string) error {
	if value == none {
		p.Status.StartTime = nil
		return nil
	}
	at, err := time.Parse("15:04", value)
	if err != nil {
		return fmt.Errorf("%q is not a time of day", value)
	}
	start := metav1.NewTime(firstDay.AddDate(0, 0, -1).Add(time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute))
	p.Status.StartTime = &start
	return nil
}

func podGrace(p *v1.Pod, _, value string) error {
	if value == none {
		p.Spec.TerminationGracePeriodSeconds = nil
		return nil
	}
	d, err := durationOf(value)
	if err != nil {
		return err
	}
	seconds := int64(d / time.Second)
	p.Spec.TerminationGracePeriodSeconds = &seconds
	return nil
}

// podDisrupted sets the condition DisruptionTarget, which preemption sets on its victims.
func podDisrupted(p *v1.Pod, _, value string) error {
	conditions := slices.DeleteFunc(slices.Clone(p.Status.Conditions), func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget })
	if value != none {
		reason := value
		if value == "true" {
			reason = v1.PodReasonPreemptionByScheduler
		}
		conditions = append(conditions, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: reason})
	}
	p.Status.Conditions = conditions
	return nil
}

// expectPreempt checks the last decision of this step that nominated the pod: the node,
// and the victims in order.
func expectPreempt(args []string, text string) (check, error) {
	want := strings.Fields(text)
	if len(args) != 1 || len(want) == 0 {
		return nil, errors.New("want a pod, a colon, and none or a node and its victims")
	}
	return func(w *world) error {
		have := []string{none}
		if d, ok := w.nominating[keyNamed(args[0])]; ok {
			have = []string{d.NominationOf(d.Pod).NodeName}
			for i := range d.Evictions {
				have = append(have, short(d.Evictions[i].Pod.Key()))
			}
		}
		if !slices.Equal(have, want) {
			return fmt.Errorf("preempt %s: want %s, is %s", args[0], text, strings.Join(have, " "))
		}
		return nil
	}, nil
}

// expectNominated checks the nominated node that the API server has stored.
func expectNominated(args []string, text string) (check, error) {
	if len(args) != 1 || text == "" || strings.Contains(text, " ") {
		return nil, errors.New("want a pod, a colon, and a node or none")
	}
	return func(w *world) error {
		pod := w.cluster.Pod(keyNamed(args[0]))
		if pod == nil {
			return fmt.Errorf("there is no pod %s", args[0])
		}
		have := pod.Status.NominatedNodeName
		if have == "" {
			have = none
		}
		if have != text {
			return fmt.Errorf("nominated %s: want %s, is %s", args[0], text, have)
		}
		return nil
	}, nil
}

// expectDisrupted checks the message of a victim's condition DisruptionTarget.
func expectDisrupted(args []string, text string) (check, error) {
	if len(args) != 1 || text == "" {
		return nil, errors.New("want a pod, a colon, and a message or none")
	}
	return func(w *world) error {
		pod := w.cluster.Pod(keyNamed(args[0]))
		if pod == nil {
			return fmt.Errorf("there is no pod %s", args[0])
		}
		have := none
		for i := range pod.Status.Conditions {
			if c := &pod.Status.Conditions[i]; c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler {
				have = c.Message
			}
		}
		if have != text {
			return fmt.Errorf("disrupted %s: want %s, is %s", args[0], text, have)
		}
		return nil
	}, nil
}

// expectBudget checks how many disruptions a budget allows.
func expectBudget(args []string, text string) (check, error) {
	want, err := strconv.ParseInt(text, 10, 32)
	if len(args) != 1 || err != nil {
		return nil, errors.New("want a budget, a colon and a number")
	}
	key := keyNamed(args[0])
	return func(w *world) error {
		object := w.cluster.Object(model.Ref{Kind: model.PodDisruptionBudgetKind, Namespace: key.Namespace, Name: key.Name})
		if object == nil {
			return fmt.Errorf("there is no pdb %s", args[0])
		}
		if have := object.(*policyv1.PodDisruptionBudget).Status.DisruptionsAllowed; int64(have) != want {
			return fmt.Errorf("allowed %s: want %d, is %d", args[0], want, have)
		}
		return nil
	}, nil
}
