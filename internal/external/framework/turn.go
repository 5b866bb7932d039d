package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

var _ plugin.External = (*Runtime)(nil)

// turn is the data of one pod's turn. Plugins have the state and the copies of the pod,
// and may keep them; the rest belongs to the loop.
type turn struct {
	view state.View
	pod  *model.Pod
	// object is a copy of the pod for plugins, up to Reserve.
	object *v1.Pod
	state  fwk.CycleState
	// skippedFilters and skippedScores are the names of plugins that returned Skip at
	// PreFilter, and at PreScore.
	skippedFilters, skippedScores sets.Set[string]
	dryRuns                       []*dryRun
	podInfos                      map[*model.Pod]fwk.PodInfo // of pods in dry runs
	// preFilter has the reasons of rejections at PreFilter, by plugin.
	preFilter map[string][]string
	// binding is set by the first Reserve plugin, or by the first call of Steps.
	binding *binding
	bare    bool // nodes are scored as if they were empty
	placed  bool // its steps were created, and it has not been undone
}

// Begin begins a pod's turn.
func (r *Runtime) Begin(v state.View, pod *model.Pod) {
	r.config.Leaving.wait()
	r.config.Snapshot.Update(v)
	t := &turn{view: v, pod: pod, object: copyOf(pod), state: r.config.Types.NewCycleState(), skippedFilters: sets.Set[string]{}, skippedScores: sets.Set[string]{}}
	r.turn = t
	r.handle.nominator.begin(v)
	r.lane.beginTurn(pod)
}

// Nominations returns plugins' changes of nominations that the state does not have yet.
func (r *Runtime) Nominations() []plan.Nomination { return r.handle.nominations() }

// Bare makes plugins score nodes as if they were empty, in this turn.
func (r *Runtime) Bare() { r.turn.bare = true }

// End ends the turn. If the pod was placed, it activates the pods that plugins want
// retried.
func (r *Runtime) End() {
	t := r.turn
	r.turn = nil
	r.lane.endTurn()
	r.handle.nominator.end()
	if t != nil && t.placed {
		r.activate(t.state)
	}
}

// Unreserve undoes the Reserve plugins for the placement of this turn. All of them are
// called, whichever failed, as in kube-scheduler.
func (r *Runtime) Unreserve(p *plan.Placement) {
	t := r.turn
	if t == nil || len(r.reserves) == 0 {
		return
	}
	t.placed = false
	t.bindingOf(r, p.NodeName).undo(func(p *reserve, unreserve func(ctx context.Context, pod *v1.Pod)) {
		pod := t.binding.pod
		err := r.lane.run(Unreserve, p.name, func(ctx context.Context) { unreserve(ctx, pod) })
		p.observe(Unreserve, fwk.Success, 1, err)
		if err != nil {
			t.renew(nil)
			r.config.Log.Error(err, "Plugin failed at Unreserve", "plugin", p.name, "pod", klog.KObj(t.binding.pod), "node", t.binding.nodeName)
		}
	})
	t.binding = nil
}

// copyOf returns a new copy of a pod's object.
func copyOf(pod *model.Pod) *v1.Pod {
	object := pod.Object.DeepCopy()
	object.Status.NominatedNodeName = pod.NominatedNode // the API's value may be older
	return object
}

// nodeInfo returns the NodeInfo of a node in the turn's view.
func (r *Runtime) nodeInfo(slot int32) fwk.NodeInfo {
	return r.config.Snapshot.NodeInfoIn(r.turn.view, slot)
}

// podInfo returns the PodInfo of a pod in a dry run: its node's PodInfo, or a new one for
// a copy.
func (t *turn) podInfo(r *Runtime, pod *model.Pod, slot int32) fwk.PodInfo {
	info := t.podInfos[pod]
	if info != nil {
		return info
	}
	for _, p := range r.nodeInfo(slot).GetPods() {
		if p.GetPod().UID == pod.UID {
			info = p
		}
	}
	if info == nil {
		info = r.config.Types.NewPodInfo(copyOf(pod))
	}
	if t.podInfos == nil {
		t.podInfos = map[*model.Pod]fwk.PodInfo{}
	}
	t.podInfos[pod] = info
	return info
}

// dryRun is the plugins' view of a dry run: the CycleState and the NodeInfos that AddPod
// and RemovePod have changed.
type dryRun struct {
	trail   state.Trail
	applied int // of the draft's changes
	state   fwk.CycleState
	nodes   map[int32]fwk.NodeInfo // where pods were added or removed
	err     error
}

// maxDryRuns limits the stored dry runs of a turn: the engine and preemption have one
// each.
const maxDryRuns = 8

// dryRunOf returns the dry run of a view, with all changes of its draft. Plugins get each
// change once.
func (r *Runtime) dryRunOf(trail state.Trail, v state.View) (*dryRun, error) {
	d := r.turn.storedRun(trail)
	changes, published := r.newChanges(d, v)
	if d.err != nil || len(changes) == 0 && d.state != nil {
		return d, d.err
	}
	if failed := r.apply(d, changes, published); failed != nil {
		return nil, failed
	}
	return d, d.err
}

// storedRun returns the stored dry run of a trail, or stores a new one. It drops the dry
// run of the draft before its reset.
func (t *turn) storedRun(trail state.Trail) *dryRun {
	for i, kept := range t.dryRuns {
		if kept.trail == trail {
			return kept
		}
		if kept.trail.SameDraft(trail) { // the draft was reset
			t.dryRuns = append(t.dryRuns[:i], t.dryRuns[i+1:]...)
			break
		}
	}
	if len(t.dryRuns) >= maxDryRuns {
		clear(t.dryRuns)
		t.dryRuns = t.dryRuns[:0]
	}
	d := &dryRun{trail: trail, nodes: map[int32]fwk.NodeInfo{}}
	t.dryRuns = append(t.dryRuns, d)
	return d
}

// draftChange adds a pod to a node (n is 1) or removes it (n is -1).
type draftChange struct {
	pod  fwk.PodInfo
	slot int32
	n    int32
}

// newChanges returns the changes of a view that plugins have not seen in the dry run. It
// also returns the turn's NodeInfos of the nodes that the dry run has not changed yet.
func (r *Runtime) newChanges(d *dryRun, v state.View) (changes []draftChange, published map[int32]fwk.NodeInfo) {
	published = map[int32]fwk.NodeInfo{}
	for c := range v.ChangesFrom(d.applied) {
		changes = append(changes, draftChange{r.turn.podInfo(r, c.Pod, c.Slot), c.Slot, c.N})
		if d.nodes[c.Slot] == nil {
			published[c.Slot] = r.nodeInfo(c.Slot)
		}
	}
	return changes, published
}

// apply makes the changes in a dry run, in one call of the lane. An error of a plugin
// becomes the error of the dry run. A failed call is returned, and ends the dry run.
func (r *Runtime) apply(d *dryRun, changes []draftChange, published map[int32]fwk.NodeInfo) (failed error) {
	t := r.turn
	extensions := r.extensions(t.skippedFilters)
	base, object, log := t.state, t.object, r.config.Log
	var running atomic.Pointer[string] // the plugin that is being called
	err, failed := call(r.lane, AddPod, names(extensions), func(ctx context.Context) error {
		if d.state == nil {
			d.state = base.Clone()
		}
		for _, c := range changes {
			node := d.nodes[c.slot]
			if node == nil {
				node = published[c.slot].Snapshot()
				d.nodes[c.slot] = node
			}
			if c.n > 0 {
				node.AddPodInfo(c.pod)
			} else if err := node.RemovePod(log, c.pod.GetPod()); err != nil {
				return err
			}
			for _, p := range extensions {
				running.Store(&p.name)
				if err := p.extend(ctx, d.state, object, c.pod, node, c.n > 0); err != nil {
					return err
				}
			}
		}
		return nil
	})
	d.applied += len(changes)
	if failed != nil {
		var f *Failure
		if name := running.Load(); name != nil && errors.As(failed, &f) {
			f.Plugin = *name
		}
		t.fail(d, failed)
		return failed
	}
	d.err = err
	return nil
}

// fail ends a dry run: from now on every call returns the error. An abandoned call may
// still use the dry run's data.
func (t *turn) fail(d *dryRun, err error) {
	t.dryRuns[slices.Index(t.dryRuns, d)] = &dryRun{trail: d.trail, err: err}
}

// extensions returns the plugins whose AddPod and RemovePod are called.
func (r *Runtime) extensions(skipped sets.Set[string]) []*preFilter {
	var list []*preFilter
	for _, p := range r.preFilters {
		if !skipped.Has(p.name) {
			list = append(list, p)
		}
	}
	return list
}

// names returns the names of plugins that run in one call.
func names(plugins []*preFilter) string {
	name := ""
	for i, p := range plugins {
		if i > 0 {
			name += ","
		}
		name += p.name
	}
	return name
}

// extend calls AddPod or RemovePod of a plugin, if it has them. The error has
// kube-scheduler's text.
func (p *preFilter) extend(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, other fwk.PodInfo, node fwk.NodeInfo, add bool) error {
	extensions := p.plugin.PreFilterExtensions()
	if extensions == nil {
		return nil
	}
	point, verb := RemovePod, "RemovePod"
	var status *fwk.Status
	if add {
		point, verb = AddPod, "AddPod"
		status = extensions.AddPod(ctx, cycle, pod, other, node)
	} else {
		status = extensions.RemovePod(ctx, cycle, pod, other, node)
	}
	switch o := read(status, point, success|failing|rejecting); {
	case o.code == fwk.Success:
		return nil
	case o.isRejection():
		return fmt.Errorf("running %s on PreFilter plugin %q: %s", verb, p.name, o.message())
	default:
		return fmt.Errorf("running %s on PreFilter plugin %q: %w", verb, p.name, o.err)
	}
}
