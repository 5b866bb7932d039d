package explain_test

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// turn records whether it is a pod's turn.
type turn struct{ on bool }

func (o *turn) Begin(state.View, *model.Pod)                { o.on = true }
func (o *turn) End()                                        { o.on = false }
func (*turn) Bare()                                         {}
func (*turn) Steps(plan.Stage, *plan.Placement) []plan.Step { return nil }
func (*turn) Unreserve(*plan.Placement)                     {}
func (*turn) Nominations() []plan.Nomination                { return nil }

// onlyOne returns one node. Like an external plugin, it may only be called in a pod's
// turn.
type onlyOne struct {
	*testing.T
	turn *turn
	node string
}

func (onlyOne) Name() string { return "OnlyOne" }

func (o onlyOne) PreFilter(state.View, *model.Pod) plugin.PreFilterResult {
	if !o.turn.on {
		o.Error("a plugin from outside was asked in no pod's turn")
	}
	return plugin.PreFilterResult{Narrowed: true, Nodes: []string{o.node}}
}

// TestLeftOutByExternal names an external plugin that leaves nodes out at PreFilter.
func TestLeftOutByExternal(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	p, o := scheduler.Profiles[0], &turn{}
	p.External, p.PreFilters, p.PreFilterOrder = o, append(p.PreFilters, plugintest.PartsOf(onlyOne{t, o, "n2"}).PreFilter), append(p.PreFilterOrder, "OnlyOne")
	s, err := explain.New(scheduler, []*v1.Node{node("n1", "4"), node("n2", "4"), node("n3", "1")}, []*v1.Pod{pod("web", "2", "")}, nil, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Of(s.Pending()[0])
	if err != nil {
		t.Fatal(err)
	}
	if o.on {
		t.Error("the turn has not ended")
	}
	for i, want := range [][]string{{"OnlyOne"}, nil, {"OnlyOne"}} {
		if got := a.Nodes[i].LeftOutBy; !slices.Equal(got, want) {
			t.Errorf("%s is left out by %q, want %q", a.Nodes[i].Name, got, want)
		}
	}
}
