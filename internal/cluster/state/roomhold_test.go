package state

import (
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

func TestKeepIsForOthers(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("n"), node("m")})
	gang := model.GroupKey{Namespace: "ns", Name: "gang"}
	root := model.RootKey{Key: gang}
	member := func(name string) *model.Pod {
		p := *nominatedPod(name, "", 0)
		p.Group = gang
		return &p
	}
	first, second, other := member("a"), member("b"), nominatedPod("c", "", 0)
	if s.EndRoomHold(root); s.RoomHolds() != 0 || s.HoldsRoomFor(root) || s.Nominated() != 0 {
		t.Fatal("room is kept from the start")
	}
	before := s.View().NominationsVersion()
	s.HoldRoom(root, []model.GroupKey{gang}, []plan.Nomination{{Pod: first, Mode: plan.Set, NodeName: "n"}, {Pod: second, Mode: plan.Set, NodeName: "n"}})
	slot, _ := s.Slot("n")
	v := s.View()
	if v.NominationsVersion() == before || s.RoomHolds() != 1 || !s.HoldsRoomFor(root) || s.Nominated() != 2 || v.IsNominated(first.Key()) {
		t.Error("room is not kept, or the members are nominated")
	}
	if got := strings.Join(v.RoomHeldOn(root), " "); got != "n n" {
		t.Errorf("room is kept on %q", got)
	}
	if got := v.NominatedBefore(first, slot); len(got) != 0 {
		t.Errorf("a member must leave room for %v", got)
	}
	leaves := v.NominatedBefore(other, slot)
	rest, id := v.WithoutRoomHolds(leaves)
	if len(leaves) != 2 || len(rest) != 0 || v.RoomHolder(id) != "ns/gang" || v.RoomHolder(id+1) != "" {
		t.Errorf("another pod leaves room for %v, without the gang for %v; id %d is of %q", leaves, rest, id, v.RoomHolder(id))
	}
	above := *other
	above.Priority = 1
	if got := v.NominatedBefore(&above, slot); len(got) != 0 {
		t.Errorf("a pod that outranks the gang leaves room for %v", got)
	}
	if got := v.NominatedBelow(&above, slot); len(got) != 0 {
		t.Errorf("%v would lose nominations that they do not have", got)
	}
	s.Nominate(plan.Nomination{Pod: nominatedPod("d", "", 0), Mode: plan.Set, NodeName: "n"}, plan.Nomination{Pod: nominatedPod("e", "", 0), Mode: plan.Set, NodeName: "m"})
	if rest, id = v.WithoutRoomHolds(v.NominatedBefore(other, slot)); len(rest) != 1 || rest[0].Name != "d" || id == 0 {
		t.Errorf("beside the gang the pod leaves room for %v", rest)
	}
	m, _ := s.Slot("m")
	if rest, id = v.WithoutRoomHolds(v.NominatedBefore(other, m)); len(rest) != 1 || id != 0 {
		t.Errorf("on m it leaves room for %v, of group %d", rest, id)
	}
	if err := s.Audit(); err != nil {
		t.Error(err)
	}
	s.EndRoomHold(root)
	delta := s.Apply(nil)
	if s.RoomHolds() != 0 || s.HoldsRoomFor(root) || s.Nominated() != 2 || len(v.RoomHeldOn(root)) != 0 || len(v.NominatedBefore(other, slot)) != 1 || len(delta.Events) != 2 {
		t.Errorf("room is still kept, or %d events say that it is not", len(delta.Events))
	}
	if err := s.Audit(); err != nil {
		t.Error(err)
	}
}

func TestAuditOfRoomHolds(t *testing.T) {
	gang := model.GroupKey{Namespace: "ns", Name: "gang"}
	root := model.RootKey{Key: gang}
	for _, test := range []struct {
		want    string
		corrupt func(n *nominations)
	}{
		{"of its group: false, listed there: true", func(n *nominations) { n.holdFor[n.holds[root].pods[0]] = &roomHold{} }},
		{"of its group: true, listed there: false", func(n *nominations) { n.byNode["n"] = n.byNode["n"][:1] }},
		{"room is held for group ns/gang of ns/gang, and not listed there", func(n *nominations) { n.holdOf[gang] = nil }},
		{"room is held for 2 pods of 1 groups, and listed for 2 of 2", func(n *nominations) { n.holdOf[model.GroupKey{Name: "other"}] = nil }},
		{"room that is held for ns/gang is listed for ns/other", func(n *nominations) {
			n.holds[model.RootKey{Key: model.GroupKey{Namespace: "ns", Name: "other"}}] = n.holds[root]
			delete(n.holds, root)
		}},
		{"room is held for 1 pods of 1 groups, and listed for 2 of 1", func(n *nominations) { n.holds[root].pods = n.holds[root].pods[:1] }},
	} {
		s := New()
		s.Apply([]model.Change{node("n")})
		var members []plan.Nomination
		for _, name := range []string{"a", "b"} {
			p := *nominatedPod(name, "", 0)
			p.Group = gang
			members = append(members, plan.Nomination{Pod: &p, Mode: plan.Set, NodeName: "n"})
		}
		s.HoldRoom(root, []model.GroupKey{gang}, members)
		if err := s.Audit(); err != nil {
			t.Fatal(err)
		}
		test.corrupt(&s.nominations)
		if err := s.Audit(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q is not in %v", test.want, err)
		}
	}
}

// TestMembersLeaveNoRoomForEachOther has a pod nominated to a node, from a group, a tree
// or neither. Pods that are tried together with it leave no space for it, all others do.
func TestMembersLeaveNoRoomForEachOther(t *testing.T) {
	s := New()
	s.Apply([]model.Change{
		node("n"), compiled(compositeGroup("ns", "root", "")), compiled(compositeGroup("ns", "middle", "root")), compiled(compositeGroup("ns", "another", "")),
		compiled(leafGroup("a", "root")), compiled(leafGroup("b", "middle")), compiled(leafGroup("c", "another")), compiled(leafGroup("d", "")), compiled(leafGroup("e", "")), compiled(leafGroup("f", "missing")), compiled(leafGroup("g", "missing")),
	})
	slot, _ := s.Slot("n")
	member := func(name, group string) *model.Pod {
		p := *nominatedPod(name, "n", 0)
		if group != "" {
			p.Group = model.GroupKey{Namespace: "ns", Name: group}
		}
		return &p
	}
	for _, row := range []struct {
		nominated, tried string // groups
		leaves           bool
	}{
		{"d", "d", false}, {"d", "e", true}, {"d", "", true}, {"", "d", true}, {"", "", true}, {"unknown", "unknown", true},
		{"a", "a", false}, {"a", "b", false}, {"b", "a", false}, {"a", "c", true}, {"a", "d", true}, {"d", "a", true}, {"f", "g", true}, {"f", "f", false},
	} {
		other := member("other", row.nominated)
		s.Nominate(plan.Nomination{Pod: other, Mode: plan.Set, NodeName: "n"})
		if leaves := len(s.View().NominatedBefore(member("tried", row.tried), slot)) > 0; leaves != row.leaves {
			t.Errorf("a pod of %q leaves room for one of %q: %t", row.tried, row.nominated, leaves)
		}
		s.Nominate(plan.Nomination{Pod: other, Mode: plan.Clear})
	}
}
