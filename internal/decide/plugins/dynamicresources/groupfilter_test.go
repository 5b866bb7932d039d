package dynamicresources

import (
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// group returns the PodGroup g with entries NAME=CLAIM. An entry NAME=template/TEMPLATE
// has the claim of that name made from a template.
func group(entries ...string) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "uid-g"}}
	for _, entry := range entries {
		name, of, _ := strings.Cut(entry, "=")
		claim := schedulingv1beta1.PodGroupResourceClaim{Name: name}
		if template, ok := strings.CutPrefix(of, "template/"); ok {
			claim.ResourceClaimTemplateName = &template
		} else if of != "" {
			claim.ResourceClaimName = &of
		}
		g.Spec.ResourceClaims = append(g.Spec.ResourceClaims, claim)
	}
	return g
}

// member returns a pod of the group g that uses claims.
func member(name string, claims ...string) *model.Pod {
	p := pod(name, claims...).Object.DeepCopy()
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("g")}
	return model.NewPod(p)
}

// forGroup reserves a claim for the PodGroup g.
func forGroup(c *resourcev1.ResourceClaim) {
	c.Status.ReservedFor = append(c.Status.ReservedFor, reservationOf(group()))
}

// ofGroup makes the PodGroup g the owner of a claim.
func ofGroup(c *resourcev1.ResourceClaim) {
	c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(group(), schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"))}
}

// withGroups returns a world in which claims of PodGroups count.
func withGroups(t testing.TB, claims ...*resourcev1.ResourceClaim) *world {
	t.Helper()
	w := newWorld(t, slice("a", "d0"), slice("b", "d0"))
	w.plugin.config.GroupClaims = true
	for _, c := range claims {
		w.set(c)
	}
	return w
}

// A claim is reserved for the group that lists it as the member does, and otherwise for
// the member.
func TestForWhomAClaimIsReserved(t *testing.T) {
	fromTemplate := member("p").Object.DeepCopy()
	fromTemplate.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "entry-0", ResourceClaimTemplateName: new("one")}}
	fromTemplate.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "entry-0", ResourceClaimName: new("c")}}
	for _, row := range []struct {
		name  string
		pod   *model.Pod
		group *schedulingv1beta1.PodGroup
		off   bool
		want  string
	}{
		{"of the group", member("p", "c"), group("entry-0=c"), false, "podgroups g uid-g"},
		{"with the gate off", member("p", "c"), group("entry-0=c"), true, "pods p uid-p"},
		{"second of the group", member("p", "c"), group("other=d", "entry-0=c"), false, "podgroups g uid-g"},
		{"by another name", member("p", "c"), group("gpu=c"), false, "pods p uid-p"},
		{"another claim", member("p", "c"), group("entry-0=d"), false, "pods p uid-p"},
		{"a group without claims", member("p", "c"), group(), false, "pods p uid-p"},
		{"no such group", member("p", "c"), nil, false, "pods p uid-p"},
		{"no member", pod("p", "c"), group("entry-0=c"), false, "pods p uid-p"},
		{"made from the group's template", model.NewPod(fromTemplate), group("entry-0=template/one"), false, "podgroups g uid-g"},
		{"made from another template", model.NewPod(fromTemplate), group("entry-0=template/two"), false, "pods p uid-p"},
		{"of an unknown kind", member("p", "c"), group("gpu="), false, "error: PodGroup ns/g claim gpu: "},
	} {
		w := withGroups(t, claim("c", 1))
		w.plugin.config.GroupClaims = !row.off
		if row.group != nil {
			w.set(row.group)
		}
		consumer, err := w.plugin.consumerOf(w.View(), row.pod, row.pod.Devices.Claims[0])
		got := strings.Join([]string{consumer.Resource, consumer.Name, string(consumer.UID)}, " ")
		if err != nil {
			if got = "error: " + err.Error(); !errors.Is(err, resourceclaim.ErrAPIUnsupported) {
				t.Errorf("%s: %v", row.name, err)
			}
			if r := w.plugin.PreFilter(w.View(), row.pod); r.Rejection != err.Error() {
				t.Errorf("%s: PreFilter says %+v", row.name, r)
			}
		}
		if got != row.want && !(strings.HasPrefix(row.want, "error: ") && strings.HasPrefix(got, row.want)) {
			t.Errorf("%s: reserved for %q, want %q", row.name, got, row.want)
		}
		if wantsGroup := strings.HasPrefix(row.want, "podgroups"); err == nil && (consumer.APIGroup == schedulingv1beta1.GroupName) != wantsGroup {
			t.Errorf("%s: reserved for an object of %q", row.name, consumer.APIGroup)
		}
	}
}

// A claim of the group is reserved for it once. A member does not undo this, because
// others use it.
func TestReservationForAGroup(t *testing.T) {
	for _, row := range []struct {
		name   string
		claim  *resourcev1.ResourceClaim
		writes int
		undone bool
	}{
		{"new", claim("c", 1, protected), 1, false},
		{"reserved for the group", claim("c", 1, allocated("a", "d0"), forGroup), 0, false},
		{"allocated", claim("c", 1, allocated("a", "d0")), 1, false},
	} {
		w := withGroups(t, row.claim)
		w.set(group("entry-0=c"))
		placement, err := w.place(t, member("p", "c"), "a")
		if err != nil || len(placement.Steps) != row.writes {
			t.Errorf("%s: %+v, %v", row.name, placement, err)
			continue
		}
		for i := range placement.Steps {
			step := &placement.Steps[i]
			now, err := stored(t, row.claim, step.Write)
			if err != nil || len(now.Status.ReservedFor) != 1 || now.Status.ReservedFor[0] != reservationOf(group()) || !step.Write.Stored(now) {
				t.Errorf("%s: %+v, %v", row.name, now, err)
			}
			if step.Undo != nil {
				t.Errorf("%s: the group's reservation ends with a member", row.name)
			}
		}
	}
}

// A claim made for the group can be used by its members only.
func TestClaimMadeForAGroup(t *testing.T) {
	owned := func(p *model.Pod) *model.Pod {
		o := p.Object.DeepCopy()
		o.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "entry-0", ResourceClaimTemplateName: new("one")}}
		o.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "entry-0", ResourceClaimName: new("c")}}
		return model.NewPod(o)
	}
	w := withGroups(t, claim("c", 1, ofGroup))
	w.set(group("entry-0=template/one"))
	if r := w.plugin.PreFilter(w.View(), owned(member("p"))); !r.IsZero() {
		t.Errorf("a member: %+v", r)
	}
	if r := w.plugin.PreFilter(w.View(), owned(pod("p"))); !strings.Contains(r.Rejection, "was not created for Pod ns/p") {
		t.Errorf("no member: %+v", r)
	}
	w.plugin.config.GroupClaims = false
	if r := w.plugin.PreFilter(w.View(), owned(member("p"))); !strings.Contains(r.Rejection, "was not created for Pod ns/p") {
		t.Errorf("with the gate off: %+v", r)
	}
}

// The claims released for a rejected group: a claim for each member, or else a claim or a
// reservation of the group.
func TestFreeForGroup(t *testing.T) {
	inTheWay := reason.Rejection{Plugin: Name, Unresolvable: true, Reasons: []string{"resourceclaim not available on the node"}}
	onB := map[string]reason.Rejection{"b": inTheWay}
	ofOther := func(c *resourcev1.ResourceClaim) {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{APIGroup: schedulingv1beta1.GroupName, Resource: "podgroups", Name: "o", UID: "uid-o"})
	}
	const nothing = "deallocation and deletion of ResourceClaims completed"
	for _, row := range []struct {
		name    string
		claims  []*resourcev1.ResourceClaim
		group   *schedulingv1beta1.PodGroup
		members []*model.Pod
		running bool // another member is placed
		off     bool
		unseen  bool // Member is not called
		by      map[string]reason.Rejection
		want    string // the message, then the state of each written claim
	}{
		{name: "nothing", members: []*model.Pod{member("p")}, want: nothing},
		{name: "a member's own", claims: []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"))}, members: []*model.Pod{member("p", "c")}, by: onB, want: nothing + "; c free, kept"},
		{name: "shared by members, once", claims: []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"))}, members: []*model.Pod{member("p", "c"), member("q", "c")}, by: onB, want: nothing + "; c free, kept"},
		{
			name: "own of one, beside one with none", claims: []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"), reserved("p"))}, members: []*model.Pod{member("p", "c"), member("q")}, by: onB,
			want: nothing + "; c free, kept",
		},
		{
			name: "of the group", claims: []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"), forGroup)}, group: group("entry-0=c"), members: []*model.Pod{member("p", "c")}, by: onB,
			want: "deallocation of PodGroup ResourceClaim completed; c free, kept",
		},
		{
			name: "of the group, with the gate off", claims: []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"), forGroup)}, group: group("entry-0=c"), members: []*model.Pod{member("p", "c")}, by: onB, off: true,
			want: nothing,
		},
		{
			name: "of the group, while a member runs", claims: []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"), forGroup)}, group: group("entry-0=c"), members: []*model.Pod{member("p", "c")}, by: onB, running: true,
			want: nothing,
		},
		{
			name: "of two groups", claims: []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"), forGroup, ofOther)}, group: group("other=d"), members: []*model.Pod{member("p", "c")}, by: onB,
			want: `error: could not find ResourceClaim "ns/d"`,
		},
		{
			name: "not in the way", claims: []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"), forGroup)}, group: group("entry-0=c"), members: []*model.Pod{member("p", "c")},
			want: "ResourceClaim unreserved for PodGroup, done; c has a-pool/d0, kept",
		},
		{
			name: "not in the way, and not reserved", claims: []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"))}, group: group("entry-0=c"), members: []*model.Pod{member("p", "c")}, want: nothing,
		},
		{
			name: "not used by members", claims: []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"), forGroup)}, group: group("entry-0=c"), members: []*model.Pod{member("p")}, unseen: true,
			want: "ResourceClaim unreserved for PodGroup, done; c has a-pool/d0, kept",
		},
		{
			name: "made for another group", claims: []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"), forGroup)}, group: group("entry-0=template/one"), members: []*model.Pod{member("p")}, want: nothing,
		},
		{
			name: "made for the group", claims: []*resourcev1.ResourceClaim{claim("c", 1, ofGroup, allocated("a", "d0"), forGroup)}, group: group("entry-0=template/one"), members: []*model.Pod{member("p")},
			want: "ResourceClaim unreserved for PodGroup, done; c has a-pool/d0, kept",
		},
		{name: "not made yet", group: group("gpu=template/one"), members: []*model.Pod{member("p")}, want: "error: PodGroup ns/g: "},
	} {
		w := withGroups(t, row.claims...)
		w.plugin.config.GroupClaims = !row.off
		object := row.group
		if object == nil {
			object = group()
		}
		for i := range object.Spec.ResourceClaims {
			if e := &object.Spec.ResourceClaims[i]; e.ResourceClaimTemplateName != nil && e.Name == "entry-0" {
				object.Status.ResourceClaimStatuses = []schedulingv1beta1.PodGroupResourceClaimStatus{{Name: e.Name, ResourceClaimName: new("c")}}
			}
		}
		w.set(object)
		if row.running {
			runs := member("runs").Object.DeepCopy()
			runs.Spec.NodeName = "a"
			w.set(runs)
		}
		var notes []plugin.GroupNote
		if !row.unseen {
			notes = []plugin.GroupNote{}
			for _, m := range row.members {
				if note := w.plugin.Member(&rejectedCycle{view: w.View(), ran: true, by: row.by}, m); note != nil {
					notes = append(notes, note)
				}
			}
		}
		freed, err := w.plugin.FreeForGroup(w.View(), w.View().Group(row.members[0].Group), row.members[0], notes)
		got := freed.Message
		if freed.Done {
			got += ", done"
		}
		for i := range freed.Writes {
			write := &freed.Writes[i]
			at := slices.IndexFunc(row.claims, func(c *resourcev1.ResourceClaim) bool { return c.Name == write.Name })
			now, err := stored(t, row.claims[at], write)
			if err != nil {
				t.Errorf("%s: %v", row.name, err)
				continue
			}
			got += "; " + write.Name + " " + describe(now)
		}
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != row.want && !(strings.HasPrefix(row.want, "error: ") && strings.HasSuffix(row.want, ": ") && strings.HasPrefix(got, row.want)) {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}

// Member records nothing if the plugin did not run. A promise of the group's turn cannot
// be released, but it can make nodes infeasible.
func TestMemberOfAGroup(t *testing.T) {
	w := withGroups(t, claim("c", 1))
	w.set(group("entry-0=c"))
	if note := w.plugin.Member(&rejectedCycle{view: w.View()}, member("p", "c")); note != nil {
		t.Errorf("%+v is noted of a turn that another plugin ended", note)
	}
	for _, row := range []struct {
		pod  *model.Pod
		want bool
	}{{member("p", "c"), true}, {member("p"), false}} {
		if got := w.plugin.ConcernsGroup(w.View(), row.pod); got != row.want {
			t.Errorf("%s concerns the plugin: %t", row.pod, got)
		}
	}
	w.set(made("left"))
	if left := member("left"); !w.plugin.ConcernsGroup(w.View(), left) {
		t.Error("a member for which a claim was made earlier does not concern the plugin")
	}
	w.BeginGroupTurn()
	defer w.EndGroupTurn()
	first, second := member("first", "c"), member("second", "c")
	slot, _ := w.Slot("a")
	holds, err := w.plugin.Reserve(w.View(), first, slot)
	if err != nil || len(holds) != 1 {
		t.Fatal(holds, err)
	}
	w.Assume(plan.Placement{Pod: first, NodeName: "a", Holds: holds})
	inTheWay := reason.Rejection{Plugin: Name, Unresolvable: true, Reasons: []string{"resourceclaim not available on the node"}}
	cycle := plugin.Cycle(&rejectedCycle{view: w.View(), ran: true, by: map[string]reason.Rejection{"b": inTheWay}})
	notes := []plugin.GroupNote{w.plugin.Member(&rejectedCycle{view: w.View(), ran: true}, member("third")), w.plugin.Member(cycle, second)}
	w.Unassume(plan.Placement{Pod: first, NodeName: "a", Holds: holds})
	freed, err := w.plugin.FreeForGroup(w.View(), w.View().Group(first.Group), first, notes)
	if err != nil || len(freed.Writes) > 0 || freed.Message != "deallocation of PodGroup ResourceClaim completed" {
		t.Errorf("%+v, %v", freed, err)
	}
}
