package volumerestrictions

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

var (
	pvc, claims, disks, readOnly, on, in = build.PersistentVolumeClaim, build.Claims, build.Disks, build.ReadOnlyDisks, build.NodeName, build.InNamespace
)

// cluster returns a state with nodes n1 to n3, pods that are named in order, and claims.
func cluster(pods []*v1.Pod, objects ...runtime.Object) *state.State {
	s := state.New()
	for _, name := range []string{"n1", "n2", "n3"} {
		objects = append(objects, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}})
	}
	for i, p := range pods {
		build.Named("q" + string('0'+rune(i)))(p)
		objects = append(objects, p)
	}
	plugintest.Set(s, objects...)
	return s
}

func placed(options ...build.PodOption) *v1.Pod { return build.Pod(options...) }

func waiting(options ...build.PodOption) *model.Pod { return model.NewPod(build.Pod(options...)) }

// inShort abbreviates the reasons.
func inShort(ruling string) string {
	return strings.NewReplacer("U node(s) had no available disk", "disk",
		"U node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod", "rwop",
		", ", " ").Replace(ruling)
}

var rwop = []runtime.Object{
	pvc("c", "modes=RWOP"), pvc("c", "namespace=b"), pvc("c1", "modes=RWOP"), pvc("c2", "modes=RWOP"), pvc("any", "modes=RWO,RWX"), pvc("p-e", "modes=RWOP"),
}

// The rows R are the worked examples of the plugin.
func TestFilter(t *testing.T) {
	on1 := func(options ...build.PodOption) []*v1.Pod { return []*v1.Pod{placed(append(options, on("n1"))...)} }
	for _, row := range []struct {
		name    string
		pods    []*v1.Pod
		waiting build.PodOption
		want    string
	}{
		{"no volumes", on1(disks("pd=pd1")), build.Labels(""), "skip"},
		{"R1", on1(disks("pd=pd1")), readOnly("pd=pd1"), "disk fits fits"},
		{"R1 the other way round", on1(readOnly("pd=pd1")), disks("pd=pd1"), "disk fits fits"},
		{"R2", on1(readOnly("pd=pd1")), readOnly("pd=pd1"), "fits fits fits"},
		{"another disk", on1(disks("pd=pd1")), disks("pd=pd2"), "fits fits fits"},
		{"another kind", on1(disks("ebs=x")), disks("pd=x"), "fits fits fits"},
		{"R3", on1(readOnly("ebs=vol-1")), readOnly("ebs=vol-1"), "disk fits fits"},
		{"R4 one writes", on1(readOnly("iscsi=iqn/0")), disks("iscsi=iqn/1"), "disk fits fits"},
		{"R4 both read", on1(readOnly("iscsi=iqn/0")), readOnly("iscsi=iqn/1"), "fits fits fits"},
		{"R5", on1(disks("rbd=m1,m2/pool/image")), readOnly("rbd=m2,m3/pool/image"), "disk fits fits"},
		{"R5 other monitors", on1(disks("rbd=m1/pool/image")), readOnly("rbd=m3/pool/image"), "fits fits fits"},
		{"R5 other pool, other image", on1(disks("rbd=m/pool/image")), disks("rbd=m/loop/image rbd=m/pool/page"), "fits fits fits"},
		{"disks of every namespace", on1(in("other"), build.Terminating, disks("pd=pd1")), disks("pd=pd1"), "disk fits fits"},
		{"disks that are not compared", on1(disks("azuredisk=x")), disks("azuredisk=x"), "skip"},
		{"R6", on1(disks("pd=pd1")), claims("any"), "skip"},
		{"R7", []*v1.Pod{placed(on("n2"), claims("c"))}, claims("c"), "rwop rwop rwop"},
		{"used in another namespace", on1(in("b"), claims("c")), claims("c"), "skip"},
		{"used on a node that is gone", []*v1.Pod{placed(on("gone"), claims("c"))}, claims("c"), "skip"},
		{"nobody uses it", nil, claims("c c"), "skip"},
		{"used, but for anyone", on1(claims("any")), claims("any"), "skip"},
		{"an ephemeral volume's claim is not looked at", on1(claims("p-e")), build.Ephemeral("e gone"), "skip"},
		{"R9", []*v1.Pod{placed(on("n1"), claims("c1")), placed(on("n2"), claims("c2"))}, claims("c1 c2"), "rwop rwop rwop"},
		{"R10", nil, claims("gone"), `pod: persistentvolumeclaim "gone" not found`},
	} {
		s := cluster(row.pods, rwop...)
		if got := inShort(plugintest.Ruling(New(), waiting(row.waiting), s.View(), s.View())); got != row.want {
			t.Errorf("row %s: %s, want %s", row.name, got, row.want)
		}
	}
	s := cluster(on1(claims("c"), disks("pd=pd1")), rwop...)
	if got := inShort(plugintest.Ruling(New(), waiting(disks("pd=pd1"), claims("c")), s.View(), s.View())); got != "disk rwop rwop" {
		t.Errorf("disk before claim: %s", got)
	}
}

func TestDryRun(t *testing.T) {
	user, namesake, twice := placed(on("n2"), claims("c")), placed(in("b"), on("n1"), claims("c")), placed(on("n1"), claims("c c"))
	user1, user2 := placed(on("n1"), claims("c1")), placed(on("n2"), claims("c2"))
	disk := placed(on("n1"), disks("pd=pd1"))
	for _, row := range []struct {
		name           string
		pods           []*v1.Pod
		waiting        []build.PodOption
		removed, added *v1.Pod
		want           string
	}{
		{"R7 n2", []*v1.Pod{user}, []build.PodOption{claims("c")}, user, nil, "rwop fits rwop"},
		{"R8", []*v1.Pod{user, namesake}, []build.PodOption{claims("c")}, namesake, nil, "fits rwop rwop"},
		{"R9 n1", []*v1.Pod{user1, user2}, []build.PodOption{claims("c1 c2")}, user1, nil, "rwop rwop rwop"},
		{"R9 n2", []*v1.Pod{user1, user2}, []build.PodOption{claims("c1 c2")}, user2, nil, "rwop rwop rwop"},
		{"volumes are counted, not claims", []*v1.Pod{user1, twice}, []build.PodOption{claims("c1 c")}, twice, nil, "fits rwop rwop"},
		{"added after Skip", nil, []build.PodOption{claims("c")}, nil, user, "skip"},
		{"added", nil, []build.PodOption{claims("c"), disks("pd=pd2")}, nil, user, "fits rwop fits"},
		{"another is added", nil, []build.PodOption{claims("c"), disks("pd=pd2")}, nil, user1, "fits fits fits"},
		{"an ephemeral one is added", nil, []build.PodOption{claims("p-e"), disks("pd=pd2")}, nil, placed(build.Named("p"), on("n1"), build.Ephemeral("e")), "fits fits fits"},
		{"one without volumes is added", []*v1.Pod{user}, []build.PodOption{claims("c")}, nil, placed(on("n1")), "rwop rwop rwop"},
		{"disk removed", []*v1.Pod{disk}, []build.PodOption{disks("pd=pd1")}, disk, nil, "fits fits fits"},
	} {
		s := cluster(row.pods, rwop...)
		d := s.View().DryRun(new(state.Draft))
		if row.removed != nil {
			d.Remove(model.NewPod(row.removed).Key())
		}
		if row.added != nil {
			added := model.NewPod(row.added)
			added.Name = "added"
			slot, _ := s.Slot(added.NodeName)
			d.Add(added, slot)
		}
		if got := inShort(plugintest.Ruling(New(), waiting(row.waiting...), s.View(), d.View())); got != row.want {
			t.Errorf("row %s: %s, want %s", row.name, got, row.want)
		}
	}
}

// A turn may use a view with other pods than the state. Their changes count once, also in
// dry runs of the view.
func TestTurnInADraft(t *testing.T) {
	user := placed(on("n2"), claims("c"))
	s := cluster([]*v1.Pod{user}, rwop...)
	pod := waiting(claims("c"), disks("pd=pd1"))

	without := s.View().Draft()
	without.Remove(model.NewPod(user).Key())
	if got := inShort(plugintest.Ruling(New(), pod, without.View(), without.View())); got != "fits fits fits" {
		t.Errorf("without the user: %s", got)
	}
	again := without.View().DryRun(new(state.Draft))
	again.Add(model.NewPod(user), 1)
	if got := inShort(plugintest.Ruling(New(), pod, without.View(), again.View())); got != "fits rwop fits" {
		t.Errorf("with the user in a dry run: %s", got)
	}

	with := s.View().Draft()
	other := waiting(build.Named("other"), claims("c1"))
	with.Add(other, 0)
	both := waiting(claims("c c1"))
	if got := inShort(plugintest.Ruling(New(), both, with.View(), with.View())); got != "rwop rwop rwop" {
		t.Errorf("with another user: %s", got)
	}
	again = with.View().DryRun(new(state.Draft))
	again.Remove(other.Key())
	if got := inShort(plugintest.Ruling(New(), both, with.View(), again.View())); got != "rwop rwop rwop" {
		t.Errorf("without the other in a dry run: %s, of two conflicts one is left", got)
	}
	ephemeral := s.View().Draft()
	ephemeral.Add(waiting(build.Ephemeral("e")), 0)
	ephemeral.Add(waiting(build.Named("plain")), 0)
	if got := inShort(plugintest.Ruling(New(), waiting(build.Named("q"), claims("p-e")), ephemeral.View(), ephemeral.View())); got != "skip" {
		t.Errorf("with a pod that the claim was made for: %s", got)
	}
	only := waiting(claims("c1"))
	if got := inShort(plugintest.Ruling(New(), only, with.View(), again.View())); got != "fits rwop rwop" {
		t.Errorf("without the only user in a dry run: %s", got)
	}
}

func TestNeed(t *testing.T) {
	s := cluster([]*v1.Pod{placed(on("n1"), claims("c1")), placed(on("n2"), claims("c2"))}, rwop...)
	type options = []build.PodOption
	for _, row := range []struct {
		name       string
		one, other options
		equal      bool
	}{
		{"order of disks", options{disks("pd=a ebs=b")}, options{disks("ebs=b pd=a")}, true},
		{"order of monitors", options{disks("rbd=a,b/p/i")}, options{disks("rbd=b,a/p/i")}, true},
		{"repeated disk", options{disks("pd=a")}, options{disks("pd=a pd=a")}, true},
		{"repeated claim", options{claims("c1")}, options{claims("c1 c1")}, true},
		{"order of claims", options{claims("c1 c2")}, options{claims("c2 c1")}, true},
		{"other volumes", options{claims("c1")}, options{claims("any c1"), disks("cinder=x")}, true},
		{"read-only", options{disks("pd=a")}, options{readOnly("pd=a")}, false},
		{"kind", options{disks("pd=a")}, options{disks("ebs=a")}, false},
		{"pool", options{disks("rbd=a/p/i")}, options{disks("rbd=a/q/i")}, false},
		{"monitors", options{disks("rbd=a/p/i")}, options{disks("rbd=b/p/i")}, false},
		{"claims", options{claims("c1")}, options{claims("c2")}, false},
		{"conflicts", options{claims("c1 c")}, options{claims("c1 c2")}, false},
		{"names for dry runs", options{disks("pd=a")}, options{disks("pd=a"), claims("c")}, false},
	} {
		one, other := plugintest.NeedIn(New(), waiting(row.one...), s.View()), plugintest.NeedIn(New(), waiting(row.other...), s.View())
		if got := one == other; got != row.equal || one == "" {
			t.Errorf("%s: equal = %t, want %t: %s and %s", row.name, got, row.equal, one, other)
		}
	}
}

// The number of claims in use matters to dry runs, even if the verdicts are equal now.
func TestNeedCounts(t *testing.T) {
	needs := map[string]bool{}
	for _, used := range []string{"any", "c1", "c1 c2"} {
		s := cluster([]*v1.Pod{placed(on("n1"), claims(used))}, rwop...)
		needs[plugintest.NeedIn(New(), waiting(claims("c1 c2"), disks("pd=a")), s.View())] = true
	}
	if len(needs) != 3 {
		t.Errorf("the needs are %v", needs)
	}
}

func TestEventsToRegister(t *testing.T) {
	deleted := func(options ...build.PodOption) model.Event {
		return model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: waiting(options...)}
	}
	claim := func(name, text string) model.Event {
		return model.Event{Resource: model.PersistentVolumeClaimEvent, Action: model.Add, Object: model.NewClaim(pvc(name, text))}
	}
	pod := waiting(claims("c q-e"), build.Ephemeral("e"), readOnly("pd=a rbd=m1/p/i ebs=v"))
	for _, row := range []struct {
		name        string
		event       model.Event
		want, found bool
	}{
		{"claim freed", deleted(on("n"), claims("c")), true, true},
		{"claim freed that nobody had", deleted(claims("c")), true, true},
		{"another claim", deleted(on("n"), claims("d")), false, false},
		{"an ephemeral claim of the name", deleted(build.Named("p"), build.Ephemeral("e")), false, false},
		{"the claim of the waiting pod's ephemeral volume", deleted(claims("p-e")), false, false},
		{"a claim that was made for the pod", deleted(build.Named("q"), build.Ephemeral("e")), false, false},
		{"claim of another namespace", deleted(in("b"), claims("c")), false, false},
		{"disk freed", deleted(disks("pd=a")), true, true},
		{"disk that was only read", deleted(readOnly("pd=a")), false, true},
		{"disk of another namespace", deleted(in("b"), disks("pd=a")), true, true},
		{"other kind of disk", deleted(disks("iscsi=a/0")), false, false},
		{"EBS", deleted(readOnly("ebs=v")), true, true},
		{"RBD", deleted(disks("rbd=m1,m2/p/i")), true, true},
		{"RBD of another monitor", deleted(disks("rbd=m2/p/i")), false, true},
		{"no volumes", deleted(), false, false},
		{"claim", claim("c", ""), true, true},
		{"other claim", claim("d", ""), false, false},
		{"claim in another namespace", claim("c", "namespace=b"), false, false},
		{"ephemeral claim", claim("p-e", "owner=p"), false, false},
		{"claim updated", model.Event{Resource: model.PersistentVolumeClaimEvent, Action: model.Update, Object: model.NewClaim(pvc("c", ""))}, true, true},
		{"node", model.Event{Resource: model.NodeEvent, Action: model.Add}, true, true},
		{"node gone", model.Event{Resource: model.NodeEvent, Action: model.Delete}, true, true},
		{"node relabelled", model.Event{Resource: model.NodeEvent, Action: model.UpdateNodeLabel}, false, false},
	} {
		if got := plugintest.Helped(t, New(), pod, row.event); got != row.want {
			t.Errorf("%s: helps = %t, want %t", row.name, got, row.want)
		}
		if got := plugintest.Found(New(), pod, row.event); got != row.found {
			t.Errorf("%s: found = %t, want %t", row.name, got, row.found)
		}
	}
	if plugintest.Found(New(), waiting(), deleted(claims("c"), disks("pd=a"))) {
		t.Error("a pod without volumes is found")
	}
}

func TestAlike(t *testing.T) {
	alike := New().EventsToRegister()[0].Alike
	for _, row := range []struct {
		name       string
		one, other *model.Pod
		equal      bool
	}{
		{"order, repetition, name", waiting(claims("a b"), disks("pd=a pd=b")), waiting(build.Named("q"), disks("pd=b"), claims("b a b"), disks("pd=a")), true},
		{"namespace", waiting(claims("a")), waiting(in("b"), claims("a")), false},
		{"namespace, of disks", waiting(disks("pd=a")), waiting(in("b"), disks("pd=a")), false},
		{"claim", waiting(claims("a")), waiting(claims("b")), false},
		{"disk", waiting(disks("pd=a")), waiting(readOnly("pd=a")), false},
		{"nothing", waiting(), waiting(claims("b")), false},
	} {
		if got := alike(row.one) == alike(row.other); got != row.equal {
			t.Errorf("%s: equal = %t, want %t", row.name, got, row.equal)
		}
	}
}

func TestFilterAllocatesNothing(t *testing.T) {
	s := cluster([]*v1.Pod{placed(on("n1"), disks("pd=a rbd=m/p/i")), placed(on("n1"), claims("c"))}, rwop...)
	found, _ := New().FilterNeedIn(s.View(), waiting(disks("pd=b rbd=m/p/j"), claims("c")))
	need := found.Need
	filter := need.Compile()
	d := s.View().DryRun(new(state.Draft))
	d.Add(waiting(build.Named("added"), claims("c")), 0)
	for name, v := range map[string]state.View{"state": s.View(), "dry run": d.View()} {
		if allocs := testing.AllocsPerRun(100, func() { filter.Filter(v.Node(0)) }); allocs != 0 {
			t.Errorf("%s: Filter allocates %v times", name, allocs)
		}
	}
}
