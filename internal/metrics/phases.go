package metrics

import (
	"iter"
	"time"

	"github.com/berth-scheduler/berth/internal/engine"
)

// phaseNames are the phases in the label of berth_decision_phase_duration_seconds.
var phaseNames = [engine.Phases]string{engine.PreFilter: "prefilter", engine.Filter: "filter", engine.Score: "score"}

// pointNames are the extension points that the phases are made of, in kube-scheduler's words.
var pointNames = [engine.Phases]string{engine.PreFilter: "PreFilter", engine.Filter: "Filter", engine.Score: "Score"}

// stopwatch measures the phases of a decision.
type stopwatch struct {
	took    [engine.Phases]time.Duration
	entered [engine.Phases]bool
	last    engine.Phase
	began   time.Time // of the last phase
}

// Enter is told, as engine.Config's OnPhase, that a phase of a decision begins.
func (l *Loop) Enter(phase engine.Phase) {
	w := &l.phases
	if phase == engine.PreFilter { // the first; what was measured of another decision is over
		*w = stopwatch{began: time.Now()}
	} else {
		took := time.Since(w.began)
		w.took[w.last] += took
		w.began = w.began.Add(took)
	}
	w.entered[phase], w.last = true, phase
}

// of gives the phases that a decision went through and what each took, of what the decision took in all, and begins anew.
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
