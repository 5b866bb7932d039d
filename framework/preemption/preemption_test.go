package preemption_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/framework/preemption"
	st "github.com/berth-scheduler/berth/framework/testing"
)

// tolerant evicts pods of lower priority that lack the label keep.
type tolerant struct {
	*preemption.Evaluator
	h      fwk.Handle
	enough int32
	asked  []string // nodes that were dry-run
}

func (*tolerant) Name() string { return "Tolerant" }
func (p *tolerant) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return p.Preempt(ctx, state, pod, m)
}
func (p *tolerant) GetOffsetAndNumCandidates(int32) (int32, int32) { return 0, p.enough }
func (p *tolerant) CandidatesToVictimsMap(candidates []preemption.Candidate) map[string]*extenderv1.Victims {
	m := map[string]*extenderv1.Victims{}
	for _, c := range candidates {
		m[c.Name()] = c.Victims()
	}
	return m
}
func (p *tolerant) PodEligibleToPreemptOthers(_ context.Context, pod *v1.Pod, _ *fwk.Status) (bool, string) {
	return pod.Spec.PreemptionPolicy == nil || *pod.Spec.PreemptionPolicy != v1.PreemptNever, "not eligible due to preemptionPolicy=Never."
}
func (p *tolerant) OrderedScoreFuncs(context.Context, map[string]*extenderv1.Victims) []func(string) int64 {
	return nil
}
func (p *tolerant) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, budgets []*policyv1.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	p.asked = append(p.asked, node.Node().Name)
	var lower []fwk.PodInfo
	for _, other := range node.GetPods() {
		if *other.GetPod().Spec.Priority < *pod.Spec.Priority && other.GetPod().Labels["keep"] == "" {
			lower = append(lower, other)
		}
	}
	if len(lower) == 0 {
		return nil, 0, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "No preemption victims found for incoming pod")
	}
	for _, victim := range lower {
		if err := node.RemovePod(klog.FromContext(ctx), victim.GetPod()); err != nil {
			return nil, 0, fwk.AsStatus(err)
		}
		if s := p.h.RunPreFilterExtensionRemovePod(ctx, state, pod, victim, node); !s.IsSuccess() {
			return nil, 0, s
		}
	}
	if s := p.h.RunFilterPluginsWithNominatedPods(ctx, state, pod, node); !s.IsSuccess() {
		return nil, 0, s
	}
	slices.SortFunc(lower, func(a, b fwk.PodInfo) int {
		if framework.MoreImportantPod(a.GetPod(), b.GetPod()) {
			return -1
		}
		return 1
	})
	var victims []*v1.Pod
	violations := 0
	for _, other := range lower { // put back those that may stay
		node.AddPodInfo(other)
		p.h.RunPreFilterExtensionAddPod(ctx, state, pod, other, node)
		if p.h.RunFilterPluginsWithNominatedPods(ctx, state, pod, node).IsSuccess() {
			continue
		}
		_ = node.RemovePod(klog.FromContext(ctx), other.GetPod())
		p.h.RunPreFilterExtensionRemovePod(ctx, state, pod, other, node)
		victims = append(victims, other.GetPod())
		for _, b := range budgets {
			if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && s.Matches(labels.Set(other.GetPod().Labels)) && b.Status.DisruptionsAllowed == 0 {
				violations++
			}
		}
	}
	return victims, violations, nil
}

func cluster(t *testing.T, p *tolerant, nodes int, pods []*v1.Pod, more ...st.Option) *st.Cluster {
	var all []*v1.Node
	for i := range nodes {
		all = append(all, st.MakeNode().Name(fmt.Sprint("n", i)).Capacity(map[v1.ResourceName]string{"cpu": "4", "pods": "10"}).Obj())
	}
	return st.NewCluster(t, all, pods, append(more, st.WithPlugin("Tolerant", func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		p.h, p.Evaluator = h, preemption.NewEvaluator("Tolerant", h, p)
		return p, nil
	}, nil), st.WithConfig(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {postFilter: {enabled: [{name: Tolerant}], disabled: [{name: "*"}]}}
`))...)
}

func pod(name, node, cpu string, priority int32) *st.PodWrapper {
	return st.MakePod().Name(name).Namespace("x").UID(name).Node(node).Priority(priority).Req(map[v1.ResourceName]string{"cpu": cpu})
}

func TestPreempt(t *testing.T) {
	started := func(p *v1.Pod, minute int) *v1.Pod {
		at := metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC))
		p.Status.StartTime = &at
		return p
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}
	for name, row := range map[string]struct {
		pods    []*v1.Pod
		enough  int32
		cpu     string
		never   bool
		node    string
		victims string
		asked   int
		message string
	}{
		"lowest highest priority": {pods: []*v1.Pod{pod("a", "n0", "4", 3).Obj(), pod("b", "n1", "4", 2).Obj(), pod("c", "n2", "4", 3).Obj()}, node: "n1", victims: "x/b", asked: 3},
		"fewest violations":       {pods: []*v1.Pod{pod("a", "n0", "4", 3).Obj(), pod("b", "n1", "4", 1).Label("app", "db").Obj(), pod("c", "n2", "4", 4).Obj()}, node: "n0", victims: "x/a", asked: 3},
		"lowest sum":              {pods: []*v1.Pod{pod("a", "n0", "2", 3).Obj(), pod("a2", "n0", "2", 2).Obj(), pod("b", "n1", "2", 3).Obj(), pod("b2", "n1", "2", 1).Obj(), pod("c", "n2", "4", 4).Obj()}, node: "n1", victims: "x/b x/b2", asked: 3},
		"latest start":            {pods: []*v1.Pod{started(pod("a", "n0", "4", 3).Obj(), 1), started(pod("b", "n1", "4", 3).Obj(), 2), started(pod("c", "n2", "4", 3).Obj(), 1)}, node: "n1", victims: "x/b", asked: 3},
		"enough":                  {pods: []*v1.Pod{pod("a", "n0", "4", 3).Obj(), pod("b", "n1", "4", 2).Obj(), pod("c", "n2", "4", 3).Obj()}, enough: 1, node: "n0", victims: "x/a", asked: 1},
		"as few as needed":        {pods: []*v1.Pod{pod("a", "n0", "2", 1).Obj(), pod("a2", "n0", "2", 2).Obj(), pod("b", "n1", "4", 9).Obj(), pod("c", "n2", "4", 9).Obj()}, cpu: "2", node: "n0", victims: "x/a", asked: 3},
		"nothing helps": {pods: []*v1.Pod{pod("a", "n0", "4", 9).Obj(), pod("b", "n1", "4", 9).Obj(), pod("c", "n2", "4", 1).Label("keep", "yes").Obj()}, asked: 3,
			message: " 0/3 nodes are available: 3 No preemption victims found for incoming pod."},
		"not eligible": {pods: []*v1.Pod{pod("a", "n0", "4", 1).Obj(), pod("b", "n1", "4", 1).Obj(), pod("c", "n2", "4", 1).Obj()}, never: true,
			message: " not eligible due to preemptionPolicy=Never."},
	} {
		t.Run(name, func(t *testing.T) {
			p := &tolerant{enough: max(row.enough, 100*(1-row.enough))}
			c := cluster(t, p, 3, row.pods, st.WithObjects(budget.DeepCopy()))
			if row.cpu == "" {
				row.cpu = "4"
			}
			high := pod("high", "", row.cpu, 5).Obj()
			if never := v1.PreemptNever; row.never {
				high.Spec.PreemptionPolicy = &never
			}
			r := c.Schedule(high)
			if r.Nominated != row.node || r.Err != nil || len(p.asked) != row.asked || !strings.Contains(r.Message, row.message) {
				t.Fatalf("got %+v after asking %v, want %+v", r, p.asked, row)
			}
			victims := strings.Fields(row.victims)
			gone := func() (list []string) { // the plugin evicts in the background
				for _, p := range row.pods {
					if now := c.Pod(p.Namespace, p.Name); now == nil || now.DeletionTimestamp != nil {
						list = append(list, p.Namespace+"/"+p.Name)
					}
				}
				return list
			}
			for until := time.Now().Add(5 * time.Second); len(gone()) < len(victims) && time.Now().Before(until); c.Settle() {
				time.Sleep(time.Millisecond)
			}
			if got := gone(); !slices.Equal(got, victims) {
				t.Fatalf("%v are evicted, want %v", got, victims)
			}
			for _, name := range victims {
				victim := c.Pod("x", strings.TrimPrefix(name, "x/"))
				if !slices.ContainsFunc(victim.Status.Conditions, func(c v1.PodCondition) bool {
					return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler
				}) {
					t.Errorf("%s has conditions %v", name, victim.Status.Conditions)
				}
			}
			preempted := 0
			for _, e := range c.Events() {
				if e.Reason == "Preempted" {
					preempted++
				}
			}
			if preempted > len(victims) {
				t.Errorf("%d events, want one for each of %v", preempted, victims)
			}
			c.Advance(time.Minute)
			if r := c.Result(high); r.Node != row.node {
				t.Errorf("got %+v, want it on %q", r, row.node)
			}
		})
	}
}
