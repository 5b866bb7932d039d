package commit

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// Budget limits the statuses and events that are sent, so that no kind of write delays
// another. Bindings are sent first and are not limited.
type Budget struct {
	// InFlight is the maximum number of statuses and events in flight together, excluding
	// the request of the reserved worker. EachInFlight is the maximum of each kind,
	// including that request: if one kind hangs, some workers remain for the other.
	InFlight, EachInFlight int
	// PerSecond is the rate of statuses and events together; a tenth of it may be sent at
	// once.
	PerSecond int
}

// reports are the queued statuses and events and the state of their budget.
type reports struct {
	budget Budget
	rate   *rate.Limiter
	// statuses are the pods whose status is to be written. A pod whose status was dropped
	// stays queued until its turn.
	// Invariant: no lane is longer than OutboxConfig.MaxReports.
	statuses lane[types.UID]
	// normal and warnings are events to be created, by type. repeats are events that the
	// API server has and whose count is to be written.
	normal, warnings, repeats lane[*event]
	// counting limits the rate of repeats while bindings are being sent. No repeat is
	// written until counted. bound is when a binding was last sent.
	counting       *rate.Limiter
	counted, bound time.Time
	turn           int // index in turns of the next turn
	// inFlight counts requests by kind.
	inFlight [WriteKinds]int
	spent    time.Time // nothing is sent until then: this second's budget is used up
	paused   time.Time // nothing is sent until then: the API server was unreachable
	// unreachable: the API server has not answered since, so requests are sent one by
	// one.
	unreachable bool
	probing     bool // the single request while unreachable is in flight
}

// turns is the order in which queued statuses and events are sent. If all three kinds
// queue without end, half of the budget goes to normal events, which keep up with the
// bindings. Three eighths go to statuses, because autoscalers act on them. Warnings get
// the rest: they can wait best, since repetitions are counted in queued warnings. The
// unused share of a kind goes to the others, and then to the counts of repetitions.
var turns = [...]turn{statusTurn, normalTurn, statusTurn, normalTurn, statusTurn, normalTurn, warningTurn, normalTurn}

type turn uint8

const (
	statusTurn turn = iota
	normalTurn
	warningTurn
	repeatTurn // not in turns: comes when nothing else waits
)

const (
	// burst is the divisor for the part of a second's budget that may be sent at once: a
	// tenth. refill is the divisor for the part to wait for once the budget is used up: a
	// hundredth, so that workers do not wake up for each write.
	burst, refill = 10, 100
	// repeatsPerSecond limits the counts of repetitions written per second, after a burst
	// of repeatsBurst, while bindings are being sent and until calm after the last.
	// Nothing depends on a count, and it grows while it waits. If thousands of pods are
	// rejected again and again, the API server keeps its time for bindings.
	repeatsPerSecond, repeatsBurst = 20, 100
	calm                           = time.Second
	// spentMin is the minimum wait once the budget is used up.
	spentMin = time.Millisecond
)

func newReports(budget Budget) reports {
	return reports{
		budget: budget, rate: rate.NewLimiter(rate.Limit(budget.PerSecond), max(1, budget.PerSecond/burst)), counting: rate.NewLimiter(repeatsPerSecond, repeatsBurst),
	}
}

// waiting returns the number of queued statuses and events.
func (r *reports) waiting() int { return r.others() + r.repeats.len() }

// others returns the number of queued statuses and events except counts of repetitions.
func (r *reports) others() int { return r.statuses.len() + r.normal.len() + r.warnings.len() }

// open reports whether a status or event may be sent now. The limit of all requests in
// flight does not apply if reserved.
func (r *reports) open(now time.Time, reserved bool) bool {
	switch {
	case now.Before(r.paused), now.Before(r.spent), r.unreachable && r.probing:
		return false
	}
	return reserved || r.inFlight[StatusWrite]+r.inFlight[EventWrite] < r.budget.InFlight
}

// has reports whether a queued write of this turn may be sent.
func (r *reports) has(t turn) bool {
	switch t {
	case statusTurn:
		return r.statuses.len() > 0 && r.inFlight[StatusWrite] < r.budget.EachInFlight
	}
	return r.events(t).len() > 0 && r.inFlight[EventWrite] < r.budget.EachInFlight
}

// events returns the lane of a turn.
func (r *reports) events(t turn) *lane[*event] {
	switch t {
	case normalTurn:
		return &r.normal
	case repeatTurn:
		return &r.repeats
	}
	return &r.warnings
}

// spend takes one write off the budget. If the budget is used up, it sets the time until
// which to wait.
func (r *reports) spend(now time.Time) bool {
	if r.rate.AllowN(now, 1) {
		return true
	}
	missing := float64(max(1, r.budget.PerSecond/refill)) - r.rate.TokensAt(now)
	r.spent = now.Add(max(spentMin, time.Duration(missing/float64(r.budget.PerSecond)*float64(time.Second))))
	return false
}

// count reports whether a count of repetitions may be written. If not, it sets the time
// until which to wait.
func (r *reports) count(now time.Time) bool {
	if now.Before(r.counted) {
		return false
	}
	if now.Sub(r.bound) >= calm || r.counting.AllowN(now, 1) {
		return true
	}
	r.counted = now.Add(time.Second / repeatsPerSecond)
	return false
}

// due returns the time until which all queued writes must wait; ok is false if they need
// not.
func (r *reports) due() (at time.Time, ok bool) {
	at = r.paused
	if r.spent.After(at) {
		at = r.spent
	}
	if r.others() == 0 && r.counted.After(at) {
		at = r.counted
	}
	return at, r.waiting() > 0 && !at.IsZero()
}

// wakeUp clears the waits that are over.
func (r *reports) wakeUp(now time.Time) {
	for _, wait := range []*time.Time{&r.paused, &r.spent, &r.counted} {
		if !now.Before(*wait) {
			*wait = time.Time{}
		}
	}
}

// nextReport takes the next status or event that may be sent now.
func (o *Outbox) nextReport(now time.Time, reserved bool) (Request, bool) {
	r := &o.reports
	if !r.open(now, reserved) {
		return Request{}, false
	}
	for range turns {
		t := turns[r.turn]
		o.stats.Looked++
		if t == statusTurn {
			o.skipStatuses()
		}
		if !r.has(t) {
			r.turn = (r.turn + 1) % len(turns)
			continue
		}
		if !r.spend(now) {
			return Request{}, false
		}
		r.turn = (r.turn + 1) % len(turns)
		if t == statusTurn {
			return o.sendReport(o.takeStatus()), true
		}
		return o.sendReport(o.takeEvent(t)), true
	}
	if !r.has(repeatTurn) || !r.count(now) || !r.spend(now) {
		return Request{}, false
	}
	return o.sendReport(o.takeEvent(repeatTurn)), true
}

// sendReport counts a status or event that is about to be sent. While the API server is
// unreachable, the request probes whether it answers again.
func (o *Outbox) sendReport(request Request) Request {
	r := &o.reports
	r.inFlight[writeKinds[request.Kind]]++
	if r.unreachable {
		request.probe, r.probing = true, true
	}
	return request
}

// endReport handles the end of a status or event request. Any answer shows that the API
// server is reachable.
func (o *Outbox) endReport(request *Request, err error) {
	r := &o.reports
	r.inFlight[writeKinds[request.Kind]]--
	if request.probe {
		r.probing = false
	}
	if !pausesReports(err) {
		r.unreachable = false
	}
}

// drop counts a write that was dropped because too many wait.
func (o *Outbox) drop(kind WriteKind) {
	if kind == StatusWrite {
		o.stats.StatusesDropped++
	} else {
		o.stats.EventsDropped++
	}
	o.ended.Dropped[kind]++
}
