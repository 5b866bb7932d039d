package loop

import "context"

// Stand applies changes and decides nothing, until leading is closed or the context ends. A replica that does not lead stands by, so that Run
// has next to nothing to catch up with when it leads.
func (l *Loop) Stand(ctx context.Context, leading <-chan struct{}) {
	always := make(chan struct{})
	close(always)
	for {
		changes, now := l.source.Drain(), l.now()
		l.report.begin()
		l.state.SetNow(now)
		delta := l.state.Apply(changes)
		l.queue.Wake(now, delta)
		l.takeAsked(now, nil)
		l.report.applied(len(changes), delta)
		l.report.ended(l)
		var left <-chan struct{}
		if l.queue.Waking() {
			left = always
		}
		select {
		case <-l.source.Ready():
		case <-left:
		case ask := <-l.asks:
			ask()
		case <-leading:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Do calls the function on the goroutine of Run or Stand, between two rounds; the function may read everything that the loop owns. Do returns
// nil when the function has returned, or the reason why the context ended before the function was called.
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
