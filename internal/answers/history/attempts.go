package history

import (
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// The first and the last attempts of a pod are stored.
const (
	firstKept = 2
	lastKept  = 6
)

// record has the attempts of one pod that was not placed at once.
type record struct {
	key     model.PodKey
	uid     types.UID
	profile string
	// attempts are the stored attempts, in order. noted counts all attempts.
	attempts []attempt
	noted    int
	bytes    int
	// The records are linked by the time of the last attempt.
	older, newer *record
}

// attempt is the result of one turn of a pod.
type attempt struct {
	at              int64 // in nanoseconds of Unix time
	number          int32
	nodes, feasible int32
	outcome         plan.Outcome
	grouped         bool
	woken           plan.Woken
	rejection       *plan.Rejection
	// text is the message of PostFilter plugins in addition to the rejection, or an
	// error.
	text   string
	detail uint64
	more   *more
	bytes  int // its size, without memory shared with the previous attempt or pod
}

// more has the fields that few attempts need.
type more struct {
	node      string // the node of the placement
	total     int64
	nominated string // the nominated node
	victims   []string
	evictions int
	// failed is the reason why the binding failed. rejectors are the plugins that
	// rejected the pod at Permit.
	failed    string
	rejectors []string
}

// The approximate sizes of the parts of a record, including the map entry.
const (
	recordBytes  = 320
	attemptBytes = 136
	moreBytes    = 160
	countBytes   = 32
	victimBytes  = 80
)

// maxText bounds the stored bytes of a text, maxVictims the named victims.
const (
	maxText    = 1024
	maxVictims = 5
)

// records has the attempts of pods. The pod with the oldest last attempt is dropped
// first.
type records struct {
	// Invariant: byPod lists each record under its key. From newest on, the older links
	// reach each record once, and the newer links lead back. bytes is the sum of the
	// sizes of the records, at most maxBytes.
	byPod           map[model.PodKey]*record
	newest, oldest  *record
	bytes, maxBytes int
	// last is the rejection that was recorded last. Similar pods in sequence share it.
	last *plan.Rejection
}

func newRecords(bytes int) records {
	return records{byPod: map[model.PodKey]*record{}, maxBytes: bytes}
}

// note records a decision about a pod.
func (x *records) note(d *plan.Decision, grouped bool) {
	q := &d.QueuedPod
	a := attempt{
		at: q.Popped.UnixNano(), number: int32(q.Attempt), nodes: int32(d.Nodes), feasible: int32(d.Feasible), outcome: d.Outcome, grouped: grouped, woken: q.Woken, detail: d.Details,
	}
	bytes := attemptBytes
	switch d.Outcome {
	case plan.Placed:
		a.more = &more{node: d.Placement.NodeName, total: d.Placement.Total}
	case plan.Unschedulable:
		a.rejection, a.text = d.Rejection, d.PostFilter
		if size := sizeOfRejection(d.Rejection); size > maxText {
			// add counts the text
			a.rejection, a.text = nil, cut(d.Rejection.Text(d.Nodes))
		} else if d.Rejection != x.last {
			bytes += size
			x.last = d.Rejection
		}
	case plan.Failed:
		a.text = cut(d.Err.Error())
	}
	if n := d.NominationOf(q.Pod); n.Mode == plan.Set || len(d.Evictions) > 0 {
		a.more = moreOf(&a)
		a.more.nominated, a.more.evictions = n.NodeName, len(d.Evictions)
		for i := range d.Evictions[:min(maxVictims, len(d.Evictions))] {
			a.more.victims = append(a.more.victims, d.Evictions[i].Pod.String())
		}
	}
	x.add(q.Pod, a, bytes)
}

// add adds an attempt to the record of a pod, which becomes the newest record.
func (x *records) add(pod *model.Pod, a attempt, bytes int) {
	key := pod.Key()
	r := x.byPod[key]
	if r != nil && r.uid != pod.UID {
		x.drop(r)
		r = nil
	}
	if r == nil {
		r = &record{key: key, uid: pod.UID, profile: pod.SchedulerName, bytes: recordBytes}
		x.byPod[key] = r
		x.bytes += r.bytes
	} else {
		x.unlink(r)
	}
	x.link(r)
	if before := r.last(); before != nil && before.text == a.text {
		a.text = before.text
	} else {
		bytes += len(a.text)
	}
	if a.more != nil {
		bytes += moreBytes + victimBytes*len(a.more.victims) + len(a.more.failed)
	}
	r.noted++
	a.bytes = bytes
	if len(r.attempts) == firstKept+lastKept {
		bytes -= r.attempts[firstKept].bytes
		copy(r.attempts[firstKept:], r.attempts[firstKept+1:])
		r.attempts[len(r.attempts)-1] = a
	} else {
		r.attempts = append(r.attempts, a)
	}
	x.grow(r, bytes)
}

// bindingFailed records that the binding of a placed pod has failed.
func (x *records) bindingFailed(now time.Time, f *state.Failure) {
	why := "the binding failed"
	if f.Err != nil {
		why = cut(f.Err.Error())
	}
	if r := x.byPod[f.Pod.Key()]; r != nil && r.uid == f.Pod.UID {
		if a := r.last(); a != nil && a.outcome == plan.Placed && a.more.failed == "" {
			a.more.failed, a.more.rejectors = why, f.Rejectors
			a.bytes += len(why)
			x.grow(r, len(why))
			return
		}
	}
	x.add(f.Pod, attempt{at: now.UnixNano(), outcome: plan.Placed, more: &more{failed: why, rejectors: f.Rejectors}}, attemptBytes)
}

// grow adds to the size of a record, and drops the oldest records above the limit.
func (x *records) grow(r *record, bytes int) {
	r.bytes += bytes
	x.bytes += bytes
	for x.bytes > x.maxBytes && x.oldest != nil {
		x.drop(x.oldest)
	}
}

func (r *record) last() *attempt {
	if len(r.attempts) == 0 {
		return nil
	}
	return &r.attempts[len(r.attempts)-1]
}

func moreOf(a *attempt) *more {
	if a.more == nil {
		return &more{}
	}
	return a.more
}

func (x *records) link(r *record) {
	r.older, r.newer = x.newest, nil
	if x.newest != nil {
		x.newest.newer = r
	} else {
		x.oldest = r
	}
	x.newest = r
}

func (x *records) unlink(r *record) {
	if r.newer != nil {
		r.newer.older = r.older
	} else {
		x.newest = r.older
	}
	if r.older != nil {
		r.older.newer = r.newer
	} else {
		x.oldest = r.newer
	}
	r.older, r.newer = nil, nil
}

func (x *records) drop(r *record) {
	x.unlink(r)
	delete(x.byPod, r.key)
	x.bytes -= r.bytes
}

func sizeOfRejection(r *plan.Rejection) int {
	size := 128 + len(r.Group) + len(r.PreFilter)
	for i := range r.Counts {
		size += countBytes + len(r.Counts[i].Reason)
	}
	return size
}

// cut shortens a long text, at a character boundary.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > maxText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
