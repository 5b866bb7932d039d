package kube

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is the elector's lease, with the time until which it is held. The elector lacks
// that time: it counts from when it last saw a change of the lease. After a failed write,
// a leader may count a change when it reads back its own earlier write.
//
// The elector reads and writes the lease, one request at a time; any goroutine may call
// end.
type lock struct {
	resourcelock.Interface
	duration, renewDeadline time.Duration
	held                    atomic.Pointer[time.Time] // nil while the lease is not held
	kept                    atomic.Bool               // the lease is not released
}

// errKept is the reason why the lease is not released.
var errKept = errors.New("the lease is left to expire")

// Create writes a new lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update acquires, renews or releases the lease.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

// write records until when the written lease is held. The time counts from before the
// request was sent, because no other replica can have seen the lease earlier, however
// late the answer is. A failed write may have been stored, but does not count.
func (l *lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, send func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	if record.HolderIdentity != l.Identity() {
		l.held.Store(nil) // before sending: another replica may lead before the answer arrives
		if l.kept.Load() {
			return errKept
		}
		return send(ctx, record)
	}
	// The elector sends a record again if it got no answer. Other replicas may have seen
	// the first request, and without a new time they would not recognize the second as a
	// renewal.
	sent := time.Now()
	record.RenewTime = metav1.NewTime(sent)
	if err := send(ctx, record); err != nil {
		return err
	}
	end := l.endOf(sent)
	l.held.Store(&end)
	return nil
}

// endOf returns the end of a lease that was sent at a time: after renewDeadline, or when
// others may count it as expired, whichever is earlier. Others see the duration in whole
// seconds. Of two renewals within the same second they see only the first.
func (l *lock) endOf(sent time.Time) time.Time {
	end := sent.Add(l.renewDeadline)
	// Truncate would drop the monotonic clock.
	second := sent.Add(-time.Duration(sent.Nanosecond()))
	if expired := second.Add(l.duration.Truncate(time.Second)); expired.Before(end) {
		return expired
	}
	return end
}

// end returns when the lease ends unless it is renewed; the zero time if it is not held.
func (l *lock) end() time.Time {
	if end := l.held.Load(); end != nil {
		return *end
	}
	return time.Time{}
}
