package commit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2/textlogger"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// witness is an observer that records its calls in words. With several observers, each
// sees in the contexts the values of those before it.
type witness struct {
	name  string
	mu    *sync.Mutex
	notes *[]string
}

type witnessed string

func (w *witness) note(format string, values ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*w.notes = append(*w.notes, w.name+" "+fmt.Sprintf(format, values...))
}

// spellWrite is a write in words.
func spellWrite(w *commit.Write) string {
	text := w.Kind.String()
	if w.Pod != nil {
		text += " of " + w.Pod.Name
	}
	if w.Preemptor != nil {
		text += fmt.Sprintf(" (%s for %s)", w.Request, w.Preemptor.Name)
	}
	return text
}

func (w *witness) Sending(ctx context.Context, write *commit.Write) context.Context {
	before, _ := ctx.Value(witnessed("")).(string)
	return context.WithValue(ctx, witnessed(""), before+w.name)
}

func (w *witness) Sent(ctx context.Context, write *commit.Write, took time.Duration, err error) {
	w.note("%s took %v as %v: %v", spellWrite(write), took, ctx.Value(witnessed("")), err)
}

func (w *witness) Settled(s *commit.Settled) { w.note("settled %s: %v", s.Placement.Pod.Name, s.Err) }
func (w *witness) Preempted(p *commit.Preempted) {
	w.note("preempted for %s in %v: %v", p.Preemptor.Name, p.Took, p.Err)
}
func (w *witness) Dropped(kind commit.WriteKind, writes int) {
	w.note("dropped %d of kind %s", writes, kind)
}

func (w *witness) Passed(s *commit.StageEnd) {
	w.note("passed %s of %s in %v: %v, rejected: %t", s.Stage, s.Pod.Name, s.Took, s.Err, s.Rejected)
}

// TestObserversHear carries out placements and a preemption with an API server that takes
// a second for each request, and compares all calls of two observers.
func TestObserversHear(t *testing.T) {
	call := func(takes time.Duration, result commit.CallResult) *calling {
		return &calling{run: func(ctx context.Context) commit.CallResult {
			time.Sleep(takes)
			if as := ctx.Value(witnessed("")); as != "AB" {
				t.Errorf("a call has the context of %v", as)
			}
			return result
		}}
	}
	for _, row := range []struct {
		name   string
		decide func() plan.Decision
		want   string // of the second observer; the first gets the same calls
	}{
		{"a binding", func() plan.Decision { return placed(podNamed("p")) }, `
binding of p took 1s as AB: <nil>
settled p: <nil>
event took 1s as AB: <nil>`},
		{"a binding that is refused once", func() plan.Decision { return placed(podNamed("unwell")) }, `
binding of unwell took 2.01s as AB: <nil>
settled unwell: <nil>
event took 1s as AB: <nil>`},
		{"a rejection", func() plan.Decision { return rejected(podNamed("p"), 1) }, `
status of p took 1s as AB: <nil>
event took 1s as AB: <nil>`},
		{"a rejection whose condition is refused", func() plan.Decision { return rejected(podNamed("hopeless"), 1) }, `
status of hopeless took 1s as AB: no
event took 1s as AB: <nil>`},
		{"a preemption", func() plan.Decision { return preempting("q", 10, onNode("v")) }, `
eviction of v (mark for q) took 1s as AB: <nil>
eviction of v (delete for q) took 1s as AB: <nil>
preempted for q in 2s: <nil>
status of q took 1s as AB: <nil>
event took 1s as AB: <nil>
event took 1s as AB: <nil>`},
		{"the eviction of a pod that may have been bound", func() plan.Decision { return preempting("q", 10, podNamed("unknown")) }, `
eviction of unknown (ask for q) took 1s as AB: <nil>
preempted for q in 1s: <nil>
status of q took 1s as AB: <nil>
event took 1s as AB: <nil>`},
		{"steps", func() plan.Decision {
			d := stepped("p", "PreBind/a w u", "PostBind/b w")
			for i := range d.Placement.Steps {
				d.Placement.Steps[i].Write.Resource.Version, d.Placement.Steps[i].Write.Resource.Resource = "v1", "claims"
				d.Placement.Steps[i].Write.Data = []byte("{}")
			}
			return d
		}, `
step of p took 1s as AB: <nil>
passed PreBind of p in 1s: <nil>, rejected: false
binding of p took 1s as AB: <nil>
settled p: <nil>
step of p took 1s as AB: <nil>
passed PostBind of p in 1s: <nil>, rejected: false
event took 1s as AB: <nil>`},
		{"calls", func() plan.Decision {
			d := placed(podNamed("p"))
			d.Placement.Steps = []plan.Step{
				{Stage: plan.Reserve, Plugin: "x", Call: call(time.Second, done)}, {Stage: plan.PreBind, Plugin: "x", Call: call(2*time.Second, done)},
				{Stage: plan.Bind, Plugin: "x", Call: call(3*time.Second, done)}, {Stage: plan.PostBind, Plugin: "x", Call: call(4*time.Second, done)},
			}
			return d
		}, `
call of p took 1s as AB: <nil>
passed Reserve of p in 1s: <nil>, rejected: false
call of p took 2s as AB: <nil>
passed PreBind of p in 2s: <nil>, rejected: false
call of p took 3s as AB: <nil>
passed Bind of p in 3s: <nil>, rejected: false
settled p: <nil>
event took 1s as AB: <nil>
call of p took 4s as AB: <nil>
passed PostBind of p in 4s: <nil>, rejected: false`},
		{"a call that leaves the binding to DefaultBinder", func() plan.Decision {
			return withSteps(plan.Step{Stage: plan.Bind, Plugin: "x", Call: call(3*time.Second, skipped)})
		}, `
call of p took 3s as AB: <nil>
passed PostBind of p in 0s: <nil>, rejected: false
binding of p took 1s as AB: <nil>
settled p: <nil>
event took 1s as AB: <nil>`},
		{"a call that rejects the pod, and its undoing", func() plan.Decision {
			return withSteps(plan.Step{Stage: plan.PreBind, Plugin: "x", Call: call(time.Second, commit.CallResult{Err: errors.New("no"), Rejected: true}), UndoCall: call(2*time.Second, done)})
		}, `
call of p took 1s as AB: no
passed PreBind of p in 1s: no, rejected: true
call of p took 2s as AB: <nil>
settled p: no
status of p took 1s as AB: <nil>
event took 1s as AB: <nil>`},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var notes []string
				m := newInMemory(t, func(c *commit.Config) {
					c.Observers = []commit.Observer{&witness{"A", &mu, &notes}, &witness{"B", &mu, &notes}}
				})
				defer m.stop()
				m.server.bound["v"] = "n"
				m.server.answer = func(w http.ResponseWriter, _ *http.Request, r request) bool {
					time.Sleep(time.Second)
					if r.what == "status" && r.pod == "hopeless" {
						return refuse(w, 400, "BadRequest", "no")
					}
					return r.what == "bind" && r.pod == "unwell" && len(m.server.got("bind")) == 1 && refuse(w, 500, "InternalError", "no")
				}
				m.Start(row.decide())
				time.Sleep(time.Minute)
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				heard := map[string][]string{}
				for _, note := range notes {
					who, what, _ := strings.Cut(note, " ")
					heard[who] = append(heard[who], what)
				}
				if got := strings.Join(heard["B"], "\n"); jittered.ReplaceAllString(got, "2.01s") != row.want[1:] {
					t.Errorf("observers hear\n%s\nwant%s", got, row.want)
				}
				if first := strings.ReplaceAll(strings.Join(heard["A"], "\n"), "as A:", "as AB:"); first != strings.Join(heard["B"], "\n") {
					t.Errorf("the first hears\n%s", first)
				}
				for _, s := range m.recorder.of([]string{"bind", "status", "event", "delete", "get", "patch"}) {
					if s.context.Value(witnessed("")) != "AB" || s.context.Err() == nil {
						t.Errorf("a request of kind %s is sent as %v, and its context ends with %v", s.what, s.context.Value(witnessed("")), s.context.Err())
					}
				}
			})
		})
	}
}

// jittered matches a pause of 10 ms with its jitter, and the two requests around it.
var jittered = regexp.MustCompile(`2\.01\d*s`)

// withSteps is a placement of the pod p with these steps.
func withSteps(steps ...plan.Step) plan.Decision {
	d := placed(podNamed("p"))
	d.Placement.Steps = steps
	return d
}

var logHeader = regexp.MustCompile(`(?m)^([IEW])\d+ [\d:.]+ +\d+ [\w.]+:\d+\] `)

// TestLog compares the log, without positions and times, and without client-go's
// messages.
func TestLog(t *testing.T) {
	broken := func(context.Context) commit.CallResult { return commit.CallResult{Err: errors.New("no disk")} }
	// 20 s longer than the wait for it
	never := func(context.Context) commit.CallResult { time.Sleep(40 * time.Second); return commit.CallResult{} }
	for _, row := range []struct {
		name      string
		verbosity int
		decide    func() []plan.Decision
		want      string
	}{
		{"decisions", 3, func() []plan.Decision {
			failed := plan.Decision{Member: plan.Alone(podNamed("f")), Outcome: plan.Failed, Nodes: 3, Err: errors.New("no plugin")}
			return []plan.Decision{failed, placed(podNamed("p"))}
		}, `
I "Decided about pod" pod="ns/f" attempt=0 node="" feasibleNodes=0 nodes=3 err="no plugin"
I "Decided about pod" pod="ns/p" attempt=1 node="node-of-p" feasibleNodes=2 nodes=3
I "Successfully bound pod to node" pod="ns/p" node="node-of-p" evaluatedNodes=3 feasibleNodes=2`},
		{"those of default verbosity", 1, func() []plan.Decision { return []plan.Decision{placed(podNamed("p"))} }, ""},
		{"a rejection at Permit", 2, func() []plan.Decision { return []plan.Decision{stepped("p", "Permit/gang 5s")} }, `
I "Unable to schedule pod; no fit; waiting" pod="ns/p" err="0/1 nodes are available: 1 rejected due to timeout after waiting 5s at plugin gang."`},
		{"a binding that fails", 2, func() []plan.Decision { return []plan.Decision{placed(podNamed("refused"))} }, `
E "Could not bind pod" err="running Bind plugin \"DefaultBinder\": no" pod="ns/refused" node="node-of-refused"`},
		{"a preemption", 2, func() []plan.Decision { return []plan.Decision{preempting("q", 10, onNode("v"))} }, `
I "Preemptor Pod preempted victim Pod" preemptor="ns/q" victim="ns/v" node="n" inMemory=false`},
		{"a preemption that fails", 1, func() []plan.Decision {
			return []plan.Decision{preempting("q", 10, onNode("kept"), onNode("v"))}
		}, `
E "Error occurred during async preemption" err="evict ns/kept: no" preemptor="ns/q" node="n" victims=2 kept=2`},
		{"a plugin panics, also when it undoes", 1, func() []plan.Decision {
			panics := func(context.Context) commit.CallResult { panic("oh") }
			return []plan.Decision{runs("p", plan.Reserve, panics, panics)}
		}, `
E "A plugin panicked" err="running PreBindPreFlight plugin \"x\": the plugin panicked: oh" pod="ns/p" node="node-of-p" plugin="x" stack=…
E "A plugin panicked" err="running Unreserve plugin \"x\": the plugin panicked: oh" pod="ns/p" node="node-of-p" plugin="x" stack=…
E "Could not bind pod" err="running PreBindPreFlight plugin \"x\": the plugin panicked: oh" pod="ns/p" node="node-of-p"`},
		{"a plugin does not return from undoing", 1, func() []plan.Decision {
			return []plan.Decision{runs("p", plan.PreBind, broken, never)}
		}, `
E "Plugin call timed out and was abandoned" err="running Unreserve plugin \"x\": it has not returned" pod="ns/p" node="node-of-p" plugin="x"
E "Could not bind pod" err="no disk" pod="ns/p" node="node-of-p"`},
		{"a step cannot be undone", 1, func() []plan.Decision {
			d := stepped("p", "PreBind/a w u", "PreBind/b 5s")
			for _, w := range []*plan.Write{d.Placement.Steps[0].Write, d.Placement.Steps[0].Undo} {
				w.Resource.Version, w.Resource.Resource, w.Data = "v1", "claims", []byte("{}")
			}
			return []plan.Decision{d}
		}, `
E "Could not bind pod" err="running PreBind plugin \"b\": timed out after waiting 5s" pod="ns/p" node="node-of-p"
E "Gave up writing" err="undo a step of PreBind plugin \"a\" for ns/p: no" pod="ns/p"`},
		{"a binding of which nothing is known at first", 1, func() []plan.Decision { return []plan.Decision{placed(podNamed("lost"))} }, `
E "Binding outcome unknown, reading the pod" err="Post \"http://127.0.0.1/api/v1/namespaces/ns/pods/lost/binding\": EOF" pod="ns/lost" node="node-of-lost"
E "Binding outcome still unknown, reading the pod again" err="read the node of ns/lost: Get \"http://127.0.0.1/api/v1/namespaces/ns/pods/lost\": EOF" pod="ns/lost" node="node-of-lost"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				text := &lines{}
				m := newInMemory(t, func(c *commit.Config) {
					c.Log = textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(text), textlogger.Verbosity(row.verbosity)))
				})
				defer m.stop()
				m.server.bound["v"], m.server.bound["kept"] = "n", "n"
				m.server.answer = func(w http.ResponseWriter, _ *http.Request, r request) bool {
					switch {
					case r.pod == "refused" && r.what == "bind", r.pod == "kept" && r.what == "status", r.pod == "undo a" && r.what == "patch":
						return refuse(w, 400, "BadRequest", "no")
					case r.pod == "lost" && r.what == "bind":
						m.server.carryOut(r)
						return hangUp(w)
					case r.pod == "lost" && r.what == "get" && len(m.server.got("get")) == 1:
						return hangUp(w)
					}
					return false
				}
				for _, d := range row.decide() {
					m.Start(d)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				got := logHeader.ReplaceAllString(strings.TrimSpace(text.take()), "$1 ")
				got = regexp.MustCompile(`(?s)stack=<.*?\n >`).ReplaceAllString(got, "stack=…")
				if got != strings.TrimPrefix(row.want, "\n") {
					t.Errorf("logged\n%s\nwant%s", got, row.want)
				}
			})
		})
	}
}
