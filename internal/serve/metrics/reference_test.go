package metrics

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	"github.com/berth-scheduler/berth/internal/config/feature"
)

// reference are kube-scheduler 1.37's series: name, type, stability, labels, buckets
// (start·factor^n, count), and the feature gate that they need. It was written from
// kube-scheduler's documentation and its /metrics, not from this package's tables.
const reference = `
scheduler_schedule_attempts_total                          counter   STABLE result,profile
scheduler_scheduling_attempt_duration_seconds              histogram STABLE result,profile                       0.001,2,15
scheduler_scheduling_algorithm_duration_seconds            histogram BETA   -                                    0.001,2,15
scheduler_event_handling_duration_seconds                  histogram ALPHA  event                                0.0001,2,12
scheduler_preemption_victims                               histogram STABLE -                                    1,2,7
scheduler_preemption_attempts_total                        counter   STABLE -
scheduler_pending_pods                                     gauge     STABLE queue
scheduler_queued_entities                                  gauge     ALPHA  queue,type
scheduler_inflight_events                                  gauge     ALPHA  event
scheduler_goroutines                                       gauge     BETA   operation
scheduler_pod_scheduling_sli_duration_seconds              histogram BETA   attempts                             0.01,2,20
scheduler_pod_scheduling_attempts                          histogram STABLE -                                    1,2,5
scheduler_pod_scheduled_after_flush_total                  counter   ALPHA  -
scheduler_framework_extension_point_duration_seconds       histogram STABLE extension_point,status,profile       0.0001,2,12
scheduler_plugin_execution_duration_seconds                histogram BETA   plugin,extension_point,status        0.00001,1.5,20
scheduler_plugin_evaluation_total                          counter   BETA   plugin,extension_point,profile
scheduler_queueing_hint_execution_duration_seconds         histogram ALPHA  plugin,event,hint                    0.00001,1.5,20
scheduler_pre_queueing_hint_evaluations_total              counter   ALPHA  plugin,result
scheduler_queue_incoming_pods_total                        counter   STABLE queue,event
scheduler_queue_incoming_entities_total                    counter   ALPHA  queue,event,type
scheduler_unschedulable_pods                               gauge     BETA   plugin,profile
scheduler_permit_wait_duration_seconds                     histogram BETA   result                               0.001,2,15
scheduler_cache_size                                       gauge     ALPHA  type
scheduler_batch_attempts_total                             counter   ALPHA  profile,result
scheduler_batch_cache_flushed_total                        counter   ALPHA  profile,reason
scheduler_batch_rescore_attempts_total                     counter   ALPHA  profile
scheduler_batch_rescore_duration_seconds                   histogram ALPHA  profile                              0.00001,2,12
scheduler_store_schedule_results_duration_seconds          histogram ALPHA  profile                              0.00001,2,12
scheduler_get_node_hint_duration_seconds                   histogram ALPHA  hinted,profile                       0.00001,2,12
scheduler_volume_binder_cache_requests_total               counter   ALPHA  operation
scheduler_volume_scheduling_stage_error_total              counter   ALPHA  operation
scheduler_preemption_goroutines_execution_total            counter   ALPHA  result                               -            SchedulerAsyncPreemption
scheduler_dra_bindingconditions_allocations_total          counter   ALPHA  profile,driver,status                -            DRADeviceBindingConditions
scheduler_dra_bindingconditions_wait_duration_seconds      histogram ALPHA  profile,driver,status                0.1,2,14     DRADeviceBindingConditions
dynamic_resource_allocation_resourceclaim_creates_total    counter   ALPHA  status,admin_access,owner_api_group,owner_api_kind - DRAExtendedResource
scheduler_async_api_call_execution_total                   counter   ALPHA  call_type,result                     -            SchedulerAsyncAPICalls
scheduler_async_api_call_execution_duration_seconds        histogram ALPHA  call_type,result                     0.001,2,15   SchedulerAsyncAPICalls
scheduler_pending_async_api_calls                          gauge     ALPHA  call_type                            -            SchedulerAsyncAPICalls
scheduler_podgroup_schedule_attempts_total                 counter   ALPHA  result,profile                       -            GenericWorkload
scheduler_podgroup_scheduling_attempt_duration_seconds     histogram ALPHA  result,profile                       0.001,2,15   GenericWorkload
scheduler_podgroup_scheduling_algorithm_duration_seconds   histogram ALPHA  -                                    0.001,2,15   GenericWorkload
scheduler_workload_preemption_attempts_total               counter   ALPHA  result                               -            GenericWorkload
scheduler_workload_preemption_victims                      histogram ALPHA  -                                    1,2,11       GenericWorkload
scheduler_preemption_workload_disruptions                  histogram ALPHA  preemptor                            1,2,11       GenericWorkload
scheduler_preemption_evaluation_duration_seconds           histogram ALPHA  preemptor,result                     0.001,2,16   GenericWorkload
scheduler_preemption_execution_duration_seconds            histogram ALPHA  preemptor,result                     0.001,2,16   GenericWorkload
scheduler_preemption_pdb_violations_total                  counter   ALPHA  preemptor                            -            GenericWorkload
scheduler_generated_placements_total                       counter   ALPHA  profile                              -            TopologyAwareWorkloadScheduling
scheduler_placement_evaluations_total                      counter   ALPHA  result,profile                       -            TopologyAwareWorkloadScheduling
scheduler_placement_evaluation_duration_seconds            histogram ALPHA  result,profile                       0.001,2,15   TopologyAwareWorkloadScheduling
`

// registered registers the series in a new registry, and gives each family with labels
// one member.
func registered(t *testing.T, enabled func(string) bool) map[string]*dto.MetricFamily {
	t.Helper()
	registry := testutil.NewFakeKubeRegistry("1.37.0")
	m, err := New(Config{Register: registry.Register, Enabled: enabled, Now: time.Now, Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	f := m.Loop.families
	values := func(labels []string) []string {
		some := make([]string, len(labels))
		for i := range some {
			some[i] = "x"
		}
		return some
	}
	for _, table := range [][]series{schedulerSeries(), claimSeries(), berthSeries()} {
		for _, s := range table {
			for _, prefix := range []string{schedulerPrefix, berthPrefix, ""} {
				if v := f.counterVecs[prefix+s.name]; v != nil {
					v.WithLabelValues(values(s.labels)...).Inc()
				}
				if v := f.gaugeVecs[prefix+s.name]; v != nil {
					v.WithLabelValues(values(s.labels)...).Set(1)
				}
				if v := f.histogramVecs[prefix+s.name]; v != nil {
					v.WithLabelValues(values(s.labels)...).Observe(1)
				}
			}
		}
	}
	return gather(t, registry)
}

func gather(t testing.TB, from metrics.Gatherer) map[string]*dto.MetricFamily {
	t.Helper()
	all, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, family := range all {
		byName[family.GetName()] = family
	}
	return byName
}

// row describes a family in the format of reference.
func row(family *dto.MetricFamily) string {
	stability, _, _ := strings.Cut(strings.TrimPrefix(family.GetHelp(), "["), "]")
	sample := family.GetMetric()[0]
	var names []string
	for _, label := range sample.GetLabel() {
		names = append(names, label.GetName())
	}
	slices.Sort(names)
	var bounds []string
	for _, b := range sample.GetHistogram().GetBucket() {
		bounds = append(bounds, strconv.FormatFloat(b.GetUpperBound(), 'g', 10, 64))
	}
	return fmt.Sprintf("%s %s %s labels %v buckets %v", family.GetName(), strings.ToLower(family.GetType().String()), stability, names, bounds)
}

// expected returns the description in a line of reference, the name, and the feature
// gate.
func expected(t *testing.T, line string) (description, name, gate string) {
	t.Helper()
	fields := append(strings.Fields(line), "-", "-", "-")
	names := []string{}
	if fields[3] != "-" {
		names = strings.Split(fields[3], ",")
		slices.Sort(names)
	}
	bounds := []string{}
	if parts := strings.Split(fields[4], ","); len(parts) == 3 {
		number := func(i int) float64 {
			x, err := strconv.ParseFloat(parts[i], 64)
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		for bound := number(0); len(bounds) < int(number(2)); bound *= number(1) {
			bounds = append(bounds, strconv.FormatFloat(bound, 'g', 10, 64))
		}
	}
	if gate = fields[5]; gate == "-" {
		gate = ""
	}
	return fmt.Sprintf("%s %s %s labels %v buckets %v", fields[0], fields[1], fields[2], names, bounds), fields[0], gate
}

// GateDefaults returns the default of each feature gate.
func GateDefaults(t testing.TB) func(gate string) bool {
	t.Helper()
	gates, err := feature.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	return func(gate string) bool { return gates.Enabled(featuregate.Feature(gate)) }
}

func TestSeriesAreKubeSchedulers(t *testing.T) {
	everything := registered(t, func(string) bool { return true })
	defaults := GateDefaults(t)
	byDefault := registered(t, defaults)
	known := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(reference), "\n") {
		want, name, gate := expected(t, line)
		known[name] = true
		if family := everything[name]; family == nil {
			t.Errorf("%s is not there", name)
		} else if got := row(family); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if _, there := byDefault[name]; there != (gate == "" || defaults(gate)) {
			t.Errorf("%s is there by default: %t", name, there)
		}
	}
	for name := range everything {
		if !known[name] && !strings.HasPrefix(name, berthPrefix) {
			t.Errorf("%s is there, and kube-scheduler has no such series", name)
		}
	}
}

// TestDeprecatedSeriesIsHidden expects that kube-scheduler's one deprecated series is
// hidden, as in its version 1.37.
func TestDeprecatedSeriesIsHidden(t *testing.T) {
	const name = "scheduler_preemption_goroutines_duration_seconds"
	for version, shown := range map[string]bool{"1.36.0": true, "1.37.0": false} {
		registry := testutil.NewFakeKubeRegistry(version)
		m, err := New(Config{Register: registry.Register, Enabled: GateDefaults(t), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		m.Loop.families.histogramVecs[name].WithLabelValues("success").Observe(1)
		if _, there := gather(t, registry)[name]; there != shown {
			t.Errorf("version %s: %s is shown: %t, want %t", version, name, there, shown)
		}
	}
}

func TestLint(t *testing.T) {
	var text strings.Builder
	for _, family := range registered(t, func(string) bool { return true }) {
		if _, err := testutil.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	problems, err := testutil.NewPromLinter(strings.NewReader(text.String())).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p.String())
	}
}

func TestMistakes(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	config := Config{Register: registry.Register, Enabled: GateDefaults(t), Now: time.Now}
	if _, err := New(Config{Register: registry.Register}); err == nil {
		t.Error("built without gates and clock")
	}
	if _, err := New(config); err != nil {
		t.Fatal(err)
	}
	if _, err := New(config); err == nil || !strings.Contains(err.Error(), "scheduler_schedule_attempts_total") {
		t.Errorf("registered twice: %v", err)
	}
}
