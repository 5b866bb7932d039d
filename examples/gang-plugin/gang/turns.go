package gang

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// turns holds the gang that is being placed, and the queue of the next ones. Extension
// points, timers and the informer's handlers use it from different goroutines. Its size
// is bounded by the number of gangs with pods: see forget.
type turns struct {
	permit, maxBackoff time.Duration
	// release is called without the mutex. It rejects the waiting members of the gang
	// failed, and activates the members of the gang next. It reports whether next has
	// any.
	release func(failed, next key) bool

	mu    sync.Mutex
	gangs map[key]*record
	// current is the gang that is being placed; zero for none. Its record exists.
	current key
	// next are the gangs that were rejected meanwhile, in order and without duplicates.
	next   []key
	nudge  *time.Timer // goes on to the next gang if the present one has not taken its turn
	closed bool
}

// nudgeAfter is how long a gang has to take its turn before the next gang may.
const nudgeAfter = time.Second

// record is the state of a gang.
type record struct {
	// reserved are members with a node. The informer may not have received their bindings
	// yet.
	reserved map[types.UID]bool
	failures int
	// notBefore is when the gang may be retried.
	notBefore time.Time
	// timer ends the gang's turn, or its backoff.
	timer *time.Timer
}

func newTurns(permit, maxBackoff time.Duration, release func(failed, next key) bool) *turns {
	return &turns{permit: permit, maxBackoff: maxBackoff, release: release, gangs: map[key]*record{}}
}

func (t *turns) record(k key) *record {
	r := t.gangs[k]
	if r == nil {
		r = &record{reserved: map[types.UID]bool{}}
		t.gangs[k] = r
	}
	return r
}

// take gives a gang the turn, or returns why it must wait.
func (t *turns) take(k key) (why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.record(k)
	switch {
	case t.closed:
		return "the scheduler stops"
	case t.current == k:
		return ""
	case time.Now().Before(r.notBefore):
		return fmt.Sprintf("gang %s did not fit, and is tried again later", k)
	case t.current != (key{}):
		if !slices.Contains(t.next, k) {
			t.next = append(t.next, k)
		}
		return fmt.Sprintf("gang %s waits until gang %s is placed", k, t.current)
	}
	t.current = k
	t.next = slices.DeleteFunc(t.next, func(other key) bool { return other == k })
	t.after(r, t.permit, func() { t.fails(k) })
	return ""
}

// after sets the record's timer.
func (t *turns) after(r *record, d time.Duration, do func()) {
	if r.timer != nil {
		r.timer.Stop()
	}
	var mine *time.Timer
	mine = time.AfterFunc(d, func() {
		t.mu.Lock()
		stale := t.closed || r.timer != mine
		t.mu.Unlock()
		if !stale {
			do()
		}
	})
	r.timer = mine
}

// reservedBy returns the members of a gang that have a node.
func (t *turns) reservedBy(k key) map[types.UID]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.gangs[k]; r != nil {
		return maps.Clone(r.reserved)
	}
	return nil
}

func (t *turns) reserve(k key, pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record(k).reserved[pod] = true
}

// bound removes a member: from now on the informer counts it.
func (t *turns) bound(k key, pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.gangs[k]; r != nil {
		delete(r.reserved, pod)
	}
}

// unreserve removes a member that has lost its node. If its gang is being placed, the
// gang's turn ends.
func (t *turns) unreserve(k key, pod types.UID) {
	t.mu.Lock()
	r := t.gangs[k]
	had := r != nil && r.reserved[pod]
	if had {
		delete(r.reserved, pod)
	}
	t.mu.Unlock()
	if had { // unless it was rejected together with its gang
		t.fails(k)
	}
}

// fails ends the turn of a gang that does not fit, and reports whether it had the turn.
// The gang is retried after its backoff.
func (t *turns) fails(k key) bool {
	t.mu.Lock()
	if t.current != k {
		t.mu.Unlock()
		return false
	}
	r := t.gangs[k]
	clear(r.reserved)
	backoff := t.maxBackoff
	if r.failures < 10 {
		backoff = min(backoff, time.Second<<r.failures)
	}
	r.failures++
	r.notBefore = time.Now().Add(backoff)
	t.current = key{}
	if !t.closed {
		t.after(r, backoff, func() { t.again(k) })
	}
	t.mu.Unlock()
	t.goOn(k)
	return true
}

// completes ends the turn of a gang that has enough members.
func (t *turns) completes(k key) {
	t.mu.Lock()
	if r := t.gangs[k]; r != nil {
		r.failures = 0
		if r.timer != nil {
			r.timer.Stop()
		}
	}
	had := t.current == k
	if had {
		t.current = key{}
	}
	t.mu.Unlock()
	if had {
		t.goOn(key{})
	}
}

// again retries a gang whose backoff is over.
func (t *turns) again(k key) {
	t.mu.Lock()
	if r := t.gangs[k]; r != nil {
		r.notBefore = time.Time{} // the timer may fire slightly before the clock
	}
	if !slices.Contains(t.next, k) {
		t.next = append(t.next, k)
	}
	busy := t.current != (key{})
	t.mu.Unlock()
	if !busy {
		t.goOn(key{})
	}
}

// goOn rejects the members of a failed gang, if any, and gives the turn to the next gang
// that has pods to place.
func (t *turns) goOn(failed key) {
	for {
		t.mu.Lock()
		var next key
		if len(t.next) > 0 && !t.closed {
			next, t.next = t.next[0], t.next[1:]
		}
		t.watchNext()
		t.mu.Unlock()
		found := t.release(failed, next)
		if found || next == (key{}) {
			return
		}
		failed = key{}
	}
}

// watchNext starts the timer for the queued gangs, because all pods of the gang that was
// activated may be gated or deleted.
func (t *turns) watchNext() {
	if len(t.next) == 0 || t.nudge != nil || t.closed {
		return
	}
	t.nudge = time.AfterFunc(nudgeAfter, func() {
		t.mu.Lock()
		t.nudge = nil
		idle := t.current == (key{})
		t.watchNext()
		t.mu.Unlock()
		if idle {
			t.goOn(key{})
		}
	})
}

// forget removes a gang without pods. Its turn ends.
func (t *turns) forget(k key) {
	t.completes(k)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != k {
		delete(t.gangs, k)
	}
}

// close stops all timers.
func (t *turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.nudge != nil {
		t.nudge.Stop()
	}
	for _, r := range t.gangs {
		if r.timer != nil {
			r.timer.Stop()
		}
	}
}
