package metrics_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	componentmetrics "k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/internal/serve/metrics"
)

// samples are the result of a scrape, by name and labels: a counter's or gauge's value,
// and the number of observations of a histogram.
type samples map[string]float64

func scrape(t testing.TB, from componentmetrics.Gatherer) samples {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := samples{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			all[f.GetName()+labelsOf(m)] = valueOf(m)
		}
	}
	return all
}

func labelsOf(m *dto.Metric) string {
	if len(m.GetLabel()) == 0 {
		return ""
	}
	var pairs []string
	for _, l := range m.GetLabel() {
		pairs = append(pairs, l.GetName()+"="+l.GetValue())
	}
	slices.Sort(pairs)
	return "{" + strings.Join(pairs, ",") + "}"
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	}
	return float64(m.GetHistogram().GetSampleCount())
}

// expect compares the listed samples, one a line.
func (s samples) expect(t testing.TB, want string) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(want), "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		got, there := s[name]
		if text := fmt.Sprint(got); !there || text != strings.TrimSpace(value) {
			t.Errorf("%s is %s (there: %t), want %s", name, text, there, value)
		}
	}
}

func build(t testing.TB, now func() time.Time) (*metrics.Metrics, componentmetrics.KubeRegistry) {
	t.Helper()
	registry := componentmetrics.NewKubeRegistry()
	m, err := metrics.New(metrics.Config{Register: registry.Register, Enabled: metrics.GateDefaults(t), Now: now, Version: "v0.1.0"})
	if err != nil {
		t.Fatal(err)
	}
	return m, registry
}

func node(name, cpu string, change ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status:     v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourcePods: resource.MustParse("110")}},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func pod(name, cpu string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid of " + name), CreationTimestamp: metav1.Now()},
		Spec: v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{{
			Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
		}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}
