package simulate_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// tickets is a plugin whose writes are learned. A pod takes the only ticket, a volume, by
// writing its name into the label "taken" if no pod has it. The state must include that
// as soon as the pod no longer holds the ticket, whatever the watch shows. If another pod
// has the ticket, PostFilter takes it away.
type tickets struct{ tries int }

const ticketPlugin = "Tickets"

var ticketRef = model.VolumeRef("ticket")

func (*tickets) Name() string { return ticketPlugin }

// take returns a write that gives the ticket to a pod, or to none. It demands the state's
// version of the object.
func take(v state.View, name string) *plan.Write {
	have := v.Storage().Volume("ticket").Object
	return &plan.Write{
		Resource: kinds.Get(model.PersistentVolumeKind).Resource, Name: "ticket", Type: types.JSONPatchType, Learn: true,
		Data: fmt.Appendf(nil, `[{"op":"test","path":"/metadata/uid","value":%q},{"op":"test","path":"/metadata/resourceVersion","value":%q},{"op":"add","path":"/metadata/labels","value":{"taken":%q}}]`,
			have.UID, have.ResourceVersion, name),
		Stored: func(o metav1.Object) bool { return o.GetUID() == have.UID && o.GetLabels()["taken"] == name },
	}
}

func takenBy(v state.View) string { return v.Storage().Volume("ticket").Object.Labels["taken"] }

func (p *tickets) Reserve(v state.View, pod *model.Pod, _ int32) ([]plan.Hold, error) {
	p.tries++
	if holders := v.Holders(ticketRef); len(holders) > 0 {
		return nil, fmt.Errorf("the ticket is promised to %s", holders[0].Pod)
	}
	if by := takenBy(v); by != "" && by != pod.Name {
		return nil, fmt.Errorf("the ticket is taken by %s", by)
	}
	return []plan.Hold{{Plugin: ticketPlugin, Object: ticketRef}}, nil
}

func (p *tickets) PreBind(v state.View, placement *plan.Placement) ([]plan.Step, error) {
	if takenBy(v) == placement.Pod.Name {
		return nil, nil
	}
	return []plan.Step{{Write: take(v, placement.Pod.Name)}}, nil
}

// PostFilter takes the ticket away from another pod, for a pod without a feasible node.
func (p *tickets) PostFilter(c plugin.Cycle, pod *model.Pod) (plugin.PostFilterResult, error) {
	if by := takenBy(c.View()); by == "" || by == pod.Name {
		return plugin.PostFilterResult{}, nil
	}
	return plugin.PostFilterResult{Message: "the ticket is taken away", Writes: []plan.Write{*take(c.View(), "")}}, nil
}

// ticketing is a cluster of one node whose pods take the ticket. Only invariants are
// audited, because the oracle does not cover the plugin.
type ticketing struct {
	*small
	*tickets
}

// advance moves the time.
func (s ticketing) advance(d time.Duration) {
	s.Helper()
	if err := s.c.AdvanceTo(s.c.Now().Add(d), func(simulate.Round) error { return s.c.Audit() }); err != nil {
		s.Fatal(err)
	}
}

func newTickets(t *testing.T, faults simulate.Faults, seed uint64, trim bool) ticketing {
	t.Helper()
	config := defaults(t)
	config.Faults, config.Seed, config.Trim = faults, seed, trim
	profile, p := config.Scheduler.Profiles[0], &tickets{}
	profile.Reserve, profile.PreBind = append(profile.Reserve, plugintest.PartsOf(p).Reserve), append(profile.PreBind, plugintest.PartsOf(p).PreBind)
	profile.PostFilters = append([]*plugin.PostFilter{plugintest.PartsOf(p).PostFilter}, profile.PostFilters...)
	c, err := simulate.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s := ticketing{&small{t, c, nil}, p}
	c.SetNode(node("a", "1"))
	if err := c.SetObject(build.PersistentVolume("ticket", "storage=1Gi label=some=label")); err != nil {
		t.Fatal(err)
	}
	return s
}

// known checks the owner of the ticket: stored in the API server, known in the state.
func (s ticketing) known(stored, known string) {
	s.Helper()
	have := s.c.Object(ticketRef).GetLabels()["taken"]
	if by := takenBy(s.c.Loop().State().View()); have != stored || by != known {
		s.Fatalf("%s after the start the ticket is taken by %q, and the state says %q; want %q and %q", s.c.Elapsed(), have, by, stored, known)
	}
}

// TestLearnedWhileTheWatchIsLate binds a pod while the watch shows nothing. When the pod
// is bound, the state includes the write of its step. The watch then shows an older
// version, which changes nothing, and the known one.
func TestLearnedWhileTheWatchIsLate(t *testing.T) {
	for _, trim := range []bool{false, true} {
		s := newTickets(t, simulate.Faults{}, 1, trim)
		s.advance(0)
		s.c.BreakWatch(model.PersistentVolumeKind)
		s.c.SetPod(pod("first", "500m", 0))
		s.advance(0)
		s.expect("first", "a", "a", "")
		s.known("first", "first")
		s.c.SetPod(pod("second", "100m", 0))
		s.advance(0)
		// the state has the ticket as the first pod's, although that holds it as well
		s.expect("second", "", "", errorBackoff)
		s.c.DeletePod(key("first"))
		s.advance(5 * time.Second)
		s.expect("second", "", "", errorBackoff)
		s.known("first", "first")
		s.c.MendWatch(model.PersistentVolumeKind, false)
		s.advance(0)
		s.known("first", "first")
		if kept := s.c.Loop().State().Sizes().Learned; kept != 0 || s.tries < 3 {
			t.Errorf("%d objects are learned and not shown, after %d tries", kept, s.tries)
		}
	}
}

// TestLearnedAlthoughTheAnswerIsLost loses all answers for a while. The pod keeps its
// room and its holds. When answers return, the write is refused, recognized and learned.
func TestLearnedAlthoughTheAnswerIsLost(t *testing.T) {
	s := newTickets(t, simulate.Faults{}, 1, true)
	s.advance(0)
	s.c.BreakWatch(model.PersistentVolumeKind)
	s.c.SetFaults(simulate.Faults{Requests: map[simulate.Fault]int{simulate.Lost: 100}, Kinds: []commit.RequestKind{commit.WriteStep, commit.Read}})
	s.c.SetPod(pod("first", "500m", 0))
	s.advance(3 * time.Minute)
	s.expect("first", "", "a", binding)
	s.known("first", "")
	s.c.SetFaults(simulate.Faults{})
	s.advance(5 * time.Second)
	s.expect("first", "a", "a", "")
	s.known("first", "first")
	if happened := s.c.Happened(); happened["write: Invalid, in earnest"]+happened["read: done"] < 2 {
		t.Errorf("it happened: %v", happened)
	}
}

// TestWritesOfPostFilter lets a pod without a feasible node take the ticket from another.
// The write is made once, also if its answer is lost, and learned; the pod goes on
// waiting.
func TestWritesOfPostFilter(t *testing.T) {
	s := newTickets(t, simulate.Faults{}, 1, true)
	s.c.SetPod(pod("first", "500m", 0))
	s.advance(0)
	s.known("first", "first")
	s.c.BreakWatch(model.PersistentVolumeKind)
	s.c.SetFaults(simulate.Faults{Requests: map[simulate.Fault]int{simulate.Lost: 100}, Kinds: []commit.RequestKind{commit.WriteStep}})
	s.c.SetPod(pod("large", "4", 0))
	s.advance(time.Second)
	s.expect("large", "", "", "parked")
	s.known("", "first")
	s.c.SetFaults(simulate.Faults{})
	s.advance(6 * time.Second)
	s.known("", "")
	if n := s.c.Happened()["read: done"]; n != 1 {
		t.Errorf("the volume was read %d times, want once", n)
	}
	v, _ := s.c.Verdict(key("large"))
	if want := "0/1 nodes are available: 1 Insufficient cpu. the ticket is taken away"; len(v.Message()) < len(want) || v.Message()[:len(want)] != want {
		t.Errorf("the message is %q", v.Message())
	}
	s.c.MendWatch(model.PersistentVolumeKind, false)
	s.advance(0)
	s.known("", "")
}

// TestLearnedUnderFaults lets pods take the ticket in turn, with every fault of requests
// and a watch that is late and breaks. No pod takes the ticket from a pod that is bound
// or being bound. In the end the state has the API server's version.
func TestLearnedUnderFaults(t *testing.T) {
	seeds := uint64(40)
	if build.Raced {
		seeds = 8
	}
	happened := map[string]int{}
	for seed := range seeds {
		s := newTickets(t, simulate.Faults{
			MaxWatchDelay: 3 * time.Second, MaxBindDelay: 200 * time.Millisecond, DuplicatePercent: 10,
			Requests: map[simulate.Fault]int{
				simulate.Conflict: 3, simulate.Forbidden: 3, simulate.Throttled: 3, simulate.Unavailable: 5, simulate.Internal: 5, simulate.Refused: 3, simulate.Lost: 15,
				simulate.Dropped: 10, simulate.TimedOut: 3, simulate.Late: 5,
			},
		}, seed, seed%2 == 0)
		s.advance(5 * time.Second) // the ticket is shown
		owner := ""
		check := func(simulate.Round) error {
			by := s.c.Object(ticketRef).GetLabels()["taken"]
			if by != owner && owner != "" && s.c.Pod(key(owner)) != nil && s.c.Pod(key(owner)).Spec.NodeName != "" {
				return fmt.Errorf("%s has taken the ticket from %s, which is bound", by, owner)
			}
			owner = by
			return s.c.Audit()
		}
		advance := func(d time.Duration) {
			if err := s.c.AdvanceTo(s.c.Now().Add(d), check); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for i := range 4 {
			s.c.SetPod(pod(fmt.Sprint("p", i), "100m", 0))
			advance(time.Duration(1+seed%5) * time.Second)
			if i == 1 {
				s.c.BreakWatch(model.PersistentVolumeKind)
			}
		}
		s.c.MendWatch(model.PersistentVolumeKind, seed%3 == 0)
		s.c.SetFaults(simulate.Faults{})
		advance(2 * time.Minute)
		if by := s.c.Object(ticketRef).GetLabels()["taken"]; by == "" || by != takenBy(s.c.Loop().State().View()) || s.c.Pod(key(by)).Spec.NodeName == "" {
			t.Errorf("seed %d: the ticket is taken by %q, the state says %q", seed, by, takenBy(s.c.Loop().State().View()))
		}
		if kept := s.c.Loop().State().Sizes().Learned; kept != 0 {
			t.Errorf("seed %d: %d objects are learned and not shown", seed, kept)
		}
		for what, times := range s.c.Happened() {
			happened[what] += times
		}
	}
	if build.Raced { // too few seeds for every event
		return
	}
	for _, what := range []string{"response: learned", "read: done", "write: lost", "write: late", "write: Invalid, in earnest"} {
		if happened[what] == 0 {
			t.Errorf("never happened: %s", what)
		}
	}
}
