package random_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

func TestSameSeedSameTopology(t *testing.T) {
	draw := func(seed uint64) []any {
		r := random.New(seed)
		c := random.TopologyCluster(r, random.Size{Nodes: 5, Placed: 10, Pending: 3})
		return []any{c, random.TopologyChange(r, c), random.TopologyProfile(r), random.WithBrokenSelector(r, random.TopologyPod(r, 9))}
	}
	for seed := range uint64(100) {
		if !reflect.DeepEqual(draw(seed), draw(seed)) {
			t.Fatalf("seed %d draws different objects", seed)
		}
	}
}

// The objects that property tests of node-local plugins draw must have no effect on the
// other two plugins.
func TestNodeLocalObjectsHaveNoTopology(t *testing.T) {
	for seed := range uint64(300) {
		r := random.New(seed)
		c := random.Cluster(r, random.Size{Nodes: 3, Placed: 5, Pending: 5})
		for range 10 {
			c = random.Change(r, c).After
		}
		if len(c.Namespaces)+len(c.Services)+len(c.ReplicationControllers)+len(c.ReplicaSets)+len(c.StatefulSets) > 0 {
			t.Fatalf("seed %d: not only nodes and pods", seed)
		}
		for _, p := range c.Pods {
			if a := p.Spec.Affinity; len(p.Spec.TopologySpreadConstraints) > 0 || a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
				t.Fatalf("seed %d: %s has constraints or terms", seed, p.Name)
			}
		}
		if off := random.Profile(r).Disabled; !off["PodTopologySpread"] || !off["InterPodAffinity"] {
			t.Fatalf("seed %d: the profile has topology plugins", seed)
		}
	}
}

// objectsOf lists all objects of a cluster.
func objectsOf(c oracle.Cluster) []metav1.Object {
	var all []metav1.Object
	all = append(all, listed(c.Nodes)...)
	all = append(all, listed(c.Pods)...)
	all = append(all, listed(c.Namespaces)...)
	all = append(all, listed(c.Services)...)
	all = append(all, listed(c.ReplicationControllers)...)
	all = append(all, listed(c.ReplicaSets)...)
	return append(all, listed(c.StatefulSets)...)
}

func listed[T metav1.Object](objects []T) []metav1.Object {
	var all []metav1.Object
	for _, o := range objects {
		all = append(all, o)
	}
	return all
}

// A change must not modify the cluster before it, and the cluster after it must differ
// only in the object that it names.
func TestTopologyChange(t *testing.T) {
	kinds := map[random.Kind]int{}
	for seed := range uint64(40) {
		r := random.New(seed)
		c := random.TopologyCluster(r, random.Size{Nodes: int(seed % 4), Placed: 6, Pending: 2})
		for step := range 60 {
			before, copies := objectsOf(c), copied(objectsOf(c))
			m := random.TopologyChange(r, c)
			if !slices.Equal(objectsOf(c), before) || !reflect.DeepEqual(copied(before), copies) {
				t.Fatalf("seed %d step %d: %v changed the cluster before it", seed, step, m)
			}
			gone, come := 0, 0
			for _, o := range before {
				if !slices.Contains(objectsOf(m.After), o) {
					gone++
				}
			}
			for _, o := range objectsOf(m.After) {
				if !slices.Contains(before, o) {
					come++
				}
			}
			if gone != len(named(m.OldNode, m.OldPod, m.Old)) || come != len(named(m.NewNode, m.NewPod, m.New)) || gone+come == 0 || gone+come > 2 {
				t.Fatalf("seed %d step %d: %v: %d objects gone, %d new", seed, step, m, gone, come)
			}
			checkUnique(t, m.After)
			kinds[m.Kind]++
			c = m.After
		}
	}
	if len(kinds) != 24 {
		t.Errorf("only these kinds occurred: %v", kinds)
	}
}

func copied(objects []metav1.Object) []any {
	var all []any
	for _, o := range objects {
		all = append(all, reflect.ValueOf(o).MethodByName("DeepCopy").Call(nil)[0].Interface())
	}
	return all
}

// named returns the objects that are not nil.
func named(n *v1.Node, p *v1.Pod, other metav1.Object) []metav1.Object {
	var all []metav1.Object
	if n != nil {
		all = append(all, n)
	}
	if p != nil {
		all = append(all, p)
	}
	if other != nil {
		all = append(all, other)
	}
	return all
}

func TestTopologyOutcomesOccur(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(1500) {
		r := random.New(seed)
		c := random.TopologyCluster(r, random.Size{Nodes: 1 + int(seed%12), Placed: int(seed % 30)})
		p, profile := random.TopologyPod(r, 100), random.TopologyProfile(r)
		a := oracle.Judge(c, p, profile)
		if a.Err != nil {
			t.Fatalf("seed %d: %v", seed, a.Err)
		}
		count(seen, a)
		countDefaults(seen, c, p, profile)
	}
	for _, outcome := range []string{
		"feasible 0", "feasible 1", "feasible many", "one best", "several best", "several rejections", "PodTopologySpread", "InterPodAffinity",
		"node(s) didn't match pod topology spread constraints", "node(s) didn't match pod topology spread constraints (missing required label)",
		"node(s) didn't match pod affinity rules", "node(s) didn't match pod anti-affinity rules", "node(s) didn't satisfy existing pods anti-affinity rules",
	} {
		if seen[outcome] < 50 {
			t.Errorf("%s: %d times", outcome, seen[outcome])
		}
	}
	if seen["hard defaults"] < 15 {
		t.Errorf("default constraints rejected only %d times", seen["hard defaults"])
	}
	for _, plugin := range []string{"PodTopologySpread", "InterPodAffinity"} {
		if seen["different scores of "+plugin] < 200 {
			t.Errorf("%s told nodes apart only %d times", plugin, seen["different scores of "+plugin])
		}
	}
	t.Log(seen)
}

// countDefaults counts how often default constraints reject, by comparison with a profile
// without them.
func countDefaults(seen map[string]int, c oracle.Cluster, p *v1.Pod, profile oracle.Profile) {
	with := oracle.Judge(c, p, profile)
	profile.Spread = configv1.PodTopologySpreadArgs{DefaultingType: configv1.ListDefaulting}
	if without := oracle.Judge(c, p, profile); with.Feasible != without.Feasible {
		seen["hard defaults"]++
	}
}

// The order in which objects are listed has no effect, and Judge does not modify its
// arguments.
func TestJudgeIsPureWithTopology(t *testing.T) {
	for seed := range uint64(200) {
		r := random.New(seed)
		c := random.TopologyCluster(r, random.Size{Nodes: 6, Placed: 15, Pending: 2})
		p, profile := random.TopologyPod(r, 100), random.TopologyProfile(r)
		copies, pod := copied(objectsOf(c)), p.DeepCopy()
		first := oracle.Judge(c, p, profile)
		if !reflect.DeepEqual(copied(objectsOf(c)), copies) || !reflect.DeepEqual(p, pod) {
			t.Fatalf("seed %d: Judge changed what it was given", seed)
		}
		slices.Reverse(c.Nodes)
		slices.Reverse(c.Pods)
		slices.Reverse(c.Namespaces)
		slices.Reverse(c.Services)
		slices.Reverse(c.ReplicationControllers)
		slices.Reverse(c.ReplicaSets)
		slices.Reverse(c.StatefulSets)
		if second := oracle.Judge(c, p, profile); !reflect.DeepEqual(first, second) {
			t.Fatalf("seed %d: the order of the lists changed the answer", seed)
		}
	}
}

// Counting again with a pod on a node, and adding the pod to the dry run, give the same
// result. Exceptions are terminating pods, empty selectors and skipped plugins.
func TestDryRunAgreesWithCountingAgain(t *testing.T) {
	compared := 0
	for seed := range uint64(400) {
		r := random.New(seed)
		c := random.TopologyCluster(r, random.Size{Nodes: 6, Placed: 15})
		p, profile := random.TopologyPod(r, 100), random.TopologyProfile(r)
		at := r.IntN(len(c.Pods))
		victim := c.Pods[at]
		if victim.DeletionTimestamp != nil || victim.Status.Phase == v1.PodSucceeded || victim.Status.Phase == v1.PodFailed || selectsEverything(p) {
			continue
		}
		dry, err := oracle.JudgeDryRun(c, p, profile, oracle.DryRun{Node: victim.Spec.NodeName, Removed: []*v1.Pod{victim}})
		if err != nil {
			t.Fatal(err)
		}
		c.Pods = slices.Delete(c.Pods, at, at+1)
		for _, n := range oracle.Judge(c, p, profile).Nodes {
			if n.Node == victim.Spec.NodeName && !reflect.DeepEqual(n.Rejections, dry) {
				t.Fatalf("seed %d: counted again: %v, dry run: %v", seed, n.Rejections, dry)
			}
		}
		compared++
	}
	if compared < 200 {
		t.Errorf("only %d comparisons", compared)
	}
}

func selectsEverything(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
		return c.LabelSelector != nil && len(c.LabelSelector.MatchLabels)+len(c.LabelSelector.MatchExpressions) == 0
	})
}

func TestBrokenSelector(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(200) {
		r := random.New(seed)
		c := random.TopologyCluster(r, random.Size{Nodes: 6, Placed: 3})
		a := oracle.Judge(c, random.WithBrokenSelector(r, random.TopologyPod(r, 100)), oracle.DefaultProfile())
		switch {
		case a.Err != nil && a.Nodes == nil:
			seen["failed in PreFilter"]++
		case a.Err != nil:
			seen["failed in scoring"]++
		case a.PreFilter != nil && a.PreFilter.Plugin == "InterPodAffinity":
			seen["rejected"]++
		default:
			seen[fmt.Sprint("not noticed, feasible ", min(a.Feasible, 2))]++
		}
	}
	if len(seen) != 5 || seen["not noticed, feasible 2"] > 0 {
		t.Errorf("got %v", seen)
	}
}
