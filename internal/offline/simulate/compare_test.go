package simulate

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

const (
	head    = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: "
	packing = head + `[{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}],
		plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}}]`
	blind = head + `[{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}, {name: DefaultPreemption}]}}}]`
	named = head + `[{schedulerName: other}]`
)

// between compares the decisions of two configurations about a cluster; "" is the default
// one.
func between(t *testing.T, files *manifest.Cluster, a, b string) *Comparison {
	t.Helper()
	var results []*Result
	for _, text := range []string{a, b} {
		scheduler, err := config.Default()
		if text != "" {
			scheduler, err = config.Parse("scheduler.yaml", []byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
		result, err := Run(Config{Scheduler: scheduler, Seed: 7}, files, nil)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, result)
	}
	return Compare(files, "topology.kubernetes.io/zone", results[0], results[1])
}

// compareCluster has a one-core pod on node b, and pending pods of one core and of five.
func compareCluster(t *testing.T) *manifest.Cluster {
	t.Helper()
	waiting := func(name, cpu string) string {
		return strings.NewReplacer("phase: Running", "phase: Pending", `cpu: "1"`, fmt.Sprintf("cpu: %q", cpu)).Replace(podOf(name, "", "ReplicaSet/web", ""))
	}
	files, err := manifest.Decode("cluster.yaml", []byte(drainNodes+podOf("old-1", "b", "ReplicaSet/old", "")+podOf("agent-1", "b", "DaemonSet/agent", "")+waiting("web-1", "1")+waiting("wide-1", "5")))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func lines(c *Comparison) (all []string) {
	for _, p := range c.Pods {
		all = append(all, fmt.Sprintf("%s %s A %s %s B %s %s", p.Pod, p.Difference, p.A.Status, p.A.Node, p.B.Status, p.B.Node))
	}
	return all
}

// TestCompare covers each kind of difference, and equal configurations.
func TestCompare(t *testing.T) {
	files := compareCluster(t)
	if same := between(t, files, "", ""); same.Decided != 2 || same.Same != 2 || len(same.Pods) != 0 {
		t.Errorf("the same configuration differs: %+v", same)
	}
	got := between(t, files, "", packing) // the default one spreads
	expectLines(t, lines(got), "web-1 OtherNode A Scheduled a B Scheduled b")
	if got.Same != 1 || got.Differences[OtherNode] != 1 || len(got.Domains) != 2 {
		t.Errorf("got %+v", got)
	}
	if z2 := got.Domains[1]; z2.Name != "z2" || z2.Nodes != 1 || z2.A[0].AfterPercent != 50 || z2.B[0].AfterPercent != 75 || z2.B[2].After.Value() != 3 {
		t.Errorf("zone %+v", z2)
	}
	expectLines(t, lines(between(t, files, "", blind)), "wide-1 OnlyB A Pending  B Scheduled b")
	expectLines(t, lines(between(t, files, blind, "")), "wide-1 OnlyA A Scheduled b B Pending ")
	expectLines(t, lines(between(t, files, "", named)), "web-1 OnlyA A Scheduled a B Ignored ", "wide-1 OtherReason A Pending  B Ignored ")
}

// TestOwned makes the pods pending that a controller would recreate, and does not change
// the given cluster.
func TestOwned(t *testing.T) {
	files, before := compareCluster(t), compareCluster(t)
	again, pods := Owned(files)
	if pods != 1 || !reflect.DeepEqual(files, before) {
		t.Errorf("%d pods are decided about again, want 1; the cluster that was given must stay as it is", pods)
	}
	expectLines(t, lines(between(t, again, "", packing)), "old-1 OtherNode A Scheduled a B Scheduled b", "web-1 OtherNode A Scheduled a B Scheduled b")
}
