package metrics

import (
	"iter"
	"time"

	"github.com/berth-scheduler/berth/internal/decide/engine"
)

// phaseNames are the phases in the label of berth_decision_phase_duration_seconds.
var phaseNames = [engine.Phases]string{engine.PreFilter: "prefilter", engine.Filter: "filter", engine.Score: "score", engine.PostFilter: "postfilter"}

// pointNames are the extension points of the phases, by kube-scheduler's names.
var pointNames = [engine.Phases]string{engine.PreFilter: "PreFilter", engine.Filter: "Filter", engine.Score: "Score", engine.PostFilter: "PostFilter"}

// stopwatch measures the phases of a decision.
type stopwatch struct {
	took    [engine.Phases]time.Duration
	entered [engine.Phases]bool
	last    engine.Phase
	began   time.Time // of the last phase
}

// Enter is engine.Config's OnPhase: it observes the start of a phase of a decision.
func (l *Loop) Enter(phase engine.Phase) {
	w := &l.phases
	if phase == engine.PreFilter { // the first phase discards those of an earlier decision
		*w = stopwatch{began: time.Now()}
	} else {
		took := time.Since(w.began)
		w.took[w.last] += took
		w.began = w.began.Add(took)
	}
	w.entered[phase], w.last = true, phase
}

// Phases returns the durations of the phases of the present decision, by extension point,
// given the duration of the whole decision. Round resets them.
func (l *Loop) Phases(whole time.Duration) map[string]time.Duration {
	by, copied := map[string]time.Duration{}, l.phases
	for phase, took := range copied.of(whole) {
		by[pointNames[phase]] = took
	}
	return by
}

// of returns the phases of a decision with their durations, given the duration of the
// whole decision, and resets the stopwatch.
func (w *stopwatch) of(whole time.Duration) iter.Seq2[engine.Phase, time.Duration] {
	return func(yield func(engine.Phase, time.Duration) bool) {
		rest := whole
		for phase, entered := range w.entered {
			if entered {
				rest -= w.took[phase]
			}
		}
		for phase, entered := range w.entered {
			if !entered {
				continue
			}
			took := w.took[phase]
			if engine.Phase(phase) == w.last {
				took += max(0, rest)
			}
			w.entered[phase] = false
			if !yield(engine.Phase(phase), took) {
				return
			}
		}
	}
}
