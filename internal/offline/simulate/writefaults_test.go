package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// TestFaultsOfWrites is a seeded simulation of writes that release claims: claims of
// pods, shared claims, and claims of PodGroups. An earlier turn has allocated and
// reserved them on nodes that are full by turns. Requests take up to 10 s and fail in
// every way, and processes take over. After every round no pod is bound without its
// devices. In the end every pod is bound.
func TestFaultsOfWrites(t *testing.T) {
	build.NotRaced(t)
	countTrials(t, func(n uint64) ([]map[string]int, error) {
		trial, err := runWriteFaults(n)
		if trial == nil {
			return nil, err
		}
		return []map[string]int{trial.happened, trial.c.Happened()}, err
	}, []string{
		"pod with a claim", "pods share a claim", "group with a claim", "node full", "allocation given back", "reservation of a group given back", "given back: ended",
		"killed while giving back", "taken over at once", "taken over when the lease has ended", "lease given back", "write: Conflict, in earnest", "write: lost", "write: late",
	})
}

// leaseEnds is the shortest time between the last request of a killed leader and the
// first decision of the next one. The lease takes 15 s and is renewed every 2 s.
const leaseEnds = 13 * time.Second

type writeTrial struct {
	r        *rand.Rand
	c        *simulate.Cluster
	happened map[string]int
	made     int // pods, claims and groups
}

func runWriteFaults(n uint64) (*writeTrial, error) {
	c, err := withGroupClaims(n, true)
	if err != nil {
		return nil, err
	}
	t := &writeTrial{r: random.New(n), c: c, happened: map[string]int{}}
	for i := range 3 {
		c.SetNode(hostNode(nodeOfTrial(i), "8"))
		if err := c.SetObject(gpus(nodeOfTrial(i), 2)); err != nil {
			return t, err
		}
	}
	for range 2 {
		for step := range 80 {
			if step%10 == 0 {
				t.c.SetFaults(t.faults())
			}
			what, err := t.disturb()
			if err == nil {
				err = t.advance(time.Duration(t.r.IntN(3000)) * time.Millisecond)
			}
			if err != nil {
				return t, fmt.Errorf("step %d (%s), %s after the start: %w", step, what, t.c.Elapsed(), err)
			}
		}
		if err := t.rested(); err != nil {
			return t, fmt.Errorf("at rest, %s after the start: %w", t.c.Elapsed(), err)
		}
	}
	return t, t.emptied()
}

func nodeOfTrial(i int) string { return fmt.Sprint("n", i) }

func (t *writeTrial) advance(d time.Duration) error {
	return t.c.AdvanceTo(t.c.Now().Add(d), t.audit)
}

func (t *writeTrial) faults() simulate.Faults {
	upTo := func(d time.Duration) time.Duration { return time.Duration(t.r.Int64N(int64(d))) }
	f := simulate.Faults{
		MaxWatchDelay: upTo(2 * time.Second), MaxBindDelay: upTo(10 * time.Second), MaxControllerDelay: upTo(3 * time.Second),
		DuplicatePercent: t.r.IntN(10), Requests: map[simulate.Fault]int{},
	}
	for fault := simulate.Conflict; fault <= simulate.Late; fault++ {
		f.Requests[fault] = t.r.IntN(5)
	}
	return f
}

func (t *writeTrial) disturb() (string, error) {
	switch k := t.r.IntN(100); {
	case k < 25:
		return t.create(), nil
	case k < 40:
		return t.end(), nil
	case k < 85:
		return t.fill(), nil
	case k < 95:
		return "takeover", t.takeOver()
	}
	return "nothing", nil
}

// create creates a pod, two pods or a gang with one claim, whose earlier allocation can
// be used on one node, or on all.
func (t *writeTrial) create() string {
	if len(t.pods()) >= 6 {
		return t.fill()
	}
	t.made++
	name := fmt.Sprint("c", t.made)
	claim := leftAllocation(name, nodeOfTrial(t.r.IntN(3)), t.made)
	uses := func(p *v1.Pod) {
		p.UID = types.UID("uid-" + p.Name)
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: &name}}
	}
	pods := []*v1.Pod{pod(name+"-0", "1", t.made, uses), pod(name+"-1", "1", t.made, uses)}
	consumer := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pods[0].Name, UID: pods[0].UID}
	switch t.r.IntN(3) {
	case 0:
		t.happened["pod with a claim"]++
		pods = pods[:1]
	case 1:
		t.happened["pods share a claim"]++
	default:
		t.happened["group with a claim"]++
		consumer = podGroupWithClaim(t.c, name, name, 2)
		for _, p := range pods {
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		}
		if t.r.IntN(2) == 0 {
			claim.Status.Allocation.NodeSelector = nil
		}
	}
	if t.r.IntN(4) > 0 {
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{consumer}
	}
	for _, p := range pods {
		t.c.SetPod(p)
	}
	_ = t.c.SetObject(claim)
	return "created with claim " + name
}

// pods returns the pods other than fillers.
func (t *writeTrial) pods() []*v1.Pod {
	return slices.DeleteFunc(t.c.Pods(), func(p *v1.Pod) bool { return len(p.Spec.ResourceClaims) == 0 })
}

// end deletes all pods that use a claim, and their group.
func (t *writeTrial) end() string {
	pods := t.pods()
	if len(pods) == 0 {
		return t.create()
	}
	name := *pods[t.r.IntN(len(pods))].Spec.ResourceClaims[0].ResourceClaimName
	for _, p := range pods {
		if *p.Spec.ResourceClaims[0].ResourceClaimName == name {
			t.c.DeletePod(keyOf(p))
		}
	}
	t.c.DeleteObject(model.GroupKey{Namespace: "default", Name: name}.Ref())
	return "ended: " + name
}

// fill fills a node with a pod of another scheduler, or empties it. It prefers a node
// with an allocation that is or could be released.
func (t *writeTrial) fill() string {
	node := nodeOfTrial(t.r.IntN(3))
	for _, p := range t.pods() {
		if on := t.allocatedOn(p); p.Spec.NodeName == "" && on != "" && t.r.IntN(2) == 0 {
			node = on
			break
		}
	}
	if t.c.DeletePod(model.PodKey{Namespace: "default", Name: "filler-" + node}) {
		return "emptied: " + node
	}
	t.happened["node full"]++
	t.c.SetPod(pod("filler-"+node, "8", 0, func(p *v1.Pod) { p.Spec.NodeName = node }))
	return "full: " + node
}

// takeOver kills or stops the process, and another one takes over. It does so at once if
// only releases, conditions and events may be in flight, or if a stopped process has had
// all answers. Otherwise it waits for the end of the lease.
func (t *writeTrial) takeOver() error {
	if t.c.Loop().State().GivenBack() > 0 {
		t.happened["killed while giving back"]++
	}
	binding := slices.ContainsFunc(t.pods(), func(p *v1.Pod) bool { return t.c.Loop().Queue().PlaceOf(keyOf(p)) == "binding" })
	switch stops := t.r.IntN(3) == 0; {
	case stops:
		t.c.Stop()
		if err := t.advance(commit.DefaultDrain); err != nil {
			return err
		}
		if t.c.InFlight() == 0 {
			t.happened["lease given back"]++
			return t.c.Restart()
		}
	case !binding:
		t.happened["taken over at once"]++
		return t.c.Restart()
	}
	t.c.Kill()
	t.happened["taken over when the lease has ended"]++
	if err := t.advance(leaseEnds + time.Duration(t.r.IntN(3000))*time.Millisecond); err != nil {
		return err
	}
	return t.c.Restart()
}

// allocatedOn returns the only node that can use the allocation of a pod's claim, or "".
func (t *writeTrial) allocatedOn(p *v1.Pod) string {
	claim, _ := t.c.Object(model.ClaimKey{Namespace: "default", Name: *p.Spec.ResourceClaims[0].ResourceClaimName}.DeviceRef()).(*resourcev1.ResourceClaim)
	if claim == nil || claim.Status.Allocation == nil || claim.Status.Allocation.NodeSelector == nil {
		return ""
	}
	selector, err := nodeaffinity.NewNodeSelector(claim.Status.Allocation.NodeSelector)
	for _, n := range t.c.Nodes() {
		if err == nil && selector.Match(n) {
			return n.Name
		}
	}
	return ""
}

func (t *writeTrial) audit(r simulate.Round) error {
	for i := range r.Decisions {
		for j := range r.Decisions[i].Writes {
			switch w := &r.Decisions[i].Writes[j]; {
			case !givesBack(*w):
			case w.Type == types.JSONPatchType:
				t.happened["allocation given back"]++
			default:
				t.happened["reservation of a group given back"]++
			}
		}
	}
	if err := checkBound(t.c); err != nil {
		return err
	}
	if !r.Ran || !r.Decided {
		return nil
	}
	return t.c.Audit()
}

func givesBack(w plan.Write) bool { return w.GivesBack != nil }

// rested ends all faults, and expects every pod to be bound after a while.
func (t *writeTrial) rested() error {
	t.c.SetFaults(simulate.Faults{})
	for i := range 3 {
		t.c.DeletePod(model.PodKey{Namespace: "default", Name: "filler-" + nodeOfTrial(i)})
	}
	if err := t.advance(7 * time.Minute); err != nil {
		return err
	}
	for _, p := range t.pods() {
		if p.Spec.NodeName == "" {
			verdict, _ := t.c.Verdict(keyOf(p))
			return fmt.Errorf("pod %s waits (%s, %q): %s", p.Name, t.c.Loop().Queue().PlaceOf(keyOf(p)), t.c.Gated(p), verdict.Message())
		}
	}
	if n := t.c.Loop().State().GivenBack(); n > 0 {
		return fmt.Errorf("%d claims are being given back", n)
	}
	return nil
}

// emptied deletes all pods, and checks that no memory is left of them.
func (t *writeTrial) emptied() error {
	for len(t.pods()) > 0 {
		t.end()
	}
	if err := t.advance(forgotten); err != nil {
		return err
	}
	l := t.c.Loop()
	if n := t.c.Outbox().Remembered(); n != 0 || l.Waiting() != 0 || l.State().Held() != 0 || l.State().Pods() != 0 || t.c.Unseen() != 0 {
		return fmt.Errorf("%d things are remembered, %d pods wait, %d objects are held, the state has %d pods", n, l.Waiting(), l.State().Held(), l.State().Pods())
	}
	return nil
}
