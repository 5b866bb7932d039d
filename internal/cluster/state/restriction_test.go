package state_test

import (
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

func TestRestriction(t *testing.T) {
	s := state.New()
	for _, name := range []string{"a", "b", "c"} {
		s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(build.Node(name))}})
	}
	s.Apply([]model.Change{{Kind: model.NodeGone, Name: "b"}})
	all := s.View()
	some := all.Restricted(state.RestrictTo([]int32{2}))
	for _, row := range []struct {
		name  string
		view  state.View
		slots []int32
	}{
		{"all", all, []int32{0, 2}}, {"some", some, []int32{2}}, {"none", all.Restricted(state.RestrictTo(nil)), nil}, {"all again", some.Restricted(nil), []int32{0, 2}},
	} {
		if got := slices.Collect(row.view.EachToChooseAmong(row.view.Restriction())); !slices.Equal(got, row.slots) || row.view.ToChooseAmong() != len(row.slots) {
			t.Errorf("%s: to choose among %v, %d; want %v", row.name, got, row.view.ToChooseAmong(), row.slots)
		}
		for slot := range int32(3) {
			if has := row.view.Restriction().Has(slot); has != (row.view.Restriction() == nil || slices.Contains(row.slots, slot)) {
				t.Errorf("%s has slot %d: %t", row.name, slot, has)
			}
		}
		if row.view.Nodes() != 2 || row.view.State() != s {
			t.Errorf("%s: %d nodes are in the view", row.name, row.view.Nodes())
		}
	}
	if all.Restriction() != nil {
		t.Error("a view was changed")
	}
	for range all.EachToChooseAmong(nil) {
		break // the rest is not needed
	}
}
