package kube

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is the lease as the elector reads and writes it, with the time until which it is held. The elector does not have that time: it counts
// from when it last saw the lease change, and after a failed write a leader may see a change when it reads its own earlier write.
//
// The elector reads and writes the lease, one request at a time; any goroutine may call end.
type lock struct {
	resourcelock.Interface
	duration, renewDeadline time.Duration
	held                    atomic.Pointer[time.Time] // nil while the lease is not held
	kept                    atomic.Bool               // the lease is not given back
}

// errKept is why the lease is not given back.
var errKept = errors.New("the lease is left to expire")

// Create writes a lease where there is none.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update takes the lease over, renews it or gives it back.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

// write records until when the written lease is held. It counts from before the request was sent, because no other replica can have seen the
// lease earlier, however late the answer is. A write that fails may have been stored, but does not count.
func (l *lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, send func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	if record.HolderIdentity != l.Identity() {
		l.held.Store(nil) // before it is sent: another replica may lead before the answer comes
		if l.kept.Load() {
			return errKept
		}
		return send(ctx, record)
	}
	// The elector sends a record a second time if the first had no answer. Other replicas, which may have seen the first, would not see that
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
