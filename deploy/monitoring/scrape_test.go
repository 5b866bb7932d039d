package monitoring

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as in the scheduler command
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	berth "github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/queue"
	"github.com/berth-scheduler/berth/internal/serve/metrics"
)

// served returns a scheduler's /metrics. The scheduler runs here on an in-memory cluster.
// BERTH_METRICS names a file to read instead, such as curl's output.
func served(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	if file := os.Getenv("BERTH_METRICS"); file != "" {
		text, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = text.Close() }()
		families, err := parser.TextToMetricFamilies(text)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		return families
	}
	schedule(t)
	lead(t)
	server := httptest.NewServer(legacyregistry.Handler())
	defer server.Close()
	answer, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// schedule builds a scheduler like the command and runs it until its pods are bound or
// rejected.
func schedule(t *testing.T) {
	t.Helper()
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	clock := &loop.Clock{}
	gates, err := feature.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	enabled := func(gate string) bool { return gates.Enabled(featuregate.Feature(gate)) }
	m, err := metrics.New(metrics.Config{Register: legacyregistry.Register, Enabled: enabled, Now: clock.Now, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := queue.New(c.Queue(queue.DefaultMaxParked))
	if err != nil {
		t.Fatal(err)
	}
	decider, err := engine.New(engine.Config{Profiles: c.Profiles, OnPhase: m.Loop.Enter})
	if err != nil {
		t.Fatal(err)
	}
	changes := ingest.New(c.Compile())
	written := writer{bound: make(chan string, 10), statuses: make(chan string, 10)}
	writes, err := commit.New(commit.Config{
		Writer: written, Binder: c.Binder, Results: changes, Log: klog.Background(), InFlight: 2, MaxBindings: 10, ReportsPerSecond: 10_000, MaxReports: 10, MaxSeries: 10,
		Timeout: 10 * time.Second, EventPause: time.Second, Drain: 10 * time.Second, Observers: []commit.Observer{m.Commit},
	})
	if err != nil {
		t.Fatal(err)
	}
	changes.Set(node("a"))
	changes.Set(node("b"))
	changes.Set(pod("one", "1"))
	changes.Set(pod("two", "1"))
	changes.Set(pod("large", "9"))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { writes.Run(ctx) })
	parking := parking{happened: make(chan struct{})}
	running.Go(func() {
		loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: writes, Observers: []loop.Observer{clock, m.Loop, &parking}}).Run(ctx)
	})
	<-written.bound
	<-written.bound
	<-written.statuses
	// the loop reports a waiting pod to its metrics after it has handed on the pod's
	// writes
	<-parking.happened
	stop()
	running.Wait() // everything is observed
}

// parking observes a loop after its metrics. It closes happened when a rejected pod
// waits.
type parking struct {
	happened chan struct{}
	once     sync.Once
}

func (p *parking) Round(*loop.Round) {}

func (p *parking) Standing(s *loop.Standing) {
	if s.Queue.Parked > 0 {
		p.once.Do(func() { close(p.happened) })
	}
}

// writer is an API server that accepts every write.
type writer struct{ bound, statuses chan string }

func (w writer) Bind(_ context.Context, binding *v1.Binding) error {
	w.bound <- binding.Name
	return nil
}
func (w writer) Write(context.Context, *plan.Write) (kinds.Object, error) { return nil, nil }
func (w writer) Get(context.Context, *plan.Write) (kinds.Object, error)   { return nil, nil }
func (w writer) NodeOf(context.Context, *berth.Pod) (string, error)       { return "", nil }
func (w writer) Delete(context.Context, *berth.Pod) error                 { return nil }
func (w writer) PatchStatus(_ context.Context, pod *berth.Pod, _ *v1.PodCondition, _ plan.Nomination) error {
	w.statuses <- pod.Name
	return nil
}
func (w writer) Record(context.Context, *report.Series) error { return nil }
func (w writer) Repeat(context.Context, *report.Series) error { return nil }

func node(name string) *v1.Node {
	room := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("110")}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name, v1.LabelTopologyZone: "z"}},
		Status:     v1.NodeStatus{Allocatable: room, Capacity: room},
	}
}

func pod(name, cpu string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{"app": "web"}, CreationTimestamp: metav1.Now(),
		},
		Spec: v1.PodSpec{
			SchedulerName: v1.DefaultSchedulerName,
			Containers: []v1.Container{{
				Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
			}},
			TopologySpreadConstraints: []v1.TopologySpreadConstraint{{
				MaxSkew: 5, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			}},
		},
	}
}

// lead sends a request to a server and leads for a moment.
func lead(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"kind":"NodeList","apiVersion":"v1","items":[]}`)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          &lock{},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, Name: "kube-scheduler",
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { stop() }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	elector.Run(ctx)
}

// lock is a lease in memory.
type lock struct {
	record *resourcelock.LeaderElectionRecord
}

func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "kube-scheduler")
	}
	return l.record, []byte(l.record.HolderIdentity), nil
}

func (l *lock) Create(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.record = &record
	return nil
}
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Create(ctx, record)
}
func (l *lock) RecordEvent(string) {}
func (l *lock) Identity() string   { return "me" }
func (l *lock) Describe() string   { return "kube-system/kube-scheduler" }

// labelsOf returns the label names of a family's samples.
func labelsOf(family *dto.MetricFamily) map[string]bool {
	names := map[string]bool{}
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			names[l.GetName()] = true
		}
	}
	return names
}

// familyOf returns the family of a query's metric, nil if none. Queries name the parts of
// a histogram.
func familyOf(families map[string]*dto.MetricFamily, name string) (family *dto.MetricFamily, part string) {
	if f := families[name]; f != nil && f.GetType() != dto.MetricType_HISTOGRAM {
		return f, ""
	}
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		base, is := strings.CutSuffix(name, part)
		if f := families[base]; is && f != nil && f.GetType() == dto.MetricType_HISTOGRAM {
			return f, part
		}
	}
	return nil, ""
}
