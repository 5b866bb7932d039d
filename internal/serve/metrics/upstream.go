package metrics

import "k8s.io/component-base/metrics"

// The tables in this file are kube-scheduler 1.37's series. Names, types, labels, buckets
// and stability are unchanged, since dashboards, alerts and --disabled-metrics use them.
// docs/metrics.md explains their meaning here, and which are always empty.

const schedulerPrefix = "scheduler_"

// schedulerSeries are the series with the prefix scheduler_.
func schedulerSeries() []series {
	var all []series
	for _, some := range [][]series{attemptSeries(), queueSeries(), frameworkSeries(), preemptionSeries(), batchSeries(), apiSeries(), groupSeries()} {
		all = append(all, some...)
	}
	return all
}

func attemptSeries() []series {
	return []series{
		{name: "schedule_attempts_total", kind: counter, stability: metrics.STABLE, labels: by("result", "profile"),
			help: "Attempts to schedule a pod, by result: scheduled, unschedulable (no node is feasible), or error."},
		{name: "scheduling_attempt_duration_seconds", kind: histogram, stability: metrics.STABLE, labels: by("result", "profile"),
			buckets: exponential(0.001, 2, 15), help: "Duration of an attempt to schedule a pod in seconds, the binding included."},
		{name: "scheduling_algorithm_duration_seconds", kind: histogram, stability: metrics.BETA,
			buckets: exponential(0.001, 2, 15), help: "Duration of a decision in seconds: finding the best node, or that there is none."},
		{name: "event_handling_duration_seconds", kind: histogram, stability: metrics.ALPHA, labels: by("event"),
			buckets: exponential(0.0001, 2, 12), help: "Duration of applying one change of the cluster in seconds, by the event that it is to pending pods."},
		{name: "pod_scheduling_sli_duration_seconds", kind: histogram, stability: metrics.BETA, labels: by("attempts"),
			buckets: exponential(0.01, 2, 20), help: "Time from a pod's first being ready to be scheduled until it was bound in seconds, by the number of attempts."},
		{name: "pod_scheduling_attempts", kind: histogram, stability: metrics.STABLE,
			buckets: exponential(1, 2, 5), help: "Attempts that it took to schedule a pod."},
		{name: "pod_scheduled_after_flush_total", kind: counter, stability: metrics.ALPHA,
			help: "Pods that were scheduled when they were retried only because of their long wait, without an event that helps them."},
		{name: "cache_size", kind: gauge, stability: metrics.ALPHA, labels: by("type"),
			help: "Objects in the cache: nodes, pods on nodes, and the assumed pods among them."},
		{name: "goroutines", kind: gauge, stability: metrics.BETA, labels: by("operation"),
			help: "Running goroutines by operation."},
	}
}

func queueSeries() []series {
	return []series{
		{name: "pending_pods", kind: gauge, stability: metrics.STABLE, labels: by("queue"),
			help: "Pending pods by queue: active (ready), backoff, unschedulable (waiting for an event), gated (not to be tried yet)."},
		{name: "queued_entities", kind: gauge, stability: metrics.ALPHA, labels: by("queue", "type"),
			help: "Pending pods and pod groups, by queue."},
		{name: "inflight_events", kind: gauge, stability: metrics.ALPHA, labels: by("event"),
			help: "Events that arrived during attempts. Always 0: in Berth no event arrives during an attempt."},
		{name: "queue_incoming_pods_total", kind: counter, stability: metrics.STABLE, labels: by("queue", "event"),
			help: "Pods that were added to a queue, by the event that moved them."},
		{name: "queue_incoming_entities_total", kind: counter, stability: metrics.ALPHA, labels: by("queue", "event", "type"),
			help: "Pods and pod groups that were added to a queue, by the event that moved them."},
		{name: "unschedulable_pods", kind: gauge, stability: metrics.BETA, labels: by("plugin", "profile"),
			help: "Unschedulable pods by plugin. A pod that several plugins rejected counts for each."},
		{name: "queueing_hint_execution_duration_seconds", kind: histogram, stability: metrics.ALPHA, labels: by("plugin", "event", "hint"),
			buckets: exponential(0.00001, 1.5, 20), help: "Duration of a queueing hint in seconds: whether an event can help a pod."},
		{name: "pre_queueing_hint_evaluations_total", kind: counter, stability: metrics.ALPHA, labels: by("plugin", "result"),
			help: "Calls of hints that select the pods that an event can concern, by their effect."},
	}
}

func frameworkSeries() []series {
	return []series{
		{name: "framework_extension_point_duration_seconds", kind: histogram, stability: metrics.STABLE,
			labels: by("extension_point", "status", "profile"), buckets: exponential(0.0001, 2, 12),
			help: "Duration of all plugins of an extension point for one pod in seconds."},
		{name: "plugin_execution_duration_seconds", kind: histogram, stability: metrics.BETA,
			labels: by("plugin", "extension_point", "status"), buckets: exponential(0.00001, 1.5, 20),
			help: "Duration of one plugin at one extension point in seconds."},
		{name: "plugin_evaluation_total", kind: counter, stability: metrics.BETA, labels: by("plugin", "extension_point", "profile"),
			help: "Evaluations of a node by a plugin. Cached results do not count."},
		{name: "permit_wait_duration_seconds", kind: histogram, stability: metrics.BETA, labels: by("result"),
			buckets: exponential(0.001, 2, 15), help: "Time that pods waited at Permit in seconds."},
	}
}

func preemptionSeries() []series {
	return []series{
		{name: "preemption_victims", kind: histogram, stability: metrics.STABLE,
			buckets: exponential(1, 2, 7), help: "Pods that one preemption evicted."},
		{name: "preemption_attempts_total", kind: counter, stability: metrics.STABLE, help: "Attempts to preempt pods."},
		{name: "preemption_goroutines_execution_total", kind: counter, stability: metrics.ALPHA, labels: by("result"),
			gate: asyncPreemption, help: "Preemptions executed asynchronously, by result."},
		{name: "preemption_goroutines_duration_seconds", kind: histogram, stability: metrics.ALPHA, labels: by("result"),
			gate: asyncPreemption, deprecated: "1.37.0", buckets: exponential(0.01, 2, 20),
			help: "Duration of carrying out a preemption in seconds."},
		{name: "workload_preemption_attempts_total", kind: counter, stability: metrics.ALPHA, labels: by("result"),
			gate: genericWorkload, help: "Attempts to preempt pods for a pod group, by result."},
		{name: "workload_preemption_victims", kind: histogram, stability: metrics.ALPHA,
			gate: genericWorkload, buckets: exponential(1, 2, 11), help: "Pods that one preemption for a group of pods evicted."},
		{name: "preemption_workload_disruptions", kind: histogram, stability: metrics.ALPHA, labels: by("preemptor"),
			gate: genericWorkload, buckets: exponential(1, 2, 11), help: "Groups of pods that one preemption disrupted."},
		{name: "preemption_evaluation_duration_seconds", kind: histogram, stability: metrics.ALPHA, labels: by("preemptor", "result"),
			gate: genericWorkload, buckets: exponential(0.001, 2, 16), help: "Duration of the search for victims in seconds."},
		{name: "preemption_execution_duration_seconds", kind: histogram, stability: metrics.ALPHA, labels: by("preemptor", "result"),
			gate: genericWorkload, buckets: exponential(0.001, 2, 16), help: "Duration of carrying out a preemption in seconds."},
		{name: "preemption_pdb_violations_total", kind: counter, stability: metrics.ALPHA, labels: by("preemptor"),
			gate: genericWorkload, help: "Pods that were preempted in violation of a PodDisruptionBudget."},
	}
}

func batchSeries() []series {
	return []series{
		{name: "batch_attempts_total", kind: counter, stability: metrics.ALPHA, labels: by("profile", "result"),
			help: "Decisions by whether they took over the candidates of the one before."},
		{name: "batch_cache_flushed_total", kind: counter, stability: metrics.ALPHA, labels: by("profile", "reason"),
			help: "How often the candidates of a decision were thrown away, by reason."},
		{name: "batch_rescore_attempts_total", kind: counter, stability: metrics.ALPHA, labels: by("profile"),
			help: "How often the node that was chosen last was scored again among the candidates."},
		{name: "batch_rescore_duration_seconds", kind: histogram, stability: metrics.ALPHA, labels: by("profile"),
			buckets: exponential(0.00001, 2, 12), help: "Duration of scoring the node that was chosen last again in seconds."},
		{name: "get_node_hint_duration_seconds", kind: histogram, stability: metrics.ALPHA, labels: by("hinted", "profile"),
			buckets: exponential(0.00001, 2, 12), help: "Duration of looking for a candidate of the decision before in seconds."},
		{name: "store_schedule_results_duration_seconds", kind: histogram, stability: metrics.ALPHA, labels: by("profile"),
			buckets: exponential(0.00001, 2, 12), help: "Duration of keeping the candidates of a decision in seconds."},
	}
}

func apiSeries() []series {
	return []series{
		{name: "volume_binder_cache_requests_total", kind: counter, stability: metrics.ALPHA, labels: by("operation"),
			help: "Requests to the cache of volumes that are to be bound."},
		{name: "volume_scheduling_stage_error_total", kind: counter, stability: metrics.ALPHA, labels: by("operation"),
			help: "Errors in scheduling volumes, by stage."},
		{name: "dra_bindingconditions_allocations_total", kind: counter, stability: metrics.ALPHA, labels: by("profile", "driver", "status"),
			gate: bindingConditions, help: "Device allocations with conditions on their binding, by how they ended."},
		{name: "dra_bindingconditions_wait_duration_seconds", kind: histogram, stability: metrics.ALPHA, labels: by("profile", "driver", "status"),
			gate: bindingConditions, buckets: exponential(0.1, 2, 14), help: "Time that bindings waited for the conditions of their devices in seconds."},
		{name: "async_api_call_execution_total", kind: counter, stability: metrics.ALPHA, labels: by("call_type", "result"),
			gate: asyncAPICalls, help: "Asynchronous API calls by result."},
		{name: "async_api_call_execution_duration_seconds", kind: histogram, stability: metrics.ALPHA, labels: by("call_type", "result"),
			gate: asyncAPICalls, buckets: exponential(0.001, 2, 15), help: "Duration of asynchronous API calls in seconds."},
		{name: "pending_async_api_calls", kind: gauge, stability: metrics.ALPHA, labels: by("call_type"),
			gate: asyncAPICalls, help: "Pending asynchronous API calls."},
	}
}

func groupSeries() []series {
	return []series{
		{name: "podgroup_schedule_attempts_total", kind: counter, stability: metrics.ALPHA, labels: by("result", "profile"),
			gate: genericWorkload, help: "Attempts to schedule a group of pods, by result."},
		{name: "podgroup_scheduling_attempt_duration_seconds", kind: histogram, stability: metrics.ALPHA, labels: by("result", "profile"),
			gate: genericWorkload, buckets: exponential(0.001, 2, 15), help: "Duration of an attempt to schedule a group of pods in seconds."},
		{name: "podgroup_scheduling_algorithm_duration_seconds", kind: histogram, stability: metrics.ALPHA,
			gate: genericWorkload, buckets: exponential(0.001, 2, 15), help: "Duration of a decision about a group of pods in seconds."},
		{name: "generated_placements_total", kind: counter, stability: metrics.ALPHA, labels: by("profile"),
			gate: topologyAware, help: "Placements of groups of pods that were considered."},
		{name: "placement_evaluations_total", kind: counter, stability: metrics.ALPHA, labels: by("result", "profile"),
			gate: topologyAware, help: "Placements of groups of pods that were judged, by result."},
		{name: "placement_evaluation_duration_seconds", kind: histogram, stability: metrics.ALPHA, labels: by("result", "profile"),
			gate: topologyAware, buckets: exponential(0.001, 2, 15), help: "Duration of judging a placement of a group of pods in seconds."},
	}
}

// claimSeries is the series that kube-scheduler shares with kube-controller-manager.
func claimSeries() []series {
	return []series{
		{name: "dynamic_resource_allocation_resourceclaim_creates_total", kind: counter, stability: metrics.ALPHA,
			labels: by("status", "admin_access", "owner_api_group", "owner_api_kind"), gate: extendedResource,
			help: "Requests to create ResourceClaims, by result."},
	}
}

// The feature gates that series depend on.
const (
	asyncPreemption   = "SchedulerAsyncPreemption"
	asyncAPICalls     = "SchedulerAsyncAPICalls"
	genericWorkload   = "GenericWorkload"
	topologyAware     = "TopologyAwareWorkloadScheduling"
	bindingConditions = "DRADeviceBindingConditions"
	extendedResource  = "DRAExtendedResource"
)
