package metrics

import (
	"context"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/decide/plugins/defaultbinder"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Commit observes a commit. Any goroutine may call its methods.
type Commit struct {
	families *families
	resets   *resets
	now      func() time.Time // the loop's

	mu       sync.Mutex
	known    uint64 // the number of resets at the last lookUp
	inFlight [commit.WriteKinds]int
	members  commitMembers
}

// commitMembers are cached members of families.
type commitMembers struct {
	inFlight   [commit.WriteKinds]metrics.GaugeMetric
	binding    metrics.GaugeMetric // goroutines
	durations  [commit.WriteKinds]metrics.ObserverMetric
	written    [commit.WriteKinds]metrics.CounterMetric
	unwritten  [commit.WriteKinds]metrics.CounterMetric
	dropped    [commit.WriteKinds]metrics.CounterMetric // of statuses and events
	attempts   metrics.ObserverMetric
	creation   metrics.ObserverMetric
	afterFlush metrics.CounterMetric
	sli        [maxAttempts + 1]metrics.ObserverMetric // by attempts, created on first use
	profiles   map[string]*boundMembers
}

// boundMembers are the members that observe bindings of one profile.
type boundMembers struct {
	scheduled, unschedulable, failed attemptMembers
	point, plugin                    [2]metrics.ObserverMetric // Bind, by whether it failed
}

// maxAttempts is the number of attempts from which pods share a member of the SLI.
const maxAttempts = 15

func newCommit(f *families, r *resets, now func() time.Time) *Commit {
	c := &Commit{families: f, resets: r, now: now}
	c.lookUp()
	return c
}

// lookUp looks up the members that always exist, and drops the others.
func (c *Commit) lookUp() {
	f := c.families
	c.known = c.resets.count.Load()
	c.members = commitMembers{
		binding:    f.gaugeVecs["scheduler_goroutines"].WithLabelValues("binding"),
		attempts:   f.histograms["scheduler_pod_scheduling_attempts"],
		creation:   f.histograms["berth_pod_creation_to_bind_duration_seconds"],
		afterFlush: f.counters["scheduler_pod_scheduled_after_flush_total"],
		profiles:   map[string]*boundMembers{},
	}
	for kind := range commit.WriteKinds {
		name := kind.String()
		c.members.inFlight[kind] = f.gaugeVecs["berth_writes_in_flight"].WithLabelValues(name)
		c.members.durations[kind] = f.histogramVecs["berth_write_duration_seconds"].WithLabelValues(name)
		c.members.written[kind] = f.counterVecs["berth_writes_total"].WithLabelValues(name, "success")
		c.members.unwritten[kind] = f.counterVecs["berth_writes_total"].WithLabelValues(name, "error")
	}
	for _, kind := range []commit.WriteKind{commit.StatusWrite, commit.EventWrite} {
		c.members.dropped[kind] = f.counterVecs["berth_writes_dropped_total"].WithLabelValues(kind.String())
	}
}

// Sending observes the start of a write.
func (c *Commit) Sending(ctx context.Context, w *commit.Write) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fly(w.Kind, 1)
	return ctx
}

// fly changes the number of writes in flight. The caller holds mu.
func (c *Commit) fly(kind commit.WriteKind, by int) {
	if c.known != c.resets.count.Load() {
		c.lookUp()
	}
	c.inFlight[kind] += by
	c.members.inFlight[kind].Set(float64(c.inFlight[kind]))
	if kind == commit.BindingWrite {
		c.members.binding.Set(float64(c.inFlight[kind]))
	}
}

// Sent observes the end of a write.
func (c *Commit) Sent(_ context.Context, w *commit.Write, took time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fly(w.Kind, -1)
	m := &c.members
	m.durations[w.Kind].Observe(took.Seconds())
	if err != nil {
		m.unwritten[w.Kind].Inc()
	} else {
		m.written[w.Kind].Inc()
	}
	if w.Kind == commit.BindingWrite {
		c.bound(w.Pod.SchedulerName, took, err)
	}
	// Steps apply only those claims as a whole that they create.
	if w.Step != nil && w.Step.Type == types.ApplyYAMLPatchType && w.Step.Resource.Resource == "resourceclaims" {
		c.claimCreated(err)
	}
}

// Passed observes that a binding with steps has passed an extension point, or failed
// there. At Permit, the duration is the wait: the plugins run during the decision.
func (c *Commit) Passed(s *commit.StageEnd) {
	status := statusSuccess
	switch {
	case s.Rejected:
		status = statusUnschedulable
	case s.Err != nil:
		status = statusError
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	countVolumeError(c.families, s.Err)
	for i := range s.Waits {
		countDeviceWait(c.families, s.Pod.SchedulerName, &s.Waits[i])
	}
	for _, p := range s.Plugins {
		status := statusSuccess
		if p.Err != nil {
			status = statusError
		}
		c.families.histogramVecs[executionSeries].WithLabelValues(p.Plugin, s.Stage.String(), status).Observe(p.Took.Seconds())
	}
	if s.Stage == plan.Permit {
		c.families.histogramVecs["scheduler_permit_wait_duration_seconds"].WithLabelValues(status).Observe(s.Took.Seconds())
		return
	}
	point := s.Stage.String()
	if s.Stage == plan.Reserve { // the part that runs after the decision
		point = "PreBindPreFlight"
	}
	c.families.histogramVecs["scheduler_framework_extension_point_duration_seconds"].
		WithLabelValues(point, status, s.Pod.SchedulerName).Observe(s.Took.Seconds())
}

// Preempted observes the result of a preemption.
func (c *Commit) Preempted(p *commit.Preempted) {
	result := "success"
	if p.Err != nil {
		result = "error"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The family exists only with its feature gate.
	if took := c.families.histogramVecs["scheduler_preemption_execution_duration_seconds"]; took != nil {
		preemptor := preemptorPod
		if p.Group != nil {
			preemptor = preemptorOf(p.Tree != nil)
		}
		took.WithLabelValues(preemptor, result).Observe(p.Took.Seconds())
	}
	count := c.families.counterVecs["scheduler_preemption_goroutines_execution_total"]
	if count == nil { // without the feature gate
		return
	}
	count.WithLabelValues(result).Inc()
	c.families.histogramVecs["scheduler_preemption_goroutines_duration_seconds"].WithLabelValues(result).Observe(p.Took.Seconds())
}

// Dropped counts statuses or events that were dropped.
func (c *Commit) Dropped(kind commit.WriteKind, writes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known != c.resets.count.Load() {
		c.lookUp()
	}
	c.members.dropped[kind].Add(float64(writes))
}

// bound observes the result of a binding's requests. The caller holds mu.
func (c *Commit) bound(profile string, took time.Duration, err error) {
	p, status := c.profile(profile), 0
	if err != nil {
		status = 1
	}
	p.point[status].Observe(took.Seconds())
	p.plugin[status].Observe(took.Seconds())
}

// Settled observes the end of an attempt that found a node.
func (c *Commit) Settled(s *commit.Settled) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known != c.resets.count.Load() {
		c.lookUp()
	}
	m, p, now := &c.members, c.profile(s.Pod.SchedulerName), c.now()
	attempt := now.Sub(s.Popped)
	switch {
	case s.Rejected:
		p.unschedulable.observe(attempt)
		return
	case s.Err != nil:
		p.failed.observe(attempt)
		return
	}
	p.scheduled.observe(attempt)
	m.attempts.Observe(float64(s.Attempt))
	c.sli(s.Attempt).Observe(now.Sub(s.Since).Seconds())
	if s.AfterFlush {
		m.afterFlush.Inc()
	}
	// The creation time is in the API server's clock, so this needs the wall clock.
	m.creation.Observe(time.Since(s.Pod.Object.CreationTimestamp.Time).Seconds())
}

// sli returns the member for pods with this number of attempts.
func (c *Commit) sli(attempts int) metrics.ObserverMetric {
	i := min(attempts, maxAttempts)
	if c.members.sli[i] == nil {
		label := strconv.Itoa(i)
		if i == maxAttempts {
			label += "+"
		}
		c.members.sli[i] = c.families.histogramVecs["scheduler_pod_scheduling_sli_duration_seconds"].WithLabelValues(label)
	}
	return c.members.sli[i]
}

func (c *Commit) profile(name string) *boundMembers {
	p := c.members.profiles[name]
	if p != nil {
		return p
	}
	f := c.families
	point := f.histogramVecs["scheduler_framework_extension_point_duration_seconds"]
	plugin := f.histogramVecs[executionSeries]
	p = &boundMembers{scheduled: f.attempt(scheduled, name), unschedulable: f.attempt(unschedulable, name), failed: f.attempt(failed, name)}
	for i, status := range []string{statusSuccess, statusError} {
		p.point[i] = point.WithLabelValues("Bind", status, name)
		p.plugin[i] = plugin.WithLabelValues(defaultbinder.Name, "Bind", status)
	}
	c.members.profiles[name] = p
	return p
}
