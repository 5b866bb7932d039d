package engine

import (
	"fmt"
	"strings"
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

// TestDecisionsOnDrafts: columns describe the state, but decisions on a draft must use
// the draft's pods. The state's decision comes first, to fill the columns.
func TestDecisionsOnDrafts(t *testing.T) {
	pod := func(name, node string) *v1.Pod { return build.Pod(build.Named(name), build.NodeName(node)) }
	for name, test := range map[string]struct {
		how    model.Normalization
		filter []reason.Code // by the number of pods on a node
		change func(d *state.Draft)
		want   string
	}{
		"as it is":            {model.AsIs, []reason.Code{0}, func(*state.Draft) {}, "b of 3 with 2"},
		"three more":          {model.AsIs, []reason.Code{0}, func(d *state.Draft) { add(d, 0, 3) }, "a of 3 with 4"},
		"one less":            {model.AsIs, []reason.Code{0}, func(d *state.Draft) { d.Remove(model.NewPod(pod("q", "b")).Key()) }, "3 with 1"},
		"all gone":            {model.AsIs, []reason.Code{0}, func(d *state.Draft) { add(d, 2, 5) }, "c of 3 with 5"},
		"normalised":          {model.Largest, []reason.Code{0}, func(d *state.Draft) { add(d, 0, 3) }, "a of 3 with 100"},
		"reversed":            {model.LargestReversed, []reason.Code{0}, func(d *state.Draft) { add(d, 2, 8) }, "a of 3 with 88"},
		"no longer feasible":  {model.AsIs, []reason.Code{0, 0, 0, 1}, func(d *state.Draft) { add(d, 1, 1) }, "a of 2 with 1"},
		"feasible only there": {model.AsIs, []reason.Code{1, 2, 2, 0}, func(d *state.Draft) { add(d, 0, 2) }, "a of 1 with 0"},
		"nowhere":             {model.AsIs, []reason.Code{1, 2, 3, 4}, func(d *state.Draft) { add(d, 0, 2) }, "no: 1 F1, 1 F3, 1 F4 by [F]"},
	} {
		f, s := &byPods{rule{name: "F", reads: model.Usage}, test.filter}, &rating{name: "S", how: test.how, reads: model.Usage}
		x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(f), Scores: []plugin.Weighted{{Score: plugintest.PartsOf(s).Score, Weight: 1}}}, "a", "b", "c")
		plugintest.Set(x.s, pod("p", "a"), pod("q", "b"), pod("r", "b"))
		x.decide(x.pod(build.Named("pod")))
		d := x.s.View().Draft()
		test.change(d)
		for range 2 {
			if got := decided(x.Decide(d.View(), plan.Alone(x.pod(build.Named("pod"))))); !strings.HasSuffix(got, test.want) {
				t.Errorf("%s: %s, want %s", name, got, test.want)
			}
		}
	}
	// Without pods on nodes, all scores of the column are zero, but not those in the
	// view.
	x := newSmall(t, &plugin.Profile{Scores: []plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "S", reads: model.Usage}).Score, Weight: 1}}}, "a", "b")
	d := x.s.View().Draft()
	add(d, 1, 4)
	if got := decided(x.Decide(d.View(), plan.Alone(x.pod()))); got != "b of 2 with 4" {
		t.Error(got)
	}
	answer, err := x.Answer(d.View(), x.pod())
	if got, want := answerText(answer.Nodes), "a 0: S 1*0\nb 4: S 1*4"; err != nil || got != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
	}
}

// add adds a number of pods to a slot.
func add(d *state.Draft, slot int32, pods int) {
	for i := range pods {
		d.Add(model.NewPod(build.Pod(build.Named(fmt.Sprint("added-", slot, "-", i)))), slot)
	}
}
