package commit

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// Budget bounds the statuses and events that are sent, so that no kind of write holds up another. Bindings come before them and are not bounded
// by it.
type Budget struct {
	// InFlight is how many statuses and events together may be in flight, excluding one that the reserved worker sends. EachInFlight is how
	// many statuses may be, and how many events, including that one: where one kind hangs, some room is left for the other.
	InFlight, EachInFlight int
	// PerSecond is how many statuses and events together are sent per second; a tenth of it may be sent at once.
	PerSecond int
}

// reports are the statuses and events that wait, and what the budget allows of them.
type reports struct {
	budget Budget
	rate   *rate.Limiter
	// statuses are pods whose status is to be written. A pod whose status was replaced by nothing stays there until its turn.
	// Invariant: no lane is longer than OutboxConfig.ReportsMax.
	statuses lane[types.UID]
	// normal and warnings are the events to be written for the first time, by type, and repeats the counts of those that the API server has.
	normal, warnings, repeats lane[*event]
	// counting is the rate of repeats while bindings are being sent, counted until when none is written, and bound when a binding was last sent.
	counting       *rate.Limiter
	counted, bound time.Time
	turn           int // the next, of turns
	// inFlight counts by kind.
	inFlight    [WriteKinds]int
	spent       time.Time // until then nothing is sent: the budget of this second is used up
	paused      time.Time // until then nothing is sent: the API server could not be reached
	unreachable bool      // the API server did not answer, and has not since: they are sent one by one
	probing     bool      // one of them is in flight
}

// turns is the order in which those that wait are sent. Where all three wait without end, half of the budget is for events about bindings, which
// lets them keep up with the bindings; three eighths are for statuses, which autoscalers act on; and the rest is for warnings, which wait best,
// since repetitions are counted in those that wait. What one does not need the others get, and after them the counts of repetitions.
var turns = [...]turn{statusTurn, normalTurn, statusTurn, normalTurn, statusTurn, normalTurn, warningTurn, normalTurn}

type turn uint8

const (
	statusTurn turn = iota
	normalTurn
	warningTurn
	repeatTurn // not one of turns: it comes when nothing else waits
)

const (
	// burst is the part of the budget of a second that may be sent at once: one in ten. refill is the part that is waited for once it is used up:
	// one in a hundred, so that workers do not wake up for each write.
	burst, refill = 10, 100
	// repeatsPerSecond is how many counts of repetitions are written per second, after repeatsBurst at once, while bindings are sent, which is until calm
	// after the last. Nothing depends on a count, and it goes up while it waits: where thousands of pods are rejected again and again, the API server has its
	// time for bindings.
	repeatsPerSecond, repeatsBurst = 20, 100
	calm                           = time.Second
	// spentMin is the least wait once the budget is used up.
	spentMin = time.Millisecond
)

func newReports(budget Budget) reports {
	return reports{
		budget: budget, rate: rate.NewLimiter(rate.Limit(budget.PerSecond), max(1, budget.PerSecond/burst)), counting: rate.NewLimiter(repeatsPerSecond, repeatsBurst),
	}
}

// waiting is how many wait.
func (r *reports) waiting() int { return r.others() + r.repeats.len() }

// others is how many wait that are not counts of repetitions.
func (r *reports) others() int { return r.statuses.len() + r.normal.len() + r.warnings.len() }

// open reports whether one may be sent at this time. With reserved, the limit of all that are in flight does not hold.
func (r *reports) open(now time.Time, reserved bool) bool {
	switch {
	case now.Before(r.paused), now.Before(r.spent), r.unreachable && r.probing:
		return false
	}
	return reserved || r.inFlight[StatusWrite]+r.inFlight[EventWrite] < r.budget.InFlight
}

// has reports whether something waits for this turn that may be sent.
func (r *reports) has(t turn) bool {
	switch t {
	case statusTurn:
		return r.statuses.len() > 0 && r.inFlight[StatusWrite] < r.budget.EachInFlight
	}
	return r.events(t).len() > 0 && r.inFlight[EventWrite] < r.budget.EachInFlight
}

// events are those that wait for a turn.
func (r *reports) events(t turn) *lane[*event] {
	switch t {
	case normalTurn:
		return &r.normal
	case repeatTurn:
		return &r.repeats
	}
	return &r.warnings
}

// spend takes one write off the budget. If there is none left, it notes until when to wait.
func (r *reports) spend(now time.Time) bool {
	if r.rate.AllowN(now, 1) {
		return true
	}
	missing := float64(max(1, r.budget.PerSecond/refill)) - r.rate.TokensAt(now)
	r.spent = now.Add(max(spentMin, time.Duration(missing/float64(r.budget.PerSecond)*float64(time.Second))))
	return false
}

// count reports whether a count of repetitions may be written. If not, it notes until when to wait.
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

// due returns until when everything waits that waits for a turn; ok is false if it waits for no time.
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

// wakeUp ends the waits whose time has come.
func (r *reports) wakeUp(now time.Time) {
	for _, wait := range []*time.Time{&r.paused, &r.spent, &r.counted} {
		if !now.Before(*wait) {
			*wait = time.Time{}
		}
	}
}

// nextReport takes the next status or event, if one may be sent at this time.
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

// sendReport counts a status or an event that is about to be sent. While the API server does not answer, it is the one request that finds out
// whether it does again.
func (o *Outbox) sendReport(request Request) Request {
	r := &o.reports
	r.inFlight[writeKinds[request.Kind]]++
	if r.unreachable {
		request.probe, r.probing = true, true
	}
	return request
}

// endReport takes in that a status or an event is not in flight any more. An answer says that the API server can be reached.
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
