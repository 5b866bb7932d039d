package state

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

func compiled(object model.Compiled) model.Change {
	return model.Change{Kind: model.ObjectSet, Compiled: object}
}

// volumePod is a pod of the namespace default on a node.
func volumePod(name, node string, options ...build.PodOption) *model.Pod {
	p := build.Pod(append([]build.PodOption{build.Named(name), build.InNamespace("default"), build.NodeName(node)}, options...)...)
	p.UID = types.UID(name)
	return model.NewPod(p)
}

// TestUntranslatedVolumesLeaveWithTheirPod removes a pod in a later version than the
// placed one: its untranslatable volume no longer blocks the node.
func TestUntranslatedVolumesLeaveWithTheirPod(t *testing.T) {
	s := New()
	set := func() model.Change {
		return model.Change{Kind: model.PodSet, Pod: volumePod("p", "n", build.Disks("ebs=aws://zone/nonsense"))}
	}
	s.Apply([]model.Change{node("n"), compiled(model.NewCSINode(build.CSINode("n", ""))), set()})
	slot, _ := s.Slot("n")
	if s.Node(slot).Volumes().Err() == nil {
		t.Fatal("the volume can be translated")
	}
	s.Apply([]model.Change{set(), {Kind: model.PodGone, Key: model.PodKey{Namespace: "default", Name: "p"}}})
	if err := s.Node(slot).Volumes().Err(); err != nil {
		t.Errorf("after the pod has gone: %v", err)
	}
}

// TestHoldsOfOtherVersions has a volume held by two pods, one after the other, in two
// versions of it. The later hold ends with its pod, although the former pod, whose hold
// does not count any more, is still there.
func TestHoldsOfOtherVersions(t *testing.T) {
	// Objects from no API server have no version.
	for _, former := range []string{"", "1"} {
		s := New()
		free := func(version string) model.Change {
			object := build.PersistentVolume("v", "storage=1Gi class=c")
			object.ResourceVersion = version
			return compiled(model.NewVolume(object))
		}
		hold := func(name string) plan.Placement {
			return plan.Placement{Pod: volumePod(name, ""), NodeName: "n",
				Holds: []plan.Hold{{Plugin: "VolumeBinding", Object: model.VolumeRef("v")}}}
		}
		expect := func(when string, want int) {
			t.Helper()
			have := 0
			for _, g := range s.View().Storage().WideGroups("c") {
				g.AtLeast(0, func(*model.Volume) bool { have++; return true })
			}
			if have != want {
				t.Errorf("%s: %d volumes are free, want %d", when, have, want)
			}
			audited(t, s)
		}
		s.Apply([]model.Change{node("n"), free(former)})
		s.Assume(hold("p"))
		expect("held", 0)
		s.Apply([]model.Change{free(former)})
		expect("listed again", 0)
		s.Apply([]model.Change{free("2")})
		expect("in a new version", 1)
		later := hold("q")
		s.Assume(later)
		expect("held in the new version", 0)
		s.Apply([]model.Change{podGone("other"), {Kind: model.PodGone, Key: model.PodKey{Namespace: "default", Name: "p"}}})
		expect("without the pod whose hold counts no longer", 0)
		s.Assume(hold("p2"))
		s.Unassume(later)
		expect("without one of two pods that hold it", 0)
		s.Apply([]model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: "default", Name: "p2"}}})
		expect("held by none", 1)
	}
	s := New()
	volume := compiled(model.NewVolume(build.PersistentVolume("v", "storage=1Gi class=c version=1")))
	next := compiled(model.NewVolume(build.PersistentVolume("v", "storage=1Gi class=c version=2")))
	ref := []plan.Hold{{Plugin: "VolumeBinding", Object: model.VolumeRef("v")}}
	s.Apply([]model.Change{node("n"), volume})
	s.Assume(plan.Placement{Pod: volumePod("p", ""), NodeName: "n", Holds: ref})
	s.Apply([]model.Change{next})
	later := plan.Placement{Pod: volumePod("q", ""), NodeName: "n", Holds: ref}
	s.Assume(later)
	s.Unassume(later)
	if n := len(s.View().Storage().WideGroups("c")); n != 1 {
		t.Error("the volume stays held although the only pod that held its version has gone")
	}
}

// TestUsersOfClaims counts the pods that name a claim: only on existing nodes, as in
// kube-scheduler's snapshot of the nodes.
func TestUsersOfClaims(t *testing.T) {
	s := New()
	key := model.ClaimKey{Namespace: "default", Name: "c"}
	on := func(name, node, claims string) model.Change {
		return model.Change{Kind: model.PodSet, Pod: volumePod(name, node, build.Claims(claims))}
	}
	labelled := node("n").Node.Object.DeepCopy()
	labelled.Labels = map[string]string{v1.LabelHostname: "n"}
	for _, step := range []struct {
		what   string
		change model.Change
		want   int
	}{
		{"a pod on a node that has not been seen", on("p", "n", "c"), 0},
		{"the node appears", node("n"), 1},
		{"a pod that names the claim twice", on("q", "n", "c c other"), 2},
		{"the node changes", model.Change{Kind: model.NodeSet, Node: model.NewNode(labelled)}, 2},
		{"the node vanishes", nodeGone("n"), 0},
		{"one of the pods leaves", model.Change{Kind: model.PodGone, Key: model.PodKey{Namespace: "default", Name: "p"}}, 0},
		{"the node comes again", node("n"), 1},
		{"a pod on another node", on("r", "m", "c"), 1},
		{"that node appears", node("m"), 2},
		{"the last pod of the first node leaves", model.Change{Kind: model.PodGone, Key: model.PodKey{Namespace: "default", Name: "q"}}, 1},
	} {
		s.Apply([]model.Change{step.change})
		if have := s.View().Storage().UsersOf(key); have != step.want {
			t.Errorf("%s: %d users, want %d", step.what, have, step.want)
		}
		audited(t, s)
	}
}

// TestStoreFollowsTheState makes random changes of nodes, pods, claims and volumes: nodes
// and pods with another UID, ghosts, failed bindings, pods that turn out to be elsewhere,
// and holds of volumes in several versions. The audit recounts after each. A draft with
// another pod has the same values for its node as the state after assuming the pod.
func TestStoreFollowsTheState(t *testing.T) {
	build.NotRaced(t)
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 5))
		name := func(prefix string, n int) string { return fmt.Sprint(prefix, r.IntN(n)) }
		randomPod := func(node string) *model.Pod {
			// They determine the pod's volumes, which never change.
			number, life := r.IntN(12), r.IntN(2)
			p := volumePod(fmt.Sprint("p", number), node, build.Claims(fmt.Sprint("c", (number+life)%6)), build.Disks(fmt.Sprint("ebs=vol-", number%3))).Object
			p.UID = types.UID(fmt.Sprint(p.Name, life))
			return model.NewPod(p)
		}
		s := New()
		assumed := map[model.PodKey]plan.Placement{}
		used := func(v View, slot int32) string {
			u := v.Node(slot).Volumes()
			text := fmt.Sprint(u.Count("d"), u.Count("ebs.csi.aws.com"), u.Err())
			for i := range 6 {
				text += fmt.Sprint(u.Has("d", fmt.Sprint("h", i)), u.Has("ebs.csi.aws.com", fmt.Sprint("vol-", i)))
			}
			return text
		}
		for step := range 1500 {
			var change model.Change
			switch r.IntN(12) {
			case 0, 1:
				n := build.Node(name("n", 8), build.NodeLabels("zone="+name("z", 3)))
				n.UID = types.UID(name("", 2))
				change = model.Change{Kind: model.NodeSet, Node: model.NewNode(n)}
			case 2:
				change = nodeGone(name("n", 8))
			case 3, 4:
				change = model.Change{Kind: model.PodSet, Pod: randomPod(name("n", 8))}
			case 5:
				change = model.Change{Kind: model.PodGone, Key: model.PodKey{Namespace: "default", Name: name("p", 12)}}
			case 6:
				change = compiled(model.NewClaim(build.PersistentVolumeClaim(name("c", 6), "class=a bound="+name("v", 6))))
			case 7, 8:
				object := build.PersistentVolume(name("v", 6), "class=a csi=d/"+name("h", 6), build.VolumeAffinity("zone In "+name("z", 3)))
				object.ResourceVersion = fmt.Sprint(step)
				change = compiled(model.NewVolume(object))
			case 9:
				refs := []model.Ref{model.VolumeRef(name("v", 6)), {Kind: model.PersistentVolumeClaimKind, Namespace: "default", Name: name("c", 6)},
					{Kind: model.CSINodeKind, Name: name("n", 8)}}
				change = model.Change{Kind: model.ObjectGone, Ref: refs[r.IntN(3)]}
			case 10:
				change = compiled(model.NewCSINode(build.CSINode(name("n", 8), "d=3")))
			case 11:
				for _, key := range slices.SortedFunc(maps.Keys(assumed), func(a, b model.PodKey) int { return strings.Compare(a.Name, b.Name) }) {
					p := assumed[key]
					delete(assumed, key)
					change = bindDone(p.Pod, p.NodeName, []error{nil, errors.New("no")}[r.IntN(2)])
					break
				}
				if change.Bind == nil {
					continue
				}
			}
			s.Apply([]model.Change{change})
			pod := randomPod("")
			slot, exists := s.Slot(name("n", 8))
			if _, _, placed := s.NodeOf(pod.Key()); r.IntN(4) == 0 && exists && !placed {
				placement := plan.Placement{Pod: pod, NodeName: s.Node(slot).Name(), Holds: []plan.Hold{{Object: model.VolumeRef(name("v", 6))}}}
				d := s.View().Draft()
				d.Add(pod, slot, placement.Holds...)
				want, before := used(d.View(), slot), used(s.View(), slot)
				fork := d.View().Draft()
				fork.Remove(pod.Key())
				if have := used(fork.View(), slot); have != before || used(d.View(), slot) != want {
					t.Fatalf("seed %d, step %d: %s in a draft without the pod again, want %s", seed, step, have, before)
				}
				s.Assume(placement)
				if have := used(s.View(), slot); have != want {
					t.Fatalf("seed %d, step %d: %s once the pod is assumed, in a draft %s", seed, step, have, want)
				}
				if r.IntN(4) == 0 {
					s.Unassume(placement)
				} else {
					assumed[pod.Key()] = placement
				}
			}
			if err := s.Audit(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
	}
}
