package history

import (
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/state"
)

// Config is the configuration of a History.
type Config struct {
	// Bytes bounds the memory, at most MaxBytes; 0 means DefaultBytes.
	Bytes int
	// Now is a steady clock; nil means time.Now.
	Now func() time.Time
	// Wall is the system's clock, which people read the times of answers by; nil means
	// Now.
	Wall func() time.Time
}

// DefaultBytes suffices for the last 43,000 placements, the attempts of 20,000 pods that wait, and the details of some thousand decisions.
const DefaultBytes = 48 << 20

// MaxBytes is the most that may be given. A question looks at all placements that are kept, on the goroutine of the loop: at some 230,000 then.
const MaxBytes = 256 << 20

// The memory is divided: placements and details have a quarter each, attempts the rest.
const quarter = 4

// History is the memory. It is a loop.Witness; the goroutine of the loop is its only user, of Of too.
type History struct {
	now     func() time.Time
	wall    func() time.Time // nil: answers have the times of now
	budget  budget
	placed  placements
	details details
	waiting records
	// detail is the number of the details of the decision at hand, 0 if there are none.
	detail uint64
	// grouped is how long recording details of members of the group at hand has taken.
	grouped time.Duration
	counts  Counts
}

// Counts are how often something happened so far, and what is kept now.
type Counts struct {
	// Decisions were made; Left of these were not noted, because there were too many of pods that wait. Details of so many were recorded, which took Recording.
	Decisions, Left, Details int64
	Recording                time.Duration
	// Placements, Waiting and Detailed are how many placements, pods that were not placed at once, and details are kept; Bytes is about how many bytes all of it takes.
	Placements, Waiting, Detailed, Bytes int
}

// New makes an empty memory.
func New(config Config) (*History, error) {
	if config.Bytes < 0 || config.Bytes > MaxBytes {
		return nil, fmt.Errorf("the bytes of the history: must be between 0 and %d", MaxBytes)
	}
	if config.Bytes == 0 {
		config.Bytes = DefaultBytes
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	share := config.Bytes / quarter
	return &History{now: config.Now, wall: config.Wall, budget: newBudget(), placed: newPlacements(share), details: details{bytesMax: share}, waiting: newRecords(config.Bytes - 2*share)}, nil
}

// bestKept is how many of the best nodes are kept of a decision, the one that was taken included.
const bestKept = 3

// Decided records the details of a decision about a single pod, if they may cost something.
func (h *History) Decided(e *engine.Engine, v state.View, d *plan.Decision, took time.Duration) {
	h.detail = 0
	h.budget.earn(d.Pods[0].Popped, took)
	h.detail, _ = h.record(e, v, d, 1)
}

// DecidedMember records the details of a decision about a member of a pod group, if they may cost something: as often as there are domain placements in which it is decided about, of which one is taken.
func (h *History) DecidedMember(run *engine.Run, v state.View, d *plan.Decision, among int) uint64 {
	number, cost := h.record(run, v, d, among)
	h.grouped += cost
	return number
}

// detailer is an engine, or a run of it.
type detailer interface {
	Detail(v state.View, pod *model.Pod, best int) (plan.Detail, bool)
}

// record records the details of a decision, if so many such recordings may be made. It returns their number, 0 if there are none.
func (h *History) record(e detailer, v state.View, d *plan.Decision, times int) (number uint64, cost time.Duration) {
	if d.Outcome != plan.Placed && d.Outcome != plan.Unschedulable || !h.budget.affords(&d.Pods[0], times) {
		return 0, 0
	}
	began := h.now()
	detail, ok := e.Detail(v, d.Pods[0].Pod, bestKept)
	cost = h.now().Sub(began)
	h.budget.spend(&d.Pods[0], cost)
	h.counts.Recording += cost
	if !ok {
		return 0, cost
	}
	h.counts.Details++
	return h.details.add(&detail), cost
}

// Round notes the decisions of a round.
func (h *History) Round(r *loop.Round) {
	for i := range r.Delta.Failed {
		h.waiting.bindingFailed(h.now(), &r.Delta.Failed[i])
	}
	if r.Group != nil && len(r.Decisions) > 0 { // Decided was not called
		h.budget.earn(r.Decisions[0].Pods[0].Popped, max(0, r.Deciding-h.grouped))
	}
	for i := range r.Decisions {
		detail := h.detail
		if r.Group != nil {
			detail = r.Decisions[i].Details
		}
		h.note(&r.Decisions[i], detail, r.Group != nil)
	}
	h.detail, h.grouped = 0, 0
}

// Standing does nothing.
func (h *History) Standing(*loop.Standing) {}

func (h *History) note(d *plan.Decision, detail uint64, grouped bool) {
	h.counts.Decisions++
	q := &d.Pods[0]
	placed := d.Outcome == plan.Placed
	if placed {
		h.placed.add(d, detail)
	}
	if d.Outcome == plan.Terminating {
		return
	}
	if placed && q.Attempt == 1 { // as most are
		return
	}
	if h.budget.takeNote(q.Attempt == 1) {
		h.waiting.note(d, detail, grouped)
	} else {
		h.counts.Left++
	}
}

// Counts returns what happened so far, and what is kept.
func (h *History) Counts() Counts {
	c := h.counts
	c.Placements, c.Waiting, c.Detailed = h.placed.size(), len(h.waiting.byPod), len(h.details.kept)-h.details.gone
	c.Bytes = h.placed.bytes() + h.waiting.bytes + h.details.bytes
	return c
}

// tail returns the last eight bytes of a text as a number: of names and UIDs they mostly differ, and comparing them costs less than comparing texts.
func tail(text string) (n uint64) {
	for i := max(0, len(text)-8); i < len(text); i++ {
		n = n<<8 | uint64(text[i])
	}
	return n
}
