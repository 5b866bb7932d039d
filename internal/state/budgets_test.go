package state

import (
	"fmt"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// TestBudgets sets, replaces and removes budgets: they are listed by namespace, in the order of names, in their newest versions.
func TestBudgets(t *testing.T) {
	s := New()
	set := func(namespace, name string, allowed int32) {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		b.Status.DisruptionsAllowed = allowed
		if delta := s.Apply([]model.Change{compiled(model.NewDisruptionBudget(b))}); len(delta.Events) > 0 {
			t.Errorf("a budget raises the events %+v", delta.Events)
		}
	}
	gone := func(namespace, name string) {
		s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.PodDisruptionBudgetKind, Namespace: namespace, Name: name}}})
	}
	for _, step := range []struct {
		do    func()
		want  string
		moves bool
	}{
		{func() {}, "", false},
		{func() { set("x", "b", 1) }, "b=1", true},
		{func() { set("x", "c", 0) }, "b=1 c=0", true},
		{func() { set("x", "a", 2) }, "a=2 b=1 c=0", true},
		{func() { set("y", "a", 9) }, "a=2 b=1 c=0", true},
		{func() { set("x", "b", 3) }, "a=2 b=3 c=0", true},
		{func() { gone("x", "a") }, "b=3 c=0", true},
		{func() { gone("x", "a") }, "b=3 c=0", false},
		{func() { gone("z", "a") }, "b=3 c=0", false},
		{func() { gone("x", "c") }, "b=3", true},
		{func() { gone("x", "b") }, "", true},
	} {
		before := s.View().BudgetsVersion()
		step.do()
		audited(t, s)
		var got []string
		for _, b := range s.View().Budgets("x") {
			got = append(got, fmt.Sprintf("%s=%d", b.Object.Name, b.Allowed))
		}
		if text := strings.Join(got, " "); text != step.want || (s.View().BudgetsVersion() != before) != step.moves {
			t.Errorf("budgets %q, want %q; the version went from %d to %d", text, step.want, before, s.View().BudgetsVersion())
		}
	}
	if !s.View().HasBudgets() {
		t.Error("no budget is left")
	}
}
