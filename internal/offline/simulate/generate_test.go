package simulate_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

func scheduler(t testing.TB) *config.Config {
	t.Helper()
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// schedulerWith returns the default configuration with feature gates.
func schedulerWith(t testing.TB, on map[string]bool) *config.Config {
	t.Helper()
	gates, err := feature.With(on)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Read(config.Request{Gates: gates})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestGenerate generates a cluster twice and schedules it. All pods are placed as their
// constraints demand, and no object is read twice.
func TestGenerate(t *testing.T) {
	size := simulate.Size{Nodes: 60, Zones: 3, Pods: 1000, Running: 300, Apps: 20}
	cluster := size.Generate()
	if len(cluster.Nodes) != 60 || len(cluster.Pods) != 1300 {
		t.Fatalf("%d nodes, %d pods", len(cluster.Nodes), len(cluster.Pods))
	}
	names, running, demands := map[string]bool{}, 0, map[string]int{}
	for _, pod := range cluster.Pods {
		names[pod.Name] = true
		if pod.Spec.NodeName != "" {
			running++
		}
		switch a := pod.Spec.Affinity; {
		case a != nil && a.PodAffinity != nil:
			demands["affinity"]++
		case a != nil:
			demands["anti-affinity"]++
		case len(pod.Spec.TopologySpreadConstraints) > 0:
			demands[string(pod.Spec.TopologySpreadConstraints[0].WhenUnsatisfiable)]++
		}
	}
	if len(names) != 1300 || running != 300 || fmt.Sprint(demands) != "map[DoNotSchedule:130 ScheduleAnyway:130 affinity:130 anti-affinity:130]" {
		t.Errorf("%d names, %d running, %v", len(names), running, demands)
	}
	if again := size.Generate(); again.Pods[700].Name != cluster.Pods[700].Name || again.Nodes[7].Name != cluster.Nodes[7].Name {
		t.Error("the same size makes another cluster")
	}
	result, err := simulate.Run(simulate.Config{Scheduler: scheduler(t)}, cluster, nil)
	if err != nil {
		t.Fatal(err)
	}
	if result.Summary.Placed != 1000 || result.Summary.PodsBefore != 300 {
		t.Errorf("%+v", result.Summary)
	}
	on := map[string]map[string]bool{} // nodes, by application
	for i := range result.Pods {
		p := &result.Pods[i]
		app := p.Pod[:len("app-00000")]
		if on[app] == nil {
			on[app] = map[string]bool{}
		}
		on[app][p.Node] = true
	}
	if len(on["app-00007"]) != 50 {
		t.Errorf("an application of 50 pods on different nodes is on %d", len(on["app-00007"]))
	}
	zones := map[string]bool{}
	for _, node := range cluster.Nodes {
		if on["app-00009"][node.Name] {
			zones[node.Labels[v1.LabelTopologyZone]] = true
		}
	}
	if len(zones) != 1 {
		t.Errorf("an application of one zone is in %v", zones)
	}
}

// BenchmarkGenerated schedules a generated cluster, from the first list to the last
// event, at one virtual instant.
func BenchmarkGenerated(b *testing.B) {
	nodes, pods := build.Sized(5000), build.Sized(100_000)
	b.Run(fmt.Sprintf("nodes=%d/pods=%d", nodes, pods), func(b *testing.B) {
		for range b.N {
			size, err := sizeOf(fmt.Sprintf("nodes=%d,pods=%d", nodes, pods))
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			result, err := simulate.Run(simulate.Config{Scheduler: scheduler(b), Pods: &size}, size.WithoutPods(), nil)
			if err != nil || result.Summary.Placed != pods {
				b.Fatalf("%+v, %v", result, err)
			}
		}
		b.ReportMetric(float64(b.N*pods)/b.Elapsed().Seconds(), "pods/s")
	})
}

// BenchmarkReplicas compiles pods of applications of a hundred, with specs shared in
// memory and with separate specs.
func BenchmarkReplicas(b *testing.B) {
	for _, shared := range []bool{true, false} {
		b.Run(fmt.Sprintf("shared=%t", shared), func(b *testing.B) {
			pods := simulate.Size{Nodes: 1, Zones: 1, Pods: 4000, Apps: 40}.Generate().Pods
			if !shared {
				for i := range pods {
					pods[i] = pods[i].DeepCopy()
				}
			}
			in := ingest.New(scheduler(b).Compile())
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if in.Set(pods[i%len(pods)]); i%len(pods) == len(pods)-1 {
					in.Drain()
				}
			}
		})
	}
}
