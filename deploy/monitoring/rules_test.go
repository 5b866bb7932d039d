package monitoring

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// rulesFile is generated from the lists below.
const rulesFile = "rules.yaml"

// runbook is the page with a section for each alert.
const runbook = "https://github.com/berth-scheduler/berth/blob/main/docs/operate.md#"

// alert is an alerting rule. JOB in expr is the selector of the scheduler's job.
type alert struct {
	name, expr           string
	wait                 string // before the alert fires; "" for none
	severity             string
	summary, description string
}

// schedulerAlerts read nothing but series that kube-scheduler has, too.
var schedulerAlerts = []alert{
	{"SchedulerDown", `absent(up{JOB} == 1)`, "15m", "critical",
		"No scheduler answers.", "Prometheus has reached no scheduler for 15 minutes. New pods get no node."},
	{"SchedulerInstanceDown", `up{JOB} == 0`, "15m", "warning",
		"A replica of the scheduler does not answer.", "Prometheus has not reached {{ $labels.instance }} for 15 minutes."},
	{"SchedulerNoLeader", `max(leader_election_master_status{JOB}) == 0`, "5m", "critical",
		"No replica of the scheduler leads.", "Schedulers run, and none has held the lease for 5 minutes. New pods get no node."},
	{"SchedulerAttemptsFail", share(`scheduler_schedule_attempts_total{JOB, result="error"}`, `scheduler_schedule_attempts_total{JOB}`), "15m", "warning",
		"Attempts to schedule pods end in errors.", "{{ $value | humanizePercentage }} of the attempts of the last 10 minutes ended in an error. The log and the pods' events name it."},
	{"SchedulerGroupsFail", share(`scheduler_podgroup_schedule_attempts_total{JOB, result="error"}`, `scheduler_podgroup_schedule_attempts_total{JOB}`), "15m", "warning",
		"Attempts to schedule pod groups end in errors.", "{{ $value | humanizePercentage }} of the attempts for pod groups of the last 10 minutes ended in an error. The conditions of the PodGroups name it."},
	{"SchedulerPreemptionsFail", share(`scheduler_preemption_goroutines_execution_total{JOB, result="error"}`, `scheduler_preemption_goroutines_execution_total{JOB}`), "15m", "warning",
		"Pods are not evicted for pods of higher priority.", "{{ $value | humanizePercentage }} of the preemptions of the last 10 minutes failed. Pods of high priority keep waiting."},
	{"SchedulerSlow", `histogram_quantile(0.99, sum by (le) (rate(scheduler_scheduling_attempt_duration_seconds_bucket{JOB, result="scheduled"}[10m]))) > 1`, "15m", "warning",
		"Scheduling a pod takes long.", "One attempt in a hundred takes {{ $value | humanizeDuration }} or more from the pod's turn until it is bound."},
	{"SchedulerBacklog", `sum(scheduler_pending_pods{JOB, queue="active"}) > 100`, "15m", "warning",
		"Pods wait for the scheduler itself.", "{{ $value }} pods are ready to be scheduled, and it has been more than 100 for 15 minutes: the scheduler does not keep up."},
	{"SchedulerPodsUnschedulable", `sum(scheduler_pending_pods{JOB, queue="unschedulable"}) > 0`, "1h", "info",
		"Pods wait for room.", "{{ $value }} pods have no feasible node, and for an hour there has always been one or another without. scheduler_unschedulable_pods shows the plugins."},
	{"SchedulerRequestsFail", perReplica(`rest_client_requests_total{JOB, code=~"5..|<error>"}`, `rest_client_requests_total{JOB}`), "15m", "warning",
		"The API server does not serve the scheduler.", "{{ $value | humanizePercentage }} of the requests of {{ $labels.instance }} failed in the last 10 minutes."},
}

// berthAlerts read Berth's own series.
var berthAlerts = []alert{
	{"BerthBindingsFail", share(`berth_writes_total{JOB, kind="binding", result="error"}`, `berth_writes_total{JOB, kind="binding"}`), "15m", "warning",
		"Bindings fail.", "{{ $value | humanizePercentage }} of the bindings of the last 10 minutes were refused or lost. Often the reason is an admission plugin, or another scheduler of the same pods."},
	{"BerthLoopBusy", `sum by (instance) (rate(berth_decision_phase_duration_seconds_sum{JOB}[10m]))
+ sum by (instance) (rate(berth_changes_apply_duration_seconds_sum{JOB}[10m])) > 0.9`, "15m", "warning",
		"The scheduler's loop has no time left.", "{{ $labels.instance }} spends {{ $value | humanizePercentage }} of the time on decisions and changes. Pods may begin to wait for their turn."},
	{"BerthWritesDropped", `sum by (instance, kind) (increase(berth_writes_dropped_total{JOB}[10m])) > 0`, "", "warning",
		"Events or conditions of pods were dropped.", "{{ $labels.instance }} dropped {{ $value | humanize }} writes of kind {{ $labels.kind }} in the last 10 minutes, because 100,000 others waited. Pods are bound nevertheless."},
	// The shadow's job has a name of its own.
	{"BerthShadowContradicts", `sum(increase(berth_shadow_bindings_total{verdict=~"contradict|failed"}[1h])) > 0`, "", "info",
		"The shadow contradicts a binding of the other scheduler.", "{{ $value | humanize }} bindings of the last hour went to nodes that are infeasible for Berth, or Berth's decision failed."},
}

// withoutAlert are series that count failures, or have a label for results, and have no
// alert, with the reason.
var withoutAlert = map[string]string{
	"scheduler_framework_extension_point_duration_seconds":    "failures are attempts that fail",
	"scheduler_plugin_execution_duration_seconds":             "failures are attempts that fail",
	"scheduler_volume_scheduling_stage_error_total":           "failures are attempts that fail",
	"scheduler_dra_bindingconditions_allocations_total":       "failures are attempts that fail",
	"scheduler_dra_bindingconditions_wait_duration_seconds":   "failures are attempts that fail",
	"dynamic_resource_allocation_resourceclaim_creates_total": "failures are attempts that fail",
	"scheduler_podgroup_scheduling_attempt_duration_seconds":  "failures are counted in attempts of pod groups",
	"scheduler_permit_wait_duration_seconds":                  "a plugin may reject pods",
	"scheduler_preemption_execution_duration_seconds":         "failures are counted in preemptions",
	"berth_shadow_lesser_points_max":                          "the node was feasible",
	"scheduler_workload_preemption_attempts_total":            "a search may find nothing",
	"scheduler_placement_evaluations_total":                   "a domain may have no room",
	"scheduler_placement_evaluation_duration_seconds":         "a domain may have no room",
	"berth_explain_requests_total":                            "answers to users",
	"berth_event_hints_total":                                 "answers to users",
	"berth_shadow_lesser_points_total":                        "the node was feasible",
	"berth_shadow_open_disagreements":                         "may still turn out to be races",
}

// share is the condition that more than one in twenty of all counts is a failure.
func share(failures, all string) string {
	return fmt.Sprintf("sum(rate(%s[10m]))\n/ sum(rate(%s[10m])) > 0.05", failures, all)
}

// perReplica is share for each replica.
func perReplica(failures, all string) string {
	return fmt.Sprintf("sum by (instance) (rate(%s[10m]))\n/ sum by (instance) (rate(%s[10m])) > 0.05", failures, all)
}

// quantiles are the histograms whose quantiles are recorded, with a label to drop.
var quantiles = []struct{ series, drops string }{
	{"scheduler_scheduling_attempt_duration_seconds", ""},
	{"scheduler_scheduling_algorithm_duration_seconds", ""},
	{"scheduler_pod_scheduling_sli_duration_seconds", "attempts"},
}

// The SLI is the time from when a pod can be scheduled until it is bound. within5s is the
// bound of its histogram's buckets that is next to 5 s.
const (
	sli      = "scheduler_pod_scheduling_sli_duration_seconds"
	within5s = "5.12"
)

// generatedRules returns the file of all rules.
func generatedRules() []byte {
	const job = `job="kube-scheduler"`
	var to strings.Builder
	line := func(indent int, format string, args ...any) {
		for text := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
			to.WriteString(strings.Repeat(" ", indent) + strings.ReplaceAll(text, "JOB", job) + "\n")
		}
	}
	expr := func(text string) {
		line(8, "expr: |-")
		line(10, "%s", text)
	}
	alerts := func(group string, all []alert) {
		line(2, "- name: %s\n  rules:", group)
		for _, a := range all {
			line(6, "- alert: %s", a.name)
			expr(a.expr)
			if a.wait != "" {
				line(8, "for: %s", a.wait)
			}
			line(8, "labels: {severity: %s}\nannotations:", a.severity)
			line(10, "runbook_url: %s%s\nsummary: %q\ndescription: %q", runbook, strings.ToLower(a.name), a.summary, a.description)
		}
	}
	line(0, `# Generated by go test -run TestRules -write . in deploy/monitoring: recording and alerting rules, for
# Prometheus' rule_files or as the spec of a PrometheusRule. The groups kube-scheduler.* read nothing
# but series that kube-scheduler has, too. The job is kube-scheduler, as after a swap of the image.
groups:
  - name: kube-scheduler.rules
    rules:`)
	for _, q := range quantiles {
		for _, quantile := range []string{"0.99", "0.9", "0.5"} {
			dropped := strings.Join(slices.DeleteFunc([]string{"instance", "pod", q.drops}, func(label string) bool { return label == "" }), ", ")
			line(6, "- record: scheduler_quantile:%s:histogram_quantile", q.series)
			expr(fmt.Sprintf("histogram_quantile(%s, sum without (%s) (rate(%s_bucket{JOB}[5m])))", quantile, dropped, q.series))
			line(8, "labels: {quantile: %q}", quantile)
		}
	}
	for _, window := range []string{"5m", "1h"} {
		line(6, "- record: scheduler:%s:within_5s_ratio_rate%s", sli, window)
		expr(fmt.Sprintf("sum(rate(%s_bucket{JOB, le=%q}[%s]))\n/ sum(rate(%s_count{JOB}[%s]))", sli, within5s, window, sli, window))
	}
	alerts("kube-scheduler.alerts", schedulerAlerts)
	alerts("berth.alerts", berthAlerts)
	return []byte(to.String())
}

// TestRules compares the file with the lists.
func TestRules(t *testing.T) {
	want := generatedRules()
	if *write {
		if err := os.WriteFile(rulesFile, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(rulesFile)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date (%v): run go test -run %s -write . in deploy/monitoring, and make charts", rulesFile, err, t.Name())
	}
	for _, a := range schedulerAlerts {
		if strings.Contains(a.expr, "berth_") || !strings.HasPrefix(a.name, "Scheduler") {
			t.Errorf("%s reads a series that kube-scheduler lacks, or its name says so", a.name)
		}
	}
}

// failuresHaveAlerts expects an alert, or the reason for none, for each series that
// counts failures: by its name, or by a label.
func failuresHaveAlerts(t *testing.T, listed map[string]*dto.MetricFamily) {
	t.Helper()
	reasons := map[string]string{}
	for name, reason := range withoutAlert {
		reasons[name] = reason
	}
	counted := 0
	for name, family := range listed {
		counts := slices.ContainsFunc([]string{"error", "dropped", "contradict", "disagree", "lesser"}, func(word string) bool { return strings.Contains(name, word) })
		for label := range labelsOf(family) {
			counts = counts || slices.Contains([]string{"result", "status", "verdict", "code"}, label)
		}
		if !counts {
			continue
		}
		counted++
		alerted := slices.ContainsFunc(slices.Concat(schedulerAlerts, berthAlerts), func(a alert) bool { return shows(a.expr, name) })
		switch _, reasoned := reasons[name]; {
		case alerted == reasoned:
			t.Errorf("%s counts failures: alert: %t, reason for no alert: %q", name, alerted, cmp.Or(reasons[name], "none"))
		case reasoned:
			delete(reasons, name)
		}
	}
	for name := range reasons {
		t.Errorf("%s needs no reason for having no alert", name)
	}
	if counted < 15 {
		t.Errorf("%d series count failures: the test overlooks some", counted)
	}
}
