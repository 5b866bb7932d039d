package disruption_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-scheduler/berth/internal/cluster/disruption"
)

// plain is the slow twin of Budgets: every budget is matched against every pod.
type plain struct {
	pods    map[string]*v1.Pod // by namespace/name
	budgets map[string]*policyv1.PodDisruptionBudget
}

func (p *plain) status(name string) policyv1.PodDisruptionBudgetStatus {
	b := disruption.New(p.budgets[name])
	for _, pod := range p.pods {
		b.Set(pod)
	}
	return b.Status(scale)
}

// scale returns the replicas of controllers with even names only.
func scale(_ string, owner *metav1.OwnerReference) (int32, bool) {
	return 7, owner.Name == "0" || owner.Name == "2"
}

func key(namespace, name string) string { return namespace + "/" + name }

// selectors of all kinds: by one label, by several, by values, by expressions that
// require no label, and malformed.
var selectors = []*metav1.LabelSelector{
	nil, {},
	{MatchLabels: map[string]string{"app": "0"}},
	{MatchLabels: map[string]string{"app": "1"}},
	{MatchLabels: map[string]string{"app": "1", "tier": "0"}},
	{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"0", "2"}}}},
	{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}}},
	{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"0"}}}},
	{
		MatchLabels:      map[string]string{"tier": "1"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist}},
	},
	{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Unknown"}}},
}

func randomBudget(r *rand.Rand) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint(r.IntN(2)), Name: fmt.Sprint(r.IntN(5))},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selectors[r.IntN(len(selectors))]},
	}
	amount := []intstr.IntOrString{intstr.FromInt32(1), intstr.FromString("40%")}[r.IntN(2)]
	if b.Spec.MinAvailable = &amount; r.IntN(2) == 0 {
		b.Spec.MinAvailable, b.Spec.MaxUnavailable = nil, &amount
	}
	if r.IntN(4) == 0 {
		b.Status.DisruptedPods = map[string]metav1.Time{fmt.Sprint(r.IntN(8)): {}}
	}
	return b
}

func randomPod(r *rand.Rand) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint(r.IntN(2)), Name: fmt.Sprint(r.IntN(8)), Labels: map[string]string{}}}
	for _, key := range []string{"app", "tier"} {
		if r.IntN(4) > 0 {
			p.Labels[key] = fmt.Sprint(r.IntN(3))
		}
	}
	for _, change := range []func(*v1.Pod){func(p *v1.Pod) { p.Spec.NodeName = "a" }, of("ReplicaSet", fmt.Sprint(r.IntN(3))), finished, terminating, unready} {
		if r.IntN(3) == 0 {
			change(p)
		}
	}
	return p
}

// TestBudgets changes pods and budgets at random. Every status equals that of a budget
// matched against every pod, and the returned budgets are those whose status changes.
func TestBudgets(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, seed))
		all := disruption.NewBudgets()
		want := &plain{pods: map[string]*v1.Pod{}, budgets: map[string]*policyv1.PodDisruptionBudget{}}
		for step := range 60 {
			before := map[string]policyv1.PodDisruptionBudgetStatus{}
			for name := range want.budgets {
				before[name] = want.status(name)
			}
			var concerned []*disruption.Budget
			var namespace string
			switch n := r.IntN(12); {
			case n < 6:
				pod := randomPod(r)
				namespace = pod.Namespace
				want.pods[key(namespace, pod.Name)] = pod
				concerned = all.SetPod(pod)
			case n < 8:
				pod := randomPod(r)
				namespace = pod.Namespace
				delete(want.pods, key(namespace, pod.Name))
				concerned = all.RemovePod(namespace, pod.Name)
			case n < 11:
				b := randomBudget(r)
				want.budgets[key(b.Namespace, b.Name)] = b
				delete(before, key(b.Namespace, b.Name))
				if all.Set(b) != all.Get(b.Namespace, b.Name) {
					t.Fatalf("seed %d, step %d: budget %s/%s is another than the one that was set", seed, step, b.Namespace, b.Name)
				}
			default:
				b := randomBudget(r)
				delete(want.budgets, key(b.Namespace, b.Name))
				delete(before, key(b.Namespace, b.Name))
				all.Remove(b.Namespace, b.Name)
				if all.Get(b.Namespace, b.Name) != nil {
					t.Fatalf("seed %d, step %d: budget %s/%s is still there", seed, step, b.Namespace, b.Name)
				}
			}
			for name, b := range want.budgets {
				status := want.status(name)
				if got := all.Get(b.Namespace, b.Name).Status(scale); !equality.Semantic.DeepEqual(got, status) {
					t.Fatalf("seed %d, step %d: budget %s has status\n%+v, want\n%+v", seed, step, name, got, status)
				}
				was, known := before[name]
				changed := known && !equality.Semantic.DeepEqual(was, status)
				if changed && !slices.ContainsFunc(concerned, func(c *disruption.Budget) bool { return key(namespace, c.Name()) == name }) {
					t.Fatalf("seed %d, step %d: the status of budget %s changes, and it is not concerned", seed, step, name)
				}
			}
			if !slices.IsSortedFunc(concerned, func(a, b *disruption.Budget) int { return map[bool]int{true: -1, false: 1}[a.Name() < b.Name()] }) {
				t.Fatalf("seed %d, step %d: budgets are not in order, or there twice", seed, step)
			}
			want.checkControllers(t, all)
		}
	}
}

// checkControllers compares which budgets count pods of a controller.
func (p *plain) checkControllers(t *testing.T, all *disruption.Budgets) {
	t.Helper()
	for _, namespace := range []string{"0", "1"} {
		for _, name := range []string{"0", "1", "2"} {
			var want, got []string
			for of, b := range p.budgets {
				counted := disruption.New(b)
				counts := slices.ContainsFunc(slices.Collect(maps.Values(p.pods)), func(pod *v1.Pod) bool {
					owner := metav1.GetControllerOfNoCopy(pod)
					return owner != nil && owner.Name == name && counted.Set(pod)
				})
				if counts && b.Namespace == namespace {
					want = append(want, of)
				}
			}
			for _, b := range all.OfController(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}) {
				got = append(got, key(namespace, b.Name()))
			}
			if slices.Sort(want); !slices.Equal(got, want) {
				t.Fatalf("budgets with pods of %s/%s are %v, want %v", namespace, name, got, want)
			}
		}
	}
	if got := all.OfController(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "0", Name: "0"}}); len(got) > 0 {
		t.Fatalf("%d budgets have pods of a Deployment", len(got))
	}
}

// many returns pods and budgets of a namespace. All pods share a label, and each budget
// is for the pods of one app.
func many(pods, budgets int) (made []*v1.Pod, of []*policyv1.PodDisruptionBudget) {
	atLeast := intstr.FromInt32(1)
	app := func(i int) map[string]string { return map[string]string{"all": "same", "app": fmt.Sprint(i % budgets)} }
	for i := range pods {
		pod := shop(fmt.Sprint("web-", i))
		pod.Labels = app(i)
		made = append(made, pod)
	}
	for i := range budgets {
		of = append(of, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("app-", i)},
			Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &atLeast, Selector: &metav1.LabelSelector{MatchLabels: app(i)}},
		})
	}
	return made, of
}

// TestBudgetsCostWhatTheyConcern counts matches: one for each pod of a new budget, and
// one for each budget of a changed pod, whatever the size of the namespace.
func TestBudgetsCostWhatTheyConcern(t *testing.T) {
	const pods, budgets = 20_000, 2_000
	made, of := many(pods, budgets)
	all := disruption.NewBudgets()
	cost := func(what string, most int64, do func()) {
		t.Helper()
		before := all.Matched()
		do()
		if n := all.Matched() - before; n > most {
			t.Errorf("%s: budgets were asked %d times about pods, want at most %d", what, n, most)
		}
	}
	cost("pods without budgets", 0, func() {
		for _, pod := range made {
			all.SetPod(pod)
		}
	})
	cost("new budgets", pods+budgets, func() {
		for _, b := range of {
			all.Set(b)
		}
	})
	cost("budgets whose selector is the same", 0, func() {
		for _, b := range of {
			b = b.DeepCopy()
			b.Status.CurrentHealthy = 3
			all.Set(b)
		}
	})
	// The first budget may be listed under the shared label, since both lists had the
	// same length.
	cost("pods that terminate", 2*pods, func() {
		for _, pod := range made {
			pod = pod.DeepCopy()
			terminating(pod)
			if concerned := all.SetPod(pod); len(concerned) != 1 {
				t.Fatalf("%d budgets are concerned", len(concerned))
			}
		}
	})
	cost("pods that go", 2*pods, func() {
		for _, pod := range made {
			if concerned := all.RemovePod(pod.Namespace, pod.Name); len(concerned) != 1 {
				t.Fatalf("%d budgets are concerned", len(concerned))
			}
		}
	})
}

// BenchmarkBudgets changes one pod after the other, beside many pods and budgets in the
// namespace, and replaces budgets by budgets for other pods.
func BenchmarkBudgets(b *testing.B) {
	made, of := many(20_000, 2_000)
	all := disruption.NewBudgets()
	for _, pod := range made {
		all.SetPod(pod)
	}
	for _, object := range of {
		all.Set(object)
	}
	b.Run("pod", func(b *testing.B) {
		for i := range b.N {
			pod := made[i%len(made)].DeepCopy()
			if i/len(made)%2 == 0 {
				terminating(pod)
			}
			all.SetPod(pod)
		}
	})
	b.Run("budget", func(b *testing.B) {
		for i := range b.N {
			object := of[i%len(of)].DeepCopy()
			object.Spec.Selector = of[(i+1)%len(of)].Spec.Selector
			all.Set(object)
			all.Set(of[i%len(of)])
		}
	})
}
