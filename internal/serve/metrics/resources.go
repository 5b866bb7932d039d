package metrics

import (
	"net/http"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Resources serves the requests and limits of each pod, as /metrics/resources. The pods
// are those in the informer's cache at the time of a scrape. Only the leader should serve
// them, so that they are not counted for each replica.
func Resources(pods func() []*v1.Pod) http.Handler {
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(newResourceCollector(pods))
	return metrics.HandlerWithReset(registry, metrics.HandlerOpts{})
}

// resourceCollector reads the pods at each scrape and stores nothing, so deleted pods
// disappear.
type resourceCollector struct {
	metrics.BaseStableCollector
	pods             func() []*v1.Pod
	requests, limits *metrics.Desc
}

func newResourceCollector(pods func() []*v1.Pod) *resourceCollector {
	describe := func(name, help string) *metrics.Desc {
		names := []string{"namespace", "pod", "node", "scheduler", "priority", "resource", "unit"}
		return metrics.NewDesc(name, help, names, nil, metrics.STABLE, "")
	}
	return &resourceCollector{
		pods:     pods,
		requests: describe("kube_pod_resource_request", "Resources that a pod requests of a node, as the scheduler and kubelets count them."),
		limits:   describe("kube_pod_resource_limit", "What a pod is limited to, by resource, as scheduling and kubelets count it."),
	}
}

// DescribeWithStability describes both families.
func (c *resourceCollector) DescribeWithStability(to chan<- *metrics.Desc) {
	to <- c.requests
	to <- c.limits
}

// CollectWithStability returns the amounts of all unfinished pods.
func (c *resourceCollector) CollectWithStability(to chan<- metrics.Metric) {
	// Both are overwritten for each pod, so that a scrape of many pods allocates little.
	requests, limits := v1.ResourceList{}, v1.ResourceList{}
	for _, pod := range c.pods() {
		if pod.Spec.NodeName != "" && (pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed) {
			continue
		}
		requests = resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{Reuse: requests})
		limits = resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{Reuse: limits})
		collectList(to, c.requests, pod, requests)
		collectList(to, c.limits, pod, limits)
	}
}

func collectList(to chan<- metrics.Metric, family *metrics.Desc, pod *v1.Pod, amounts v1.ResourceList) {
	priority := ""
	if pod.Spec.Priority != nil {
		priority = strconv.Itoa(int(*pod.Spec.Priority))
	}
	for name, amount := range amounts {
		if amount.IsZero() {
			continue
		}
		to <- metrics.NewLazyConstMetric(family, metrics.GaugeValue, amount.AsApproximateFloat64(),
			pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Spec.SchedulerName, priority, string(name), unitOf(name))
	}
}

// unitOf returns the unit of a resource; extended resources have none.
func unitOf(name v1.ResourceName) string {
	switch {
	case name == v1.ResourceCPU:
		return "cores"
	case name == v1.ResourceMemory, name == v1.ResourceStorage, name == v1.ResourceEphemeralStorage,
		strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
		return "bytes"
	case strings.HasPrefix(string(name), v1.ResourceAttachableVolumesPrefix):
		return "integer"
	}
	return ""
}
