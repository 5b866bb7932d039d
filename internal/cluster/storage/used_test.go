package storage

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// usedAnew recounts Store.used.
func (s *Store) usedAnew(pods []*model.Pod) map[handle]int {
	used := map[handle]int{}
	count := func(h handle) {
		if h.driver != "" {
			used[h]++
		}
	}
	for _, pod := range pods {
		for _, use := range pod.Volumes.Claims {
			if c := s.claims[use.Key]; c != nil {
				count(s.identityOf(c).handle)
			}
		}
		for _, inline := range pod.Volumes.Inline {
			count(handle{inline.Driver, inline.Handle})
		}
	}
	return used
}

// Pods are added and removed, on nodes and nominated to them, while their claims are
// bound, deleted and created again.
func TestUsed(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := New(func(int32, model.Aspect) {})
		s.Seat(0, "n")
		s.SetNode(0, true, labels.Set{})
		s.Set(model.NewStorageClass(build.StorageClass("ebs", "provisioner=kubernetes.io/aws-ebs")))
		s.Set(model.NewVolume(build.PersistentVolume("in", "ebs=aws://z/vol-1")))
		var all []*model.Pod
		placed := map[*model.Pod]bool{}
		leave := func(pod *model.Pod) {
			if placed[pod] {
				s.Displace(0, pod)
			} else {
				s.Nominate(pod, -1)
			}
		}
		for step := range 300 {
			name := fmt.Sprint("c", r.IntN(5))
			switch r.IntN(6) {
			case 0:
				texts := []string{"bound=in", "bound=out", "class=ebs", "class=gone", "volume=missing"}
				s.Set(model.NewClaim(build.PersistentVolumeClaim(name, texts[r.IntN(len(texts))])))
			case 1:
				s.Remove(model.ClaimKey{Namespace: v1.NamespaceDefault, Name: name}.Ref())
			case 2:
				s.Set(model.NewVolume(build.PersistentVolume("out", "csi=ebs.csi.aws.com/vol-"+fmt.Sprint(1+r.IntN(2)))))
			case 3:
				s.Remove(model.VolumeRef("out"))
			case 4:
				pod := model.NewPod(build.Pod(build.Named(fmt.Sprint("p", step)), build.Claims(name+" c0"), build.Disks("ebs=vol-2 ebs=aws://z/disk"),
					build.Ephemeral("e")))
				all = append(all, pod)
				if placed[pod] = r.IntN(2) == 0; placed[pod] {
					s.Place(0, pod)
				} else {
					s.Nominate(pod, +1)
				}
			case 5:
				if len(all) > 0 {
					i := r.IntN(len(all))
					leave(all[i])
					all = slices.Delete(all, i, i+1)
				}
			}
			have := map[handle]int{}
			for h, on := range s.used {
				have[h] = on.times()
			}
			if want := s.usedAnew(all); !maps.Equal(have, want) {
				t.Fatalf("seed %d, step %d: in use are %v, want %v", seed, step, have, want)
			}
		}
		for _, pod := range all {
			leave(pod)
		}
		if n := s.At(0); len(s.used)+len(n.refs)+len(n.migrated)+len(n.disks)+len(n.ephemeral)+len(n.untranslated) > 0 {
			t.Errorf("seed %d: without pods, %v and %+v are in use", seed, s.used, n.inUse)
		}
		for key, c := range s.claims {
			if c.Claim == nil || len(c.on) > 0 {
				t.Errorf("seed %d: claim %s is kept without a pod: %+v", seed, key, c)
			}
		}
	}
}

// The store removes a newer version of a pod than the version that it placed.
func TestDisplaceANewerVersion(t *testing.T) {
	s := New(func(int32, model.Aspect) {})
	s.Seat(0, "n")
	s.Set(model.NewCSINode(build.CSINode("n", "d=1")))
	pod := build.Pod(build.Disks("ebs=aws://z/disk pd=disk"))
	s.Place(0, model.NewPod(pod))
	if u := s.At(0).Usage(); u.Countable() || u.Err() == nil {
		t.Errorf("a volume that cannot be translated is counted: %v", u.Err())
	}
	s.Displace(0, model.NewPod(pod))
	if u := s.At(0).Usage(); !u.Countable() || u.Err() != nil {
		t.Errorf("without the pod: %v", u.Err())
	}
}

// Pods on a node that does not exist are not users of a claim: kube-scheduler's snapshot
// does not have them.
func TestUsersOf(t *testing.T) {
	s := New(func(int32, model.Aspect) {})
	s.Seat(0, "n")
	key := model.ClaimKey{Namespace: v1.NamespaceDefault, Name: "c"}
	s.Place(0, model.NewPod(build.Pod(build.Claims("c c"))))
	s.Place(0, model.NewPod(build.Pod(build.Named("q"), build.Claims("c"))))
	s.Nominate(model.NewPod(build.Pod(build.Named("r"), build.Claims("c"))), +1)
	for _, exists := range []bool{false, true, false} {
		s.SetNode(0, exists, nil)
		want := 0
		if exists {
			want = 2
		}
		if got := s.UsersOf(key); got != want {
			t.Errorf("the node exists: %t; %d users, want %d", exists, got, want)
		}
	}
}

// TestUsedOn adds and removes pods that share a volume on up to twenty nodes. UsedOn
// returns these nodes, up to the given maximum.
func TestUsedOn(t *testing.T) {
	const nodes = 20
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := New(func(int32, model.Aspect) {})
		for slot := range int32(nodes) {
			s.Seat(slot, fmt.Sprint("n", slot))
			s.SetNode(slot, true, labels.Set{})
		}
		pod := model.NewPod(build.Pod(build.Disks("ebs=aws://z/vol-1")))
		pods := map[int32]int{}
		for step := range 400 {
			slot := r.Int32N(nodes)
			if coming := r.IntN(400) > step; coming || pods[slot] == 0 {
				pods[slot]++
				s.Place(slot, pod)
			} else {
				s.Displace(slot, pod)
				if pods[slot]--; pods[slot] == 0 {
					delete(pods, slot)
				}
			}
			for _, nominated := range []int{+1, -1} {
				s.Nominate(pod, nominated)
				slots, ok := s.UsedOn("ebs.csi.aws.com", "vol-1", nodes+1, nil)
				if slices.Sort(slots); !ok || !slices.Equal(slots, slices.Sorted(maps.Keys(pods))) {
					t.Fatalf("seed %d, step %d: used on %v, want %v", seed, step, slots, pods)
				}
			}
			if slots, ok := s.UsedOn("ebs.csi.aws.com", "vol-1", len(pods)-1, nil); ok != (len(pods) == 0) || len(slots) > 0 {
				t.Fatalf("seed %d, step %d: used on %v, which are more than %d", seed, step, slots, len(pods)-1)
			}
		}
	}
}

// TestClaimsOfNominatedPods changes the volume of a claim. The node that a pod with the
// claim is nominated to has other verdicts for pods that leave room for it, and no other
// node has.
func TestClaimsOfNominatedPods(t *testing.T) {
	touched := map[int32]bool{}
	s := New(func(slot int32, _ model.Aspect) { touched[slot] = true })
	for slot, name := range []string{"n0", "n1", "n2"} {
		s.Seat(int32(slot), name)
		s.SetNode(int32(slot), true, labels.Set{})
	}
	s.Set(model.NewStorageClass(build.StorageClass("fast", "provisioner=d")))
	nominee := func(name, node string) *model.Pod {
		return model.NewPod(build.Pod(build.Named(name), build.Claims("c"), build.NominatedNodeName(node)))
	}
	s.Nominate(nominee("p", "n1"), +1)
	s.Nominate(nominee("q", "n2"), +1)
	s.Nominate(nominee("r", "n2"), +1)
	s.Nominate(nominee("s", "elsewhere"), +1)
	claim := model.NewClaim(build.PersistentVolumeClaim("c", "class=fast"))
	for _, step := range []struct {
		name   string
		change func()
		want   string
	}{
		{"a claim without a class is created", func() { s.Set(model.NewClaim(build.PersistentVolumeClaim("c", ""))) }, "map[1:true 2:true]"},
		{"it gets a class", func() { s.Set(claim) }, "map[1:true 2:true]"},
		{"again, the same", func() { s.Set(claim) }, "map[]"},
		{"it is bound", func() {
			s.Set(model.NewVolume(build.PersistentVolume("v", "csi=d/v")))
			s.Set(model.NewClaim(build.PersistentVolumeClaim("c", "class=fast bound=v")))
		}, "map[1:true 2:true]"},
		{"its volume is gone", func() { s.Remove(model.VolumeRef("v")) }, "map[1:true 2:true]"},
		{"a pod is nominated no more", func() { s.Nominate(nominee("p", "n1"), -1); s.Nominate(nominee("q", "n2"), -1) }, "map[]"},
		{"the claim is gone", func() { s.Remove(claim.Ref()) }, "map[2:true]"},
		{"the last has gone, and the claim is created", func() { s.Nominate(nominee("r", "n2"), -1); s.Set(claim) }, "map[]"},
	} {
		clear(touched)
		if step.change(); fmt.Sprint(touched) != step.want {
			t.Errorf("%s: changed are %v, want %s", step.name, touched, step.want)
		}
	}
}
