package metrics_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	componentmetrics "k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/decide/plugins/defaultbinder"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/serve/metrics"
)

// store receives the writes of a commit. Bindings wait until the test releases them.
type store struct {
	hold  chan struct{}
	sent  chan string // names of pods whose binding arrived
	fails map[string]error
}

func (s *store) Delete(_ context.Context, pod *model.Pod) error           { return s.fails[pod.Name] }
func (s *store) Write(context.Context, *plan.Write) (kinds.Object, error) { return nil, nil }
func (s *store) Get(context.Context, *plan.Write) (kinds.Object, error)   { return nil, nil }

func (s *store) Bind(ctx context.Context, binding *v1.Binding) error {
	s.sent <- binding.Name
	select {
	case <-s.hold:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.fails[binding.Name]
}
func (s *store) NodeOf(context.Context, *model.Pod) (string, error) { return "", nil }
func (s *store) PatchStatus(context.Context, *model.Pod, *v1.PodCondition, plan.Nomination) error {
	return nil
}
func (s *store) Record(context.Context, *report.Series) error { return nil }
func (s *store) Repeat(context.Context, *report.Series) error { return nil }

// outcomes records the results of bindings.
type outcomes chan model.BindingResult

func (o outcomes) Bound(outcome model.BindingResult) { o <- outcome }

func (o outcomes) Learned(kinds.Object) {}

func (o outcomes) Written(model.WriteResult) {}

func (o outcomes) Preempted(result model.PreemptionResult) {
	o <- model.BindingResult{Pod: result.Preemptor, Err: result.Err}
}

// committing runs a real commit with an observer. It writes to the store until the test
// stops it.
func committing(t testing.TB, m *metrics.Metrics, s *store, ended outcomes) (c *commit.Commit, stop func()) {
	t.Helper()
	c, err := commit.New(commit.Config{
		Writer: s, Binder: func(string) *plugin.Bind { return defaultbinder.New().Parts().Bind }, Results: ended, Log: klog.Background(), InFlight: 4, MaxBindings: 10, ReportsPerSecond: 10_000, MaxReports: 10, MaxSeries: 10,
		Timeout: 10 * time.Second, EventPause: time.Second, Drain: 5 * time.Second, Observers: []commit.Observer{m.Commit},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	return c, func() {
		cancel(errors.New("the test is over"))
		running.Wait()
	}
}

func settled(name string, attempt int, now time.Time, waited time.Duration) plan.Decision {
	object := pod(name, "1")
	object.CreationTimestamp.Time = time.Now().Add(-time.Minute)
	queued := plan.QueuedPod{Pod: model.NewPod(object), Attempt: attempt, Since: now.Add(-waited), Popped: now}
	return plan.Decision{
		Member: plan.Member{QueuedPod: queued}, Outcome: plan.Placed, Nodes: 2, Feasible: 2,
		Placement: plan.Placement{Pod: queued.Pod, NodeName: "a", Nodes: 2, Feasible: 2},
	}
}

func TestCommit(t *testing.T) {
	// The loop's clock is an hour late, as after a change of the system's clock.
	began := time.Now()
	now := func() time.Time { return began.Add(-time.Hour).Add(time.Since(began)) }
	m, registry := build(t, now)
	s := &store{hold: make(chan struct{}), sent: make(chan string, 10), fails: map[string]error{
		"refused": apierrors.NewForbidden(v1.Resource("pods/binding"), "refused", errors.New("an admission plugin said no")),
	}}
	ended := make(outcomes, 10)
	c, stop := committing(t, m, s, ended)
	late := settled("late", 20, now(), time.Minute)
	late.AfterFlush = true
	for _, d := range []plan.Decision{settled("easy", 1, now(), time.Second), late, settled("refused", 1, now(), 0)} {
		c.Start(d)
		<-s.sent
	}
	scrape(t, registry).expect(t, `
		berth_writes_in_flight{kind=binding} 3
		berth_writes_in_flight{kind=status} 0
		scheduler_goroutines{operation=binding} 3
	`)
	close(s.hold)
	for range 3 {
		<-ended
	}
	stop() // all events are written
	m.Commit.Dropped(commit.StatusWrite, 7)
	scrape(t, registry).expect(t, `
		berth_writes_in_flight{kind=binding} 0
		scheduler_goroutines{operation=binding} 0
		scheduler_schedule_attempts_total{profile=default-scheduler,result=scheduled} 2
		scheduler_schedule_attempts_total{profile=default-scheduler,result=error} 1
		scheduler_scheduling_attempt_duration_seconds{profile=default-scheduler,result=scheduled} 2
		scheduler_scheduling_attempt_duration_seconds{profile=default-scheduler,result=error} 1
		scheduler_pod_scheduling_attempts 2
		scheduler_pod_scheduling_sli_duration_seconds{attempts=1} 1
		scheduler_pod_scheduling_sli_duration_seconds{attempts=15+} 1
		scheduler_pod_scheduled_after_flush_total 1
		scheduler_framework_extension_point_duration_seconds{extension_point=Bind,profile=default-scheduler,status=Success} 2
		scheduler_framework_extension_point_duration_seconds{extension_point=Bind,profile=default-scheduler,status=Error} 1
		scheduler_plugin_execution_duration_seconds{extension_point=Bind,plugin=DefaultBinder,status=Success} 2
		berth_pod_creation_to_bind_duration_seconds 2
		berth_writes_total{kind=binding,result=success} 2
		berth_writes_total{kind=binding,result=error} 1
		berth_writes_total{kind=status,result=success} 1
		berth_writes_total{kind=event,result=success} 3
		berth_write_duration_seconds{kind=event} 3
		berth_writes_dropped_total{kind=status} 7
		berth_writes_dropped_total{kind=event} 0
	`)
	// The durations have a tolerance of the test's own duration.
	for name, want := range map[string][2]float64{
		"scheduler_pod_scheduling_sli_duration_seconds{attempts=1}":   {1, 20},
		"scheduler_pod_scheduling_sli_duration_seconds{attempts=15+}": {60, 79},
		"berth_pod_creation_to_bind_duration_seconds":                 {120, 158},
	} {
		if sum := sumOf(t, registry, name); sum < want[0] || sum > want[1] {
			t.Errorf("%s adds up to %v, want %v", name, sum, want)
		}
	}
}

// TestPreemptions carries out two preemptions; one fails.
func TestPreemptions(t *testing.T) {
	m, registry := build(t, time.Now)
	s := &store{hold: make(chan struct{}), sent: make(chan string, 10), fails: map[string]error{
		"refused": apierrors.NewForbidden(v1.Resource("pods"), "refused", errors.New("no")),
	}}
	ended := make(outcomes, 10)
	c, stop := committing(t, m, s, ended)
	for _, name := range []string{"easy", "refused"} {
		victim := pod(name, "1")
		victim.Spec.NodeName = "a"
		c.Start(plan.Decision{
			Member: plan.Alone(model.NewPod(pod("for-"+name, "1"))), Outcome: plan.Unschedulable, Rejection: &plan.Rejection{},
			Evictions: []plan.Eviction{{Pod: model.NewPod(victim), NodeName: "a"}},
		})
		<-ended
	}
	stop()
	scrape(t, registry).expect(t, `
		scheduler_preemption_goroutines_execution_total{result=success} 1
		scheduler_preemption_goroutines_execution_total{result=error} 1
		berth_writes_total{kind=eviction,result=success} 3
		berth_writes_total{kind=eviction,result=error} 1
		berth_writes_in_flight{kind=eviction} 0
	`)
}

// TestStages binds a pod with steps, and rejects another at Permit. The duration of each
// extension point is observed.
func TestStages(t *testing.T) {
	m, registry := build(t, time.Now)
	s := &store{hold: make(chan struct{}), sent: make(chan string, 10)}
	close(s.hold)
	ended := make(outcomes, 10)
	c, stop := committing(t, m, s, ended)
	wait := &plan.Wait{Timeout: time.Minute}
	for _, name := range []string{"allowed", "rejected"} {
		d := settled(name, 1, time.Now(), 0)
		d.Placement.Steps = []plan.Step{
			{Stage: plan.Permit, Plugin: "Gang", Wait: wait}, {Stage: plan.PreBind, Plugin: "Claims", Write: &plan.Write{}}, {Stage: plan.PostBind, Plugin: "Claims"},
		}
		c.Start(d)
		if uid := d.Pod.UID; name == "allowed" {
			c.Allow(uid, "Gang")
		} else {
			c.Reject(uid, "Gang", errors.New("too few"))
		}
		<-ended
	}
	stop()
	scrape(t, registry).expect(t, `
		scheduler_permit_wait_duration_seconds{result=Success} 1
		scheduler_permit_wait_duration_seconds{result=Unschedulable} 1
		scheduler_framework_extension_point_duration_seconds{extension_point=PreBind,profile=default-scheduler,status=Success} 1
		scheduler_framework_extension_point_duration_seconds{extension_point=PostBind,profile=default-scheduler,status=Success} 1
		scheduler_schedule_attempts_total{profile=default-scheduler,result=scheduled} 1
		scheduler_schedule_attempts_total{profile=default-scheduler,result=unschedulable} 1
		berth_writes_total{kind=binding,result=error} 0
		berth_writes_total{kind=step,result=success} 1
		berth_writes_in_flight{kind=step} 0
	`)
}

// sumOf returns the sum of a histogram.
func sumOf(t testing.TB, from componentmetrics.Gatherer, name string) float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName()+labelsOf(m) == name {
				return m.GetHistogram().GetSampleSum()
			}
		}
	}
	t.Fatalf("%s is not there", name)
	return 0
}
