package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
	"github.com/berth-scheduler/berth/internal/queue"
)

// street is a cluster with a stream of small pods, some of which always wait. Nodes of
// another pool have a stream of their own.
type overtaking struct {
	*simulate.Cluster
	t     *testing.T
	r     *rand.Rand
	pods  int
	began map[string]time.Duration // time of each pod's placement, by name
	made  map[string]time.Duration
	// life is the longest running time of a small pod.
	life time.Duration
	// parent, if set, is the composite group of the created gangs.
	parent *string
}

func newOvertaking(t *testing.T, seed uint64, patience time.Duration) *overtaking {
	t.Helper()
	return newOvertakingWith(t, seed, patience, map[string]bool{"GenericWorkload": true})
}

func newOvertakingWith(t *testing.T, seed uint64, patience time.Duration, on map[string]bool) *overtaking {
	t.Helper()
	c, err := simulate.New(simulate.Config{Scheduler: schedulerWith(t, on), Seed: seed, Audit: true, GroupPatience: patience})
	if err != nil {
		t.Fatal(err)
	}
	return &overtaking{Cluster: c, t: t, r: random.New(seed), began: map[string]time.Duration{}, made: map[string]time.Duration{}, life: 2 * time.Minute}
}

func (s *overtaking) node(name, cpu, pool string) {
	n := node(name, cpu)
	n.Labels = map[string]string{"pool": pool}
	s.SetNode(n)
}

// pod creates a pod for a pool.
func (s *overtaking) pod(name, cpu, pool string, change ...func(*v1.Pod)) {
	p := pod(name, cpu, 0, change...)
	p.CreationTimestamp = metav1.NewTime(s.Now().Truncate(time.Second))
	p.Spec.NodeSelector = map[string]string{"pool": pool}
	s.made[name] = s.Elapsed()
	s.SetPod(p)
}

// gang creates a gang in the pool "main".
func (s *overtaking) gang(name string, members int, cpu string) { s.gangIn("main", name, members, cpu) }

func (s *overtaking) gangIn(pool, name string, members int, cpu string) {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(members)}
	g.Spec.ParentCompositePodGroupName = s.parent
	if err := s.SetObject(g); err != nil {
		s.t.Fatal(err)
	}
	for i := range members {
		s.pod(fmt.Sprintf("%s-%d", name, i), cpu, pool, func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name} })
	}
}

// waiting counts the waiting pods with a name prefix.
func (s *overtaking) waiting(prefix string) int {
	n := 0
	for _, p := range s.Pods() {
		if p.Spec.NodeName == "" && strings.HasPrefix(p.Name, prefix) {
			n++
		}
	}
	return n
}

// keptFor returns the names of the nodes with room reserved for a gang.
func (s *overtaking) keptFor(gang string) string {
	return strings.Join(s.Loop().State().View().RoomHeldOn(model.RootKey{Key: model.GroupKey{Namespace: "default", Name: gang}}), " ")
}

// watch records placed pods, and ends small ones after a while. It audits the scheduler's
// state.
func (s *overtaking) watch(r simulate.Round) error {
	for _, p := range r.Stored {
		s.began[p.Name] = s.Elapsed()
		if strings.HasPrefix(p.Name, "small-") || strings.HasPrefix(p.Name, "other-") {
			s.Plan(s.Now().Add(time.Second+time.Duration(s.r.Int64N(int64(s.life)))), func() { s.DeletePod(keyOf(p)) })
		}
	}
	if r.Decided && len(r.Decisions) > 1 {
		return s.Audit()
	}
	return nil
}

// second lets a second pass in which the streams go on: 30 small pods always wait, and
// one pod for the other pool arrives.
func (s *overtaking) second() {
	for i := s.waiting("small-"); i < 30; i++ {
		s.pods++
		s.pod(fmt.Sprint("small-", s.pods), "1", "main")
	}
	s.pods++
	s.pod(fmt.Sprint("other-", s.pods), "100m", "other")
	s.advance(time.Second)
}

func (s *overtaking) advance(d time.Duration) {
	s.t.Helper()
	if err := s.AdvanceTo(s.Now().Add(d), s.watch); err != nil {
		s.t.Fatal(err)
	}
}

// fill waits until small pods have filled 20 nodes.
func (s *overtaking) fill() {
	for i := range 20 {
		s.node(fmt.Sprint("n", i), "8", "main")
	}
	s.node("o", "99", "other")
	s.second()
	for s.waiting("small-") < 30 || s.Elapsed() < 3*time.Minute {
		s.second()
	}
	s.advance(2 * time.Second)
}

// gangBesideOldPods creates a gang that needs all of a node on which three old pods run.
func (s *overtaking) gangBesideOldPods() {
	s.t.Helper()
	s.node("n", "4", "main")
	for i := range 3 {
		s.pod(fmt.Sprint("old-", i), "1", "main")
	}
	s.advance(time.Second)
	s.gang("train", 2, "2")
	s.advance(2 * time.Second)
}

// overtake ends the three old pods of a pool one by one. A new pod takes each place. Each
// end wakes the gang of the pool, which then has room for one member.
func (s *overtaking) overtake(of, pool string) {
	s.t.Helper()
	for i := range 3 {
		s.DeletePod(model.PodKey{Namespace: "default", Name: fmt.Sprintf("old-%s%d", of, i)})
		s.pod(fmt.Sprintf("over-%s%d", of, i), "1", pool)
		s.advance(time.Second)
	}
}

// skipLongStreet skips a test under the race detector, where it is slow.
func skipLongStreet(t *testing.T) {
	t.Helper()
	if build.Raced {
		t.Skip("TestGangIsNotOvertakenForEver and TestFaultsOfTrees run the same code: see make unit")
	}
}

// TestTreeIsNotOvertakenForEver is TestGangIsNotOvertakenForEver for a tree of two gangs
// of 32, both of which must start.
func TestTreeIsNotOvertakenForEver(t *testing.T) {
	skipLongStreet(t)
	t.Parallel()
	const patience = queue.DefaultGroupPatience
	s := newOvertakingWith(t, 1, patience, map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true, "CompositePodGroup": true})
	s.fill()
	began := s.Elapsed()
	root := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "train"}}
	root.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 2}
	if err := s.SetObject(root); err != nil {
		t.Fatal(err)
	}
	s.parent = &root.Name
	s.gang("train-a", 32, "2")
	s.gang("train-b", 32, "2")
	kept := false
	for s.waiting("train-") > 0 && s.Elapsed() < 20*time.Minute {
		s.second()
		on := s.Loop().State().View().RoomHeldOn(model.RootKey{Key: model.GroupKey{Namespace: "default", Name: "train"}, Composite: true})
		if kept = kept || len(on) > 0; len(on) > 0 && len(on) != 64 {
			t.Fatalf("room is held for %d members", len(on))
		}
		if n := s.waiting("train-"); n != 0 && n != 64 {
			t.Fatalf("%d members wait, and the others do not", n)
		}
	}
	if bound := began + patience + 80*time.Second + s.life + 2*queue.DefaultMaxBackoff; s.Elapsed() > bound || !kept {
		t.Errorf("the tree waits for %s; of its members %d wait; room was kept: %t", s.Elapsed()-began, s.waiting("train-"), kept)
	}
	if n := s.Loop().State().RoomHolds(); n > 0 {
		t.Errorf("room is still kept for %d", n)
	}
}

// TestGangIsNotOvertakenForEver creates a gang of 64 in a cluster that a stream of small
// pods keeps full. Without a patience limit, the gang does not start in a quarter of an
// hour. With the limit, it starts after its patience, the lives of the pods that overtook
// it, and a backoff. Pods for other nodes are placed at once either way.
func TestGangIsNotOvertakenForEver(t *testing.T) {
	const patience = queue.DefaultGroupPatience
	seeds, limits := uint64(3), []time.Duration{0, patience}
	if build.Raced {
		seeds, limits = 1, limits[1:]
	}
	for seed := range seeds {
		for _, limit := range limits {
			if limit == 0 && seed > 0 {
				continue // this case is slow, and one seed suffices as evidence
			}
			t.Run(fmt.Sprintf("seed-%d-%s", seed, limit), func(t *testing.T) {
				t.Parallel()
				s := newOvertaking(t, seed, limit)
				s.fill()
				began := s.Elapsed()
				s.gang("train", 64, "2")
				bound := began + patience + 80*time.Second + s.life + 2*queue.DefaultMaxBackoff
				for s.waiting("train-") > 0 && s.Elapsed() < 20*time.Minute {
					s.second()
				}
				switch {
				case limit == 0 && s.waiting("train-") < 64:
					t.Errorf("without a limit, the gang starts after %s", s.Elapsed()-began)
				case limit > 0 && s.Elapsed() > bound:
					t.Errorf("the gang waits for %s; of its members %d wait", s.Elapsed()-began, s.waiting("train-"))
				}
				for name, made := range s.made {
					if strings.HasPrefix(name, "other-") && s.began[name] != made {
						t.Errorf("%s, which could not hurt the gang, is placed after %s", name, s.began[name]-made)
					}
				}
			})
		}
	}
}

// TestRoomIsKeptForAWhile has a gang wait for room that never becomes free, as the pods
// that overtook it run on. Free room is reserved for it for five minutes, then open to
// others for as long, then reserved again.
func TestRoomIsKeptForAWhile(t *testing.T) {
	s := newOvertaking(t, 1, time.Minute)
	s.gangBesideOldPods()
	s.overtake("", "main")
	s.pod("over-3", "1", "main")
	s.advance(2 * time.Minute) // the gang is overtaken, and room is reserved for it on n
	if at := s.keptFor("train"); s.waiting("over-") > 0 || at != "n n" {
		t.Fatalf("%d overtakers wait; room is held on %q", s.waiting("over-"), at)
	}
	s.DeletePod(model.PodKey{Namespace: "default", Name: "over-0"})
	s.pod("late-0", "1", "main")
	s.pod("empty", "0", "main") // without requests
	s.advance(time.Minute)
	if s.waiting("late-") != 1 || s.began["empty"] == 0 {
		t.Errorf("a pod took the room that is kept: %v", s.began)
	}
	s.advance(4 * time.Minute)
	if s.waiting("late-") != 0 || s.began["late-0"] > 7*time.Minute+30*time.Second {
		t.Errorf("the group did not give way: %v", s.began)
	}
	s.DeletePod(model.PodKey{Namespace: "default", Name: "over-1"})
	s.pod("late-1", "1", "main")
	s.advance(time.Second)
	if s.waiting("late-") != 0 {
		t.Errorf("the group does not rest: %v", s.began)
	}
	s.advance(6 * time.Minute)
	if at := s.keptFor("train"); at != "n n" {
		t.Errorf("after its rest no room is held: %q", at)
	}
	for _, name := range []string{"over-2", "over-3", "late-0", "late-1"} {
		s.DeletePod(model.PodKey{Namespace: "default", Name: name})
	}
	s.advance(time.Second) // the last end wakes the gang
	if s.waiting("train-") != 0 || s.Loop().State().Nominated() != 0 {
		t.Errorf("the gang does not start: %v; %d pods are nominated", s.began, s.Loop().State().Nominated())
	}
}

// TestRoomThatComesAtOnceWakesTheGang frees all the room for a gang while the gang backs
// off. Newer pods arrive at the same moment. The gang goes first, so it is not overtaken.
func TestRoomThatComesAtOnceWakesTheGang(t *testing.T) {
	s := newOvertaking(t, 1, time.Minute)
	s.gangBesideOldPods()
	s.advance(20 * time.Second)
	for i := range 3 {
		s.DeletePod(model.PodKey{Namespace: "default", Name: fmt.Sprint("old-", i)})
		s.pod(fmt.Sprint("newer-", i), "1", "main")
	}
	s.advance(time.Second)
	if s.waiting("train-") != 0 || s.waiting("newer-") != 3 || s.Loop().State().RoomHolds() != 0 {
		t.Errorf("placed are %v; room is held for %d", s.began, s.Loop().State().RoomHolds())
	}
}

// TestGangsThatNeedEachOthersRoom has two gangs and two streams in one cluster. Each gang
// needs most of it. Both start, one after the other.
func TestGangsThatNeedEachOthersRoom(t *testing.T) {
	skipLongStreet(t)
	s := newOvertaking(t, 3, 30*time.Second)
	for i := range 4 {
		s.node(fmt.Sprint("n", i), "8", "main")
	}
	s.node("o", "99", "other")
	for s.Elapsed() < 3*time.Minute {
		s.second()
	}
	s.gang("a", 12, "2")
	s.gang("b", 12, "2")
	most := 0
	for s.waiting("a-")+s.waiting("b-") > 0 && s.Elapsed() < 30*time.Minute {
		s.second()
		most = max(most, s.Loop().State().RoomHolds())
		for _, name := range []string{"a", "b"} {
			if n := s.waiting(name + "-"); n == 0 && len(s.keptFor(name)) > 0 {
				t.Fatalf("room is held for gang %s, which has started", name)
			} else if n == 0 {
				for i := range 12 { // it has run
					s.DeletePod(model.PodKey{Namespace: "default", Name: fmt.Sprintf("%s-%d", name, i)})
				}
			}
		}
	}
	if s.waiting("a-")+s.waiting("b-") > 0 || most == 0 {
		t.Errorf("after %s %d and %d members wait; room was kept for %d at a time", s.Elapsed(), s.waiting("a-"), s.waiting("b-"), most)
	}
}

// TestHeldBackPodsSayWhy has a pod and a smaller gang wait for room that is reserved for
// a gang. Their messages name this reason, and they preempt no pod for it. A pod that
// outranks the gang takes the room. Room is reserved for at most four gangs.
func TestHeldBackPodsSayWhy(t *testing.T) {
	s := newOvertaking(t, 1, time.Minute)
	s.node("m", "1", "main")
	s.pod("low", "1", "main", func(p *v1.Pod) { p.Spec.Priority = new(int32(-5)) })
	s.advance(time.Second)
	s.gangBesideOldPods()
	s.overtake("", "main")
	s.advance(2 * time.Minute)
	if at := s.keptFor("train"); at != "n n" {
		t.Fatalf("room is held on %q", at)
	}
	for i := range 2 {
		s.DeletePod(model.PodKey{Namespace: "default", Name: fmt.Sprint("over-", i)})
	}
	s.pod("late", "1", "main")
	s.pod("stale", "1", "main", func(p *v1.Pod) { p.Status.NominatedNodeName = "n" })
	s.gang("small", 1, "1")
	s.advance(3 * time.Second)
	for _, name := range []string{"late", "stale", "small-0"} {
		p := s.Pod(model.PodKey{Namespace: "default", Name: name})
		const want = "1 node(s) had capacity reserved for pod group default/train"
		if len(p.Status.Conditions) == 0 || !strings.Contains(p.Status.Conditions[0].Message, want) || p.Status.NominatedNodeName != "" {
			t.Errorf("%s does not say %q: %+v", name, want, p.Status)
		}
	}
	if s.Pod(model.PodKey{Namespace: "default", Name: "low"}) == nil {
		t.Error("a pod was evicted for one that leaves room")
	}
}

// TestRoomIsKeptForFew has six gangs wait, each in a pool of its own. Room is reserved
// for four at a time. When the overtakers are gone all start, and no room is reserved any
// more.
func TestRoomIsKeptForFew(t *testing.T) {
	s := newOvertaking(t, 1, time.Minute)
	each := func(do func(pool string)) {
		for i := range 6 {
			do(fmt.Sprint("pool", i))
		}
	}
	each(func(pool string) {
		s.node(pool, "4", pool)
		for i := range 3 {
			s.pod(fmt.Sprintf("old-%s-%d", pool, i), "1", pool)
		}
	})
	s.advance(time.Second)
	each(func(pool string) { s.gangIn(pool, "train-"+pool, 2, "2") })
	s.advance(2 * time.Second)
	each(func(pool string) { s.overtake(pool+"-", pool) })
	s.advance(3 * time.Minute)
	if n := s.Loop().State().RoomHolds(); n != 4 {
		t.Errorf("room is held for %d gangs", n)
	}
	each(func(pool string) {
		for i := range 3 {
			s.DeletePod(model.PodKey{Namespace: "default", Name: fmt.Sprintf("over-%s-%d", pool, i)})
		}
	})
	s.advance(30 * time.Second)
	if n := s.Loop().State().RoomHolds(); n != 0 || s.waiting("train-") > 0 {
		t.Errorf("%d members wait, and room is held for %d gangs", s.waiting("train-"), n)
	}
}

// TestRoomEndsWithItsGroup deletes a gang, or its PodGroup, while room is reserved for
// it. The pods that were held back are tried.
func TestRoomEndsWithItsGroup(t *testing.T) {
	for _, end := range []string{"members", "PodGroup"} {
		s := newOvertaking(t, 1, time.Minute)
		s.gangBesideOldPods()
		s.overtake("", "main")
		s.advance(2 * time.Minute)
		s.pod("late", "1", "main")
		s.advance(2 * time.Second)
		if s.waiting("late") != 1 || s.keptFor("train") == "" {
			t.Fatalf("%s: no room is held", end)
		}
		if end == "PodGroup" {
			s.DeleteObject(model.GroupKey{Namespace: "default", Name: "train"}.Ref())
		} else {
			for i := range 2 {
				s.DeletePod(model.PodKey{Namespace: "default", Name: fmt.Sprint("train-", i)})
			}
		}
		s.advance(15 * time.Second)
		if s.waiting("late") != 0 || s.Loop().State().RoomHolds() != 0 {
			t.Errorf("%s: room is held for a group that is gone", end)
		}
	}
}
