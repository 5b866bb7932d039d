package framework

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// filter is a Filter plugin. It keeps the outcomes of one turn.
type filter struct {
	external
	plugin fwk.FilterPlugin
	turn   *turn // of the fields below
	// list are the distinct outcomes of the turn; code n stands for the n-th, counted
	// from 1.
	list  []outcome
	codes map[string]reason.Code
	key   []byte
}

const codeMask = reason.Failed - 1

// verdicts are a filter's verdicts in one view.
type verdicts struct {
	f *filter
	v state.View
	// trail identifies a dry run; zero for the view of the turn.
	trail state.Trail
}

var (
	_ plugin.TurnVerdicts = (*verdicts)(nil)
)

// verdictsIn returns the verdicts in a view.
func (f *filter) verdictsIn(v state.View) (plugin.TurnVerdicts, error) {
	t := f.r.turn
	if f.turn != t {
		f.turn, f.list, f.codes = t, f.list[:0], map[string]reason.Code{}
	}
	if t.skippedFilters.Has(f.name) {
		return nil, nil
	}
	return &verdicts{f, v, v.Trail()}, nil
}

// Filter returns the verdict on one node.
func (v *verdicts) Filter(node state.Node) reason.Code {
	slots, codes := [1]int32{node.Slot()}, [1]reason.Code{}
	v.FilterAll(slots[:], codes[:])
	return codes[0]
}

// FilterAll writes the verdicts on nodes. One call of the lane runs the plugin for all of
// them.
func (v *verdicts) FilterAll(slots []int32, codes []reason.Code) {
	// A plugin is running the built-in filters, and runs out-of-tree ones itself.
	if v.f.r.handle.gate.open {
		clear(codes)
		return
	}
	v.ask(slots, codes)
}

// ask runs the plugin for nodes, in one call of the lane.
func (v *verdicts) ask(slots []int32, codes []reason.Code) {
	f := v.f
	r := f.r
	t := r.turn
	cycle := t.state
	var d *dryRun
	if v.trail != (state.Trail{}) {
		var err error
		if d, err = r.dryRunOf(v.trail, v.v); err != nil {
			f.failAll(codes, err)
			return
		}
		cycle = d.state
	}
	nodes, outcomes := r.memoryFor(d, slots)
	if err := f.run(cycle, t.object, nodes, outcomes); err != nil {
		r.batch = nil
		if d != nil {
			t.fail(d, err)
		}
		f.failAll(codes, err)
		f.observe(Filter, fwk.Error, len(nodes), err)
		return
	}
	var worst fwk.Code
	for i, o := range outcomes {
		codes[i] = reason.None
		if o != nil {
			codes[i] = f.codeOf(o)
			if worst != fwk.Error {
				worst = o.code
			}
		}
	}
	f.observe(Filter, worst, len(nodes), nil)
}

// memoryFor returns the NodeInfos of slots, in a dry run unless d is nil, and memory for
// their outcomes.
func (r *Runtime) memoryFor(d *dryRun, slots []int32) ([]fwk.NodeInfo, []*outcome) {
	if d == nil {
		b := r.batchOf(slots)
		return b.nodes, b.outcomesOf(len(slots))
	}
	// The call gets its own memory, because it may go on after it is abandoned.
	nodes, outcomes := make([]fwk.NodeInfo, len(slots)), make([]*outcome, len(slots))
	for i, slot := range slots {
		if nodes[i] = d.nodes[slot]; nodes[i] == nil {
			nodes[i] = r.nodeInfo(slot)
		}
	}
	return nodes, outcomes
}

// run calls the plugin for nodes and writes the outcomes other than success.
func (f *filter) run(cycle fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, outcomes []*outcome) error {
	return f.r.lane.run(Filter, f.name, func(ctx context.Context) {
		var last *fwk.Status // plugins often return one status for many nodes
		var said *outcome
		for i, node := range nodes {
			status := f.plugin.Filter(ctx, cycle, pod, node)
			if status == nil {
				continue
			}
			if status != last {
				o := read(status, Filter, success|failing|rejecting)
				last, said = status, &o
			}
			if said.code != fwk.Success {
				outcomes[i] = said
			}
		}
	})
}

// failAll sets all codes to the code of an error.
func (f *filter) failAll(codes []reason.Code, err error) {
	code := f.failed(err)
	for i := range codes {
		codes[i] = code
	}
}

// failed returns the code of an error.
func (f *filter) failed(err error) reason.Code { return f.codeOf(&outcome{code: fwk.Error, err: err}) }

// codeOf returns the code of an outcome, the same for equal outcomes. Pending is a
// rejection that preemption cannot resolve.
func (f *filter) codeOf(o *outcome) reason.Code {
	f.key = append(f.key[:0], byte(o.code))
	if o.err != nil {
		f.key = append(f.key, o.err.Error()...)
	}
	for _, text := range o.reasons {
		f.key = append(append(f.key, 0), text...)
	}
	if code, ok := f.codes[string(f.key)]; ok {
		return code
	}
	f.list = append(f.list, *o)
	code := reason.Code(len(f.list))
	switch o.code {
	case fwk.Error:
		code |= reason.Failed
	case fwk.UnschedulableAndUnresolvable, fwk.Pending:
		code |= reason.Unresolvable
	}
	f.codes[string(f.key)] = code
	return code
}

// outcomeOf returns the outcome of a code.
func (v *verdicts) outcomeOf(code reason.Code) *outcome {
	n := int(code & codeMask)
	if n < 1 || n > len(v.f.list) {
		return &outcome{code: fwk.Error, err: fmt.Errorf("verdict %d", code)}
	}
	return &v.f.list[n-1]
}

// Reasons returns the plugin's reasons.
func (v *verdicts) Reasons(code reason.Code) []string {
	o := v.outcomeOf(code)
	if o.err != nil {
		return []string{o.err.Error()}
	}
	return slices.Clone(o.reasons)
}

// Err returns the plugin's error.
func (v *verdicts) Err(_ state.View, _ *model.Pod, code reason.Code) error {
	return v.outcomeOf(code).err
}

// IsPending reports whether the plugin waits for something outside of the cluster. When
// the plugin's hint then queues the pod, the pod skips its backoff.
func (v *verdicts) IsPending(code reason.Code) bool {
	return code != reason.None && v.outcomeOf(code).code == fwk.Pending
}
