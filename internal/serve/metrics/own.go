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
			help: "Work of attempts in units of about a nanosecond, by kind: nodes, counts, devices, victims, placements."},
		{name: "unfinished_turns_total", kind: counter, help: "Attempts that used up their budget of work for one round and continued in a later round."},
		{name: "scheduling_accounts", kind: gauge, labels: by("state"),
			help: "Namespaces with recent expensive attempts: open (recorded), and yielding to others at present."},
		{name: "changes_total", kind: counter, help: "Changes of the cluster that were applied."},
		{name: "hints_total", kind: counter, help: "Calls of queueing hints: whether an event can help a pod that the plugin rejected."},
		{name: "changes_apply_duration_seconds", kind: histogram, buckets: micro(),
			help: "Duration of applying a batch of changes in seconds, with the waking of pods."},
	}
}

func memorySeries() []series {
	return []series{
		{name: "columns", kind: gauge, help: "Cached columns: the results of one plugin on all nodes, for pods with equal needs."},
		{name: "column_bytes", kind: gauge, help: "Memory of columns in bytes."},
		{name: "column_hits_total", kind: counter, help: "Lookups of columns that were cached."},
		{name: "column_fills_total", kind: counter, help: "Columns that were filled from scratch."},
		{name: "rejections", kind: gauge, help: "Cached rejections: one for all pods that are equal in everything that it depends on."},
		{name: "rejection_bytes", kind: gauge, help: "Memory of cached rejections in bytes."},
		{name: "rejection_hits_total", kind: counter, help: "Decisions that were cached rejections."},
		{name: "rankings", kind: gauge, help: "Cached rankings of nodes, each for pods with equal needs, which then need no scan."},
		{name: "ranking_bytes", kind: gauge, help: "Memory of rankings in bytes."},
		{name: "ranking_hits_total", kind: counter, help: "Decisions by a ranking, without a scan of the nodes."},
		{name: "evaluations_total", kind: counter, help: "Evaluations of a node by a plugin, including the filling and updating of columns."},
		{name: "scanned_nodes_total", kind: counter, help: "Nodes that decisions read in columns and tallies."},
		{name: "tallies", kind: gauge, help: "Cached tallies: counts of pods by topology domain."},
		{name: "tally_bytes", kind: gauge, help: "Memory of tallies in bytes."},
		{name: "tally_hits_total", kind: counter, help: "Lookups of tallies that were cached."},
		{name: "tally_fills_total", kind: counter, help: "Tallies that were counted from scratch."},
		{name: "tally_updates_total", kind: counter, help: "Updates of tallies by pods that were added or removed."},
	}
}

func writeSeries() []series {
	return []series{
		{name: "writes_in_flight", kind: gauge, labels: by("kind"), help: "Writes to the API that were sent and not answered: binding, step, eviction, status or event."},
		{name: "writes_total", kind: counter, labels: by("kind", "result"),
			help: "Writes to the API by result, success or error: a binding with all its tries, a single try of a status or an event."},
		{name: "writes_dropped_total", kind: counter, labels: by("kind"),
			help: "Writes to the API, status or event, that were dropped because too many waited."},
		{name: "write_duration_seconds", kind: histogram, labels: by("kind"), buckets: exponential(0.001, 2, 15),
			help: "Duration of a write to the API in seconds: a binding with all its tries, a single try of a status or an event."},
		{name: "pod_creation_to_bind_duration_seconds", kind: histogram, buckets: exponential(0.1, 2, 16),
			help: "Time from a pod's creation, which the API server notes in whole seconds, until it was bound in seconds."},
	}
}

func explainSeries() []series {
	return []series{
		{name: "explain_requests_total", kind: counter, labels: by("code"), help: "Requests to the explain and queue endpoints, by the code of the response."},
		{name: "explain_request_duration_seconds", kind: histogram, buckets: exponential(0.001, 2, 15), help: "Duration in seconds of requests to the explain and queue endpoints."},
		{name: "event_hints_total", kind: counter, labels: by("result"), help: "Rejections of pods by the hint in their event: given, nothing or unknown. Counted with --berth-event-hints only."},
		{name: "event_hint_seconds_total", kind: counter, help: "Time spent on searching hints for events, in seconds."},
		{name: "history_bytes", kind: gauge, help: "Memory of the recorded decisions in bytes."},
		{name: "history_recorded_decisions_total", kind: counter, help: "Decisions whose details were recorded."},
	}
}
