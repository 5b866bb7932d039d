package history

import (
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Config is the configuration of a History.
type Config struct {
	// Bytes bounds the memory, at most MaxBytes; 0 means DefaultBytes.
	Bytes int
	// Now is a steady clock; nil means time.Now.
	Now func() time.Time
	// Plain keeps no details. Computing them fills caches of the engine at times that a
	// clock decides, and a decision costs more or less work afterwards.
	Plain bool
	// Wall is the system's clock, for the times in answers; nil means Now.
	Wall func() time.Time
}

// DefaultBytes suffices for the last 43,000 placements, the attempts of 20,000 waiting
// pods, and the details of some thousand decisions.
const DefaultBytes = 48 << 20

// MaxBytes is the largest value of Config.Bytes. An answer searches all stored placements
// on the goroutine of the loop; with MaxBytes these are some 230,000.
const MaxBytes = 256 << 20

// Placements and details have a quarter of the memory each, attempts the rest.
const quarter = 4

// History is the memory. It is a loop.Witness. The goroutine of the loop is its only
// user, also of Of.
type History struct {
	plain   bool
	now     func() time.Time
	wall    func() time.Time // nil: answers have the times of now
	budget  budget
	placed  placements
	details details
	waiting records
	// grouped is the time spent on recording details of members of the present group.
	grouped time.Duration
	counts  Counts
}

// Counts has totals of events so far, and the sizes of the memory.
type Counts struct {
	// Decisions counts the decisions. Left counts the decisions about waiting pods that
	// exceeded the budget and were not noted. Details counts the recordings of details,
	// and Recording is the total time spent on it.
	Decisions, Left, Details int64
	Recording                time.Duration
	// Placements, Waiting and Detailed count the stored placements, the stored pods that
	// were not placed at once, and the stored details. Bytes is the approximate size of
	// all.
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
	return &History{plain: config.Plain, now: config.Now, wall: config.Wall, budget: newBudget(), placed: newPlacements(share), details: details{maxBytes: share}, waiting: newRecords(config.Bytes - 2*share)}, nil
}

// bestKept is the number of best nodes stored for a decision, including the chosen node.
const bestKept = 3

// Decided records the details of a decision, if the budget suffices. A member of a group
// is decided once in each of up to `among` domain placements, and all of these decisions
// may be recorded, so the budget must suffice for all. A decision about a single pod adds
// to the budget at once, a group when its duration is known.
func (h *History) Decided(by loop.Detailer, v state.View, d *plan.Decision, among int, took time.Duration) uint64 {
	if d.Group == nil {
		h.budget.earn(d.Popped, took)
	}
	number, cost := h.record(by, v, d, among)
	if d.Group != nil {
		h.grouped += cost
	}
	return number
}

// record records the details of a decision if the budget allows the given number of
// recordings. It returns the number of the details, 0 without details.
func (h *History) record(e loop.Detailer, v state.View, d *plan.Decision, times int) (number uint64, cost time.Duration) {
	if h.plain || d.Outcome != plan.Placed && d.Outcome != plan.Unschedulable || !h.budget.affords(&d.QueuedPod, times) {
		return 0, 0
	}
	began := h.now()
	detail, ok := e.Detail(v, d.Pod, bestKept)
	cost = h.now().Sub(began)
	h.budget.spend(&d.QueuedPod, cost)
	h.counts.Recording += cost
	if !ok {
		return 0, cost
	}
	h.counts.Details++
	return h.details.add(&detail), cost
}

// Round records the decisions of a round.
func (h *History) Round(r *loop.Round) {
	for i := range r.Delta.Failed {
		h.waiting.bindingFailed(h.now(), &r.Delta.Failed[i])
	}
	recording := h.grouped
	h.grouped = 0
	if r.Attempt == nil {
		return
	}
	grouped := r.Attempt.Group != nil
	if grouped {
		h.budget.earn(r.Attempt.Members[0].Popped, max(0, r.Deciding-recording))
	}
	for i := range r.Attempt.Members {
		h.note(&r.Attempt.Members[i], grouped)
	}
}

// Standing does nothing.
func (h *History) Standing(*loop.Standing) {}

func (h *History) note(d *plan.Decision, grouped bool) {
	h.counts.Decisions++
	q := &d.QueuedPod
	placed := d.Outcome == plan.Placed
	if placed {
		h.placed.add(d)
	}
	if d.Outcome == plan.Terminating {
		return
	}
	if placed && q.Attempt == 1 { // the usual case
		return
	}
	if h.budget.takeNote(q.Attempt == 1) {
		h.waiting.note(d, grouped)
	} else {
		h.counts.Left++
	}
}

// Counts returns the totals so far and the sizes of the memory.
func (h *History) Counts() Counts {
	c := h.counts
	c.Placements, c.Waiting, c.Detailed = h.placed.size(), len(h.waiting.byPod), len(h.details.kept)-h.details.gone
	c.Bytes = h.placed.bytes() + h.waiting.bytes + h.details.bytes
	return c
}

// tail returns the last eight bytes of a text as a number. The ends of names and UIDs
// usually differ, and numbers are cheaper to compare than texts.
func tail(text string) (n uint64) {
	for i := max(0, len(text)-8); i < len(text); i++ {
		n = n<<8 | uint64(text[i])
	}
	return n
}
