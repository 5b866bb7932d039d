package history

import (
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/state"
)

// Of the attempts of a pod the first ones are kept, and the last ones.
const (
	firstKept = 2
	lastKept  = 6
)

// record is the attempts of one pod that was not placed at once.
type record struct {
	key     model.PodKey
	uid     types.UID
	profile string
	// attempts are those that are kept, in their order; noted is how many there were.
	attempts []attempt
	noted    int
	bytes    int
	// The records are linked by the time of the last attempt.
	older, newer *record
}

// attempt is how one turn of a pod ended.
type attempt struct {
	at              int64 // in nanoseconds of Unix time
	number          int32
	nodes, feasible int32
	outcome         plan.Outcome
	grouped         bool
	woken           plan.Woken
	rejection       *plan.Rejection
	// text is what PostFilter plugins add to the rejection, or an error.
	text   string
	detail uint64
	more   *more
	bytes  int // that it takes, without what it shares with the attempt before or with the pod before
}

// more is what only some attempts have.
type more struct {
	node      string // that the pod was placed on
	total     int64
	nominated string // that the pod was nominated to
	victims   []string
	evictions int
	// failed is why the binding failed, and by whom it was rejected at Permit.
	failed    string
	rejectors []string
}

// What parts of a record take, about, with the entry of the map.
const (
	recordBytes  = 320
	attemptBytes = 136
	moreBytes    = 160
	countBytes   = 32
	victimBytes  = 80
)

// textMax is how much of a long text is kept; victimsMax how many victims are named.
const (
	textMax    = 1024
	victimsMax = 5
)

// records are the attempts of pods, the pod tried longest ago forgotten first.
type records struct {
	// Invariant: byPod lists each record under its key; from newest on, older links lead to each of them once, and newer links back. bytes is the sum of theirs, at most bytesMax.
	byPod           map[model.PodKey]*record
	newest, oldest  *record
	bytes, bytesMax int
	// last is the rejection that was noted last: alike pods that come one after another share it.
	last *plan.Rejection
}

func newRecords(bytes int) records {
	return records{byPod: map[model.PodKey]*record{}, bytesMax: bytes}
}

// note notes a decision about a pod.
func (x *records) note(d *plan.Decision, detail uint64, grouped bool) {
	q := &d.Pods[0]
	a := attempt{
		at: q.Popped.UnixNano(), number: int32(q.Attempt), nodes: int32(d.Nodes), feasible: int32(d.Feasible), outcome: d.Outcome, grouped: grouped, woken: q.Woken, detail: detail,
	}
	bytes := attemptBytes
	switch d.Outcome {
	case plan.Placed:
		a.more = &more{node: d.Placements[0].NodeName, total: d.Placements[0].Total}
	case plan.Unschedulable:
		a.rejection, a.text = d.Rejection, d.PostFilter
		if size := sizeOfRejection(d.Rejection); size > textMax {
			a.rejection, a.text = nil, cut(d.Rejection.Text(d.Nodes)) // add counts the text
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
		for i := range d.Evictions[:min(victimsMax, len(d.Evictions))] {
			a.more.victims = append(a.more.victims, d.Evictions[i].Pod.String())
		}
	}
	x.add(q.Pod, a, bytes)
}

// add adds an attempt to the record of a pod, which becomes the newest.
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

// bindingFailed notes that the binding of a pod failed that had been placed.
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

// grow counts bytes of a record, and forgets the oldest records if there are too many.
func (x *records) grow(r *record, bytes int) {
	r.bytes += bytes
	x.bytes += bytes
	for x.bytes > x.bytesMax && x.oldest != nil {
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

// cut cuts a long text, between two characters.
func cut(text string) string {
	if len(text) <= textMax {
		return text
	}
	end := textMax
	for end > textMax-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
