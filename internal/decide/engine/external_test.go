package engine_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// turn is an External that records the pod of the turn, and fails the test when turns
// overlap.
type turn struct {
	t      *testing.T
	view   state.View
	pod    *model.Pod
	number int
	// unreserved are the nodes of placements that were given up.
	unreserved []string
}

func (o *turn) Begin(v state.View, pod *model.Pod) {
	if o.pod != nil {
		o.t.Errorf("the turn of pod %s begins within that of pod %s", pod, o.pod)
	}
	o.view, o.pod, o.number = v, pod, o.number+1
}

func (o *turn) End() { o.pod = nil }

func (o *turn) Nominations() []plan.Nomination                { return nil }
func (o *turn) Bare()                                         {}
func (o *turn) Steps(plan.Stage, *plan.Placement) []plan.Step { return nil }

func (o *turn) Unreserve(p *plan.Placement) { o.unreserved = append(o.unreserved, p.NodeName) }

// turnedFilter is a built-in filter in the role of an out-of-tree filter: its results are
// not cached.
type turnedFilter struct {
	filter *plugin.Filter
	*turn
	verdicts *plugin.Verdicts // of the turn with the number in of
	of       int
}

func (f *turnedFilter) verdictsIn(v state.View) (plugin.TurnVerdicts, error) {
	if f.of != f.number {
		f.of, f.verdicts = f.number, nil
		if need := f.filter.Need(f.pod); need != nil {
			f.verdicts = need.Compile()
		}
	}
	if f.verdicts == nil {
		return nil, nil
	}
	return turnedVerdicts{f.verdicts, v}, nil
}

type turnedVerdicts struct {
	*plugin.Verdicts
	view state.View
}

func (f turnedVerdicts) FilterAll(slots []int32, codes []reason.Code) {
	for at, slot := range slots {
		codes[at] = f.Filter(f.view.Node(slot))
	}
}

func (f turnedVerdicts) IsPending(reason.Code) bool { return false }

func (f turnedVerdicts) Err(v state.View, pod *model.Pod, code reason.Code) error {
	return f.Failures.Err(v, pod, code)
}

// turnedScore is a built-in Score plugin in the role of an out-of-tree plugin.
type turnedScore struct {
	of *plugin.Score
	*turn
}

func (s *turnedScore) run(v state.View, slots []int32, scores []int64) (bool, error) {
	switch of := s.of; {
	case of.Set != nil:
		need := of.Set(s.pod)
		if need == nil {
			return false, nil
		}
		set, err := need.Compile()
		if err != nil {
			return false, &plan.PluginError{Point: "PreScore", Plugin: s.of.Name, Err: err}
		}
		return set.Score(v, slots, scores)
	case of.Need != nil:
		need := of.Need(s.pod)
		if need == nil {
			return false, nil
		}
		compiled, err := need.Compile()
		if err != nil {
			return false, &plan.PluginError{Point: "PreScore", Plugin: s.of.Name, Err: err}
		}
		var largest int64
		for at, slot := range slots {
			raw := compiled.Score(v.Node(slot))
			if compiled.Classes != nil {
				raw = compiled.Classes.Classes(v)[raw]
			}
			scores[at] = int64(raw)
			largest = max(largest, scores[at])
		}
		for at := range scores {
			switch how := of.Normalization; {
			case how == model.AsIs:
			case largest == 0 && how == model.LargestReversed:
				scores[at] = 100
			case largest == 0:
			case how == model.LargestReversed:
				scores[at] = 100 - 100*scores[at]/largest
			default:
				scores[at] = 100 * scores[at] / largest
			}
		}
	}
	return true, nil
}

// turned returns the profile with some filters and Score plugins in the role of
// out-of-tree ones.
func turned(t *testing.T, r *rand.Rand, p *plugin.Profile) *plugin.Profile {
	o := &turn{t: t}
	p.External = o
	for i, f := range p.Filters {
		if f.Need != nil && r.IntN(3) == 0 {
			p.Filters[i] = &plugin.Filter{Name: f.Name, Turn: (&turnedFilter{filter: f, turn: o}).verdictsIn}
		}
	}
	for i, s := range p.Scores {
		if (s.Need != nil || s.Set != nil) && r.IntN(3) == 0 {
			p.Scores[i].Score = &plugin.Score{Name: s.Name, Turn: (&turnedScore{of: s.Score, turn: o}).run}
		}
	}
	return p
}

// TestOutsideAgreesWithOracle has built-in plugins, drawn by seed, in the role of
// out-of-tree plugins. Feasible nodes, reasons, scores, victims and nominations must be
// the same, whatever their position in the order.
func TestOutsideAgreesWithOracle(t *testing.T) {
	random.EverySeed(t, "./internal/decide/engine", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		cluster := random.Cluster(r, random.Size{Nodes: r.IntN(80), Placed: r.IntN(80), Pending: 6})
		profile := random.Profile(r)
		outside := turned(t, r, enginetest.Profile(t, profile))
		enginetest.NewPairOf(t, cluster, profile, outside, engine.Config{Seed: n}).Agree(t, r, 25, pending, random.Change)
	})
}

// TestOutsidePreemptionAgreesWithOracle does the same with preemption: filters run in dry
// runs, and with nominated pods.
func TestOutsidePreemptionAgreesWithOracle(t *testing.T) {
	random.EverySeed(t, "./internal/decide/engine", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		cluster := random.PreemptionCluster(r, random.Size{Nodes: 1 + r.IntN([]int{3, 8, 20}[r.IntN(3)]), Placed: r.IntN(60), Pending: 8})
		profile := random.PreemptionProfile(r, cluster)
		outside := turned(t, r, enginetest.Profile(t, profile))
		enginetest.NewPairOf(t, cluster, profile, outside, engine.Config{Seed: n}).Agree(t, r, 40, pending, random.PreemptionChange)
	})
}

// stages is a plugin that fails at Reserve or Permit.
type stages struct{ reserve, permit error }

func (*stages) Name() string                                                 { return "Stages" }
func (s *stages) Reserve(state.View, *model.Pod, int32) ([]plan.Hold, error) { return nil, s.reserve }
func (s *stages) Permit(state.View, *plan.Placement) ([]plan.Step, error)    { return nil, s.permit }

// TestRefusals has plugins reject the chosen node, or fail. Reservations are released,
// and PostFilter does not run.
func TestRefusals(t *testing.T) {
	no := &plugin.Refusal{Plugin: "Stages", Reasons: []string{"not today"}}
	for name, test := range map[string]struct {
		stages
		outcome plan.Outcome
		says    string
		pending []string
	}{
		"a rejection at Reserve": {stages{reserve: no}, plan.Unschedulable, "0/1 nodes are available: 1 not today.", nil},
		"a rejection at Permit":  {stages{permit: no}, plan.Unschedulable, "0/1 nodes are available: 1 not today.", nil},
		"one that waits":         {stages{permit: &plugin.Refusal{Plugin: "Stages", Reasons: []string{"wait"}, Pending: true}}, plan.Unschedulable, "0/1 nodes are available: 1 wait.", []string{"Stages"}},
		"one with two reasons":   {stages{permit: &plugin.Refusal{Plugin: "Stages", Reasons: []string{"no", "never"}}}, plan.Unschedulable, "0/1 nodes are available: 1 never, 1 no.", nil},
		"an error at Reserve":    {stages{reserve: errors.New("broken")}, plan.Failed, `running Reserve plugin "Stages": broken`, nil},
		"an error at Permit":     {stages{permit: errors.New("broken")}, plan.Failed, `running Permit plugin "Stages": broken`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			outside, asks := &turn{t: t}, &asksPotential{nodes: -1}
			b := withPlugins(t, 4, func(p *plugin.Profile) {
				p.External, p.PostFilters = outside, []*plugin.PostFilter{plugintest.PartsOf(asks).PostFilter}
				p.Reserve, p.Permit = append(p.Reserve, plugintest.PartsOf(&test.stages).Reserve), append(p.Permit, plugintest.PartsOf(&test.stages).Permit)
			})
			pod := benchPreemptor("pod", 0, 100)
			pod.Status.NominatedNodeName = long("2")
			d := b.engine.Decide(b.state.View(), plan.Alone(b.compiled(pod)))
			if d.Outcome != test.outcome || report.Message(&d) != test.says || d.Placement.Pod != nil {
				t.Errorf("%s: %q, on %q; want %s: %q", d.Outcome, report.Message(&d), d.Placement.NodeName, test.outcome, test.says)
			}
			if r := d.Rejection; r != nil && (!slices.Equal(r.Plugins, []string{"Stages"}) || !slices.Equal(r.Pending, test.pending)) {
				t.Errorf("rejected by %v, pending %v", r.Plugins, r.Pending)
			}
			if !slices.Equal(outside.unreserved, []string{long("2")}) || asks.nodes != -1 {
				t.Errorf("unreserved: %v; PostFilter was asked about %d nodes", outside.unreserved, asks.nodes)
			}
			if len(d.Nominations) != 1 || d.Nominations[0].Mode != plan.Clear {
				t.Errorf("nominations: %+v, want that of the pod cleared", d.Nominations)
			}
		})
	}
}
