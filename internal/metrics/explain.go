package metrics

import (
	"strconv"
	"time"
)

// Explain measures questions about pods, and what is kept to answer them. Answered is safe for concurrent use; Keeps is for the loop's goroutine alone.
type Explain struct {
	families *families
	recorded total
}

func newExplain(f *families) *Explain {
	return &Explain{families: f, recorded: total{counter: f.counters["berth_history_recorded_decisions_total"]}}
}

// Answered observes a question.
func (x *Explain) Answered(code int, took time.Duration) {
	x.families.counterVecs["berth_explain_requests_total"].WithLabelValues(strconv.Itoa(code)).Inc()
	x.families.histograms["berth_explain_request_duration_seconds"].Observe(took.Seconds())
}

// Keeps observes how many bytes are kept, and of how many decisions the details were recorded so far.
func (x *Explain) Keeps(bytes int, recorded int64) {
	x.families.gauges["berth_history_bytes"].Set(float64(bytes))
	x.recorded.reach(recorded)
}
