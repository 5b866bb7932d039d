package engine

import (
	"cmp"
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// rule is a filter with a fixed code for some nodes, by name; it passes the others. If it
// reads usage, it passes nodes without pods.
type rule struct {
	name  string
	reads model.Aspect
	codes map[string]reason.Code
	text  string   // of its need, if not its name
	asked []string // the nodes of its calls
}

// ruleOf returns the rule of a filter.
func ruleOf(f *plugin.Filter) *rule { return f.Need(nil).(*rule) }

func (r *rule) Name() string                            { return r.name }
func (r *rule) FilterReads() model.Aspect               { return r.reads }
func (r *rule) FilterNeed(*model.Pod) plugin.FilterNeed { return r }
func (r *rule) AppendText(text []byte) []byte           { return append(text, cmp.Or(r.text, r.name)...) }
func (r *rule) Compile() *plugin.Verdicts               { return failable(r) }
func (r *rule) Reasons(code reason.Code) []string {
	return []string{fmt.Sprint(r.name, code&^reason.Unresolvable)}
}
func (r *rule) Err(_ state.View, _ *model.Pod, code reason.Code) error {
	return fmt.Errorf("%s fails %d", r.name, code&^reason.Failed)
}
func (r *rule) Filter(node state.Node) reason.Code {
	r.asked = append(r.asked, node.Name())
	if r.reads&model.Usage != 0 && node.PodCount() == 0 {
		return reason.None
	}
	return r.codes[node.Name()]
}

// failable returns verdicts that may fail.
func failable(of interface {
	plugin.NodeVerdicts
	plugin.Failures
}) *plugin.Verdicts {
	return &plugin.Verdicts{NodeVerdicts: of, Failures: of}
}

// turnRule is an out-of-tree rule, called anew in each turn. Its code 9 means Pending.
type turnRule struct {
	rule  rule
	skips bool
	err   error
	// atOnce are the nodes of calls for several nodes.
	atOnce []string
}

func (r *turnRule) Name() string { return r.rule.name }
func (r *turnRule) FilterTurn(v state.View) (plugin.TurnVerdicts, error) {
	if r.skips || r.err != nil {
		return nil, r.err
	}
	return turnRuling{&r.rule, r, v}, nil
}

type turnRuling struct {
	*rule
	of *turnRule
	v  state.View
}

func (r turnRuling) IsPending(code reason.Code) bool { return code&^reason.Unresolvable == 9 }
func (r turnRuling) FilterAll(slots []int32, codes []reason.Code) {
	for at, slot := range slots {
		r.of.atOnce = append(r.of.atOnce, r.v.Node(slot).Name())
		codes[at] = r.codes[r.v.Node(slot).Name()]
	}
}

// counted is a count filter with one rule, in which each slot is a domain.
type counted struct {
	name      string
	rule      plugin.CountRule
	skips     bool
	rejection string
	err       error
	version   uint64
}

func (c *counted) Name() string                          { return c.name }
func (c *counted) CountNeed(*model.Pod) plugin.CountNeed { return c }
func (c *counted) AppendText(text []byte) []byte         { return append(text, c.name...) }
func (c *counted) Compile() plugin.Counting              { return c }
func (c *counted) Reasons(code reason.Code) []string     { return []string{fmt.Sprint(c.name, code)} }
func (c *counted) AppendVersions(to []uint64) []uint64   { return append(to, c.version) }
func (c *counted) PreFilter(state.View) (bool, string, error) {
	return !c.skips, c.rejection, c.err
}
func (c *counted) Rules(_ state.View, to []plugin.CountRule) []plugin.CountRule {
	return append(to, c.rule)
}

// inState is a state filter. In the pod's turn it returns its rule, rejects the pod, or
// fails.
type inState struct {
	rule
	need      plugin.FilterNeed
	rejection string
	err       error
}

func (f *inState) FilterNeedIn(state.View, *model.Pod) (plugin.StateNeed, error) {
	return plugin.StateNeed{Need: f.need, Rejection: f.rejection}, f.err
}

// rating is a Score plugin with fixed raw scores, by node.
type rating struct {
	name     string
	how      model.Normalization
	reads    model.Aspect
	raw      map[string]int32
	err      error
	compiled int
}

func (r *rating) Name() string                          { return r.name }
func (r *rating) ScoreReads() model.Aspect              { return r.reads }
func (r *rating) Normalization() model.Normalization    { return r.how }
func (r *rating) ScoreNeed(*model.Pod) plugin.ScoreNeed { return r }
func (r *rating) AppendText(text []byte) []byte         { return append(text, r.name...) }
func (r *rating) Compile() (plugin.NodeScores, error) {
	r.compiled++
	return plugin.NodeScores{RawScores: r}, r.err
}
func (r *rating) Score(node state.Node) int32 {
	if r.reads&model.Usage != 0 && node.PodCount() > 0 {
		return r.raw[node.Name()] + int32(node.PodCount())
	}
	return r.raw[node.Name()]
}

// together is a Score plugin that scores the feasible nodes at once, by a need or in each
// turn.
type together struct {
	name   string
	scores map[string]int64
	skips  bool
	err    error
}

func (s *together) score(v state.View, slots []int32, scores []int64) (bool, error) {
	for at, slot := range slots {
		scores[at] += s.scores[v.Node(slot).Name()] // leftovers in scores must not show
	}
	return !s.skips, s.err
}

type setRating struct {
	together
	compileErr error
	compiled   int
}

func (s *setRating) Name() string                      { return s.name }
func (s *setRating) SetNeed(*model.Pod) plugin.SetNeed { return s }
func (s *setRating) AppendText(text []byte) []byte     { return append(text, s.name...) }
func (s *setRating) Compile() (plugin.SetScores, error) {
	s.compiled++
	return s, s.compileErr
}
func (s *setRating) Score(v state.View, slots []int32, scores []int64) (bool, error) {
	clear(scores)
	return s.score(v, slots, scores)
}

// Axes reports that nodes cannot be scored in groups.
func (s *setRating) Axes(_ state.View, to []plugin.Axis) ([]plugin.Axis, bool) { return to, false }
func (s *setRating) ScoreAlike(v state.View, slots []int32, _ []int, scores []int64) (bool, error) {
	return s.Score(v, slots, scores)
}

type turnRating struct{ together }

func (s *turnRating) Name() string { return s.name }
func (s *turnRating) ScoreTurn(v state.View, slots []int32, scores []int64) (bool, error) {
	return s.score(v, slots, scores)
}

// preFilter is a PreFilter plugin with a fixed result.
type preFilter struct {
	name   string
	result plugin.PreFilterResult
}

func (p *preFilter) Name() string                                            { return p.name }
func (p *preFilter) PreFilter(state.View, *model.Pod) plugin.PreFilterResult { return p.result }

// postFilter is a PostFilter plugin that runs the test's function.
type postFilter struct {
	name string
	run  func(c *postFilterCycle, pod *model.Pod) (plugin.PostFilterResult, error)
}

func (p *postFilter) Name() string { return p.name }
func (p *postFilter) PostFilter(c plugin.Cycle, pod *model.Pod) (plugin.PostFilterResult, error) {
	return p.run(c.(*postFilterCycle), pod)
}

// noted is an External that records its calls.
type noted struct{ calls []string }

func (o *noted) Begin(state.View, *model.Pod)   { o.calls = append(o.calls, "begin") }
func (o *noted) End()                           { o.calls = append(o.calls, "end") }
func (o *noted) Nominations() []plan.Nomination { return nil }
func (o *noted) Bare()                          { o.calls = append(o.calls, "bare") }
func (o *noted) Steps(stage plan.Stage, _ *plan.Placement) []plan.Step {
	o.calls = append(o.calls, stage.String())
	return []plan.Step{{Stage: stage, Plugin: "outside"}}
}
func (o *noted) Unreserve(*plan.Placement) { o.calls = append(o.calls, "unreserve") }

// small is an engine with one profile, and a state.
type small struct {
	*Engine
	s *state.State
	p *plugin.Profile
}

// newSmall returns an engine for nodes of these names, in slots of this order.
func newSmall(t *testing.T, p *plugin.Profile, nodes ...string) *small {
	t.Helper()
	p.Name = v1.DefaultSchedulerName
	e, err := New(Config{Profiles: []*plugin.Profile{p}})
	if err != nil {
		t.Fatal(err)
	}
	var objects []*v1.Node
	for _, name := range nodes {
		objects = append(objects, build.Node(name))
	}
	return &small{e, plugintest.Cluster(objects), p}
}

func (x *small) pod(options ...build.PodOption) *model.Pod {
	pod := model.NewPod(build.Pod(options...))
	x.p.Compile(pod)
	return pod
}

func (x *small) decide(pod *model.Pod) plan.Decision { return x.Decide(x.s.View(), plan.Alone(pod)) }

var errBroken = errors.New("broken")

// priority sets a pod's priority.
func priority(p int32) build.PodOption { return func(pod *v1.Pod) { pod.Spec.Priority = &p } }
