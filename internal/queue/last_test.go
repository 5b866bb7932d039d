package queue

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// order pops all ready work, and returns the first pod of each turn.
func order(t *testing.T, q *Queue) (names []string) {
	t.Helper()
	for {
		work, ok := q.Pop(at(1))
		if !ok {
			return names
		}
		if err := q.Audit(); err != nil {
			t.Fatal(err)
		}
		names = append(names, work.First().Name)
	}
}

// TestUndecidedComesLast has pods of an earlier process wait for the others, once,
// whatever their priority. Among themselves they keep the order of the undecided list.
func TestUndecidedComesLast(t *testing.T) {
	for _, test := range []struct {
		undecided []types.UID
		want      []string
	}{
		{nil, []string{"urgent", "high", "mid", "low"}},
		{[]types.UID{"urgent"}, []string{"high", "mid", "low", "urgent"}},
		{[]types.UID{"mid", "urgent", "gone", "mid"}, []string{"high", "low", "mid", "urgent"}},
		{[]types.UID{"low", "mid", "high", "urgent"}, []string{"low", "mid", "high", "urgent"}},
	} {
		// the note comes before the pods, or after them
		for _, before := range []bool{true, false} {
			q := newQueue(t)
			arrived := []*model.Pod{pod("low", 1), pod("urgent", 1000), pod("mid", 5), pod("high", 10)}
			if before {
				q.Wake(start, state.Delta{Undecided: test.undecided})
				q.Wake(start, state.Delta{Arrived: arrived})
			} else {
				q.Wake(start, state.Delta{Arrived: arrived})
				q.Wake(start, state.Delta{Undecided: test.undecided})
			}
			if got := order(t, q); !slices.Equal(got, test.want) {
				t.Errorf("undecided %v: the order is %v, want %v", test.undecided, got, test.want)
			}
		}
	}
}

// TestUndecidedOnlyOnce has a pod wait once. After that it has its ordinary turn.
func TestUndecidedOnlyOnce(t *testing.T) {
	q := newQueue(t)
	q.Wake(start, state.Delta{Undecided: []types.UID{"urgent"}, Arrived: []*model.Pod{pod("urgent", 1000)}})
	if got := order(t, q); !slices.Equal(got, []string{"urgent"}) { // it is the only one
		t.Fatal(got)
	}
	q.Wake(start, state.Delta{Left: []model.PodKey{{Namespace: "ns", Name: "urgent"}}})
	q.Wake(start, state.Delta{Arrived: []*model.Pod{pod("low", 1), pod("urgent", 1000)}})
	if got := order(t, q); !slices.Equal(got, []string{"urgent", "low"}) {
		t.Error(got)
	}
}

// TestUndecidedIsNotStarved has others arrive for ever. The pod waits for as many turns
// as others were ready when it was first passed over.
func TestUndecidedIsNotStarved(t *testing.T) {
	q := newQueue(t)
	q.Wake(start, state.Delta{Undecided: []types.UID{"urgent"}, Arrived: []*model.Pod{pod("urgent", 1000), pod("a", 1), pod("b", 1)}})
	for turn := range 10 {
		q.Wake(start, state.Delta{Arrived: []*model.Pod{pod(fmt.Sprint("new-", turn), 5)}})
		if work, _ := q.Pop(start); work.First().Name == "urgent" {
			if turn != 3 && turn != 4 {
				t.Errorf("it has turn %d", turn)
			}
			return
		}
	}
	t.Error("it has no turn")
}

// TestUndecidedGroupComesLast has the group of an undecided member wait.
func TestUndecidedGroupComesLast(t *testing.T) {
	g := newGroupQueue(t)
	g.apply(podGroup("crew", 2, 1000), memberOf("crew", "m-0", 1000), memberOf("crew", "m-1", 1000), model.Change{Kind: model.PodSet, Pod: pod("alone", 1)})
	g.apply(model.Change{Kind: model.PodUndecided, UID: "m-1"})
	if _, first := g.pop(); first != "alone1" {
		t.Errorf("first comes %s", first)
	}
	if work, then := g.pop(); work.Group == nil {
		t.Errorf("then comes %s", then)
	}
}
