package random_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

func TestSameSeedSamePreemption(t *testing.T) {
	draw := func(seed uint64) []any {
		r := random.New(seed)
		c := random.PreemptionCluster(r, random.Size{Nodes: 5, Placed: 10, Pending: 3})
		return []any{c, random.PreemptionChange(r, c), random.PreemptionProfile(r, c)}
	}
	for seed := range uint64(100) {
		if !reflect.DeepEqual(draw(seed), draw(seed)) {
			t.Fatalf("seed %d draws different objects", seed)
		}
	}
}

// A change must not modify the cluster before it.
func TestPreemptionChange(t *testing.T) {
	kinds := map[random.Kind]int{}
	for seed := range uint64(60) {
		r := random.New(seed)
		c := random.PreemptionCluster(r, random.Size{Nodes: int(seed % 4), Placed: 6, Pending: 2})
		for step := range 60 {
			before := slices.Concat(objectsOf(c), listed(c.DisruptionBudgets))
			copies := copied(before)
			m := random.PreemptionChange(r, c)
			if !slices.Equal(slices.Concat(objectsOf(c), listed(c.DisruptionBudgets)), before) || !reflect.DeepEqual(copied(before), copies) {
				t.Fatalf("seed %d step %d: %v changed the cluster before it", seed, step, m)
			}
			checkUnique(t, m.After)
			kinds[m.Kind]++
			c = m.After
		}
	}
	if len(kinds) != 31 {
		t.Errorf("only these %d kinds occurred: %v", len(kinds), kinds)
	}
}

// All outcomes of preemption must occur, each often enough.
func TestPreemptionOutcomesOccur(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(1500) {
		r := random.New(seed)
		c := random.PreemptionCluster(r, random.Size{Nodes: 1 + int(seed%6), Placed: 4 + int(seed%25), Pending: 6})
		for range 3 {
			c = random.PreemptionChange(r, c).After
		}
		profile := random.PreemptionProfile(r, c)
		for _, p := range c.Pods[max(0, len(c.Pods)-5):] {
			if p.Spec.NodeName == "" {
				countPreemption(seen, c, p, oracle.Judge(c, p, profile))
			}
		}
	}
	for _, outcome := range []string{
		"one best", "several best", "violations", "reprieved", "all victims", "outranked", "terminating victims only", "a terminating victim", "nominated before",
		"negative sum", "never", "waits", "other node than nominated", "none: No preemption victims found for incoming pod",
		"none: Preemption is not helpful for scheduling", "none: Insufficient cpu", "none: node(s) didn't match pod topology spread constraints",
		"none: node(s) didn't match pod affinity rules", "none: node(s) didn't match pod anti-affinity rules",
		"none: node(s) didn't satisfy existing pods anti-affinity rules", "none: node(s) didn't have free ports for the requested pod ports",
		"none: node(s) had no available disk", "none: node(s) exceed max volume count",
		"by NodePorts", "by NodeResourcesFit", "by PodTopologySpread", "by InterPodAffinity", "by VolumeRestrictions", "by NodeVolumeLimits",
	} {
		if seen[outcome] < 4 {
			t.Errorf("%q occurred %d times", outcome, seen[outcome])
		}
	}
}

func countPreemption(seen map[string]int, c oracle.Cluster, p *v1.Pod, a oracle.Judgment) {
	if a.Preemption == nil {
		return
	}
	switch n := len(a.Preemption.Candidates); {
	case strings.Contains(a.Preemption.Text, "Never"):
		seen["never"]++
	case strings.Contains(a.Preemption.Text, "terminating"):
		seen["waits"]++
	case n == 0:
		for _, part := range strings.Split(strings.TrimSuffix(a.Preemption.Text[strings.LastIndex(a.Preemption.Text, ": ")+2:], "."), ", ") {
			_, reason, _ := strings.Cut(part, " ")
			seen["none: "+reason]++
		}
	case n == 1:
		seen["one best"]++
	default:
		seen["several best"]++
	}
	for _, candidate := range a.Preemption.Candidates {
		if candidate.Violations > 0 {
			seen["violations"]++
		}
		if len(candidate.Outranked) > 0 {
			seen["outranked"]++
		}
		terminating, lower, sum := 0, 0, int64(0)
		for _, v := range candidate.Victims {
			if sum += int64(*orZero(v.Spec.Priority)); v.DeletionTimestamp != nil {
				terminating++
			}
		}
		for _, other := range c.Pods {
			if other.Spec.NodeName == candidate.Node && *orZero(other.Spec.Priority) < *orZero(p.Spec.Priority) {
				lower++
			}
			if other.Spec.NodeName == "" && other.UID != p.UID && other.Status.NominatedNodeName == candidate.Node {
				seen["nominated before"]++
			}
		}
		for what, is := range map[string]bool{
			"a terminating victim": terminating > 0, "terminating victims only": terminating == len(candidate.Victims), "all victims": lower == len(candidate.Victims),
			"reprieved": lower > len(candidate.Victims), "negative sum": sum < 0,
			"other node than nominated": p.Status.NominatedNodeName != "" && p.Status.NominatedNodeName != candidate.Node,
		} {
			if is {
				seen[what]++
			}
		}
		for _, n := range a.Nodes {
			if n.Node == candidate.Node {
				seen[fmt.Sprint("by ", n.Rejections[0].Plugin)]++
			}
		}
	}
}

func orZero(priority *int32) *int32 {
	if priority == nil {
		return new(int32)
	}
	return priority
}
