package kube

import (
	"context"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is the lease as the elector sees it, and knows until when it is held. The elector cannot say: it counts from when it last saw the
// lease change, and a leader whose write has failed sees it change by reading what it wrote itself some time ago.
//
// The elector reads and writes the lease, one request at a time; anybody may ask for the end.
type lock struct {
	resourcelock.Interface
	duration, renewDeadline time.Duration
	held                    atomic.Pointer[time.Time] // nil while the lease is not held
}

// Create writes a lease where there is none.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update takes the lease over, renews it or gives it back.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

// write notes until when a lease is held that was written: counted from before it was sent, for nobody can have seen it earlier, however late
// the answer is. What fails may have been stored all the same, but cannot be relied on.
func (l *lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, send func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	if record.HolderIdentity != l.Identity() {
		l.held.Store(nil) // before it is sent: when the answer comes, another may lead already
		return send(ctx, record)
	}
	// The elector sends one record a second time where it had no answer to the first. Others, who may have seen the first, would not see that
	// the second is a renewal.
	sent := time.Now()
	record.RenewTime = metav1.NewTime(sent)
	if err := send(ctx, record); err != nil {
		return err
	}
	end := l.endOf(sent)
	l.held.Store(&end)
	return nil
}

// endOf returns when a lease that was sent at a time is no longer held: at the end of renewDeadline, or when others can count it as expired
// where that is earlier. They see the duration in whole seconds, and of two renewals within a second by the clock only the first.
func (l *lock) endOf(sent time.Time) time.Time {
	end := sent.Add(l.renewDeadline)
	second := sent.Add(-time.Duration(sent.Nanosecond())) // not Truncate, which would drop the monotonic clock
	if expired := second.Add(l.duration.Truncate(time.Second)); expired.Before(end) {
		return expired
	}
	return end
}

// end returns when the lease is no longer held unless it is renewed; the zero time if it is not held.
func (l *lock) end() time.Time {
	if end := l.held.Load(); end != nil {
		return *end
	}
	return time.Time{}
}
