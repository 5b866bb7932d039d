package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
)

const (
	// watchEvery is the pause between two looks at the loop. A pod whose decision takes
	// longer than noteAfter is recorded in the lease. Ordinary decisions take
	// microseconds.
	watchEvery, noteAfter = 250 * time.Millisecond, time.Second
	// A previous leader that did not release the lease may have crashed. For carefulFor,
	// the watchdog then looks each carefulEvery and records a pod after carefulAfter,
	// because a decision that exhausts the memory may take less than noteAfter.
	carefulEvery, carefulAfter, carefulFor = 20 * time.Millisecond, 40 * time.Millisecond, 5 * time.Minute
	// noteTimeout bounds the requests for a note, and crashTimeout the requests after a
	// panic.
	noteTimeout, crashTimeout = 5 * time.Second, 3 * time.Second
	// notePause is the pause after a note, so that notes do not collide with each renewal
	// of the lease.
	notePause = 200 * time.Millisecond
	// giveUpAfter bounds the orderly stop of a stuck loop.
	giveUpAfter = commit.DefaultDrain + 10*time.Second
)

// errStuck is the reason why a replica with a stuck loop stops.
var errStuck = errors.New("the scheduling loop is stuck")

// watchdog detects a stuck loop, and records pods whose decisions do not end.
//
// It counts its own looks and reads no clock. A process that was suspended or got no CPU
// does not look either, so it raises no false alarm afterwards. A waiting loop is never
// stuck.
type watchdog struct {
	log klog.Logger
	// beat returns the loop's present work.
	beat func() loop.Beat
	// limit is how long looks may see the same work before the loop counts as stuck; 0
	// means never.
	limit time.Duration
	// careful is the remaining time of more frequent looks and earlier notes.
	careful time.Duration
	// note stores undecided pods for the next leader; nil without leader election.
	note func(context.Context, []types.UID) error
	// giveUp stops the process in order. It is called once.
	giveUp func()

	stuck atomic.Pointer[error]
	// inherited are the undecided pods of earlier leaders. The loop's goroutine removes a
	// pod after its decision.
	inherited atomic.Pointer[[]types.UID]
	noting    atomic.Bool
	// stored is the last stored note. Only the owner of noting may use it.
	stored []types.UID
	// running is true while the loop decides. The loop's goroutine owns it.
	running bool

	// seen is the beat of the last look. same is how long the beat has been unchanged, as
	// the number of looks times the pause. The goroutine of run owns both.
	seen loop.Beat
	same time.Duration
}

// Name is the name of the health check.
func (*watchdog) Name() string { return "scheduling-loop" }

// Check fails while the loop of a leader is stuck.
func (w *watchdog) Check(*http.Request) error {
	if err := w.stuck.Load(); err != nil {
		return *err
	}
	return nil
}

// inherit sets the undecided pods of earlier leaders. Call it before run.
func (w *watchdog) inherit(uids []types.UID) {
	w.inherited.Store(&uids)
	w.stored = uids
}

// Round removes the pods of earlier leaders that have been decided.
func (w *watchdog) Round(r *loop.Round) {
	left := w.left()
	if len(left) == 0 || r.Attempt == nil {
		return
	}
	left = slices.DeleteFunc(slices.Clone(left), func(uid types.UID) bool {
		for i := range r.Attempt.Members {
			if r.Attempt.Members[i].Pod.UID == uid {
				return true
			}
		}
		return false
	})
	w.inherited.Store(&left)
}

// Standing forgets the pods of earlier leaders once no pod is active: each was decided
// about, or is gone.
func (w *watchdog) Standing(s *loop.Standing) {
	if len(w.left()) > 0 && s.Queue.Active == 0 && w.running {
		w.inherited.Store(&[]types.UID{})
	}
}

func (w *watchdog) left() []types.UID {
	if left := w.inherited.Load(); left != nil {
		return *left
	}
	return nil
}

// run looks at the loop until the context ends.
func (w *watchdog) run(ctx context.Context) {
	pause := watchEvery
	if w.careful > 0 {
		pause = carefulEvery
	}
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.look(ctx, pause)
		case <-ctx.Done():
			return
		}
		if w.careful -= pause; w.careful <= 0 && pause < watchEvery {
			pause = watchEvery
			ticker.Reset(pause)
		}
	}
}

// look compares the loop's work with the previous look, a pause ago.
func (w *watchdog) look(ctx context.Context, pause time.Duration) {
	beat := w.beat()
	if beat.Turn != w.seen.Turn || beat.Step == loop.Waiting {
		w.seen, w.same = beat, 0
	} else {
		w.same += pause
	}
	w.noteUndecided(ctx, w.undecided(beat))
	if w.limit > 0 && w.same >= w.limit && w.stuck.Load() == nil {
		w.bark(beat)
	}
}

// undecided returns the pods to record: those of earlier leaders, and last the pod whose
// decision takes long. With this order, each new leader tries another pod first.
func (w *watchdog) undecided(beat loop.Beat) []types.UID {
	uids := w.left()
	after := noteAfter
	if w.careful > 0 {
		after = carefulAfter
	}
	if beat.Pod == nil || w.same < after {
		return uids
	}
	return withLast(uids, beat.Pod.UID)
}

func withLast(uids []types.UID, last types.UID) []types.UID {
	uids = slices.DeleteFunc(slices.Clone(uids), func(uid types.UID) bool { return uid == last })
	return append(uids, last)
}

// noteUndecided stores changed pods in the background, so that a slow API server does not
// stop the watchdog. A failed note is tried again at the next look.
func (w *watchdog) noteUndecided(ctx context.Context, uids []types.UID) {
	if w.note == nil || !w.noting.CompareAndSwap(false, true) {
		return
	}
	if slices.Equal(uids, w.stored) {
		w.noting.Store(false)
		return
	}
	go func() {
		defer w.noting.Store(false)
		w.store(ctx, uids)
		select {
		case <-time.After(notePause):
		case <-ctx.Done():
		}
	}()
}

// store stores a note. The caller owns noting.
func (w *watchdog) store(ctx context.Context, uids []types.UID) {
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	if err := w.note(ctx, uids); err != nil {
		w.log.V(2).Info("Could not record undecided pods", "err", err)
		return
	}
	w.stored = slices.Clone(uids)
}

// bark logs the loop's work, fails the health check, and makes this replica stop leading.
func (w *watchdog) bark(beat loop.Beat) {
	err := fmt.Errorf("%w: %s for %v", errStuck, beat.Step, w.same)
	w.stuck.Store(&err)
	w.log.Error(errStuck, "Scheduling loop is stuck, this replica stops leading", w.describe(beat, "took", w.same)...)
	w.log.Info("Stack of the scheduling loop", "stack", loopStack())
	go w.giveUp()
}

// describe returns log values with the pod that is being decided.
func (w *watchdog) describe(beat loop.Beat, values ...any) []any {
	values = append(values, "step", beat.Step.String())
	if beat.Pod != nil {
		values = append(values, "pod", beat.Pod, "podUID", beat.Pod.UID, "phase", phaseNames[beat.Phase])
	}
	return values
}

var phaseNames = [engine.Phases]string{
	engine.PreFilter: "PreFilter", engine.Filter: "Filter", engine.Score: "Score", engine.PostFilter: "PostFilter",
}

// around runs a function in which the loop decides, on the loop's goroutine.
func (w *watchdog) around(decide func()) {
	w.running = true
	ended := false
	defer func() {
		if !ended {
			w.crashed()
		}
	}()
	decide()
	ended = true
}

// crashed runs on the loop's goroutine when it panics. Before the process ends, it logs
// the pod and records it for the next leader.
func (w *watchdog) crashed() {
	beat := w.beat()
	w.log.Error(nil, "Scheduling loop panics", w.describe(beat)...)
	if beat.Pod == nil || w.note == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), crashTimeout)
	defer cancel()
	if err := w.note(ctx, withLast(w.left(), beat.Pod.UID)); err != nil {
		w.log.Error(err, "Could not record the pod for the next leader")
	}
}

// loopStack returns the stack of the loop's goroutine.
func loopStack() string {
	all := make([]byte, 1<<20)
	all = all[:runtime.Stack(all, true)]
	for stack := range bytes.SplitSeq(all, []byte("\n\n")) {
		if bytes.Contains(stack, []byte("loop.(*Loop).Run(")) || bytes.Contains(stack, []byte("loop.(*Loop).Stand(")) {
			return string(stack)
		}
	}
	return "not found"
}
