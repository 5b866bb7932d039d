package engine

import (
	"fmt"
	"reflect"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Audit checks the invariants documented at the fields of remembered rejections. With
// Config.Audit it also returns, once, the differences between remembered rejections and
// new decisions. All violations come in one error; nil means none. The time is
// proportional to the size of the remembered rejections.
func (e *Engine) Audit() error {
	v := audit.Of("engine")
	for _, doubt := range e.doubts {
		v.Add("%s", doubt)
	}
	e.doubts = nil
	bytes := 0
	for s, r := range e.rejections.byShape {
		bytes += r.bytes()
		if r.shape != s {
			v.Add("the rejection of shape %v is listed under %v", r.shape, s)
		}
		r.audit(v)
	}
	if bytes != e.rejections.bytes || bytes > e.rejections.maxBytes {
		v.Add("remembered rejections take %d bytes, recounted %d, at most %d", e.rejections.bytes, bytes, e.rejections.maxBytes)
	}
	bytes = 0
	for _, c := range e.columns.counting.all {
		bytes += c.bytes
	}
	for _, s := range e.columns.sets.all {
		bytes += s.bytes
	}
	if bytes != e.columns.compiledBytes {
		v.Add("compiled needs take %d bytes, recounted %d", e.columns.compiledBytes, bytes)
	}
	return v.Err()
}

func (r *rejected) audit(v *audit.Violations) {
	nodes := make([]int, len(r.list)+1)
	for slot, at := range r.bySlot {
		if int(at) > len(r.list) {
			v.Add("the objection to slot %d is number %d of %d", slot, at, len(r.list))
			return
		}
		nodes[at]++
	}
	seen := map[objection]bool{}
	for i, o := range r.list {
		if o.nodes != nodes[i+1] {
			v.Add("filter %d objects with code %d to %d nodes, recounted %d", o.filter, o.code, o.nodes, nodes[i+1])
		}
		if at, ok := r.at[o.objection]; seen[o.objection] || r.at != nil && (!ok || at != i) {
			v.Add("the objection of filter %d with code %d is at position %d, and at says %d; listed before: %t", o.filter, o.code, i, at, seen[o.objection])
		}
		seen[o.objection] = true
	}
}

// doubtSkips runs the PreFilter plugins that a pod may skip.
func (e *Engine) doubtSkips(v state.View, p *profile, pod *model.Pod) {
	for i, f := range p.PreFilters {
		if result := f.Run(v, pod); pod.SkipsPreFilter&(1<<i) != 0 && !result.IsZero() {
			e.doubts = append(e.doubts, fmt.Sprintf("pod %s skips PreFilter plugin %s, which returns %+v", pod, f.Name, result))
		}
	}
}

// doubt decides again about a pod whose rejection was remembered.
func (e *Engine) doubt(of *cycle, recalled *plan.Rejection) {
	own := *of // a copy, so that cycles of placed pods stay on the stack
	c := &own
	e.prepare(c)
	if slots, err := e.filter(c); e.unfinished {
		return
	} else if len(slots) > 0 || err != nil {
		e.doubts = append(e.doubts, fmt.Sprintf("the rejection of pod %s was remembered; deciding again finds %d feasible nodes, error %v", c.pod, len(slots), err))
		return
	}
	var counts objectionCounts
	e.countObjections(c, &counts)
	if again := c.rejectionFor(c.here.verdicts, &counts); !reflect.DeepEqual(again, recalled) {
		e.doubts = append(e.doubts, fmt.Sprintf("the rejection of pod %s was remembered as %+v; deciding again gives %+v", c.pod, *recalled, *again))
	}
}

// doubtRank scans for a pod for which a ranking chose a node.
func (e *Engine) doubtRank(of *cycle, best choice) {
	own := *of
	c := &own
	slots, err := e.filter(c)
	again := choice{feasible: len(slots)}
	if err == nil && len(slots) > 0 {
		if again.slot = slots[0]; len(slots) > 1 {
			again.slot, again.total, err = e.best(c, slots)
		}
	}
	if e.unfinished {
		return
	}
	if err != nil || again != best {
		e.doubts = append(e.doubts, fmt.Sprintf("a ranking chose %+v for pod %s; the scan chooses %+v, error %v", best, of.pod, again, err))
	}
}
