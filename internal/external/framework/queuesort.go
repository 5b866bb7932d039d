package framework

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// queueSort orders pods by a plugin's Less. It never fails: if the plugin does, priority
// and time decide, as in kube-scheduler's default order.
//
// The queue compares a pod at least a dozen times for each turn. So the plugin's view of
// a pending pod is built once and stored with the pod, until it changes.
type queueSort struct {
	external
	plugin  fwk.QueueSortPlugin
	current *comparison
	// hung is the last abandoned comparison. The plugin is not called while it runs, nor
	// once givenUp reaches maxHung: each such call stops the loop for the deadline.
	hung     *comparison
	givenUp  int
	panicked bool // it has panicked, which was logged
}

func newQueueSort(o external, p fwk.QueueSortPlugin) *queueSort {
	return &queueSort{external: o, plugin: p, current: newComparison(p)}
}

// comparison is the memory of calls of Less. An abandoned call keeps its comparison.
type comparison struct {
	plugin   fwk.QueueSortPlugin
	a, b     fwk.QueuedEntityInfo
	less     bool
	panicked string // value of the call's panic
	// returned is set when a call has ended, even if it was abandoned.
	returned atomic.Bool
	batch    func(context.Context)
}

func newComparison(p fwk.QueueSortPlugin) *comparison {
	c := &comparison{plugin: p}
	c.batch = c.run
	return c
}

func (c *comparison) run(context.Context) {
	defer c.returned.Store(true)
	defer func() {
		if r := recover(); r != nil { // not left to the lane, which would log each panic
			c.panicked = "panicked: " + textOf(r)
		}
	}()
	c.less = c.plugin.Less(c.a, c.b)
}

// less calls the plugin.
func (p *queueSort) less(a, b plugin.Queued) bool {
	if p.isOut() {
		return byDefault(a, b)
	}
	c := p.current
	types := p.r.config.Types
	c.a, c.b, c.panicked = shownOf(a, types).entity(), shownOf(b, types).entity(), ""
	c.returned.Store(false)
	of := p.r.lane.pod
	p.r.lane.pod = nil // the call has two pods
	err := p.r.lane.run(QueueSort, p.name, c.batch)
	p.r.lane.pod = of
	if err == nil && c.panicked == "" {
		return c.less
	}
	p.failed(c, err)
	return byDefault(a, b)
}

// isOut reports whether the plugin is currently not called.
func (p *queueSort) isOut() bool {
	if p.givenUp >= maxHung || p.r.lane.hungBy(p.name) >= maxHung {
		return true
	}
	if p.hung == nil {
		return false
	}
	if !p.hung.returned.Load() {
		return true
	}
	p.hung = nil
	return false
}

// failed processes a failed comparison.
func (p *queueSort) failed(c *comparison, err error) {
	log := p.r.config.Log
	if err == nil {
		p.observe(QueueSort, fwk.Error, 1, nil)
		if !p.panicked {
			p.panicked = true
			log.Error(nil, "Plugin panicked at QueueSort: pods that it panics for are ordered by priority and time", "plugin", p.name, "panic", c.panicked)
		}
		return
	}
	p.observe(QueueSort, fwk.Error, 1, err)
	p.current = newComparison(p.plugin)
	if p.hung = c; c.returned.Load() { // by runtime.Goexit, or a moment too late
		p.hung = nil
	}
	if p.givenUp++; p.givenUp == maxHung {
		log.Error(err, "Plugin has failed too often at QueueSort: all pods are ordered by priority and time until the scheduler is restarted", "plugin", p.name)
		return
	}
	log.Error(err, "Plugin failed at QueueSort: all pods are ordered by priority and time until the call returns", "plugin", p.name)
}

// byDefault is kube-scheduler's default order.
func byDefault(a, b plugin.Queued) bool {
	return a.Pod.Priority > b.Pod.Priority || a.Pod.Priority == b.Pod.Priority && a.Since.Before(b.Since)
}

// shownOf returns the plugins' view of a pending pod: the stored view, if it is up to
// date.
func shownOf(q plugin.Queued, types *public.Types) *queuedPod {
	if q.Waiting == nil {
		return newQueuedPod(q, nil, types)
	}
	sorted := q.Waiting.Sorted()
	shown, _ := (*sorted).(*queuedPod)
	if shown == nil || !shown.shows(q) {
		shown = newQueuedPod(q, shown, types)
		*sorted = shown
	}
	return shown
}

// queuedPod is a pending pod for QueueSort plugins. Like kube-scheduler's type, it has a
// method GetPodInfo. It never changes, so that plugins may keep it and abandoned calls
// may go on reading it.
type queuedPod struct {
	copied                   *copied
	since, ready, backoffEnd time.Time
	turns                    plugin.Turns
	rejectors, pending       []string
	gate                     string
	// converted is the value for plugins that get values of other types.
	converted fwk.QueuedEntityInfo
}

var (
	_ fwk.QueuedEntityInfo = (*queuedPod)(nil)
	_ plugin.Sorted        = (*queuedPod)(nil)
)

// IsSorted marks the type as a plugin.Sorted.
func (*queuedPod) IsSorted() {}

// copied is a version of a pod, with the copy for plugins, which is made on first use.
type copied struct {
	pod   *model.Pod
	types *public.Types
	once  sync.Once
	info  fwk.PodInfo
}

// newQueuedPod returns the view of a pending pod. It shares the copy with the previous
// view if that has the same version.
func newQueuedPod(q plugin.Queued, before *queuedPod, types *public.Types) *queuedPod {
	shown := &queuedPod{since: q.Since}
	if before != nil && before.copied.pod == q.Pod {
		shown.copied = before.copied
	} else {
		shown.copied = &copied{pod: q.Pod, types: types}
	}
	if w := q.Waiting; w != nil {
		shown.turns, shown.ready, shown.backoffEnd = w.Turns(), w.Ready(), w.BackoffEnd()
		shown.rejectors, shown.pending, shown.gate = slices.Clone(w.Rejectors()), slices.Clone(w.Pending()), w.Gate()
	}
	return shown
}

// entity returns the pending pod in the form that plugins get. The loop's goroutine calls
// it.
func (q *queuedPod) entity() fwk.QueuedEntityInfo {
	if q.copied.types == nil {
		return q
	}
	if q.converted == nil {
		q.converted = q.copied.types.Queued(q, q.GetPodInfo())
	}
	return q.converted
}

// shows reports whether the view is up to date.
func (q *queuedPod) shows(now plugin.Queued) bool {
	w := now.Waiting
	return q.copied.pod == now.Pod && q.since == now.Since && q.turns == w.Turns() &&
		q.ready == w.Ready() && q.backoffEnd == w.BackoffEnd() && slices.Equal(q.rejectors, w.Rejectors()) && slices.Equal(q.pending, w.Pending()) && q.gate == w.Gate()
}

// GetPodInfo returns a copy of the pod, the same each time.
func (q *queuedPod) GetPodInfo() fwk.PodInfo {
	c := q.copied
	c.once.Do(func() { c.info = c.types.NewPodInfo(copyOf(c.pod)) })
	return c.info
}

// The other methods are kube-scheduler's. Values that the queue lacks are zero.

func (q *queuedPod) Type() fwk.EntityKeyType                   { return fwk.PodKeyType }
func (q *queuedPod) GetPriority() int32                        { return q.copied.pod.Priority }
func (q *queuedPod) GetTimestamp() time.Time                   { return q.since }
func (q *queuedPod) GetGatingPluginEvents() []fwk.ClusterEvent { return nil }
func (q *queuedPod) GetAttempts() int                          { return q.turns.Attempts }
func (q *queuedPod) GetBackoffExpiration() time.Time           { return q.backoffEnd }
func (q *queuedPod) GetUnschedulableCount() int                { return q.turns.Rejections }
func (q *queuedPod) GetConsecutiveErrorsCount() int            { return q.turns.Errors }
func (q *queuedPod) GetUnschedulablePlugins() sets.Set[string] { return sets.New(q.rejectors...) }
func (q *queuedPod) GetPendingPlugins() sets.Set[string]       { return sets.New(q.pending...) }
func (q *queuedPod) GetGatingPlugin() string                   { return q.gate }

func (q *queuedPod) GetInitialAttemptTimestamp() *time.Time {
	if q.ready.IsZero() {
		return nil
	}
	ready := q.ready
	return &ready
}
