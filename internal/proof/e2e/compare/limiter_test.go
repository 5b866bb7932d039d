package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestUrgentWritesGoFirst checks the limits of writes in flight for each lane, and the
// next write after one has ended.
func TestUrgentWritesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimiter()
		var taken [lanes]atomic.Int64
		ask := func(l lane, n int) {
			for range n {
				go func() {
					if err := s.take(t.Context(), l); err == nil {
						taken[l].Add(1)
					}
				}()
			}
			synctest.Wait()
		}
		check := func(what string, wantUrgent, wantReports int64) {
			t.Helper()
			synctest.Wait()
			if u, r := taken[urgent].Load(), taken[reports].Load(); u != wantUrgent || r != wantReports {
				t.Errorf("%s: %d urgent writes and %d reports were sent, want %d and %d", what, u, r, wantUrgent, wantReports)
			}
		}
		ask(reports, 100)
		check("reports alone", 0, 32)
		ask(urgent, 40)
		check("beside them", 32, 32)
		s.give(reports)
		check("a report has ended", 33, 32)
		for range 31 {
			s.give(reports)
		}
		check("all reports have ended", 40, 56)
		ask(urgent, 100)
		for range 24 {
			s.give(reports)
		}
		check("urgent writes take what reports give back, all but one", 63, 57)
	})
}

func TestNobodyWaitsForATurnAtTheEnd(t *testing.T) {
	s := newLimiter()
	for range binderInFlight - 1 {
		if err := s.take(t.Context(), urgent); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("over"))
	if err := s.take(ctx, urgent); err == nil || err.Error() != "over" {
		t.Errorf("error %v", err)
	}
}
