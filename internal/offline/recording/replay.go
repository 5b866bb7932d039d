package recording

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/queue"
)

// Scheduler returns the configuration of the recording.
func (h *Header) Scheduler() (*config.Config, error) {
	gates, err := feature.With(h.Gates)
	if err != nil {
		return nil, fmt.Errorf("feature gates of the recording: %w", err)
	}
	release, err := config.ParseRelease(h.Release)
	if err != nil {
		return nil, fmt.Errorf("release of the recording: %w", err)
	}
	return config.ParseWith("configuration of the recording", h.Config, config.Request{Gates: gates, Release: release})
}

// Difference is the first decision that differs from the recording. Recorded or Replayed
// is nil if there is no such decision.
type Difference struct {
	At       time.Time `json:"at"`
	Recorded *Decision `json:"recorded,omitempty"`
	Replayed *Decision `json:"replayed,omitempty"`
}

// Result is what a replay has found.
type Result struct {
	// From and To are the times of the first and the last round.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Rounds and Changes count what was replayed. Decisions counts the decisions that are
	// equal, and Placed those of them that placed a pod.
	Rounds    int `json:"rounds"`
	Changes   int `json:"changes"`
	Decisions int `json:"decisions"`
	Placed    int `json:"placed"`
	// Difference is nil if all decisions are equal.
	Difference *Difference `json:"difference,omitempty"`
	// Incomplete is the reason why the recording ends early, if it does.
	Incomplete string `json:"incomplete,omitempty"`
}

// Replayer decides again from the inputs of a recording, until the first difference.
// After it, the recording's inputs follow from other decisions.
type Replayer struct {
	reader *Reader
	loop   *loop.Loop
	Result Result

	ingest  *ingest.Ingest
	objects map[model.Ref]kinds.Object
	next    *Entry // read, and not used yet
	drained []model.Change
	// decided has the decisions of the last round that the recording has not confirmed.
	decided []Decision
	// The loop's own values, which results of writes are about. Those of a pod are
	// forgotten keptGone after its end.
	pods  map[types.UID]*model.Pod
	given map[model.Ref]model.Compiled
	gone  []gonePod // the oldest first
}

// gonePod is a pod that is gone, and since when.
type gonePod struct {
	uid   types.UID
	since time.Time
}

// keptGone is longer than any result of a write takes. A replay of weeks would otherwise
// keep all pods of these weeks.
const keptGone = 10 * time.Minute

// Replay returns a replay with the scheduler's configuration, which may be another than
// the recording's.
func Replay(r *Reader, scheduler *config.Config) (*Replayer, error) {
	p := &Replayer{
		reader: r, ingest: ingest.New(scheduler.Compile()), objects: map[model.Ref]kinds.Object{},
		pods: map[types.UID]*model.Pod{}, given: map[model.Ref]model.Compiled{},
	}
	rules := scheduler.Queue(r.Header.MaxParked)
	rules.GroupPatience, rules.Slice = r.Header.GroupPatience, r.Header.WakeSlice
	waiting, err := queue.New(rules)
	if err != nil {
		return nil, fmt.Errorf("replay: build the queue: %w", err)
	}
	judge, err := engine.New(engine.Config{Profiles: scheduler.Profiles, Seed: r.Header.Seed, GroupRetries: r.Header.GroupRetries})
	if err != nil {
		return nil, fmt.Errorf("replay: build the engine: %w", err)
	}
	p.loop = loop.New(loop.Config{Source: source{p}, Queue: waiting, Engine: judge, Commit: nowhere{}, Recorder: (*witness)(p)})
	return p, nil
}

// Run replays until the end, the first difference, or a time. A zero time means the end.
// each is called after each round, and its error ends the replay.
func (p *Replayer) Run(until time.Time, each func() error) error {
	for p.Result.Difference == nil {
		more, err := p.step(until)
		if err != nil || !more {
			return err
		}
		if err := each(); err != nil {
			return err
		}
	}
	return nil
}

// step replays the next round or takeover, and compares the decisions. It returns false
// at the end.
func (p *Replayer) step(until time.Time) (more bool, err error) {
	e, err := p.read()
	switch {
	case errors.Is(err, io.EOF):
		return false, nil
	case errors.Is(err, ErrEnd):
		p.Result.Incomplete = ErrEnd.Error()
		return false, nil
	case err != nil:
		return false, err
	case e.Gap != nil:
		p.Result.Incomplete = e.Gap.Reason
		return false, nil
	case e.TakeOver != nil:
		p.loop.TakeOverAt(e.TakeOver.Leader, e.TakeOver.Now)
		return true, nil
	case e.Round == nil:
		return false, fmt.Errorf("%s: a change or a decision outside of a round", p.reader.name)
	}
	if !until.IsZero() && e.Round.Wall.After(until) {
		return false, nil
	}
	return true, p.round(e.Round)
}

// round replays a round. The changes of the round follow in the recording, then its
// decisions. A round without its changes or decisions, at the end of a file that was cut,
// is not replayed.
func (p *Replayer) round(r *Round) error {
	var flags []bool
	for {
		e, err := p.read()
		switch {
		case errors.Is(err, ErrEnd):
			p.next = &Entry{Gap: &Gap{ErrEnd.Error()}}
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
		if err == nil && e.Gap != nil { // the rest of the round may be missing
			p.next = e
			return nil
		}
		if err != nil || e.Change == nil {
			p.next = e
			break
		}
		nominated, err := p.apply(e.Change)
		if err != nil {
			return fmt.Errorf("%s: %w", p.reader.name, err)
		}
		flags = append(flags, nominated)
	}
	if p.drained = p.ingest.Drain(); len(p.drained) != len(flags) {
		return fmt.Errorf("%s: a round with %d changes has %d for scheduling", p.reader.name, len(flags), len(p.drained))
	}
	for i := range p.drained {
		p.drained[i].WasNominated = flags[i]
	}
	p.Result.Changes += len(flags)
	if p.Result.Rounds == 0 {
		p.Result.From = r.Wall
	}
	p.Result.Rounds, p.Result.To = p.Result.Rounds+1, r.Wall
	for len(p.gone) > 0 && r.Wall.Sub(p.gone[0].since) > keptGone {
		delete(p.pods, p.gone[0].uid)
		p.gone = p.gone[1:]
	}
	if r.Decides {
		p.loop.OnceAt(r.Now, r.Wall)
	} else {
		p.loop.StandAt(r.Now, r.Wall)
	}
	return p.compare(r)
}

// compare compares the round's decisions with those that follow in the recording.
func (p *Replayer) compare(r *Round) error {
	decided := p.decided
	p.decided = nil
	for i := 0; ; i++ {
		e, err := p.read()
		ends := err != nil || e.Decision == nil
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, ErrEnd) {
			return err
		}
		if ends {
			p.next = e
			if errors.Is(err, ErrEnd) {
				p.next = &Entry{Gap: &Gap{ErrEnd.Error()}}
			}
			if i < len(decided) && err == nil && e.Gap == nil {
				p.Result.Difference = &Difference{At: r.Wall, Replayed: &decided[i]}
			}
			return nil
		}
		d := Difference{At: r.Wall, Recorded: e.Decision}
		if i < len(decided) {
			d.Replayed = &decided[i]
		}
		if d.Replayed == nil || !d.Recorded.Equal(d.Replayed) {
			p.Result.Difference = &d
			return nil
		}
		p.Result.Decisions++
		if d.Recorded.Node != "" {
			p.Result.Placed++
		}
	}
}

// read returns the next entry.
func (p *Replayer) read() (*Entry, error) {
	if e := p.next; e != nil {
		p.next = nil
		return e, nil
	}
	e, err := p.reader.Next()
	if err != nil {
		return nil, err
	}
	return &e, nil
}

// apply passes a change to the ingest, as the watch or a write did. It returns the
// change's WasNominated, which a merged version may have had.
func (p *Replayer) apply(c *Change) (nominated bool, err error) {
	switch c.Kind {
	case model.PodSet, model.NodeSet, model.ObjectSet:
		object := kinds.Get(c.Ref.Kind).New()
		decoder, ok := object.(interface{ Unmarshal(data []byte) error })
		if !ok {
			return false, fmt.Errorf("%v cannot be read", c.Ref)
		}
		if err := decoder.Unmarshal(c.Object); err != nil {
			return false, fmt.Errorf("%v: %w", c.Ref, err)
		}
		p.objects[c.Ref] = object
		if c.Learned {
			p.ingest.Learned(object)
		} else {
			p.ingest.Set(object)
		}
	case model.PodGone, model.NodeGone, model.ObjectGone:
		if object := p.objects[c.Ref]; object != nil && c.Kind == model.PodGone {
			p.gone = append(p.gone, gonePod{object.GetUID(), p.Result.To})
		}
		delete(p.objects, c.Ref)
		p.ingest.Remove(c.Ref)
	case model.BindDone:
		p.ingest.Bound(model.BindingResult{Pod: p.pod(c.UID, c), NodeName: c.Node, Err: c.err(), Rejectors: c.Rejectors})
	case model.PreemptionDone:
		p.ingest.Preempted(model.PreemptionResult{
			Tree: c.Tree, Preemptor: p.pod(c.UID, c), Victims: p.podsOf(c.Victims), Kept: p.podsOf(c.Kept), InMemory: c.InMemory, Err: c.err(),
		})
	case model.WriteDone:
		p.ingest.Written(model.WriteResult{Object: p.claim(c), Deleted: c.Deleted, Decisions: int(c.Decisions)})
	case model.PodUndecided:
		p.ingest.Undecided(c.uid())
	}
	return c.WasNominated, nil
}

// pod returns the pod that a decision was about. A stand-in has the names, for a pod that
// this replay has not decided about.
func (p *Replayer) pod(uid string, c *Change) *model.Pod {
	if pod := p.pods[types.UID(uid)]; pod != nil {
		return pod
	}
	return &model.Pod{UID: types.UID(uid), Namespace: c.Ref.Namespace, Name: c.Ref.Name}
}

func (p *Replayer) podsOf(uids []string) (pods []*model.Pod) {
	for _, uid := range uids {
		pods = append(pods, p.pod(uid, &Change{}))
	}
	return pods
}

// claim returns the version of the claim that a decision has released.
func (p *Replayer) claim(c *Change) model.Compiled {
	if claim := p.given[c.Ref]; claim != nil && claim.UID() == c.uid() {
		return claim
	}
	return model.NewResourceClaim(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: c.Ref.Namespace, Name: c.Ref.Name, UID: c.uid(), ResourceVersion: c.Version,
	}})
}

// Objects returns the cluster's objects as the loop has read them so far, by kind,
// namespace and name.
func (p *Replayer) Objects() (all []runtime.Object) {
	refs := slices.SortedFunc(maps.Keys(p.objects), func(a, b model.Ref) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, ref := range refs {
		all = append(all, p.objects[ref])
	}
	return all
}

// source gives the recorded changes to the loop.
type source struct{ p *Replayer }

// Drain returns the changes of the round.
func (s source) Drain() []model.Change {
	changes := s.p.drained
	s.p.drained = nil
	return changes
}

// Asked returns nothing: out-of-tree plugins are not recorded.
func (s source) Asked() (nominated []model.NominationRequest, activated []model.PodKey) {
	return nil, nil
}

// Ready is not used, because the rounds are given.
func (s source) Ready() <-chan struct{} { return nil }

// witness collects the decisions of the replay.
type witness Replayer

// Round does nothing.
func (w *witness) Round(_, _ time.Time, _ bool) {}

// Drained does nothing.
func (w *witness) Drained([]model.Change) {}

// TookOver does nothing.
func (w *witness) TookOver(string, time.Time) {}

// Decided keeps the decisions, and the values that results of their writes are about.
func (w *witness) Decided(a *plan.Attempt) {
	for i := range a.Members {
		d := &a.Members[i]
		w.decided = append(w.decided, DecisionOf(a, d))
		w.pods[d.Pod.UID] = d.Pod
		for j := range d.Evictions {
			w.pods[d.Evictions[j].Pod.UID] = d.Evictions[j].Pod
		}
		for j := range d.Writes {
			if of := d.Writes[j].GivesBack; of != nil {
				w.given[of.Ref()] = of
			}
		}
	}
}

// nowhere is a Committer that writes nothing: the results of writes are recorded.
type nowhere struct{}

// Start does nothing.
func (nowhere) Start(plan.Decision) {}

// Allow does nothing.
func (nowhere) Allow(types.UID, string) {}

// Reject does nothing.
func (nowhere) Reject(types.UID, string, error) {}

// Cancel does nothing; the result of the binding is recorded.
func (nowhere) Cancel(types.UID, error) bool { return true }

// Room is not used.
func (nowhere) Room() <-chan struct{} { return nil }
