package metrics_test

import (
	"net/http"
	"testing"
	"time"
)

// TestQuestions counts explain requests by the code of the response, and observes the
// history's size.
func TestQuestions(t *testing.T) {
	m, registry := build(t, time.Now)
	for _, code := range []int{http.StatusOK, http.StatusOK, http.StatusForbidden} {
		m.Explain.Answered(code, time.Second)
	}
	m.Explain.Keeps(1000, 3)
	m.Explain.Keeps(2000, 5)
	m.Explain.Hinted(1, 2, 3, time.Second)
	m.Explain.Hinted(4, 2, 5, 1500*time.Millisecond)
	all := scrape(t, registry)
	for key, want := range map[string]float64{
		"berth_explain_requests_total{code=200}": 2, "berth_explain_requests_total{code=403}": 1, "berth_explain_request_duration_seconds": 3,
		"berth_history_bytes": 2000, "berth_history_recorded_decisions_total": 5,
		"berth_event_hints_total{result=given}": 4, "berth_event_hints_total{result=nothing}": 2, "berth_event_hints_total{result=unknown}": 5, "berth_event_hint_seconds_total": 1.5,
	} {
		if all[key] != want {
			t.Errorf("%s is %v, want %v", key, all[key], want)
		}
	}
}
