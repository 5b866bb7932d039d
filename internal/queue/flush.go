package queue

import "time"

// flush moves pods whose backoff has ended, and pods that have been idle for too long. It
// moves at most a slice of each; later calls continue.
func (q *Queue) flush(now time.Time) {
	moved := 0
	for _, h := range []*heap[*entry]{&q.backoff, &q.errored} {
		for e := h.first(); e != nil && !q.isBackingOff(e, now) && moved < q.config.Slice; e = h.first() {
			moved += e.moves()
			if e.heads != nil {
				q.moveHead(e.heads, active, backoffOver)
			} else {
				q.move(e, active, backoffOver)
			}
		}
	}
	if !q.flushing {
		// negative: the clock was set back
		if since := now.Sub(q.checked); since < parkedCheck && since >= 0 {
			return
		}
		q.checked, q.flushing = now, true
	}
	q.flushIdle(now)
}

// flushIdle continues with the pods that had been idle for too long at the last check.
func (q *Queue) flushIdle(now time.Time) {
	for range q.config.Slice {
		e := q.idle.first()
		if e == nil || q.checked.Sub(e.idleSince()) <= q.config.MaxParked {
			q.flushing = false
			return
		}
		e.flushed = q.checked
		if e.preempting.under == 0 {
			q.forgetVictim(e) // the deletion was answered, but the watch has not shown it
		}
		if e.place == gated {
			q.admit(now, e, active, idleTooLong)
			continue
		}
		e.afterFlush = true
		q.wake(now, e, idleTooLong, false)
	}
}
