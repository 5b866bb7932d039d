package metrics

import "k8s.io/component-base/metrics"

const berthPrefix = "berth_"

// berthSeries are Berth's own series. All are alpha: they may change with the
// implementation.
func berthSeries() []series {
	all := append(decisionSeries(), memorySeries()...)
	all = append(all, writeSeries()...)
	all = append(all, explainSeries()...)
	for i := range all {
		all[i].stability = metrics.ALPHA
	}
	return all
}

// micro are buckets for microseconds: 1 µs to 131 ms.
func micro() []float64 { return exponential(0.000_001, 2, 18) }

func decisionSeries() []series {
	return []series{
		{name: "build_info", kind: gauge, labels: by("version"), help: "1, with the version of Berth that runs."},
		{name: "decision_phase_duration_seconds", kind: histogram, labels: by("phase"), buckets: micro(),
			help: "Duration of one phase of a decision in seconds: pop, prefilter, filter, score, record, settle."},
		{name: "scheduling_work_units_total", kind: counter, labels: by("kind"),
			help: "Work of turns in units of about a nanosecond, by its kind: nodes, counts, devices, victims, placements."},
		{name: "unfinished_turns_total", kind: counter, help: "How often a turn used up its budget of work for one round and went on in a later one."},
		{name: "scheduling_accounts", kind: gauge, labels: by("state"),
			help: "Namespaces whose turns were expensive lately: open, and those of them that yield to others now."},
		{name: "changes_total", kind: counter, help: "Changes of the cluster that were taken in."},
		{name: "hints_total", kind: counter, help: "How often a plugin was asked whether an event can help a pod that it rejected."},
		{name: "changes_apply_duration_seconds", kind: histogram, buckets: micro(),
			help: "Duration of taking in a batch of changes in seconds, the waking of pods included."},
	}
}

func memorySeries() []series {
	return []series{
		{name: "columns", kind: gauge, help: "Columns that are kept: one plugin's answers about all nodes for pods with equal needs."},
		{name: "column_bytes", kind: gauge, help: "Memory that columns take, in bytes."},
		{name: "column_hits_total", kind: counter, help: "How often a decision found the column that it needed."},
		{name: "column_fills_total", kind: counter, help: "How often a decision had to fill a column from nothing."},
		{name: "rejections", kind: gauge, help: "Rejections that are remembered: one for all pods that differ in nothing that it depends on."},
		{name: "rejection_bytes", kind: gauge, help: "Memory that remembered rejections take, in bytes."},
		{name: "rejection_hits_total", kind: counter, help: "How many decisions were remembered rejections."},
		{name: "rankings", kind: gauge, help: "Tables of ranked nodes that are kept: one for pods that recur, instead of a scan for each."},
		{name: "ranking_bytes", kind: gauge, help: "Memory that tables of ranked nodes take, in bytes."},
		{name: "ranking_hits_total", kind: counter, help: "How many decisions were made by a table of ranked nodes, without a scan."},
		{name: "evaluations_total", kind: counter, help: "How often a plugin was asked about a node, by filling and by keeping up columns included."},
		{name: "scanned_nodes_total", kind: counter, help: "Nodes that decisions looked at in columns and tallies."},
		{name: "tallies", kind: gauge, help: "Tallies that are kept: counts of pods by topology domain."},
		{name: "tally_bytes", kind: gauge, help: "Memory that tallies take, in bytes."},
		{name: "tally_hits_total", kind: counter, help: "How often a tally that was asked for was there."},
		{name: "tally_fills_total", kind: counter, help: "How often a tally had to be counted from nothing."},
		{name: "tally_updates_total", kind: counter, help: "How often a pod's coming or going was written into a tally."},
	}
}

func writeSeries() []series {
	return []series{
		{name: "writes_in_flight", kind: gauge, labels: by("kind"), help: "Writes to the API that were sent and not answered: binding, step, eviction, status or event."},
		{name: "writes_total", kind: counter, labels: by("kind", "result"),
			help: "Writes to the API by how they ended, success or error: a binding with all its tries, one try at a status or an event."},
		{name: "writes_dropped_total", kind: counter, labels: by("kind"),
			help: "Writes to the API, status or event, that were dropped because too many waited."},
		{name: "write_duration_seconds", kind: histogram, labels: by("kind"), buckets: exponential(0.001, 2, 15),
			help: "Duration of a write to the API in seconds: of a binding with all its tries, of one try at a status or an event."},
		{name: "pod_creation_to_bind_duration_seconds", kind: histogram, buckets: exponential(0.1, 2, 16),
			help: "Time from a pod's creation, which the API server notes in whole seconds, until it was bound in seconds."},
	}
}

func explainSeries() []series {
	return []series{
		{name: "explain_requests_total", kind: counter, labels: by("code"), help: "Questions about pods by the code of the response."},
		{name: "explain_request_duration_seconds", kind: histogram, buckets: exponential(0.001, 2, 15), help: "Duration of a question about a pod in seconds."},
		{name: "event_hints_total", kind: counter, labels: by("result"), help: "Rejections of pods by what their events say would help: given, nothing or unknown; without --berth-event-hints there are none."},
		{name: "event_hint_seconds_total", kind: counter, help: "Time spent on looking for what events say would help, in seconds."},
		{name: "history_bytes", kind: gauge, help: "Memory that the last decisions take, in bytes."},
		{name: "history_recorded_decisions_total", kind: counter, help: "Decisions whose details were recorded."},
	}
}
