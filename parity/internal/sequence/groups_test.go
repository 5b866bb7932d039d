package sequence

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/compare"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// TestGroupDifferencesAreFound gives kube-scheduler a PodGroup with another minCount than
// Berth's. The check must find the consequences.
func TestGroupDifferencesAreFound(t *testing.T) {
	if err := upstream.PodGroups.Set(true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := upstream.PodGroups.Set(false); err != nil {
			t.Error(err)
		}
	})
	for _, row := range []struct {
		minCount int32 // of kube-scheduler's PodGroup; Berth's is 2
		want     string
	}{{2, ""}, {3, "outcome"}, {4, "turn"}} {
		p := &groupPlay{r: cases.Source("groups", 1), config: cases.UntimedConfig(), member: plainMember, groups: 1}
		cluster, check, err := newGroups(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		p.pods = 3
		node := p.node(0)
		node.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("2")
		cluster.SetNode(node)
		group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "group-0", Generation: 1}}
		group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
		if err := cluster.SetObject(group); err != nil {
			t.Fatal(err)
		}
		for p.made < p.pods {
			p.create(cluster, 0)
		}
		first := true
		err = cluster.AdvanceTo(cluster.Now().Add(time.Second), func(r simulate.Round) error {
			for i := range r.Shown {
				if g, ok := r.Shown[i].Object.(*schedulingv1beta1.PodGroup); ok && first {
					g = g.DeepCopy()
					g.Spec.SchedulingPolicy.Gang.MinCount = row.minCount
					r.Shown[i].Object = g
				}
			}
			err := check.round(r)
			if r.Decided {
				first = false
			}
			return err
		})
		check.theirs.Close()
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, d := range check.result.Differences {
			found = append(found, d.What)
		}
		if got := strings.Join(found, ", "); !strings.Contains(got, row.want) || (row.want == "") != (got == "") {
			t.Errorf("minCount %d: differences in %q, want one in %q", row.minCount, got, row.want)
		}
	}
}

// TestGroupsEvictAndShare plays a few runs of the scripts with preemption and with
// claims. Both preemptions and releases of claims must occur.
func TestGroupsEvictAndShare(t *testing.T) {
	for name, runs := range map[string]struct {
		pods  int
		seeds uint64
	}{"seq-gang-preempt": {500, 1}, "seq-gang-preempt-spread": {500, 3}, "seq-tree-preempt": {250, 6}, "seq-gang-claims": {500, 4}} {
		scripts := GroupScripts(runs.pods)
		script := scripts[slices.IndexFunc(scripts, func(s Script) bool { return s.Name == name })]
		if err := script.Gates().Set(true); err != nil {
			t.Fatal(err)
		}
		var all Result
		for seed := uint64(1); seed <= runs.seeds; seed++ {
			r, err := Run(script, seed, compare.InProcess(), nil)
			if err != nil {
				t.Error(err)
			}
			for _, d := range r.Differences {
				t.Errorf("%s, seed %d: %+v", name, seed, d)
			}
			all.Preempted, all.Freed, all.Passed = all.Preempted+r.Preempted, all.Freed+r.Freed, all.Passed+r.Passed
		}
		if err := script.Gates().Set(false); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d passed; pods were evicted in %d turns, and claims given back in %d", name, all.Passed, all.Preempted, all.Freed)
		if strings.Contains(name, "preempt") && all.Preempted == 0 || name == "seq-gang-claims" && all.Freed == 0 {
			t.Errorf("%s: nobody is evicted, or nothing given back", name)
		}
	}
}
