package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/testutil"
)

// scraped is the content of /metrics.
type scraped map[string]*dto.MetricFamily

func (w *world) scrape(client *http.Client) scraped {
	w.Helper()
	status, body := w.ask(client, http.MethodGet, "/metrics", "")
	if status != http.StatusOK {
		w.Fatalf("/metrics answers %d: %.500s", status, body)
	}
	families, err := testutil.TextToMetricFamilies(strings.NewReader(body))
	w.must(err)
	return families
}

// value returns the value of a counter or gauge, or the number of observations of a
// histogram, or -1 without such a series. Labels are written as name=value.
func (s scraped) value(name string, labels ...string) float64 {
	for _, m := range s[name].GetMetric() {
		have := map[string]bool{}
		for _, l := range m.GetLabel() {
			have[l.GetName()+"="+l.GetValue()] = true
		}
		matches := true
		for _, l := range labels {
			matches = matches && have[l]
		}
		switch {
		case !matches:
		case m.GetCounter() != nil:
			return m.GetCounter().GetValue()
		case m.GetGauge() != nil:
			return m.GetGauge().GetValue()
		default:
			return float64(m.GetHistogram().GetSampleCount())
		}
	}
	return -1
}

// TestMetrics compares /metrics after a run with the objects of the API server.
func TestMetrics(t *testing.T) {
	w := newWorld(t, "metrics")
	// A separate profile, so that pods of other tests do not count.
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	w.must(os.WriteFile(file, fmt.Appendf(nil, `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"leaderElection": {"leaderElect": false}, "clientConnection": {"kubeconfig": %q}, "profiles": [{"schedulerName": "measured"}]}`, cluster.SchedulerKubeconfig), 0o600))
	w.kubeScheduler(&transcript{}, "--config", file, w.securePort(),
		"--authentication-kubeconfig", cluster.SchedulerKubeconfig, "--authorization-kubeconfig", cluster.SchedulerKubeconfig)
	w.deployment("small", 50, func(spec *v1.PodSpec) { spec.SchedulerName = "measured" })
	w.deployment("large", 3, func(spec *v1.PodSpec) {
		spec.SchedulerName, spec.Containers[0].Resources = "measured", requests("9000", "1Gi")
	})
	w.awaitBound(50)
	admin := w.clientOf(cluster.Kubeconfig)
	var s scraped
	w.await("three pods are known to wait", func() bool {
		if status, _ := w.ask(admin, http.MethodGet, "/readyz", ""); status != http.StatusOK {
			return false
		}
		s = w.scrape(admin)
		return s.value("scheduler_pending_pods", "queue=unschedulable") == 3 && s.value("scheduler_cache_size", "type=assumed_pods") == 0 &&
			s.value("scheduler_pod_scheduling_attempts") == 50
	})
	profile := "profile=measured"
	for _, test := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"scheduler_schedule_attempts_total", []string{"result=scheduled", profile}, 50},
		{"scheduler_schedule_attempts_total", []string{"result=error", profile}, 0},
		{"scheduler_scheduling_attempt_duration_seconds", []string{"result=scheduled", profile}, 50},
		{"scheduler_unschedulable_pods", []string{"plugin=NodeResourcesFit", profile}, 3},
		{"scheduler_framework_extension_point_duration_seconds", []string{"extension_point=Bind", "status=Success", profile}, 50},
		{"scheduler_cache_size", []string{"type=nodes"}, float64(cluster.Nodes)},
		{"berth_writes_total", []string{"kind=binding", "result=success"}, 50},
		{"berth_pod_creation_to_bind_duration_seconds", nil, 50},
	} {
		if got := s.value(test.name, test.labels...); got != test.want {
			t.Errorf("%s%v is %v, want %v", test.name, test.labels, got, test.want)
		}
	}
	status, resources := w.ask(admin, http.MethodGet, "/metrics/resources", "")
	for _, want := range []string{
		fmt.Sprintf(`kube_pod_resource_request{namespace=%q,node="`, w.namespace),
		`,priority="0",resource="cpu",scheduler="measured",unit="cores"} 0.25`,
		`,priority="0",resource="cpu",scheduler="measured",unit="cores"} 9000`,
	} {
		if status != http.StatusOK || !strings.Contains(resources, want) {
			t.Errorf("/metrics/resources: %d, want %s in\n%.1000s", status, want, resources)
		}
	}
}
