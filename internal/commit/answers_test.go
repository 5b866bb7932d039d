package commit_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

// statusReasons are the reasons of an API server for a code.
var statusReasons = map[int]metav1.StatusReason{
	400: metav1.StatusReasonBadRequest, 401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound,
	409: metav1.StatusReasonConflict, 410: metav1.StatusReasonGone, 422: metav1.StatusReasonInvalid, 429: metav1.StatusReasonTooManyRequests,
	500: metav1.StatusReasonInternalError, 503: metav1.StatusReasonServiceUnavailable, 504: metav1.StatusReasonTimeout,
}

// answerAs sends a response that is described in a few words:
//
//   - A code is the API server's response with that code. "409exists": the object to
//     create exists. "500timeout": the store took too long. "429after7": with the seconds
//     to wait.
//   - "502page" is a proxy's page instead of a Status. "429page7" is the same with the
//     seconds to wait, as the API server's flow control answers.
//   - "garbage" is success with a body that is not JSON. "other" is success with a Status
//     instead of the requested object. "cut" is success with a truncated body.
//   - "hangup" is no response. "silent" is no response while the connection stays open.
//     "refused" and "reset" happen at the client.
func answerAs(w http.ResponseWriter, r *http.Request, how string) {
	switch how {
	case "garbage":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("}}}"))
		return
	case "other":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
		return
	case "cut":
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"kind":`))
		return
	case "hangup", "reset":
		hangUp(w)
		return
	case "silent":
		<-r.Context().Done()
		return
	}
	code, err := strconv.Atoi(how[:3])
	if err != nil {
		panic(how)
	}
	rest := how[3:]
	seconds, _ := strconv.Atoi(strings.TrimLeft(rest, "aefgprt"))
	switch {
	case rest == "exists":
		refuse(w, code, metav1.StatusReasonAlreadyExists, "no")
	case rest == "timeout":
		refuse(w, code, metav1.StatusReasonServerTimeout, "no")
	case strings.HasPrefix(rest, "page"):
		w.Header().Set("Content-Type", "text/html")
		if seconds > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(seconds))
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte("<html>no</html>"))
	case seconds > 0:
		refuseLater(w, code, statusReasons[code], seconds)
	default:
		refuse(w, code, statusReasons[code], "no")
	}
}

// patience is how long a row is watched, longer than all finite tries take. Retries that
// continue then continue for ever.
const patience = 7 * time.Minute

// TestEveryAnswer has the API server give the same response to all requests of a kind. It
// checks the requests and the pauses between them, the result, and the log. A row reads
// "bind 10ms 50ms get 0s": a binding, another 10 ms after its response, a third after 50
// ms, and at once the read whether it was bound. "9*30s" is nine pauses of 30 s, and
// "2s..." is a pause that repeats for ever. Pauses may be longer by the jitter of a
// tenth.
func TestEveryAnswer(t *testing.T) {
	for _, row := range answerRows {
		for _, how := range strings.Fields(row.answers) {
			t.Run(row.kind+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { checkAnswer(t, row, how) })
			})
		}
	}
}

type answerRow struct {
	kind    string // of answerKinds
	answers string
	sent    string
	end     string
	logged  string
}

// answerKinds define which requests get the response, and the decision that causes them.
// With stored, the request is carried out nevertheless.
var answerKinds = map[string]struct {
	what   string
	stored bool
	start  func(m *inMemory)
}{
	"binding":        {"bind", false, func(m *inMemory) { m.Start(placed(podNamed("p"))) }},
	"stored binding": {"bind", true, func(m *inMemory) { m.Start(placed(podNamed("p"))) }},
	// The read follows an unanswered binding.
	"question":  {"get", false, func(m *inMemory) { m.Start(placed(podNamed("p"))) }},
	"condition": {"status", false, func(m *inMemory) { m.Start(rejected(podNamed("p"), 1)) }},
	"nomination clear": {"status", false, func(m *inMemory) {
		m.Start(plan.Decision{Nominations: []plan.Nomination{{Pod: podNamed("p"), Mode: plan.Clear}}})
	}},
	"event": {"event", false, func(m *inMemory) { m.Start(terminating(podNamed("p"))) }},
	"series": {"series", false, func(m *inMemory) {
		m.Start(terminating(podNamed("p")))
		synctest.Wait()
		m.Start(terminating(podNamed("p")))
	}},
	"victim's condition": {"status", false, func(m *inMemory) { m.Start(preempting("q", 1, onNode("p"))) }},
	"victim":             {"delete", false, func(m *inMemory) { m.Start(preempting("q", 1, onNode("p"))) }},
}

// misbehave makes the server, or the connection to it, respond like that to all requests
// of a kind.
func (m *inMemory) misbehave(of, how string) {
	kind := answerKinds[of]
	if strings.HasPrefix(of, "victim") {
		m.server.bound["p"] = "n"
	}
	misbehaves := func(what, pod string) bool {
		return what == kind.what && (pod == "p" || what == "event" || what == "series")
	}
	m.server.answer = func(w http.ResponseWriter, h *http.Request, r request) bool {
		switch {
		case of == "question" && r.what == "bind":
			return hangUp(w)
		case !misbehaves(r.what, r.pod):
			return false
		case kind.stored:
			m.server.carryOut(r)
		}
		answerAs(w, h, how)
		return true
	}
	if how == "refused" || how == "reset" {
		m.recorder.breaks = func(what, pod string) string {
			if misbehaves(what, pod) {
				return how
			}
			return ""
		}
	}
}

func checkAnswer(t *testing.T, row answerRow, how string) {
	m := newInMemory(t, nil)
	defer m.stop()
	m.misbehave(row.kind, how)
	answerKinds[row.kind].start(m)
	time.Sleep(patience)
	synctest.Wait()
	if err := matches(row.sent, m.recorder.of(relevant[row.kind])); err != nil {
		t.Errorf("sent %s, want %s: %v", spell(m.recorder.of(relevant[row.kind])), row.sent, err)
	}
	if end := endOf(row.kind, m); end != row.end {
		t.Errorf("it ends as %q, want %q", end, row.end)
	}
	if logged := strings.Join(m.errorsLogged(), "; "); logged != row.logged {
		t.Errorf("logged %q, want %q", logged, row.logged)
	}
}

// relevant are the requests that the rows of a kind list.
var relevant = map[string][]string{
	"binding": {"bind", "get"}, "stored binding": {"bind", "get"}, "question": {"bind", "get"}, "condition": {"status"}, "nomination clear": {"status"},
	"event": {"event"}, "series": {"event", "series"},
	"victim's condition": {"status", "get", "delete"}, "victim": {"status", "get", "delete"},
}

func endOf(kind string, m *inMemory) string {
	stats := m.Stats()
	written := func(done, failed int64) string {
		switch {
		case failed > 0:
			return "given up"
		case done == 2, done == 1 && kind != "series":
			return "written"
		}
		return "waits"
	}
	switch kind {
	case "condition", "nomination clear":
		return written(stats.Statuses, stats.StatusesFailed)
	case "event", "series":
		return written(stats.Events, stats.EventsFailed)
	}
	select {
	case outcome := <-m.outcomes:
		switch {
		case outcome.Err != nil && strings.HasPrefix(kind, "victim"):
			return "kept"
		case outcome.Err != nil:
			return "failed"
		case stats.Evicted > 0:
			return "evicted"
		case strings.HasPrefix(kind, "victim"):
			return "gone"
		}
		return "bound"
	default:
		return "open"
	}
}

// of returns the requests of these kinds.
func (r *recorder) of(kinds []string) (found []sent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sent {
		if slices.Contains(kinds, s.what) && s.pod != "q" {
			found = append(found, s)
		}
	}
	return found
}

// spell formats requests like a row, with the observed pauses. Pauses that differ by no
// more than the jitter are counted together.
func spell(all []sent) string {
	var text []string
	for i := 0; i < len(all); {
		if i == 0 || all[i].what != all[i-1].what {
			text = append(text, all[i].what)
		}
		if i == 0 {
			i++
			continue
		}
		first, same := all[i].begin.Sub(all[i-1].end), i+1
		for same < len(all) && all[same].what == all[i].what && (all[same].begin.Sub(all[same-1].end)-first).Abs() <= first/10 {
			same++
		}
		word := first.Round(time.Millisecond).String()
		if same-i > 1 {
			word = fmt.Sprintf("%d*%s", same-i, word)
		}
		text, i = append(text, word), same
	}
	return strings.Join(text, " ")
}

// matches checks that the requests are those in a row.
func matches(want string, got []sent) error {
	what, first := "", true
	pause := func(want time.Duration, at int) error {
		is := got[at].begin.Sub(got[at-1].end)
		if got[at].what != what || is < want || is > want+want/10 {
			return fmt.Errorf("request %d is %s after %v, want %s after %v", at+1, got[at].what, is, what, want)
		}
		return nil
	}
	i := 0
	for _, word := range strings.Fields(want) {
		if word[0] >= 'a' && word[0] <= 'z' {
			what = word
			if first {
				if len(got) == 0 || got[0].what != what {
					return fmt.Errorf("the first request is not %s", what)
				}
				i, first = 1, false
			}
			continue
		}
		times := 1
		if number, rest, ok := strings.Cut(word, "*"); ok {
			times, _ = strconv.Atoi(number)
			word = rest
		}
		word, forever := strings.CutSuffix(word, "...")
		wait, err := time.ParseDuration(word)
		if err != nil {
			return err
		}
		if forever {
			if len(got)-i < 5 {
				return errors.New("they end")
			}
			times = len(got) - i
		}
		for range times {
			if i >= len(got) {
				return fmt.Errorf("they end after %d", i)
			}
			if err := pause(wait, i); err != nil {
				return err
			}
			i++
		}
	}
	if i != len(got) {
		return fmt.Errorf("there are %d, want %d", len(got), i)
	}
	return nil
}

// The tries of statuses and events that fail transiently.
const passing = " 10ms 40ms 160ms 640ms 2.56s 10.24s 10*30s"

var answerRows = []answerRow{
	// A refusal is final, but the pod may be bound nevertheless, so its node is read
	// before its resources are released. After a refused connection nothing can be
	// stored.
	{"binding", "garbage other", "bind", "bound", ""},
	{"binding", "400 401 403 404 409 409exists 410 422 400page 404page", "bind", "failed", "Could not bind pod"},
	{"binding", "429", "bind 10*1s", "failed", "Could not bind pod"},
	{"binding", "429after7 429page7", "bind 10*7s", "failed", "Could not bind pod"},
	{"binding", "500 500page 502page", "bind 10ms 50ms 250ms get 0s 5s", "failed", "Binding outcome unknown; Could not bind pod"},
	{"binding", "503 503page", "bind 10ms 50ms 250ms get 0s", "failed", "Binding outcome unknown; Could not bind pod"},
	{"binding", "503after7", "bind 3*7s get 0s", "failed", "Binding outcome unknown; Could not bind pod"},
	{"binding", "502 504 504page 500timeout cut hangup reset silent", "bind get 0s bind 50ms get 0s bind 100ms get 0s bind 200ms get 0s 5s", "failed", "Binding outcome unknown; Could not bind pod"},
	{"binding", "refused", "bind 10ms 50ms 250ms", "failed", "Could not bind pod"},

	{"stored binding", "garbage other", "bind", "bound", ""},
	{"stored binding", "500 500page 502page 503 503page", "bind 10ms 50ms 250ms get 0s", "bound", "Binding outcome unknown"},
	{"stored binding", "503after7", "bind 3*7s get 0s", "bound", "Binding outcome unknown"},
	{"stored binding", "502 504 504page 500timeout cut hangup reset silent", "bind get 0s", "bound", "Binding outcome unknown"},

	// Resources are released only if the API server itself reports that the pod does not
	// exist.
	{"question", "404", "bind get 0s", "failed", "Binding outcome unknown; Could not bind pod"},
	{"question", "400 401 403 409 409exists 410 422 429 500 502 503 504 400page 404page 500page 502page 503page 504page 500timeout garbage other cut hangup reset refused silent", "bind get 0s 50ms 100ms 200ms 400ms 800ms 1.6s 3.2s 5s...", "open", "Binding outcome unknown; Binding outcome still unknown"},
	{"question", "429after7 429page7 503after7", "bind get 0s 5s...", "open", "Binding outcome unknown; Binding outcome still unknown"},

	{"condition", "garbage other", "status", "written", ""},
	{"condition", "404", "status", "given up", ""},
	{"condition", "400 401 409exists 410 422 502 400page 404page", "status", "given up", "Gave up writing"},
	{"condition", "409", "status 10ms 40ms 160ms 640ms", "given up", "Gave up writing"},
	{"condition", "403 500 503 504 500page 502page 503page 504page 500timeout", "status" + passing, "given up", "Gave up writing"},
	{"condition", "503after7", "status 5*7s 10.24s 10*30s", "given up", "Gave up writing"},
	{"condition", "429", "status 16*2s", "given up", "Gave up writing"},
	{"condition", "429after7 429page7", "status 16*7s", "given up", "Gave up writing"},
	{"condition", "cut hangup reset refused silent", "status 2s...", "waits", ""},

	{"nomination clear", "garbage other", "status", "written", ""},
	{"nomination clear", "404", "status", "given up", ""},
	{"nomination clear", "400 401 409exists 410 422 502 400page 404page", "status", "given up", "Gave up writing"},
	{"nomination clear", "409", "status 10ms 40ms 160ms 640ms", "given up", "Gave up writing"},
	{"nomination clear", "403 500 503 504 500page 502page 503page 504page 500timeout", "status" + passing, "given up", "Gave up writing"},
	{"nomination clear", "503after7", "status 5*7s 10.24s 10*30s", "given up", "Gave up writing"},
	{"nomination clear", "429", "status 16*2s", "given up", "Gave up writing"},
	{"nomination clear", "429after7 429page7", "status 16*7s", "given up", "Gave up writing"},
	{"nomination clear", "cut hangup reset refused silent", "status 2s...", "waits", ""},

	{"event", "garbage other 409exists", "event", "written", ""},
	{"event", "400 401 404 410 422 502 400page 404page", "event", "given up", "Gave up writing"},
	{"event", "403", "event 10ms 40ms 160ms 640ms 2.56s", "given up", "Gave up writing"},
	{"event", "409", "event 10ms 40ms 160ms 640ms", "given up", "Gave up writing"},
	{"event", "500 503 504 500page 502page 503page 504page 500timeout", "event" + passing, "given up", "Gave up writing"},
	{"event", "503after7", "event 5*7s 10.24s 10*30s", "given up", "Gave up writing"},
	{"event", "429", "event 16*2s", "given up", "Gave up writing"},
	{"event", "429after7 429page7", "event 16*7s", "given up", "Gave up writing"},
	{"event", "cut hangup reset refused silent", "event 2s...", "waits", ""},

	{"series", "garbage other", "event series 0s", "written", ""},
	// The event is created again, with its count.
	{"series", "404 404page", "event series 0s event 0s", "written", ""},
	{"series", "400 401 409exists 410 422 502 400page", "event series 0s", "given up", "Gave up writing"},
	{"series", "403", "event series 0s 10ms 40ms 160ms 640ms 2.56s", "given up", "Gave up writing"},
	{"series", "409", "event series 0s 10ms 40ms 160ms 640ms", "given up", "Gave up writing"},
	{"series", "500 503 504 500page 502page 503page 504page 500timeout", "event series 0s" + passing, "given up", "Gave up writing"},
	{"series", "503after7", "event series 0s 5*7s 10.24s 10*30s", "given up", "Gave up writing"},
	{"series", "429", "event series 0s 16*2s", "given up", "Gave up writing"},
	{"series", "429after7 429page7", "event series 0s 16*7s", "given up", "Gave up writing"},
	{"series", "cut hangup reset refused silent", "event series 0s 2s...", "waits", ""},

	// A victim whose condition cannot be written is not deleted.
	{"victim's condition", "garbage other", "status delete 0s", "evicted", ""},
	{"victim's condition", "404", "status", "gone", ""},
	{"victim's condition", "400 401 403 409exists 410 422 400page 404page", "status", "kept", preemptionFailed},
	{"victim's condition", "409", "status get 0s status 0s get 0s status 0s get 0s status 0s get 0s status 0s", "kept", preemptionFailed},
	{"victim's condition", "429", "status 10*1s", "kept", preemptionFailed},
	{"victim's condition", "429after7 429page7", "status 10*7s", "kept", preemptionFailed},
	{"victim's condition", "500 502 503 504 500page 502page 503page 504page 500timeout cut hangup reset refused silent", "status 10ms 50ms 250ms", "kept", preemptionFailed},
	{"victim's condition", "503after7", "status 3*7s", "kept", preemptionFailed},

	{"victim", "garbage other", "status delete 0s", "evicted", ""},
	{"victim", "404", "status delete 0s", "gone", ""},
	{"victim", "400 401 403 409exists 410 422 400page 404page", "status delete 0s", "kept", preemptionFailed},
	{"victim", "409", "status delete 0s get 0s status 0s delete 0s get 0s status 0s delete 0s get 0s status 0s delete 0s get 0s status 0s delete 0s", "kept", preemptionFailed},
	{"victim", "429", "status delete 0s 10*1s", "kept", preemptionFailed},
	{"victim", "429after7 429page7", "status delete 0s 10*7s", "kept", preemptionFailed},
	{"victim", "500 502 503 504 500page 502page 503page 504page 500timeout cut hangup reset refused silent", "status delete 0s 10ms 50ms 250ms", "kept", preemptionFailed},
	{"victim", "503after7", "status delete 0s 3*7s", "kept", preemptionFailed},
}

const preemptionFailed = "Error occurred during async preemption"
