package metrics_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	componentmetrics "k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/serve/metrics"
)

// simulated is a simulation with an observed loop.
func simulated(t testing.TB) (*simulate.Cluster, *metrics.Metrics, componentmetrics.KubeRegistry) {
	t.Helper()
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	m, registry := build(t, time.Now)
	c, err := simulate.New(simulate.Config{Scheduler: scheduler, Observers: []loop.Observer{m.Loop}, OnPhase: m.Loop.Enter})
	if err != nil {
		t.Fatal(err)
	}
	return c, m, registry
}

func settle(t testing.TB, c *simulate.Cluster) {
	t.Helper()
	if err := c.Settle(nil); err != nil {
		t.Fatal(err)
	}
}

// TestLoop runs the real loop in virtual time: two pods fit, two do not, one has a
// scheduling gate. Then a node is uncordoned, and at the end the time limit of parked
// pods retries them.
func TestLoop(t *testing.T) {
	c, _, registry := simulated(t)
	cordoned := func(n *v1.Node) { n.Spec.Unschedulable = true }
	c.SetNode(node("a", "2"))
	c.SetNode(node("b", "2", cordoned))
	c.SetNode(node("c", "0"))
	for _, p := range []*v1.Pod{
		pod("one", "1"), pod("two", "1"), pod("large", "2"), pod("larger", "9"),
		pod("gated", "1", func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}} }),
		pod("foreign", "1", func(p *v1.Pod) { p.Spec.SchedulerName = "another" }),
	} {
		c.SetPod(p)
	}
	settle(t, c)
	scrape(t, registry).expect(t, `
		scheduler_schedule_attempts_total{profile=default-scheduler,result=unschedulable} 2
		scheduler_schedule_attempts_total{profile=default-scheduler,result=error} 0
		scheduler_scheduling_attempt_duration_seconds{profile=default-scheduler,result=unschedulable} 2
		scheduler_scheduling_algorithm_duration_seconds 4
		scheduler_pending_pods{queue=active} 0
		scheduler_pending_pods{queue=backoff} 0
		scheduler_pending_pods{queue=unschedulable} 2
		scheduler_pending_pods{queue=gated} 1
		scheduler_queued_entities{queue=unschedulable,type=pod} 2
		scheduler_queue_incoming_pods_total{event=UnscheduledPodAdd,queue=active} 4
		scheduler_queue_incoming_pods_total{event=UnscheduledPodAdd,queue=unschedulable} 1
		scheduler_queue_incoming_pods_total{event=ScheduleAttemptFailure,queue=unschedulable} 2
		scheduler_queue_incoming_entities_total{event=UnscheduledPodAdd,queue=active,type=pod} 4
		scheduler_unschedulable_pods{plugin=NodeResourcesFit,profile=default-scheduler} 2
		scheduler_unschedulable_pods{plugin=NodeUnschedulable,profile=default-scheduler} 2
		scheduler_unschedulable_pods{plugin=SchedulingGates,profile=default-scheduler} 1
		scheduler_framework_extension_point_duration_seconds{extension_point=PreFilter,profile=default-scheduler,status=Success} 4
		scheduler_framework_extension_point_duration_seconds{extension_point=Filter,profile=default-scheduler,status=Success} 4
		scheduler_cache_size{type=nodes} 3
		scheduler_cache_size{type=pods} 2
		scheduler_cache_size{type=assumed_pods} 0
		scheduler_event_handling_duration_seconds{event=NodeAdd} 3
		scheduler_event_handling_duration_seconds{event=UnscheduledPodAdd} 5
		scheduler_event_handling_duration_seconds{event=UnscheduledPodUpdate} 2
		scheduler_inflight_events{event=PodPopped} 0
		scheduler_pending_pods{queue=incomplete} 0
		scheduler_goroutines{operation=Filter} 0
		scheduler_preemption_attempts_total 2
		berth_decision_phase_duration_seconds{phase=pop} 4
		berth_decision_phase_duration_seconds{phase=prefilter} 4
		berth_decision_phase_duration_seconds{phase=filter} 4
		berth_decision_phase_duration_seconds{phase=settle} 4
		berth_build_info{version=v0.1.0} 1
	`)
	c.SetNode(node("b", "2"))
	settle(t, c)
	after := scrape(t, registry)
	after.expect(t, `
		scheduler_queue_incoming_pods_total{event=NodeUpdateNodeTaint,queue=backoff} 2
		scheduler_queue_incoming_pods_total{event=PopFromBackoffQ,queue=active} 2
		scheduler_event_handling_duration_seconds{event=NodeUpdateNodeTaint} 1
		scheduler_pending_pods{queue=unschedulable} 1
		scheduler_unschedulable_pods{plugin=NodeResourcesFit,profile=default-scheduler} 1
		scheduler_cache_size{type=pods} 3
	`)
	if after["berth_hints_total"] == 0 {
		t.Error("nobody was asked whether the node helps")
	}
	if asked := after["scheduler_plugin_evaluation_total{extension_point=Filter,plugin=NodeResourcesFit,profile=default-scheduler}"]; asked < 3 {
		t.Errorf("NodeResourcesFit was asked about %v nodes as a filter, want one at least for each", asked)
	}
	if after["berth_columns"] == 0 || after["berth_column_bytes"] == 0 || after["berth_column_fills_total"] == 0 || after["berth_column_hits_total"] == 0 {
		t.Errorf("columns %v of %v bytes, filled %v and found %v times", after["berth_columns"], after["berth_column_bytes"],
			after["berth_column_fills_total"], after["berth_column_hits_total"])
	}
	if err := c.AdvanceTo(c.Now().Add(10*time.Minute), nil); err != nil {
		t.Fatal(err)
	}
	after = scrape(t, registry)
	after.expect(t, `
		scheduler_queue_incoming_pods_total{event=UnschedulableTimeout,queue=active} 1
		scheduler_schedule_attempts_total{profile=default-scheduler,result=unschedulable} 4
		berth_rejection_hits_total 1
	`)
	if after["berth_rejections"] == 0 || after["berth_rejection_bytes"] == 0 {
		t.Errorf("%v remembered rejections take %v bytes", after["berth_rejections"], after["berth_rejection_bytes"])
	}
}

// TestTallies expects pods with spread constraints to appear in the series about tallies.
func TestTallies(t *testing.T) {
	c, _, registry := simulated(t)
	for _, name := range []string{"a", "b"} {
		c.SetNode(node(name, "4"))
	}
	for _, name := range []string{"one", "two", "three"} {
		c.SetPod(pod(name, "1", func(p *v1.Pod) {
			p.Labels = map[string]string{"app": "web"}
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, v1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: selecting("app", "web"),
			})
		}))
	}
	settle(t, c)
	got := scrape(t, registry)
	got.expect(t, `
		berth_tallies 1
		berth_tally_fills_total 1
		scheduler_framework_extension_point_duration_seconds{extension_point=Score,profile=default-scheduler,status=Success} 2
	`)
	if got["berth_tally_bytes"] == 0 || got["berth_tally_updates_total"] < 3 || got["berth_tally_hits_total"] == 0 {
		t.Errorf("tallies take %v bytes, were updated %v times and found %v times", got["berth_tally_bytes"], got["berth_tally_updates_total"], got["berth_tally_hits_total"])
	}
}

// TestRankings expects equal pods to appear in the series about rankings.
func TestRankings(t *testing.T) {
	c, _, registry := simulated(t)
	for _, name := range []string{"a", "b", "c"} {
		c.SetNode(node(name, "40"))
	}
	for i := range 20 {
		c.SetPod(pod(fmt.Sprint("pod-", i), "1"))
	}
	settle(t, c)
	got := scrape(t, registry)
	got.expect(t, "berth_rankings 1")
	if got["berth_ranking_bytes"] == 0 || got["berth_ranking_hits_total"] < 10 {
		t.Errorf("tables take %v bytes and decided %v times", got["berth_ranking_bytes"], got["berth_ranking_hits_total"])
	}
}

// TestReset resets the registry, as DELETE /metrics does, and expects that counting
// starts again from 0.
func TestReset(t *testing.T) {
	c, _, registry := simulated(t)
	c.SetNode(node("a", "1"))
	c.SetPod(pod("large", "2"))
	settle(t, c)
	registry.Reset()
	if got := scrape(t, registry); got["scheduler_schedule_attempts_total{profile=default-scheduler,result=unschedulable}"] != 0 {
		t.Error("a reset left an attempt behind")
	}
	c.DeletePod(model.PodKey{Namespace: "default", Name: "large"})
	c.SetPod(pod("larger", "3"))
	settle(t, c)
	scrape(t, registry).expect(t, `
		scheduler_schedule_attempts_total{profile=default-scheduler,result=unschedulable} 1
		scheduler_pending_pods{queue=unschedulable} 1
		scheduler_unschedulable_pods{plugin=NodeResourcesFit,profile=default-scheduler} 1
		scheduler_queue_incoming_pods_total{event=UnscheduledPodAdd,queue=active} 1
		scheduler_cache_size{type=nodes} 1
		berth_build_info{version=v0.1.0} 1
	`)
}

// TestEmptyCluster expects a pod in a cluster without nodes to count as unschedulable, as
// in kube-scheduler.
func TestEmptyCluster(t *testing.T) {
	c, _, registry := simulated(t)
	c.SetPod(pod("early", "1"))
	settle(t, c)
	scrape(t, registry).expect(t, `
		scheduler_schedule_attempts_total{profile=default-scheduler,result=unschedulable} 1
		scheduler_queue_incoming_pods_total{event=ScheduleAttemptFailure,queue=backoff} 1
		scheduler_pending_pods{queue=backoff} 1
	`)
}

// TestPreemption has one pod that preempts, one that may not, and one for which
// preemption does not help. A pod that names a missing claim is rejected at PreFilter:
// DynamicResources fails at PostFilter, and no preemption is attempted.
func TestPreemption(t *testing.T) {
	c, _, registry := simulated(t)
	c.SetNode(node("a", "2"))
	priority, never := int32(10), v1.PreemptNever
	for _, name := range []string{"low", "low-too"} {
		c.SetPod(pod(name, "1", func(p *v1.Pod) { p.Spec.NodeName = "a" }))
	}
	settle(t, c)
	high := func(p *v1.Pod) { p.Spec.Priority = &priority }
	c.SetPod(pod("high", "2", high))
	settle(t, c)
	c.SetPod(pod("modest", "1", high, func(p *v1.Pod) { p.Spec.PreemptionPolicy = &never }))
	c.SetPod(pod("larger", "9", high))
	c.SetPod(pod("claims", "1", high, func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "missing"}}}}
	}))
	settle(t, c)
	scrape(t, registry).expect(t, `
		scheduler_preemption_attempts_total 3
		scheduler_preemption_victims 1
		scheduler_framework_extension_point_duration_seconds{extension_point=PreFilter,profile=default-scheduler,status=Success} 3
		scheduler_framework_extension_point_duration_seconds{extension_point=PreFilter,profile=default-scheduler,status=UnschedulableAndUnresolvable} 1
		scheduler_framework_extension_point_duration_seconds{extension_point=PostFilter,profile=default-scheduler,status=Success} 1
		scheduler_framework_extension_point_duration_seconds{extension_point=PostFilter,profile=default-scheduler,status=Unschedulable} 2
		scheduler_framework_extension_point_duration_seconds{extension_point=PostFilter,profile=default-scheduler,status=Error} 1
	`)
	if sum := sumOf(t, registry, "scheduler_preemption_victims"); sum != 2 {
		t.Errorf("%v victims are counted, want 2", sum)
	}
}
