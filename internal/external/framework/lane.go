package framework

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/model"
)

// Point is kube-scheduler's name of an extension point, as in the labels of metrics.
type Point string

// The extension points.
const (
	PreEnqueue       Point = "PreEnqueue"
	QueueSort        Point = "QueueSort"
	EventsToRegister Point = "EventsToRegister"
	QueueingHint     Point = "QueueingHint"
	PreFilter        Point = "PreFilter"
	AddPod           Point = "PreFilterExtensionAddPod"
	RemovePod        Point = "PreFilterExtensionRemovePod"
	Filter           Point = "Filter"
	PostFilter       Point = "PostFilter"
	PreScore         Point = "PreScore"
	Score            Point = "Score"
	Normalize        Point = "ScoreExtensionNormalize"
	Reserve          Point = "Reserve"
	Unreserve        Point = "Unreserve"
	Permit           Point = "Permit"
	PreBindPreFlight Point = "PreBindPreFlight"
	PreBind          Point = "PreBind"
	Bind             Point = "Bind"
	PostBind         Point = "PostBind"
)

// DefaultDeadline is how long a plugin call, or a batch of calls, may take.
const DefaultDeadline = 10 * time.Second

// Failure is the error of a call that panicked or took too long. It names the plugin and
// the extension point.
type Failure struct {
	Plugin string
	Point  Point
	Text   string
}

// Error returns the text.
func (f *Failure) Error() string {
	return fmt.Sprintf("plugin %q at %s: %s", f.Plugin, f.Point, f.Text)
}

// Lane runs plugin calls one after the other on its own goroutine, and waits for each
// until its deadline. A call that takes longer is abandoned with its goroutine, and the
// next call gets a new one. So a call must write only to its own memory, and read nothing
// that others change.
//
// Only the loop's goroutine uses a Lane; any goroutine may call Abandoned.
type Lane struct {
	parent   context.Context
	deadline time.Duration
	now      func() time.Time
	log      klog.Logger
	timer    *time.Timer
	worker   *worker // nil: the next call starts one
	turn     bool    // in a turn, calls share a context that ends with it
	// gaveUp are the plugins with an abandoned call in this turn. They are not called
	// again in it, because each dry run might take the whole deadline.
	gaveUp map[string]*Failure
	// took is the duration of the last call.
	took time.Duration
	// pod is the pod of the current calls; nil for none.
	pod   *model.Pod
	aside aside

	mu        sync.Mutex
	abandoned int // number of all abandoned calls
	hung      hung
}

// worker is a goroutine that runs calls. The lane's user and the goroutine use in and
// done. The user writes the other fields while the goroutine waits for in.
type worker struct {
	in     chan func()
	done   chan *panicked // has capacity one
	ctx    context.Context
	cancel context.CancelCauseFunc
	// inTurn is the context of the turn's calls, nil before its first.
	inTurn  context.Context
	endTurn context.CancelFunc
	plugin  string
	point   Point
	pod     types.UID // the call's pod; empty for none
	givenUp bool      // read once in is closed
}

// panicked is the end of a call by a panic, or by runtime.Goexit.
type panicked struct {
	text   string
	exited bool // the goroutine is gone
}

// NewLane returns a lane with a deadline for each call; 0 means DefaultDeadline. The
// calls' contexts end with the parent. now is the clock for the time in which a plugin is
// not called for a pod; nil means time.Now.
func NewLane(parent context.Context, deadline time.Duration, now func() time.Time, log klog.Logger) *Lane {
	if now == nil {
		now = time.Now
	}
	if deadline == 0 {
		deadline = DefaultDeadline
	}
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &Lane{parent: klog.NewContext(parent, log), deadline: deadline, now: now, log: log, timer: timer, hung: hung{}, gaveUp: map[string]*Failure{}, aside: aside{}}
}

// call runs f on the lane and returns its result. If f panics, or takes longer than the
// deadline, it returns an error, and the result is dropped.
func call[T any](l *Lane, point Point, plugin string, f func(ctx context.Context) T) (T, error) {
	result := new(T) // f's own memory: after the deadline f may still write
	if err := l.run(point, plugin, func(ctx context.Context) { *result = f(ctx) }); err != nil {
		var none T
		return none, err
	}
	return *result, nil
}

// run runs a batch on the lane.
func (l *Lane) run(point Point, plugin string, batch func(ctx context.Context)) error {
	if n := l.hungBy(plugin); n >= maxHung {
		return &Failure{plugin, point, fmt.Sprintf("not called: it has not returned for %d pods", n)}
	}
	if len(l.aside) > 0 && l.pod != nil && point != Unreserve {
		if err := l.aside.refusal(l.now(), point, plugin, l.pod); err != nil {
			return err
		}
	}
	if f := l.gaveUp[plugin]; f != nil && point != Unreserve {
		return f
	}
	w := l.worker
	if w == nil {
		w = l.start()
	}
	ctx := w.ctx
	if l.turn {
		if w.inTurn == nil {
			w.inTurn, w.endTurn = context.WithCancel(w.ctx)
		}
		ctx = w.inTurn
	}
	w.plugin, w.point, w.pod = plugin, point, ""
	if l.pod != nil {
		w.pod = l.pod.UID
	}
	began := time.Now()
	defer func() { l.took = time.Since(began) }()
	l.timer.Reset(l.deadline)
	w.in <- func() { batch(ctx) }
	select {
	case p := <-w.done:
		l.timer.Stop()
		return l.ended(w, p)
	case <-l.timer.C:
	}
	select {
	case p := <-w.done: // just in time
		return l.ended(w, p)
	default:
	}
	l.giveUp(w)
	f := &Failure{plugin, point, fmt.Sprintf("has not returned within %v", l.deadline)}
	if l.turn {
		l.gaveUp[plugin] = f
	}
	return f
}

// ended processes the end of a call that was not abandoned.
func (l *Lane) ended(w *worker, p *panicked) error {
	if len(l.aside) > 0 && l.pod != nil {
		l.aside.returned(w.point, w.plugin, l.pod)
	}
	if p == nil {
		return nil
	}
	if p.exited {
		l.Close()
	}
	return &Failure{w.plugin, w.point, p.text}
}

var (
	errEnded   = errors.New("the scheduler has ended the plugin's goroutine")
	errGivenUp = errors.New("the plugin's call has taken too long")
)

// giveUp abandons the worker with its call.
func (l *Lane) giveUp(w *worker) {
	l.mu.Lock()
	l.abandoned++
	l.hung.add(w.plugin, w.pod)
	l.mu.Unlock()
	about := []any{"plugin", w.plugin, "extensionPoint", w.point, "deadline", l.deadline}
	if l.pod != nil && w.point != Unreserve {
		about = append(about, "pod", klog.KObj(l.pod.Object), "notCalledForPod", l.aside.add(l.now(), w.point, w.plugin, l.pod))
	}
	l.log.Error(nil, "Plugin call has taken too long and is given up", about...)
	if l.hungBy(w.plugin) == maxHung {
		l.log.Error(nil, "Plugin hangs for too many pods: it is not called until a call returns", "plugin", w.plugin, "pods", maxHung)
	}
	l.worker, w.givenUp = nil, true
	close(w.in)
	w.cancel(errGivenUp)
}

func (l *Lane) hungBy(plugin string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hung.strikes(plugin)
}

// Out returns the plugins that are not called because they hang for too many pods,
// sorted. Any goroutine may call it.
func (l *Lane) Out() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for plugin := range l.hung {
		if l.hung.strikes(plugin) >= maxHung {
			out = append(out, plugin)
		}
	}
	slices.Sort(out)
	return out
}

// about runs calls for a pod outside of its turn.
func (l *Lane) about(pod *model.Pod, calls func()) {
	before := l.pod
	l.pod = pod
	defer func() { l.pod = before }()
	calls()
}

// beginTurn and endTurn enclose the calls of a pod's turn, whose context ends with it.
func (l *Lane) beginTurn(pod *model.Pod) {
	l.turn, l.pod = true, pod
	clear(l.gaveUp)
}

func (l *Lane) endTurn() {
	l.turn, l.pod = false, nil
	clear(l.gaveUp)
	if w := l.worker; w != nil && w.inTurn != nil {
		w.endTurn()
		w.inTurn, w.endTurn = nil, nil
	}
}

// Close ends the lane's goroutine and the contexts of its calls.
func (l *Lane) Close() {
	if w := l.worker; w != nil {
		l.worker = nil
		w.cancel(errEnded)
		close(w.in)
	}
}

func (l *Lane) start() *worker {
	w := &worker{in: make(chan func()), done: make(chan *panicked, 1)}
	w.ctx, w.cancel = context.WithCancelCause(l.parent)
	l.worker = w
	go l.serve(w)
	return w
}

// serve runs the worker's calls until its lane abandons or closes it.
func (l *Lane) serve(w *worker) {
	defer l.left(w)
	for batch := range w.in {
		w.done <- l.guard(w, batch)
	}
}

// left records the end of a worker's goroutine: because in was closed, or by
// runtime.Goexit in an unanswered call.
func (l *Lane) left(w *worker) {
	select {
	case <-w.in:
	default:
		w.done <- &panicked{"called runtime.Goexit", true}
		<-w.in // until the user has received that, or abandons the call
	}
	if w.givenUp {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.hung.returned(w.plugin, w.pod)
	}
}

// guard runs a call and returns how it ended; nil if it returned.
func (l *Lane) guard(w *worker, batch func()) (p *panicked) {
	defer func() {
		if r := recover(); r != nil {
			p = &panicked{text: "panicked: " + textOf(r)}
			l.log.Error(nil, "Plugin panicked", "plugin", w.plugin, "extensionPoint", w.point, "panic", p.text, "stack", string(debug.Stack()))
		}
	}()
	batch()
	return nil
}

// textOf returns a panic's value as text. Package fmt catches panics of its methods.
func textOf(r any) string { return fmt.Sprint(r) }
