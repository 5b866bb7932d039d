package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/report"
	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/scene"
	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// round plays one contender's turn at a scene. It returns the figures, and the number of
// pods without a Scheduled event.
func (c *comparison) round(ctx context.Context, st *stage, s *scene.Scene, who contender) (report.Figures, int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("the round took longer than %v", c.limit))
	defer cancel()
	t := &take{comparison: c, stage: st, scene: s, who: who, sent: make([]time.Time, s.Measured.Count)}
	if err := st.refresh(ctx, s, true); err != nil {
		return report.Figures{}, 0, err
	}
	play := t.waiting
	if s.Kind == scene.Workload {
		play = t.arriving
	}
	err := t.withHistory(ctx, play)
	if t.process != nil {
		t.process.End()
	}
	if err != nil && t.process != nil {
		err = fmt.Errorf("%w\n%s", err, t.process.Log())
	}
	return t.figures, t.lost, err
}

// take is a round in progress.
type take struct {
	comparison *comparison
	stage      *stage
	scene      *scene.Scene
	who        contender

	process  *rig.Process
	bindings *rig.Bindings
	history  *rig.History  // of claims, for scenes with devices
	sent     []time.Time   // time of the creation request of each measured pod
	spent    time.Duration // CPU of the contender before the measured part
	served   time.Duration // CPU of the cluster before the measured part
	figures  report.Figures
	lost     int
}

// start starts the contender.
func (t *take) start() (began time.Time, err error) {
	began = time.Now()
	t.process, err = t.who.start(t.comparison.log, t.comparison.bin, t.stage, t.scene, t.comparison.scale)
	return began, err
}

// disks creates the claims and volumes of the measured pods before the first of these
// pods. With their statuses, creating them costs the API server three times as much as
// creating and binding the pods.
func (t *take) disks(ctx context.Context) error {
	m := &t.scene.Measured
	err := rig.InParallel(m.Count, func(i int) error { return t.stage.makeDisk(ctx, m, i) })
	if err != nil {
		return fmt.Errorf("create claims and volumes: %w", err)
	}
	return nil
}

// create creates the measured pods: all at once, or as many as exist at a time, and then
// one for each bound pod.
func (t *take) create(ctx context.Context) error {
	m := &t.scene.Measured
	first := m.Count
	if m.Together > 0 {
		first = min(first, m.Together)
	}
	if err := rig.InParallel(first, func(i int) error { return t.createOne(ctx, i) }); err != nil {
		return err
	}
	replacing, within := errgroup.WithContext(ctx)
	replacing.SetLimit(max(1, m.Together))
	for i := first; i < m.Count; i++ {
		if err := t.bindings.Await(within, i-first+1, t.process); err != nil {
			return errors.Join(err, replacing.Wait())
		}
		bound := t.bindings.Name(i - first)
		replacing.Go(func() error {
			now := int64(0)
			err := t.stage.client.CoreV1().Pods(m.NamespaceOf(i)).Delete(within, bound, metav1.DeleteOptions{GracePeriodSeconds: &now})
			if err != nil {
				return fmt.Errorf("delete a pod that is bound: %w", err)
			}
			return t.createOne(within, i)
		})
	}
	return replacing.Wait()
}

func (t *take) createOne(ctx context.Context, i int) error {
	m := &t.scene.Measured
	pod := m.Pod(i)
	mark(pod, measuredLabel)
	t.sent[i] = time.Now()
	_, err := t.stage.client.CoreV1().Pods(m.NamespaceOf(i)).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// waiting measures pods that are pending before the contender starts.
func (t *take) waiting(ctx context.Context) error {
	if err := errors.Join(t.disks(ctx), t.stage.makeGroups(ctx, t.scene)); err != nil {
		return err
	}
	if err := t.create(ctx); err != nil {
		return fmt.Errorf("create pods: %w", err)
	}
	if err := t.stage.rest(ctx, nil); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if err := t.watch(watching); err != nil {
		return err
	}
	began, err := t.start()
	if err != nil {
		return err
	}
	if t.who.restartOnly {
		return t.listed(ctx, began)
	}
	for i := range t.sent {
		t.sent[i] = began
	}
	if err := t.measure(ctx); err != nil {
		return err
	}
	_, first, _ := t.bindings.Count()
	t.figures.FirstBind = first.Sub(began)
	return nil
}

// listed measures a contender that ends on its own.
func (t *take) listed(ctx context.Context, began time.Time) error {
	select {
	case <-t.process.Exited():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	t.figures.FirstBind = time.Since(began)
	usage, err := t.process.Usage()
	t.figures.CPUPerPod, t.figures.PeakBytes = usage.CPU/time.Duration(t.scene.Measured.Count), usage.PeakBytes
	return errors.Join(err, t.process.Failure())
}

// probeName is the pod whose binding shows that a contender is ready.
const probeName = "probe"

// arriving measures pods that are created while the contender runs, after it has tried
// all earlier pods.
func (t *take) arriving(ctx context.Context) error {
	if err := t.disks(ctx); err != nil {
		return err
	}
	if err := t.stage.calm(ctx, nil); err != nil {
		return err
	}
	if err := t.ready(ctx); err != nil {
		return err
	}
	if err := t.stage.rest(ctx, t.process); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if err := t.watch(watching); err != nil {
		return err
	}
	usage, err := t.process.Usage()
	if err != nil {
		return err
	}
	t.spent = usage.CPU
	if err := t.stage.refresh(ctx, t.scene, false); err != nil {
		return err
	}
	return t.besides(ctx)
}

// besides measures while pods are created and the scene's churn runs. If either fails,
// the measurement ends.
func (t *take) besides(ctx context.Context) error {
	measuring, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	churning, calm := context.WithCancel(measuring)
	defer calm()
	var rest sync.WaitGroup
	for _, churn := range t.scene.Churn {
		rest.Go(func() {
			if err := t.churn(churning, churn); err != nil {
				abort(fmt.Errorf("go on with what happens besides: %w", err))
			}
		})
	}
	rest.Go(func() {
		if err := t.create(measuring); err != nil {
			abort(fmt.Errorf("create pods: %w", err))
		}
	})
	err := t.measure(measuring)
	calm()
	if err != nil {
		abort(err)
	}
	rest.Wait()
	return err
}

// ready starts the contender and waits until it has bound the probe. Earlier pods have
// been tried by then.
func (t *take) ready(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	namespace := t.scene.Measured.Namespace
	probes, err := t.stage.cluster.WatchBindings(watching, namespace, probeLabel)
	if err != nil {
		return err
	}
	began, err := t.start()
	if err != nil {
		return err
	}
	probe := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: probeName},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "registry.example/main:1"}}},
	}
	mark(probe, probeLabel)
	if _, err := t.stage.client.CoreV1().Pods(namespace).Create(ctx, probe, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the probe: %w", err)
	}
	if err := probes.Await(ctx, 1, t.process); err != nil {
		return fmt.Errorf("wait for the probe: %w", err)
	}
	_, bound, _ := probes.Count()
	t.figures.FirstBind = bound.Sub(began)
	return nil
}

// watch starts watching the measured pods and the CPU time of the cluster.
func (t *take) watch(ctx context.Context) error {
	var err error
	if t.bindings, err = t.stage.cluster.WatchBindings(ctx, t.scene.Measured.Scope(), measuredLabel); err != nil {
		return err
	}
	usage, err := t.stage.cluster.Usage()
	t.served = usage.CPU
	return err
}

// measure waits until every measured pod is bound and its event written, and computes the
// figures.
func (t *take) measure(ctx context.Context) error {
	m := &t.scene.Measured
	if err := t.bindings.Await(ctx, m.Count, t.process); err != nil {
		return err
	}
	lastEvent, err := t.awaitEvents(ctx)
	if err != nil {
		return err
	}
	usage, err := t.process.Usage()
	if err != nil {
		return err
	}
	served, err := t.stage.cluster.Usage()
	if err != nil {
		return err
	}
	n, first, last := t.bindings.Count()
	f := &t.figures
	f.PodsPerSecond = float64(n-1) / last.Sub(first).Seconds()
	f.WithEvents = float64(n-1) / lastEvent.Sub(first).Seconds()
	if n == 1 {
		f.PodsPerSecond, f.WithEvents = 0, 0
	}
	f.CPUPerPod = (usage.CPU - t.spent) / time.Duration(n)
	f.ServerCPUPerPod = (served.CPU - t.served) / time.Duration(n)
	f.PeakBytes = usage.PeakBytes
	var waits []time.Duration
	times := t.bindings.Times()
	for i, sent := range t.sent {
		waits = append(waits, times[m.Pod(i).Name].Sub(sent))
	}
	f.P50, f.P99 = report.Percentile(waits, 50), report.Percentile(waits, 99)
	return t.checkDevices(ctx)
}

// The wait for events, which are part of the work and of its cost.
const (
	eventsEvery = 100 * time.Millisecond
	// eventsQuiet is the time without a new event after which no more are expected.
	// kube-scheduler drops events when its queue is full.
	eventsQuiet = 5 * time.Second
)

// awaitEvents waits until every measured pod has its Scheduled event. It returns the time
// at which the last one was seen.
func (t *take) awaitEvents(ctx context.Context) (lastEvent time.Time, err error) {
	m := &t.scene.Measured
	tick := time.NewTicker(eventsEvery)
	defer tick.Stop()
	have, want := -1, m.Count
	if t.scene.Kind == scene.Workload {
		want++ // the probe's
	}
	for {
		n, err := t.stage.countEvents(ctx, m.Scope())
		if err != nil {
			return lastEvent, err
		}
		if n > have {
			have, lastEvent = n, time.Now()
		}
		quiet := time.Since(lastEvent) > eventsQuiet
		if have >= want || quiet {
			scheduled, err := t.stage.scheduledEvents(ctx, m.Scope())
			if err != nil {
				return lastEvent, err
			}
			if t.lost = max(0, m.Count-scheduled); t.lost == 0 || quiet {
				return lastEvent, nil
			}
			want = have + t.lost // some of the existing events have another reason
		}
		select {
		case <-tick.C:
		case <-t.process.Exited():
			return lastEvent, fmt.Errorf("%s ended before its events were written", t.who.name)
		case <-ctx.Done():
			return lastEvent, fmt.Errorf("wait for %d events: there are %d: %w", m.Count, have, context.Cause(ctx))
		}
	}
}

// churn runs a churn until the context ends.
func (t *take) churn(ctx context.Context, churn scene.Churn) error {
	tick := time.NewTicker(churn.Every)
	defer tick.Stop()
	steps, churning := errgroup.WithContext(ctx)
	steps.SetLimit(max(1, churn.AtOnce))
	for i := 0; ; i++ {
		select {
		case <-tick.C:
		case <-churning.Done():
			return steps.Wait()
		}
		steps.Go(func() error {
			if err := churn.Step(churning, t.stage.client, i); err != nil && churning.Err() == nil {
				return err
			}
			return nil
		})
	}
}
