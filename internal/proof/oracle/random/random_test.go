package random_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

func TestSameSeedSameObjects(t *testing.T) {
	draw := func(seed uint64) []any {
		r := random.New(seed)
		c := random.Cluster(r, random.Size{Nodes: 5, Placed: 10, Pending: 3})
		m := random.Change(r, c)
		return []any{c, m, random.Profile(r), random.Pod(r, 9)}
	}
	for seed := range uint64(50) {
		if !reflect.DeepEqual(draw(seed), draw(seed)) {
			t.Fatalf("seed %d draws different objects", seed)
		}
	}
	if reflect.DeepEqual(draw(1), draw(2)) {
		t.Error("different seeds draw the same objects")
	}
}

// A change must not modify the cluster before it, and the cluster after it must differ
// only in the object that it names.
func TestChange(t *testing.T) {
	kinds := map[random.Kind]int{}
	for seed := range uint64(40) {
		r := random.New(seed)
		c := random.Cluster(r, random.Size{Nodes: int(seed % 4), Placed: 6, Pending: 2})
		for step := range 40 {
			nodes, pods := clone(c.Nodes, (*v1.Node).DeepCopy), clone(c.Pods, (*v1.Pod).DeepCopy)
			m := random.Change(r, c)
			if !equal(c.Nodes, nodes) || !equal(c.Pods, pods) {
				t.Fatalf("seed %d step %d: %v changed the cluster before it", seed, step, m)
			}
			checkReplaced(t, c.Nodes, m.After.Nodes, m.OldNode, m.NewNode)
			checkReplaced(t, c.Pods, m.After.Pods, m.OldPod, m.NewPod)
			if m.OldNode == nil && m.NewNode == nil && m.OldPod == nil && m.NewPod == nil {
				t.Fatalf("seed %d step %d: %v names no object", seed, step, m)
			}
			checkUnique(t, m.After)
			kinds[m.Kind]++
			c = m.After
		}
	}
	if len(kinds) != 16 {
		t.Errorf("only these kinds occurred: %v", kinds)
	}
}

func clone[T any](from []*T, copied func(*T) *T) []*T {
	var to []*T
	for _, v := range from {
		to = append(to, copied(v))
	}
	return to
}

// equal compares contents; an empty list equals nil.
func equal[T any](a, b []*T) bool {
	return slices.EqualFunc(a, b, func(x, y *T) bool { return reflect.DeepEqual(x, y) })
}

func checkReplaced[T any](t *testing.T, before, after []*T, gone, come *T) {
	t.Helper()
	var want []*T
	for _, v := range before {
		if v != gone {
			want = append(want, v)
		} else if come != nil {
			want = append(want, come)
		}
	}
	if gone == nil && come != nil {
		want = append(want, come)
	}
	if !slices.Equal(want, after) {
		t.Fatal("the cluster after is not the one before with the object replaced")
	}
}

func checkUnique(t *testing.T, c oracle.Cluster) {
	t.Helper()
	seen := map[string]bool{}
	objects := objectsOf(c)
	for _, o := range objects {
		seen[fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())] = true
	}
	if len(seen) != len(objects) {
		t.Fatal("two objects share a name")
	}
}

// All outcomes must occur, each often enough.
func TestOutcomesOccur(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(1500) {
		r := random.New(seed)
		c := random.Cluster(r, random.Size{Nodes: 1 + int(seed%12), Placed: int(seed % 30)})
		a := oracle.Judge(c, random.Pod(r, 100), random.Profile(r))
		if a.Err != nil {
			t.Fatalf("seed %d: %v", seed, a.Err)
		}
		count(seen, a)
	}
	for _, outcome := range []string{
		"feasible 0", "feasible 1", "feasible many", "one best", "several best", "narrowed", "rejected by PreFilter",
		"NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "NodeDeclaredFeatures", "several rejections",
		"Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient example.com/gpu", "Insufficient hugepages-2Mi",
		"node(s) didn't match scheduler-enforced node affinity",
	} {
		if seen[outcome] < 10 {
			t.Errorf("%s: %d times", outcome, seen[outcome])
		}
	}
	for _, plugin := range []string{"TaintToleration", "NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality"} {
		if seen["different scores of "+plugin] < 100 {
			t.Errorf("%s told nodes apart only %d times", plugin, seen["different scores of "+plugin])
		}
	}
	t.Log(seen)
}

func count(seen map[string]int, a oracle.Judgment) {
	seen[oneOrMany("feasible", a.Feasible)]++
	if len(a.Best) > 1 {
		seen["several best"]++
	} else if a.Feasible > 1 {
		seen["one best"]++
	}
	if a.PreFilter != nil {
		seen["rejected by PreFilter"]++
	} else if len(a.Narrowed) > 0 {
		seen["narrowed"]++
	}
	perPlugin := map[string]map[int64]bool{}
	for _, n := range a.Nodes {
		if len(n.Rejections) > 1 {
			seen["several rejections"]++
		}
		for _, r := range n.Rejections {
			seen[r.Plugin]++
			for _, reason := range r.Reasons {
				seen[reason]++
			}
		}
		for _, s := range n.Scores {
			if perPlugin[s.Plugin] == nil {
				perPlugin[s.Plugin] = map[int64]bool{}
			}
			perPlugin[s.Plugin][s.Score] = true
		}
	}
	for plugin, different := range perPlugin {
		if len(different) > 1 {
			seen["different scores of "+plugin]++
		}
	}
}

func oneOrMany(what string, n int) string {
	if n > 1 {
		return what + " many"
	}
	return fmt.Sprint(what, " ", n)
}

// The order in which nodes and pods are listed has no effect, and Judge does not modify
// its arguments.
func TestJudgeIsPure(t *testing.T) {
	for seed := range uint64(100) {
		r := random.New(seed)
		c := random.Cluster(r, random.Size{Nodes: 6, Placed: 15, Pending: 2})
		p, profile := random.Pod(r, 100), random.Profile(r)
		nodes, pods, pod := clone(c.Nodes, (*v1.Node).DeepCopy), clone(c.Pods, (*v1.Pod).DeepCopy), p.DeepCopy()
		first := oracle.Judge(c, p, profile)
		if !equal(c.Nodes, nodes) || !equal(c.Pods, pods) || !reflect.DeepEqual(p, pod) {
			t.Fatalf("seed %d: Judge changed what it was given", seed)
		}
		slices.Reverse(c.Nodes)
		slices.Reverse(c.Pods)
		if second := oracle.Judge(c, p, profile); !reflect.DeepEqual(first, second) {
			t.Fatalf("seed %d: the order of the lists changed the answer", seed)
		}
	}
}

func TestBrokenPreferenceFailsTheCycle(t *testing.T) {
	failed := 0
	for seed := range uint64(100) {
		r := random.New(seed)
		c := random.Cluster(r, random.Size{Nodes: 6, Placed: 3})
		a := oracle.Judge(c, random.WithBrokenPreference(random.Pod(r, 100)), oracle.DefaultProfile())
		if (a.Err != nil) != (a.Feasible > 1) {
			t.Fatalf("seed %d: %d feasible, error %v", seed, a.Feasible, a.Err)
		}
		if a.Err != nil {
			failed++
		}
	}
	if failed < 10 {
		t.Errorf("only %d cycles failed", failed)
	}
}
