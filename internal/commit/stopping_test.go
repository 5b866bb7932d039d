package commit_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-scheduler/berth/internal/commit"
)

// TestStopTakes stops while the API server gives the same response to all requests of a
// kind, half a second after the first. It checks how long Run goes on, how decisions end,
// the counts of failed and dropped statuses and events, and the log. Writes have 5 s to
// finish.
func TestStopTakes(t *testing.T) {
	// Repeated errors that the log held back are logged at the end, such as the error of
	// a read.
	for _, row := range []struct {
		kind, how string
		takes     time.Duration
		end       string
		counts    string
		logged    string
	}{
		{"binding", "garbage", 0, "bound", "0+0 0+0", ""},
		{"binding", "silent", 5 * time.Second, "failed", "0+0 0+0", ""},
		{"binding", "429after7", 0, "failed", "0+0 0+0", ""},
		{"stored binding", "silent", 5 * time.Second, "failed", "0+0 0+0", ""},
		{"question", "garbage", 0, "failed", "0+0 0+0", "Binding outcome still unknown"},
		{"question", "silent", 5 * time.Second, "failed", "0+0 0+0", ""},
		{"condition", "silent", 5 * time.Second, "given up", "1+0 0+1", ""},
		{"condition", "500", 5 * time.Second, "waits", "0+1 0+0", ""},
		{"condition", "429after7", 5 * time.Second, "waits", "0+1 0+1", ""},
		// After its pause, the condition is tried once more.
		{"condition", "hangup", 1500 * time.Millisecond, "given up", "1+0 0+0", "Gave up writing"},
		{"event", "silent", 5 * time.Second, "given up", "0+0 1+0", ""},
		{"event", "500", 5 * time.Second, "waits", "0+0 0+1", ""},
		{"event", "hangup", 1500 * time.Millisecond, "given up", "0+0 1+0", "Gave up writing"},
		{"series", "500", 5 * time.Second, "waits", "0+0 0+1", ""},
		{"victim's condition", "silent", 5 * time.Second, "kept", "0+1 0+1", ""},
		{"victim's condition", "429", 0, "kept", "0+0 0+0", ""},
		{"victim", "silent", 5 * time.Second, "kept", "0+1 0+1", ""},
		{"victim", "429", 0, "kept", "0+0 0+0", ""},
	} {
		t.Run(row.kind+"/"+row.how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newInMemory(t, nil)
				m.misbehave(row.kind, row.how)
				answerKinds[row.kind].start(m)
				time.Sleep(500 * time.Millisecond)
				synctest.Wait()
				m.log.take()
				began := time.Now()
				m.stop()
				if took := time.Since(began); took < row.takes || took > row.takes+row.takes/7 {
					t.Errorf("it takes %s, want %s", took, row.takes)
				}
				if end := endOf(row.kind, m); end != row.end {
					t.Errorf("it ends as %q, want %q", end, row.end)
				}
				s := m.Stats()
				counts := fmt.Sprintf("%d+%d %d+%d", s.StatusesFailed, s.StatusesDropped, s.EventsFailed, s.EventsDropped)
				if counts != row.counts {
					t.Errorf("statuses and events that failed and were dropped: %s, want %s", counts, row.counts)
				}
				if logged := strings.Join(m.errorsLogged(), "; "); logged != row.logged {
					t.Errorf("logged %q, want %q", logged, row.logged)
				}
			})
		})
	}
}

// TestMergedConditions makes four decisions about a pod while the API server fails at its
// condition. Only the newest is written, with the nomination that only the second
// decision set. When the process stops, nothing is left over.
func TestMergedConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newInMemory(t, nil)
		defer m.stop()
		m.misbehave("condition", "500")
		var well atomic.Bool
		fails := m.server.answer
		m.server.answer = func(w http.ResponseWriter, h *http.Request, r request) bool { return !well.Load() && fails(w, h, r) }
		pod := podNamed("p")
		m.Start(rejected(pod, 1))
		synctest.Wait()
		m.Start(nominated(pod, "a"))
		m.Start(rejected(pod, 3))
		m.Start(rejected(pod, 4))
		time.Sleep(5 * time.Millisecond) // before the next try
		well.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		var bodies []string
		for _, r := range m.server.got("status") {
			bodies = append(bodies, r.body)
		}
		if len(bodies) != 2 || !strings.Contains(bodies[1], "0/4 nodes are available") || !strings.Contains(bodies[1], `"nominatedNodeName":"a"`) || strings.Contains(bodies[0], "nominated") {
			t.Errorf("statuses written: %q", bodies)
		}
		if s := m.Stats(); s.Statuses != 1 || s.StatusesFailed != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestDroppingIsLoggedEachTime queues too many events, twice, while the API server hangs.
// Each time, dropping is logged once, because all were written in between. Of six events,
// two may wait besides the one in flight, which does not fit any more when it comes back.
func TestDroppingIsLoggedEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newInMemory(t, func(c *commit.Config) { c.MaxReports = 2 })
		defer m.stop()
		m.misbehave("event", "silent")
		var well atomic.Bool
		fails := m.server.answer
		m.server.answer = func(w http.ResponseWriter, h *http.Request, r request) bool { return !well.Load() && fails(w, h, r) }
		for range 2 {
			well.Store(false)
			for _, name := range names(6) {
				m.Start(terminating(podNamed(name)))
				synctest.Wait()
			}
			if logged := strings.Join(m.errorsLogged(), "; "); logged != "Too many writes wait" {
				t.Errorf("logged %q", logged)
			}
			well.Store(true)
			time.Sleep(10 * time.Minute)
		}
		if s := m.Stats(); s.EventsDropped != 8 || s.Events != 4 {
			t.Errorf("%+v", s)
		}
	})
}
