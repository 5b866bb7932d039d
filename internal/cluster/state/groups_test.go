package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

func groupOf(name string, uid types.UID, minCount int32) *model.PodGroup {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid, ResourceVersion: fmt.Sprint(minCount)}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	return model.NewPodGroup(g)
}

func memberOn(name, group, node string) *model.Pod {
	p := podOn(name, name, node, 0).Pod.Object.DeepCopy()
	p.Spec.Containers = nil
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	return model.NewPod(p)
}

// TestGroupsComeAndGo checks that each version is an event, including the last, and that
// the delta has the group for the queue.
func TestGroupsComeAndGo(t *testing.T) {
	s := New()
	key := model.GroupKey{Namespace: "ns", Name: "g"}
	first, second := groupOf("g", "u", 1), groupOf("g", "u", 2)
	gone := model.Change{Kind: model.ObjectGone, Ref: key.Ref()}
	for i, step := range []struct {
		change   model.Change
		action   model.Action
		old, now *model.PodGroup
	}{
		{compiled(first), model.Add, nil, first}, {compiled(second), model.Update, first, second}, {gone, model.Delete, second, nil}, {gone, 0, nil, nil}, {compiled(first), model.Add, nil, first},
	} {
		delta := s.Apply([]model.Change{step.change})
		if got := s.View().Group(key); got != step.now {
			t.Errorf("step %d: the group is %v, want %v", i, got, step.now)
		}
		if step.action == 0 {
			if len(delta.Events) != 0 || len(delta.Groups) != 0 {
				t.Errorf("step %d: %+v", i, delta)
			}
			continue
		}
		if len(delta.Events) != 1 || !slices.Equal(delta.Groups, []model.GroupKey{key}) {
			t.Fatalf("step %d: %+v", i, delta)
		}
		e := delta.Events[0]
		is := func(object model.Compiled, want *model.PodGroup) bool {
			return want == nil && object == nil || want != nil && object == model.Compiled(want)
		}
		if e.Resource != model.PodGroupEvent || e.Action != step.action || !is(e.OldObject, step.old) || !is(e.Object, step.now) {
			t.Errorf("step %d: the event is %+v", i, e)
		}
	}
}

// TestPlacedMembers counts the members of groups on nodes, bound and assumed, whether or
// not the group exists.
func TestPlacedMembers(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a"), {Kind: model.PodSet, Pod: memberOn("p", "g", "a")}, {Kind: model.PodSet, Pod: memberOn("q", "g", "a")}, {Kind: model.PodSet, Pod: memberOn("r", "h", "a")}, podOn("s", "s", "a", 1)})
	assumed := plan.Placement{Pod: memberOn("t", "g", ""), NodeName: "a"}
	check := func(when, want string) {
		t.Helper()
		var got []string
		for _, name := range []string{"g", "h", "i"} {
			key := model.GroupKey{Namespace: "ns", Name: name}
			var members []string
			for pod := range s.View().GroupMembers(key) {
				members = append(members, pod.Name)
			}
			slices.Sort(members)
			if len(members) != s.View().GroupPlaced(key) {
				t.Errorf("%s: %v are %d", when, members, s.View().GroupPlaced(key))
			}
			got = append(got, name+":"+strings.Join(members, ""))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s, want %s", when, text, want)
		}
		if err := s.Audit(); err != nil {
			t.Error(err)
		}
	}
	check("at first", "g:pq h:r i:")
	if delta := s.Apply([]model.Change{{Kind: model.PodSet, Pod: memberOn("u", "i", "a")}, podOn("v", "v", "a", 1)}); !slices.Equal(delta.Groups, []model.GroupKey{{Namespace: "ns", Name: "i"}}) {
		t.Errorf("a member has come to a node, and the groups that this concerns are %v", delta.Groups)
	}
	s.Apply([]model.Change{podGone("u"), podGone("v")})
	s.Assume(assumed)
	check("one more is assumed", "g:pqt h:r i:")
	s.Unassume(assumed)
	check("and taken back", "g:pq h:r i:")
	s.Apply([]model.Change{podGone("p"), podGone("r"), podGone("s")})
	check("some are gone", "g:q h: i:")
	for range s.View().GroupMembers(model.GroupKey{Namespace: "ns", Name: "g"}) {
		break // a reader may stop
	}
}

// TestScheduledOnce checks that the record of a scheduled group belongs to the PodGroup
// and not to its name.
func TestScheduledOnce(t *testing.T) {
	s := New()
	g, anew := groupOf("g", "u", 1), groupOf("g", "w", 1)
	noted := func() string { return fmt.Sprint(s.View().GroupScheduled(g), s.View().GroupScheduled(anew)) }
	s.NoteGroupScheduled(g)
	for i, step := range []struct {
		change model.Change
		note   bool
		want   string
	}{
		{compiled(g), false, "false false"}, // it did not exist when it was recorded
		{compiled(g), true, "true false"},
		{compiled(groupOf("g", "u", 2)), false, "true false"},
		{compiled(anew), false, "false false"},
		{compiled(g), true, "true false"},
		{model.Change{Kind: model.ObjectGone, Ref: g.Ref()}, false, "false false"},
		{compiled(g), false, "false false"},
	} {
		s.Apply([]model.Change{step.change})
		if step.note {
			s.NoteGroupScheduled(g)
		}
		if got := noted(); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
		if err := s.Audit(); err != nil {
			t.Error(err)
		}
	}
}

// TestAuditFindsEachViolationOfGroups corrupts the state's records of groups in one way
// after the other.
func TestAuditFindsEachViolationOfGroups(t *testing.T) {
	key, other := model.GroupKey{Namespace: "ns", Name: "g"}, model.GroupKey{Namespace: "ns", Name: "other"}
	for _, row := range []struct {
		want    string
		corrupt func(g *groups)
	}{
		{"", func(*groups) {}},
		{"pod ns/p is on a node, and is not listed as a member of group ns/g", func(g *groups) {
			g.members[key].pods = slices.DeleteFunc(g.members[key].pods, func(p *placed) bool { return p.pod.Name == "p" })
		}},
		{"2 members of group ns/g on nodes have priority 7, recounted 0", func(g *groups) { g.members[key].ranks[0].priority = 7 }},
		{"0 members of groups on nodes are listed by their priorities, recounted 2", func(g *groups) { g.members[key].ranks = nil }},
		{"group ns/other is listed and has no members on nodes", func(g *groups) { g.members[other] = &groupMembers{} }},
		{"3 members of groups are listed on nodes, recounted 2", func(g *groups) { g.members[other] = &groupMembers{pods: []*placed{nil}} }},
		{"is listed as ns/other", func(g *groups) { g.objects[other] = g.objects[key] }},
		{"group <nil> is listed as ns/other", func(g *groups) { g.objects[other] = nil }},
		{"group ns/other was scheduled once, and does not exist", func(g *groups) { g.scheduled[other] = "u" }},
	} {
		s := New()
		g := groupOf("g", "u", 1)
		s.Apply([]model.Change{node("a"), compiled(g), {Kind: model.PodSet, Pod: memberOn("p", "g", "a")}, {Kind: model.PodSet, Pod: memberOn("q", "g", "a")}, podOn("s", "s", "a", 1)})
		s.NoteGroupScheduled(g)
		row.corrupt(&s.groups)
		if err := s.Audit(); (err != nil) != (row.want != "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("want a violation with %q, have\n%v", row.want, err)
		}
	}
}

// TestMemberOfAnotherGroup changes the group or priority of a pod on a node, which an API
// server forbids: the state counts the pod under the new values.
func TestMemberOfAnotherGroup(t *testing.T) {
	s := New()
	in := func(name, group string, priority int32) model.Change {
		p := memberOn(name, group, "a")
		p.Priority = priority
		return model.Change{Kind: model.PodSet, Pod: p}
	}
	s.Apply([]model.Change{node("a"), compiled(groupOf("g", "u", 1)), in("p", "g", 0), in("q", "g", 0), in("r", "g", 0)})
	for _, step := range []struct {
		change model.Change
		g, h   int
	}{
		{in("p", "h", 0), 2, 1}, {in("q", "g", 5), 2, 1}, {in("r", "h", 5), 1, 2}, {in("p", "", 0), 1, 1}, {in("p", "g", 0), 2, 1},
	} {
		s.Apply([]model.Change{step.change})
		placed := func(name string) int { return s.View().GroupPlaced(model.GroupKey{Namespace: "ns", Name: name}) }
		if placed("g") != step.g || placed("h") != step.h {
			t.Errorf("after a version of pod %s: %d and %d members, want %d and %d", step.change.Pod, placed("g"), placed("h"), step.g, step.h)
		}
		if err := s.Audit(); err != nil {
			t.Error(err)
		}
	}
}
