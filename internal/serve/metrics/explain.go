package metrics

import (
	"strconv"
	"time"
)

// Explain measures explain requests and the history behind them. Answered is safe for
// concurrent use; Keeps and Hinted are for the loop's goroutine alone.
type Explain struct {
	families *families
	recorded total
	// hints are the hints so far by result, hintsTook is their total time.
	hints     [len(hintResults)]int64
	hintsTook time.Duration
}

func newExplain(f *families) *Explain {
	return &Explain{families: f, recorded: total{counter: f.counters["berth_history_recorded_decisions_total"]}}
}

// hintResults are the values of the label result of berth_event_hints_total.
var hintResults = [...]string{"given", "nothing", "unknown"}

// Hinted observes totals: rejections with a hint in their event, rejections that nothing
// simple would help, rejections with an unknown result, and the time spent on hints.
func (x *Explain) Hinted(given, nothing, unknown int64, took time.Duration) {
	for i, now := range [...]int64{given, nothing, unknown} {
		if now > x.hints[i] {
			x.families.counterVecs["berth_event_hints_total"].WithLabelValues(hintResults[i]).Add(float64(now - x.hints[i]))
		}
		x.hints[i] = now
	}
	if took > x.hintsTook {
		x.families.counters["berth_event_hint_seconds_total"].Add((took - x.hintsTook).Seconds())
	}
	x.hintsTook = took
}

// Answered observes an explain request.
func (x *Explain) Answered(code int, took time.Duration) {
	x.families.counterVecs["berth_explain_requests_total"].WithLabelValues(strconv.Itoa(code)).Inc()
	x.families.histograms["berth_explain_request_duration_seconds"].Observe(took.Seconds())
}

// Keeps observes the size of the history in bytes, and the number of decisions whose
// details were recorded.
func (x *Explain) Keeps(bytes int, recorded int64) {
	x.families.gauges["berth_history_bytes"].Set(float64(bytes))
	x.recorded.reach(recorded)
}
