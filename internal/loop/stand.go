package loop

import (
	"context"
	"time"
)

// Stand applies changes without deciding, until leading is closed or the context ends. A
// replica that does not lead stands by, so that Run has little to catch up with when it
// leads.
func (l *Loop) Stand(ctx context.Context, leading <-chan struct{}) {
	always := make(chan struct{})
	close(always)
	for {
		l.pulse.begin(Updating)
		l.StandAt(l.now(), l.wall())
		var left <-chan struct{}
		if l.queue.Waking() || l.behind {
			left = always
		}
		l.pulse.begin(Waiting)
		select {
		case <-l.source.Ready():
		case <-left:
		case ask := <-l.asks:
			l.answer(ask)
		case <-leading:
			return
		case <-ctx.Done():
			return
		}
	}
}

// StandAt runs one round of Stand, as OnceAt runs one of Run.
func (l *Loop) StandAt(now, wall time.Time) {
	l.record.Round(now, wall, false)
	changes := l.drain()
	l.report.begin()
	l.state.SetTimes(now, wall)
	delta := l.state.Apply(changes)
	l.queue.Wake(now, delta)
	l.takeAsked(now, nil)
	l.report.applied(len(changes), delta)
	l.report.ended(l)
}

// answer calls a function of Do.
func (l *Loop) answer(ask func()) {
	l.pulse.begin(Answering)
	ask()
}

// Do calls the function on the goroutine of Run or Stand, between two rounds. The
// function may read everything that the loop owns. Do returns nil after the call, or the
// cause if the context ended before it.
func (l *Loop) Do(ctx context.Context, look func()) error {
	done := make(chan struct{})
	ask := func() {
		defer close(done)
		look()
	}
	select {
	case l.asks <- ask:
		<-done
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// askShare limits the functions of Ask to one part in askShare of the time.
const askShare = 100

// Ask is Do for questions from outside the process. Questions run one after the other,
// with a pause after each, so that they use at most a hundredth of the loop's time. The
// function should take at most a few milliseconds.
func (l *Loop) Ask(ctx context.Context, look func()) error {
	select {
	case l.asking <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.asking }()
	if pause := time.Until(l.free); pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return l.Do(ctx, func() {
		began := time.Now()
		defer func() {
			ended := time.Now()
			l.free = ended.Add((askShare - 1) * ended.Sub(began))
		}()
		look()
	})
}
