package engine

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// odd is a filter that objects to nodes by the parity of their slot.
type odd struct{}

func (odd) Name() string                            { return "Odd" }
func (odd) FilterReads() model.Aspect               { return model.Labels }
func (odd) FilterNeed(*model.Pod) plugin.FilterNeed { return odd{} }
func (odd) AppendText(text []byte) []byte           { return append(text, 'o') }
func (odd) Compile() *plugin.Verdicts               { return &plugin.Verdicts{NodeVerdicts: odd{}} }
func (odd) Filter(node state.Node) reason.Code      { return reason.Code(1 + node.Slot()%2) }
func (odd) Reasons(code reason.Code) []string       { return []string{fmt.Sprintf("parity %d", code)} }

// audited returns an engine that remembers one rejection, with a column.
func audited(t *testing.T) (*Engine, state.View, plan.Member) {
	t.Helper()
	p := &plugin.Profile{Name: "p", Filters: plugintest.Filters(odd{})}
	e, err := New(Config{Profiles: []*plugin.Profile{p}, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	for i := range 5 {
		node := model.NewNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}})
		s.Apply([]model.Change{{Kind: model.NodeSet, Node: node}})
	}
	pod := model.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: v1.PodSpec{SchedulerName: "p"}})
	p.Compile(pod)
	member := plan.Alone(pod)
	e.Decide(s.View(), member)
	s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n5"}})}})
	e.Decide(s.View(), member)
	e.Decide(s.View(), member)
	if err := e.Audit(); err != nil || e.Counters().Recalled != 1 {
		t.Fatalf("%v; %+v", err, e.Counters())
	}
	return e, s.View(), member
}

// TestAuditFindsEachViolation corrupts an engine in one way after the other. The sentence
// names the violated invariant.
func TestAuditFindsEachViolation(t *testing.T) {
	for _, row := range []struct {
		want    string
		corrupt func(e *Engine, r *rejected)
	}{
		{"is listed under", func(e *Engine, r *rejected) { r.shape.priority = 7 }},
		{"remembered rejections take 7 bytes, recounted", func(e *Engine, _ *rejected) { e.rejections.bytes = 7 }},
		{"at most 9", func(e *Engine, _ *rejected) { e.rejections.maxBytes = 9 }},
		{"the objection to slot 3 is number 9 of 2", func(_ *Engine, r *rejected) { r.bySlot[3] = 9 }},
		{"filter 0 objects with code 1 to 4 nodes, recounted 3", func(_ *Engine, r *rejected) { r.list[0].nodes++ }},
		{"filter 0 objects with code 2 to 3 nodes, recounted 2", func(_ *Engine, r *rejected) { r.bySlot[1] = 0 }},
		{"with code 1 is at position 1, and at says 0; listed before: true", func(_ *Engine, r *rejected) { r.list[1] = r.list[0] }},
		{"with code 2 is at position 1, and at says 5", func(_ *Engine, r *rejected) {
			r.at = map[objection]int{r.list[0].objection: 0, r.list[1].objection: 5}
		}},
	} {
		e, _, _ := audited(t)
		for _, r := range e.rejections.byShape {
			row.corrupt(e, r)
		}
		if err := e.Audit(); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("want a violation with %q, have\n%v", row.want, err)
		}
	}
}

// TestAuditDecidesAgain corrupts a remembered rejection. The audit finds that at the next
// use.
func TestAuditDecidesAgain(t *testing.T) {
	e, v, member := audited(t)
	for _, r := range e.rejections.byShape {
		r.rejection = &plan.Rejection{Plugins: []string{"Odd"}, Counts: []reason.Count{{Nodes: 6, Reason: "parity 1"}}}
	}
	e.Decide(v, member)
	if err := e.Audit(); err == nil || !strings.Contains(err.Error(), "{Nodes:3 Reason:parity 1}") || !strings.Contains(err.Error(), "{Nodes:6 Reason:parity 1}") {
		t.Errorf("a wrong rejection: %v", err)
	}
	if err := e.Audit(); err != nil {
		t.Errorf("it is reported again: %v", err)
	}
}

// TestAuditFindsWronglySkipped skips a PreFilter plugin that rejects the pod.
func TestAuditFindsWronglySkipped(t *testing.T) {
	e, v, member := audited(t)
	e.profiles["p"].PreFilters = []*plugin.PreFilter{plugintest.PartsOf(no{}).PreFilter}
	member.Pod.SkipsPreFilter = 1
	e.Decide(v, member)
	if err := e.Audit(); err == nil || !strings.Contains(err.Error(), "skips PreFilter plugin No, which returns {Narrowed:false") {
		t.Errorf("a plugin that is skipped and rejects: %v", err)
	}
}

// no is a PreFilter plugin that rejects every pod.
type no struct{}

func (no) Name() string { return "No" }
func (no) PreFilter(state.View, *model.Pod) plugin.PreFilterResult {
	return plugin.PreFilterResult{Rejection: "no"}
}
