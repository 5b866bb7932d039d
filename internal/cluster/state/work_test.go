package state_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestCountedPodsAreFoundByTheirLabels counts the visits for building a tally beside many
// pods, and for updating many tallies with a pod.
func TestCountedPodsAreFoundByTheirLabels(t *testing.T) {
	build.NotRaced(t)
	s := manyTallies(t, 100, 1000)
	for i := range 10_000 {
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: appPod(fmt.Sprint("pod-", i), fmt.Sprintf("old-%d", i/10), fmt.Sprintf("node-%d", i%100))}})
	}
	before := s.TallyVisits()
	tally := countApp(t, s, "old-500", state.TopologyKey{})
	if visits := s.TallyVisits() - before; tally.Total() != 10 || visits > 40 || visits < 10 {
		t.Errorf("%d label sets and pods are looked at to count %d pods", visits, tally.Total())
	}
	tenants := tenantTallies(t, 100, 5000)
	updates, _ := tenants.TallyWork()
	asked := tenants.SelectionsAsked()
	tenants.Apply([]model.Change{{Kind: model.PodSet, Pod: tenantPod("tenant-7", "pod", "node-17")}})
	after, _ := tenants.TallyWork()
	if n := tenants.SelectionsAsked() - asked; after-updates != 1 || n != 0 {
		t.Errorf("a pod like another of its tenant updates %d tallies, and %d sets are asked whether they select it", after-updates, n)
	}
	asked = tenants.SelectionsAsked()
	other := tenantPod("tenant-7", "other", "node-17").Object
	other.Labels["tier"] = "front"
	tenants.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(other)}})
	if n := tenants.SelectionsAsked() - asked; n != 1 {
		t.Errorf("%d sets are asked whether they select a pod of one tenant with new labels", n)
	}
}

// TestNodeChangesTouchOnlyWhatMoves counts the tallies that a node's new label, and its
// move to another zone, update.
func TestNodeChangesTouchOnlyWhatMoves(t *testing.T) {
	s := manyTallies(t, 100, 1000)
	// The other pods are one each of ten apps.
	s.Apply([]model.Change{{Kind: model.PodSet, Pod: appPod("pod", "app-5", "node-17")}})
	for _, row := range []struct {
		label, value string
		want         int64
	}{{"other", "x", 0}, {v1.LabelTopologyZone, "9", 11}} {
		before, _ := s.TallyWork()
		n := benchNode(17)
		n.Labels[row.label] = row.value
		s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
		if after, _ := s.TallyWork(); after-before != row.want {
			t.Errorf("%s=%s updates %d tallies, want %d", row.label, row.value, after-before, row.want)
		}
	}
}

// TestTalliesOfManyAppsAreSmall counts the bytes of the tallies of apps that run on few
// of many nodes each.
func TestTalliesOfManyAppsAreSmall(t *testing.T) {
	build.NotRaced(t)
	const apps, replicas = 200, 30
	s := manyTallies(t, 15_000, 0)
	for i := range apps * replicas {
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: appPod(fmt.Sprint("pod-", i), fmt.Sprintf("app-%d", i%apps), fmt.Sprintf("node-%d", i*7%15_000))}})
	}
	countApp(t, s, "app-0", state.TopologyKey{})
	before := s.TallyBytes()
	for i := range apps - 1 {
		countApp(t, s, fmt.Sprintf("app-%d", 1+i), state.TopologyKey{})
	}
	if each := (s.TallyBytes() - before) / (apps - 1); each > 2<<10 {
		t.Errorf("a tally of %d pods takes %d bytes", replicas, each)
	}
}

// TestRepeatedValuesOfASelectorCountOnce has a term and a tally whose selectors repeat a
// value, beside others that do not.
func TestRepeatedValuesOfASelectorCountOnce(t *testing.T) {
	s := manyTallies(t, 2, 0)
	repeated := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web", "web", "db"}},
	}}
	carrier := func(name string, selector *metav1.LabelSelector) *model.Pod {
		p := appPod(name, "web", "node-0").Object
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{LabelSelector: selector, TopologyKey: v1.LabelTopologyZone},
		}}}
		return model.NewPod(p)
	}
	plain := carrier("plain", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}})
	twice := carrier("twice", repeated)
	s.Apply([]model.Change{{Kind: model.PodSet, Pod: plain}, {Kind: model.PodSet, Pod: twice}})
	if n := len(s.TermsMatching(plain)); n != 2 {
		t.Errorf("%d terms select the pod, want 2", n)
	}
	term, err := model.NewTerm("default", &v1.PodAffinityTerm{LabelSelector: repeated})
	if err != nil {
		t.Fatal(err)
	}
	tally := s.Tally(state.PodSet{Text: "repeated", Terms: []*model.Term{term}}, state.TopologyKey{}, state.NodeSet{})
	s.Apply([]model.Change{{Kind: model.PodSet, Pod: appPod("other", "db", "node-1")}})
	if tally.Total() != 3 {
		t.Errorf("the tally counts %d pods, want 3", tally.Total())
	}
	s.Apply([]model.Change{{Kind: model.PodGone, Key: twice.Key()}, {Kind: model.PodGone, Key: plain.Key()}})
	if err := s.Audit(); err != nil || tally.Total() != 1 {
		t.Errorf("the tally counts %d pods, want 1; %v", tally.Total(), err)
	}
}
