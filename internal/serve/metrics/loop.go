package metrics

import (
	"strings"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/queue"
)

// Loop observes a loop and, through Enter and Timing, the phases and plugins of its
// decisions. Only the loop's goroutine uses it.
type Loop struct {
	families *families
	resets   *resets
	known    uint64 // the number of resets at the last lookUp
	version  string

	phases  stopwatch
	plugins plugins
	members loopMembers
}

// loopMembers are cached members of families.
type loopMembers struct {
	units            [price.Kinds]metrics.CounterMetric
	unfinished       metrics.CounterMetric
	open, yielding   metrics.GaugeMetric // accounts
	algorithm, apply metrics.ObserverMetric
	victims          metrics.ObserverMetric
	preemptions      metrics.CounterMetric
	phases           map[string]metrics.ObserverMetric
	events           map[string]metrics.ObserverMetric
	moves            map[moveKey]moveMembers
	profiles         map[string]*profileMembers

	pending, entities queueMembers
	incomplete        metrics.GaugeMetric // members of groups, part of pending
	nodes, pods       metrics.GaugeMetric
	assumed           metrics.GaugeMetric
	columns, tallies  sizeMembers
	rejections        sizeMembers
	recalls           total
	rankings          sizeMembers
	ranked            total
	unschedulable     map[loop.Unschedulable]*waiting // by profile and plugin, with Pods 0
	evaluations       map[loop.Asked]*total           // by profile, plugin and phase, with Times 0
	finds, fills      total
	asked, scanned    total
	hints             total
	tallyFinds        total
	tallyFills        total
	tallyUpdates      total
	changes           metrics.CounterMetric
	executions        executionMembers
}

// moveKey is the queue and the event of moves.
type moveKey struct{ queue, event string }

// moveMembers count one kind of move.
type moveMembers struct{ pods, entities metrics.CounterMetric }

// queueMembers are a gauge's members by queue.
type queueMembers struct{ active, backoff, unschedulable, gated metrics.GaugeMetric }

func (q *queueMembers) set(c queue.Counts) {
	q.active.Set(float64(c.Active))
	q.backoff.Set(float64(c.BackingOff))
	q.unschedulable.Set(float64(c.Parked))
	q.gated.Set(float64(c.Gated))
}

// sizeMembers are the gauges of a cache: entries and bytes.
type sizeMembers struct{ count, bytes metrics.GaugeMetric }

func (m *sizeMembers) set(count, bytes int) {
	m.count.Set(float64(count))
	m.bytes.Set(float64(bytes))
}

// profileMembers are the members that observe a decision for one profile.
type profileMembers struct {
	unschedulable, failed attemptMembers
	points                [engine.Phases]map[string]metrics.ObserverMetric // by status
}

// attemptMembers are the members that observe attempts with one result.
type attemptMembers struct {
	count    metrics.CounterMetric
	duration metrics.ObserverMetric
}

func (f *families) attempt(result, profile string) attemptMembers {
	return attemptMembers{
		count:    f.counterVecs["scheduler_schedule_attempts_total"].WithLabelValues(result, profile),
		duration: f.histogramVecs["scheduler_scheduling_attempt_duration_seconds"].WithLabelValues(result, profile),
	}
}

func (a *attemptMembers) observe(took time.Duration) {
	a.count.Inc()
	a.duration.Observe(took.Seconds())
}

// The results of attempts, and the statuses of extension points.
const (
	scheduled     = "scheduled"
	unschedulable = "unschedulable"
	failed        = "error"

	statusSuccess      = "Success"
	statusError        = "Error"
	statusUnresolvable = "UnschedulableAndUnresolvable"

	statusUnschedulable = "Unschedulable"
)

// The events of pending pods.
const (
	podAdd    = "UnscheduledPodAdd"
	podUpdate = "UnscheduledPodUpdate"
	podDelete = "UnscheduledPodDelete"
)

// typePod is the type of queue entries that are not groups.
const typePod = "pod"

func newLoop(f *families, r *resets, version string) *Loop {
	l := &Loop{families: f, resets: r, version: version, plugins: newPlugins()}
	l.lookUp()
	return l
}

// lookUp looks up the members that always exist, and drops the others.
func (l *Loop) lookUp() {
	f := l.families
	l.known = l.resets.count.Load()
	before := l.members
	phase := f.histogramVecs["berth_decision_phase_duration_seconds"]
	size := f.gaugeVecs["scheduler_cache_size"]
	l.members = loopMembers{
		algorithm:   f.histograms["scheduler_scheduling_algorithm_duration_seconds"],
		victims:     f.histograms["scheduler_preemption_victims"],
		preemptions: f.counters["scheduler_preemption_attempts_total"],
		apply:       f.histograms["berth_changes_apply_duration_seconds"],
		changes:     f.counters["berth_changes_total"],
		phases:      map[string]metrics.ObserverMetric{},
		events:      map[string]metrics.ObserverMetric{},
		moves:       map[moveKey]moveMembers{},
		profiles:    map[string]*profileMembers{},
		pending:     queuesOf(f.gaugeVecs["scheduler_pending_pods"]),
		incomplete:  f.gaugeVecs["scheduler_pending_pods"].WithLabelValues("incomplete"),
		entities:    queuesOf(f.gaugeVecs["scheduler_queued_entities"], typePod),
		nodes:       size.WithLabelValues("nodes"), pods: size.WithLabelValues("pods"), assumed: size.WithLabelValues("assumed_pods"),
		columns:       sizeMembers{f.gauges["berth_columns"], f.gauges["berth_column_bytes"]},
		rejections:    sizeMembers{f.gauges["berth_rejections"], f.gauges["berth_rejection_bytes"]},
		recalls:       total{f.counters["berth_rejection_hits_total"], before.recalls.seen},
		rankings:      sizeMembers{f.gauges["berth_rankings"], f.gauges["berth_ranking_bytes"]},
		ranked:        total{f.counters["berth_ranking_hits_total"], before.ranked.seen},
		tallies:       sizeMembers{f.gauges["berth_tallies"], f.gauges["berth_tally_bytes"]},
		unschedulable: map[loop.Unschedulable]*waiting{},
		evaluations:   map[loop.Asked]*total{},
		executions:    executionMembers{},
		// Counts from before a reset are not added again after it.
		finds:        total{f.counters["berth_column_hits_total"], before.finds.seen},
		units:        unitsOf(f.counterVecs["berth_scheduling_work_units_total"]),
		unfinished:   f.counters["berth_unfinished_turns_total"],
		open:         f.gaugeVecs["berth_scheduling_accounts"].WithLabelValues("open"),
		yielding:     f.gaugeVecs["berth_scheduling_accounts"].WithLabelValues("yielding"),
		fills:        total{f.counters["berth_column_fills_total"], before.fills.seen},
		asked:        total{f.counters["berth_evaluations_total"], before.asked.seen},
		hints:        total{f.counters["berth_hints_total"], before.hints.seen},
		scanned:      total{f.counters["berth_scanned_nodes_total"], before.scanned.seen},
		tallyFinds:   total{f.counters["berth_tally_hits_total"], before.tallyFinds.seen},
		tallyFills:   total{f.counters["berth_tally_fills_total"], before.tallyFills.seen},
		tallyUpdates: total{f.counters["berth_tally_updates_total"], before.tallyUpdates.seen},
	}
	for key, was := range before.evaluations {
		l.evaluations(key).seen = was.seen
	}
	for _, name := range append([]string{"pop", "record", "settle"}, phaseNames[:]...) {
		l.members.phases[name] = phase.WithLabelValues(name)
	}
	// Series that kube-scheduler exports from the start, and that are always 0 here.
	f.gaugeVecs["scheduler_inflight_events"].WithLabelValues("PodPopped").Set(0)
	f.gaugeVecs["scheduler_pending_pods"].WithLabelValues("pending").Set(0)
	for _, operation := range []string{"Filter", "Score", "InterPodAffinity", "PodTopologySpread"} {
		f.gaugeVecs["scheduler_goroutines"].WithLabelValues(operation).Set(0)
	}
	f.gaugeVecs["berth_build_info"].WithLabelValues(l.version).Set(1)
}

func unitsOf(family *metrics.CounterVec) (by [price.Kinds]metrics.CounterMetric) {
	for kind := range by {
		by[kind] = family.WithLabelValues(price.Kind(kind).String())
	}
	return by
}

func queuesOf(family *metrics.GaugeVec, more ...string) queueMembers {
	of := func(queue string) metrics.GaugeMetric {
		return family.WithLabelValues(append([]string{queue}, more...)...)
	}
	return queueMembers{of("active"), of("backoff"), of("unschedulable"), of("gated")}
}

// Round observes a round.
func (l *Loop) Round(r *loop.Round) {
	if l.known != l.resets.count.Load() {
		l.lookUp()
	}
	if r.Changes > 0 {
		l.members.changes.Add(float64(r.Changes))
		l.members.apply.Observe(r.Applying.Seconds())
		l.events(r)
	}
	for i := range r.Moves {
		l.move(&r.Moves[i])
	}
	if r.Turn != nil {
		for kind, units := range r.Cost {
			if units > 0 {
				l.members.units[kind].Add(float64(units))
			}
		}
	}
	if r.Unfinished {
		l.members.unfinished.Inc()
	}
	if r.Generated > 0 {
		l.placements(r, r.Turn.SchedulerName)
	}
	if r.Attempt != nil && r.Attempt.Members[0].Outcome != plan.Terminating {
		l.decision(r)
	}
	l.executions()
}

// events observes the time of each change. Changes are applied in batches, so each counts
// with an equal share of its batch's time.
func (l *Loop) events(r *loop.Round) {
	d := &r.Delta
	n := len(d.Events) + len(d.Arrived) + len(d.Left)
	if n == 0 {
		return
	}
	share := (r.Applying / time.Duration(n)).Seconds()
	for i := range d.Events {
		l.event(d.Events[i].Label()).Observe(share)
	}
	fresh := 0 // of the pods that arrived; the others are new versions of pending pods
	for i := range r.Moves {
		if r.Moves[i].Event == podAdd {
			fresh += r.Moves[i].Pods
		}
	}
	for i := range d.Arrived {
		label := podUpdate
		if i < fresh {
			label = podAdd
		}
		l.event(label).Observe(share)
	}
	for range d.Left {
		l.event(podDelete).Observe(share)
	}
}

func (l *Loop) event(label string) metrics.ObserverMetric {
	m := l.members.events[label]
	if m == nil {
		m = l.families.histogramVecs["scheduler_event_handling_duration_seconds"].WithLabelValues(label)
		l.members.events[label] = m
	}
	return m
}

func (l *Loop) move(move *queue.Move) {
	key := moveKey{move.Queue, move.Event}
	m, ok := l.members.moves[key]
	if !ok {
		m = moveMembers{
			pods:     l.families.counterVecs["scheduler_queue_incoming_pods_total"].WithLabelValues(move.Queue, move.Event),
			entities: l.families.counterVecs["scheduler_queue_incoming_entities_total"].WithLabelValues(move.Queue, move.Event, typePod),
		}
		l.members.moves[key] = m
	}
	pods := float64(move.Pods)
	m.pods.Add(pods)
	m.entities.Add(pods)
}

// preemptionText is the prefix of DefaultPreemption's part of a rejection message, with
// and without victims. Other PostFilter plugins may run earlier and end the chain.
const preemptionText = "preemption: "

func (l *Loop) decision(r *loop.Round) {
	members := r.Attempt.Members
	d := &members[0]
	l.members.algorithm.Observe(r.Deciding.Seconds())
	l.members.phases["pop"].Observe(r.Popping.Seconds())
	if r.Witnessing > 0 {
		l.members.phases["record"].Observe(r.Witnessing.Seconds())
	}
	l.members.phases["settle"].Observe(r.Settling.Seconds())
	p := l.profile(d.Pod.SchedulerName)
	for phase, took := range l.phases.of(r.Deciding) {
		if phase == engine.PostFilter && strings.Contains(d.PostFilter, preemptionText) {
			l.members.preemptions.Inc()
		}
		l.members.phases[phaseNames[phase]].Observe(took.Seconds())
		l.point(p, phase, d).Observe(took.Seconds())
	}
	if r.Attempt.Group != nil {
		l.group(r)
	} else if len(d.Evictions) > 0 {
		l.members.victims.Observe(float64(len(d.Evictions)))
	}
	countVolumeError(l.families, d.Err)
	// Each member of a group counts with an equal share.
	took := (r.Deciding + r.Settling) / time.Duration(len(members))
	for i := range members {
		switch members[i].Outcome {
		case plan.Placed, plan.Terminating: // observed when the pod is bound, or not at all
		case plan.Unschedulable, plan.NoNodes:
			p.unschedulable.observe(took)
		default:
			p.failed.observe(took)
		}
	}
}

// group observes the outcome of a pod group, which its members' decisions do not include.
func (l *Loop) group(r *loop.Round) {
	a, attempts := r.Attempt, l.families.counterVecs["scheduler_podgroup_schedule_attempts_total"]
	// The feature gate is off, or the group had nothing to decide.
	if attempts == nil || a.Outcome == plan.Terminating {
		return
	}
	result := failed
	switch {
	case a.Waits():
		result = "waiting_on_preemption"
	case a.Outcome == plan.Placed:
		result = scheduled
	case a.Outcome == plan.Unschedulable:
		result = unschedulable
	}
	profile := a.First().SchedulerName
	attempts.WithLabelValues(result, profile).Inc()
	l.families.histogramVecs["scheduler_podgroup_scheduling_attempt_duration_seconds"].WithLabelValues(result, profile).Observe((r.Deciding + r.Settling).Seconds())
	l.families.histograms["scheduler_podgroup_scheduling_algorithm_duration_seconds"].Observe(r.Deciding.Seconds())
	found := a.Preemption
	if found == nil {
		return
	}
	l.families.counterVecs["scheduler_workload_preemption_attempts_total"].WithLabelValues(found.Status).Inc()
	if !a.Waits() || found.Ongoing {
		return
	}
	l.families.histograms["scheduler_workload_preemption_victims"].Observe(float64(found.Victims))
	if found.Disruptions > 0 {
		l.families.histogramVecs["scheduler_preemption_workload_disruptions"].WithLabelValues(preemptorOf(a.Tree != nil)).Observe(float64(found.Disruptions))
	}
	if found.Violations > 0 {
		l.families.counterVecs["scheduler_preemption_pdb_violations_total"].WithLabelValues(preemptorOf(a.Tree != nil)).Add(float64(found.Violations))
	}
}

// The kinds of preemptors.
const (
	preemptorPod   = "pod"
	preemptorGroup = "podgroup"
	preemptorTree  = "compositepodgroup"
)

// preemptorOf returns the kind of a preemptor: a tree of groups, or one pod group.
func preemptorOf(tree bool) string {
	if tree {
		return preemptorTree
	}
	return preemptorGroup
}

// The results of trying a domain placement.
const (
	feasible   = "feasible"
	infeasible = "infeasible"
)

// placements observes the domain placements that were tried for a pod group.
func (l *Loop) placements(r *loop.Round, profile string) {
	generated := l.families.counterVecs["scheduler_generated_placements_total"]
	if generated == nil { // without the feature gate
		return
	}
	generated.WithLabelValues(profile).Add(float64(r.Generated))
	count, duration := l.families.counterVecs["scheduler_placement_evaluations_total"], l.families.histogramVecs["scheduler_placement_evaluation_duration_seconds"]
	for _, e := range r.Evaluated {
		result := infeasible
		if e.Feasible {
			result = feasible
		}
		count.WithLabelValues(result, profile).Inc()
		duration.WithLabelValues(result, profile).Observe(e.Took.Seconds())
	}
}

// point returns the observer of a phase's extension point.
func (l *Loop) point(p *profileMembers, phase engine.Phase, d *plan.Decision) metrics.ObserverMetric {
	status := statusSuccess
	switch last := l.phases.last; {
	case phase == engine.PostFilter && d.PostFilterErr != nil:
		status = statusError
	case phase == engine.PostFilter && d.NominationOf(d.Pod).Mode != plan.Set:
		status = statusUnschedulable
	case phase == engine.PostFilter:
	case phase == last && (d.Outcome == plan.Failed || d.Outcome == plan.NoNodes):
		status = statusError
	// PostFilter may have followed
	case phase == engine.PreFilter && !l.phases.entered[engine.Filter] && d.Rejection != nil:
		status = statusUnresolvable
	}
	m := p.points[phase][status]
	if m == nil {
		m = l.families.histogramVecs["scheduler_framework_extension_point_duration_seconds"].
			WithLabelValues(pointNames[phase], status, d.Pod.SchedulerName)
		p.points[phase][status] = m
	}
	return m
}

func (l *Loop) profile(name string) *profileMembers {
	p := l.members.profiles[name]
	if p == nil {
		p = &profileMembers{unschedulable: l.families.attempt(unschedulable, name), failed: l.families.attempt(failed, name)}
		for i := range p.points {
			p.points[i] = map[string]metrics.ObserverMetric{}
		}
		l.members.profiles[name] = p
	}
	return p
}

// Standing updates the gauges and counters from the loop's totals.
func (l *Loop) Standing(s *loop.Standing) {
	if l.known != l.resets.count.Load() {
		l.lookUp()
	}
	m := &l.members
	m.pending.set(s.Queue)
	m.entities.set(s.Queue)
	m.incomplete.Set(float64(s.Queue.Incomplete))
	m.nodes.Set(float64(s.Nodes))
	m.pods.Set(float64(s.Pods))
	m.assumed.Set(float64(s.Assumed))
	m.columns.set(s.Columns, s.ColumnBytes)
	m.rejections.set(s.Rejections, s.RejectionBytes)
	m.recalls.reach(s.Work.Recalled)
	m.rankings.set(s.Rankings, s.RankingBytes)
	m.ranked.reach(s.Work.Ranked)
	m.tallies.set(s.Tallies, s.TallyBytes)
	m.finds.reach(s.Work.Found)
	m.fills.reach(s.Work.Filled)
	m.asked.reach(s.Work.Asked)
	m.scanned.reach(s.Work.Visited)
	m.hints.reach(s.HintsAsked)
	m.open.Set(float64(s.Accounts))
	m.yielding.Set(float64(s.Yielding))
	m.tallyFinds.reach(s.TalliesFound)
	m.tallyFills.reach(s.TalliesBuilt)
	m.tallyUpdates.reach(s.TallyUpdates)
	for _, u := range s.Unschedulable {
		l.unschedulable(u.Profile, u.Plugin).pods += u.Pods
	}
	for _, w := range m.unschedulable {
		w.gauge.Set(float64(w.pods))
		w.pods = 0
	}
	for _, a := range s.Asked {
		l.evaluations(loop.Asked{Profile: a.Profile, Plugin: a.Plugin, Phase: a.Phase}).reach(a.Times)
	}
}

// waiting is the number of pods that a plugin keeps unschedulable.
type waiting struct {
	gauge metrics.GaugeMetric
	pods  int
}

func (l *Loop) unschedulable(profile, plugin string) *waiting {
	key := loop.Unschedulable{Profile: profile, Plugin: plugin}
	w := l.members.unschedulable[key]
	if w == nil {
		w = &waiting{gauge: l.families.gaugeVecs["scheduler_unschedulable_pods"].WithLabelValues(plugin, profile)}
		l.members.unschedulable[key] = w
	}
	return w
}

// evaluations returns the counter of calls of a plugin; Times of the key is 0.
func (l *Loop) evaluations(key loop.Asked) *total {
	t := l.members.evaluations[key]
	if t == nil {
		family := l.families.counterVecs["scheduler_plugin_evaluation_total"]
		t = &total{counter: family.WithLabelValues(key.Plugin, pointNames[key.Phase], key.Profile)}
		l.members.evaluations[key] = t
	}
	return t
}
