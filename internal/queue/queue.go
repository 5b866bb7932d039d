package queue

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Config is the configuration of a queue.
type Config struct {
	// Profiles are the profiles of the pods, by scheduler name. The QueueSort plugin of
	// the first profile orders all pods.
	Profiles []*plugin.Profile
	// State is the state that plugins read at PreEnqueue. The loop writes it between
	// calls of the queue. If it is nil, New creates a state.
	State *state.State
	// BackoffInitial and MaxBackoff bound the wait after a failed attempt.
	BackoffInitial, MaxBackoff time.Duration
	// MaxParked is the time after which a parked pod is retried without an event.
	MaxParked time.Duration
	// Groups means that the members of a pod group have their turn together. Otherwise
	// each pod waits alone, even if it names a group.
	Groups bool
	// Trees means that pod groups may belong to composite pod groups, and that all groups
	// of a tree have their turn together.
	Trees bool
	// GroupPatience is how long a rejected pod group lets other pods overtake it. 0 means
	// for ever, and also that no event wakes such a group.
	GroupPatience time.Duration
	// Slice bounds the hints that one call of Wake runs, and the pods that one call of
	// Wake or Pop moves. Later calls continue. 0 means DefaultSlice.
	Slice int
}

// Defaults of kube-scheduler.
const (
	DefaultBackoffInitial = time.Second
	DefaultMaxBackoff     = 10 * time.Second
	DefaultMaxParked      = 5 * time.Minute
)

// DefaultGroupPatience is Berth's own default.
const DefaultGroupPatience = time.Minute

// parkedCheck is the interval between checks for pods that are parked for too long.
const parkedCheck = 30 * time.Second

// Queue holds the waiting pods. One goroutine uses it.
//
// The invariants at the fields hold between two calls of its methods. Audit checks them.
type Queue struct {
	config   Config
	profiles map[string]profile
	// Invariant: each entry is listed under its pod's key. None is arriving or gone.
	entries map[model.PodKey]*entry
	// Invariant: each heap holds exactly the entries of its places, each once and at its
	// index. Active entries with an account are in the heap of the account instead of
	// active. A parent never comes after its child.
	active heap[*entry]
	// rejected pods that back off; popped early if no pod is active and early allows it
	backoff  heap[*entry]
	errored  heap[*entry] // pods whose attempt ended in an error; never popped early
	idle     heap[*entry] // parked and gated pods, the longest idle first
	accounts accounts
	parked   parkedIndex
	waking   waking

	// Invariant: counts has the number of entries in each place.
	counts [places]int
	// Invariant: each member of a group waits in it, and each group has a member. A group
	// is listed under the PodGroups of its members: its own, or those in its tree.
	groups map[model.GroupKey]*group
	// Invariant: trees has exactly the groups that are trees, listed under the
	// CompositePodGroup at the top.
	trees map[model.GroupKey]*group
	// Invariant: joined has the number of joined members by the place of their group's
	// head.
	joined [places]int
	// Invariant: gatedBy has exactly the PreEnqueue plugins that gate pods. A gated pod
	// has one plugin.
	gatedBy map[pluginKey]int // gated pods by their PreEnqueue plugin
	// Invariant: awaited lists exactly the pods that wait for a last victim, under that
	// victim. No list is empty.
	awaited map[types.UID][]*entry
	// Invariant: leaving lists each pod under each victim that must still go, and no
	// other pod. No list is empty.
	leaving  map[types.UID][]*entry
	moves    []Move
	taken    int // length of moves at the last TakeMoves
	missed   missed
	now      time.Time // of the last call of Wake
	batches  uint64    // number of calls of Wake
	arrivals uint64
	early    earlyTries
	last     lastTurns
	checked  time.Time // last check for pods that are idle for too long
	flushing bool      // the pods of this check have not all been moved
	holding  bool      // Pop stopped while it set aside pods that await a write
}

// Move is a move of one pod, or of members of a group together, in kube-scheduler's
// terms.
type Move struct {
	Queue string // active, backoff or unschedulable
	Event string // the cause, such as AssignedPodDelete or BackoffComplete
	Pods  int
	// Pod moved alone, or to the place of its gate. It is nil for a move of a group.
	Pod *model.Pod
	// Group moved with its members. Composite means that it is a CompositePodGroup. Group
	// is nil for a pod.
	Group     *model.GroupKey
	Composite bool
}

// The causes of moves besides the events of the cluster.
const (
	podAdd        = "UnscheduledPodAdd"
	podUpdate     = "UnscheduledPodUpdate"
	attemptFailed = "ScheduleAttemptFailure"
	backoffOver   = "BackoffComplete"
	poppedEarly   = "PopFromBackoffQ"
	idleTooLong   = "UnschedulableTimeout"
	forced        = "ForceActivate"
	groupChanged  = "PodGroupUpdate"
	// toGoOn is empty, because kube-scheduler has no such move: an unfinished turn
	// remains the same attempt.
	toGoOn    = ""
	givenBack = "ResourceClaimGivenBack"
)

// entry is one waiting pod, or the head of a group.
type entry struct {
	pod    *model.Pod
	group  *group // the group of a member; nil for most pods and while the pod is binding
	heads  *group // the group of a head; nil for a pod
	place  place
	index  int           // in the heap of its place
	sorted plugin.Sorted // the value that the QueueSort plugin caches for the pod
	// Invariant: all entries have different orders, none later than the last arrival.
	order uint64 // of arrival; the tie-break between pods of equal priority and time

	since time.Time // time of arrival, or of the last failed attempt
	// Invariant: ready is set, except for gated and joined pods that have not been ready
	// yet. It is also set for all members of an active group.
	ready      time.Time     // when the pod could first be tried
	until      time.Time     // end of the backoff
	lasts      time.Duration // of a group: the full duration of the backoff
	flushed    time.Time     // when it was last flushed for being idle too long
	afterFlush bool          // the next attempt results from that
	unfinished bool          // its last turn continues in its next turn
	rounds     int           // unfinished rounds of its last turn
	// Invariant: only active entries have an account, and it belongs to their namespace.
	account *account
	cost    int64      // units of its last turn, 0 before the first expensive turn
	costs   bool       // cost belongs to an unfinished turn
	woken   plan.Woken // why the pod, or the group, became ready
	early   bool       // the last attempt was made before the backoff ended
	// Invariant: neither rejections nor errors are more than attempts.
	attempts   int
	rejections int // attempts that ended in a rejection
	errors     int // attempts in a row that ended in an error
	// the plugins that rejected the pod, or the PreEnqueue plugin that gates it
	plugins []string
	// Invariant: pending is a subset of plugins, and empty for a gated pod.
	pending []string // the plugins that answered Pending
	// Invariant: an indexed pod has a membership in each index of each of its plugins, in
	// their order; other pods have none. A pod is indexed if it is parked, a listed
	// member of a group, or gated by a plugin whose events can release it. parking is not
	// later than the last parking.
	memberships []membership
	parking     uint64     // the number of its last parking.
	parkedLast  *model.Pod // the version that was parked last.
	parkedUnder []string   // the plugins that had rejected that version
	listed      bool       // it is a joined member, and its group awaits events for it
	// when it was parked, a write in flight released a claim of the pod
	awaitsWrite bool
	batch       uint64 // the last batch of changes with its rejection at Permit
	// Invariant: permits is set only for binding pods, and from is not later than the
	// last stored event.
	permits bool   // the binding waits, or may wait, for plugins at Permit
	from    uint64 // if permits: the first event that it missed
	// Invariant: activated is set only for pods that are deciding or at Permit.
	activated bool // a plugin has requested a retry
	// Invariant: Queue.awaited lists exactly the pods with an awaited last victim. A pod
	// that DefaultPreemption gates has such a victim. A parked pod does not begin or stop
	// to wait for victims: its cohort depends on that.
	preempting preempting
}

// New builds a queue. It returns an error for invalid times, a negative slice, or a
// missing profile. Package config validates the configuration file.
func New(config Config) (*Queue, error) {
	switch {
	case config.BackoffInitial <= 0:
		return nil, fmt.Errorf("initial backoff %v: must be greater than 0", config.BackoffInitial)
	case config.MaxBackoff < config.BackoffInitial:
		return nil, fmt.Errorf("maximal backoff %v: must not be less than the initial backoff %v", config.MaxBackoff, config.BackoffInitial)
	case config.MaxParked <= 0:
		return nil, fmt.Errorf("maximal time parked %v: must be greater than 0", config.MaxParked)
	}
	if config.GroupPatience < 0 {
		return nil, fmt.Errorf("patience of pod groups %v: must not be negative", config.GroupPatience)
	}
	if config.Slice < 0 {
		return nil, fmt.Errorf("slice of %d hints or moves: must not be negative", config.Slice)
	}
	if config.Slice == 0 {
		config.Slice = DefaultSlice
	}
	if len(config.Profiles) == 0 {
		return nil, errors.New("there is no profile")
	}
	if config.State == nil {
		config.State = state.New()
	}
	profiles := map[string]profile{}
	for _, p := range config.Profiles {
		profiles[p.Name] = newProfile(p)
	}
	byTurn := inTurn(config.Profiles[0].QueueSort)
	return &Queue{
		accounts: accounts{none: config.Profiles[0].QueueSort.Name != ownSort, byNamespace: map[string]*account{}},
		config:   config, profiles: profiles,
		entries: map[model.PodKey]*entry{},
		groups:  map[model.GroupKey]*group{},
		trees:   map[model.GroupKey]*group{},
		active:  newHeap(byTurn),
		backoff: newHeap(byWindowThen(byTurn)),
		errored: newHeap(byWindow),
		idle:    newHeap(byIdleness),
		gatedBy: map[pluginKey]int{},
		awaited: map[types.UID][]*entry{},
		leaving: map[types.UID][]*entry{},
		parked:  newParkedIndex(byTurn),
	}, nil
}

// State returns the state that plugins read at PreEnqueue. The changes behind a Delta
// must be applied to it before Wake receives the Delta.
func (q *Queue) State() *state.State { return q.config.State }

// Wake applies a delta: pods that came, went or failed to bind, evictions, and events
// that may help parked pods. Remaining events are left to the next call; see Unfinished.
func (q *Queue) Wake(now time.Time, delta state.Delta) {
	q.now = now
	q.batches++
	q.missed.looked = 0
	q.left(delta.Evicted)
	q.last.add(delta.Undecided)
	for _, f := range delta.Failed {
		if len(f.Rejectors) > 0 {
			q.rejectedAtPermit(now, f.Pod, f.Rejectors)
			continue
		}
		q.fail(now, f.Pod)
	}
	for _, key := range delta.Left {
		if e := q.entries[key]; e != nil {
			q.drop(e)
		}
	}
	for _, pod := range delta.Arrived {
		q.arrive(now, pod)
	}
	for _, key := range delta.Groups {
		q.reviewPodGroup(now, key)
	}
	for _, key := range delta.Composites {
		for _, below := range slices.SortedFunc(q.config.State.View().GroupsBelow(key), byName) {
			q.reviewPodGroup(now, below)
		}
	}
	for _, result := range delta.Preempted {
		q.preempted(now, result)
	}
	for _, uid := range delta.Moved {
		q.gone(uid)
	}
	for i := range delta.Events {
		event := &delta.Events[i]
		victim, ok := q.victimOf(event)
		if ok {
			q.gone(victim)
		}
		q.missed.add(*event)
		q.deliver(*event, ok)
	}
	q.hearOverdue(now)
	q.wakeSlice(now)
}

// Pop returns the attempt whose turn it is, if any is ready: for a pod, or for all
// waiting members of a group.
func (q *Queue) Pop(now time.Time) (a *plan.Attempt, ok bool) {
	q.flush(now)
	e, early, ok := q.first(now)
	for held := 0; ok && (q.holdBack(now, e) || q.postpone(now, e)); held++ {
		if q.holding = held == q.config.Slice; q.holding {
			return nil, false
		}
		e, early, ok = q.first(now)
	}
	q.holding = false
	if !ok {
		return nil, false
	}
	e.early = early || e.early && e.unfinished
	if e.heads != nil {
		e.early = e.early || e.heads.wait.due.After(now)
		return q.popGroup(now, e.heads), true
	}
	rounds := e.goesOn()
	q.move(e, deciding, "")
	e.attempts++
	pod := plan.QueuedPod{Pod: e.pod, Attempt: e.attempts, Since: e.ready, AfterFlush: e.afterFlush, Popped: now, Woken: e.woken}
	e.afterFlush = false
	a = plan.ForPod(pod)
	a.Rounds = rounds
	return a, true
}

// goesOn begins a round of an entry's turn, and returns the number of the turn's earlier
// rounds.
func (e *entry) goesOn() (rounds int) {
	if !e.unfinished {
		e.rounds = 0
	}
	e.unfinished = false
	return e.rounds
}

// first returns the pod, or the head of the group, whose turn is next.
func (q *Queue) first(now time.Time) (e *entry, early, ok bool) {
	if e = q.firstReady(); e != nil {
		return e, false, true
	}
	// An unfinished step of waking, flushing or sorting may still make a pod ready.
	if e = q.backoff.first(); e == nil || q.Waking() || q.flushing || q.accounts.sorting || !q.early.allowed(now) {
		return nil, false, false
	}
	if e.heads != nil {
		q.moveHead(e.heads, active, poppedEarly)
		return e, true, true
	}
	q.move(e, active, poppedEarly)
	e.beReady(now)
	return e, true, true
}

// Renominate replaces pods by versions that differ only in the nominated node. The API
// does not show these nominations yet. No pod is woken.
func (q *Queue) Renominate(pods ...*model.Pod) {
	for _, pod := range pods {
		if e := q.entries[pod.Key()]; e != nil && e.pod.UID == pod.UID {
			e.pod = pod // neither the order of turns nor the index depends on nominations
		}
	}
}

// Waiting returns a pod that waits or is being decided about. It returns nil if the queue
// has no such pod with this UID.
func (q *Queue) Waiting(key model.PodKey, uid types.UID) *model.Pod {
	e := q.entries[key]
	if e == nil || e.pod.UID != uid || e.place == binding {
		return nil
	}
	return e.pod
}

// Settle applies the decisions of the attempt that was popped last.
func (q *Queue) Settle(now time.Time, a *plan.Attempt) {
	if a.Group != nil {
		q.settleGroup(now, a)
		return
	}
	d := &a.Members[0]
	e := q.entries[d.Pod.Key()]
	switch {
	case e == nil:
	case a.Outcome == plan.Unfinished:
		q.goOn(e, d)
	default:
		e.permits = slices.ContainsFunc(d.Placement.Steps, atPermit)
		// before parking, because waiting for victims limits the events that wake the pod
		q.preempts(e, d)
		q.settle(now, e, d)
	}
}

func (q *Queue) settle(now time.Time, e *entry, d *plan.Decision) {
	if e.early && d.Outcome != plan.Placed {
		q.early.inVain(now, 1)
	}
	switch d.Outcome {
	case plan.Placed:
		e.activated = e.activated && e.permits
		q.move(e, binding, "")
	case plan.Terminating:
		q.drop(e)
	case plan.Failed, plan.NoNodes:
		q.fail(now, e.pod)
	case plan.Unschedulable:
		q.park(now, e, d.Rejection.Plugins, d.Rejection.Pending)
	default:
		panic(fmt.Sprintf("queue: the decision about pod %s is %s", e.pod, d.Outcome))
	}
}

// goOn puts a pod with an unfinished turn back to its place in the active queue. The turn
// does not count as an attempt.
func (q *Queue) goOn(e *entry, d *plan.Decision) {
	e.attempts--
	e.afterFlush, e.unfinished = d.AfterFlush, true
	e.rounds++
	q.move(e, active, toGoOn)
}

// park sets a pod aside until an event may resolve its rejection. A pod that was
// activated meanwhile is retried after its backoff.
func (q *Queue) park(now time.Time, e *entry, rejectors, pending []string) {
	e.since, e.errors = now, 0
	e.rejections++
	e.plugins, e.pending = rejectors, pending
	e.until = q.backoffEnd(e)
	activated := e.activated
	e.activated = false
	q.move(e, parked, attemptFailed)
	if activated {
		q.wake(now, e, attemptFailed, false)
	}
}

// Activate makes pods ready at once, at the request of plugins, if they wait for a
// backoff or an event. A pod that is being decided about or waits at Permit is retried
// after its backoff, if it is rejected. Pods that are ready or unknown do not change, nor
// do pods that a PreEnqueue plugin still gates.
func (q *Queue) Activate(now time.Time, keys []model.PodKey) {
	for _, key := range keys {
		e := q.entries[key]
		switch {
		case e == nil:
		case e.place == parked || e.place == gated:
			q.admit(now, e, active, forced)
		case e.place == backingOff || e.place == errorBackoff:
			q.move(e, active, forced)
		case e.place == joined && e.group.head.backsOff():
			e.group.head.until = time.Time{}
			q.review(now, e.group, forced)
		case e.place == deciding || e.place == binding && e.permits:
			e.activated = true
		}
	}
}

// Next returns when the queue has work without a change: unfinished work is due at once,
// later come ends of backoffs and checks for idle pods. ok is false if no pod waits for a
// time.
func (q *Queue) Next() (at time.Time, ok bool) {
	earliest := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if q.Unfinished() {
		earliest(q.now)
	}
	if q.backoff.size() > 0 {
		earliest(q.early.next())
	}
	if e := q.errored.first(); e != nil {
		earliest(e.until.Add(time.Second))
	}
	if len(q.waking.overdue) > 0 {
		earliest(q.waking.overdue[0].due)
	}
	if q.idle.size() > 0 {
		earliest(q.checked.Add(parkedCheck))
	}
	return at, ok
}

func (q *Queue) arrive(now time.Time, pod *model.Pod) {
	e := q.entries[pod.Key()]
	if e != nil && e.pod.UID != pod.UID {
		q.drop(e)
		e = nil
	}
	if e != nil {
		q.update(now, e, pod)
		return
	}
	q.arrivals++
	e = &entry{pod: pod, since: now, order: q.arrivals}
	q.entries[pod.Key()] = e
	q.counts[arriving]++
	q.admit(now, e, active, podAdd)
}

// update applies a new version of a waiting pod. A pod in a heap keeps its time. A parked
// pod is woken if the change may help it.
func (q *Queue) update(now time.Time, e *entry, pod *model.Pod) {
	switch e.place {
	case active, backingOff, errorBackoff:
		e.pod = pod
		q.heapOf(e, e.place).fix(e)
	case gated:
		before := e.pod
		e.pod = pod
		q.showUpdate(e, before)
		q.admit(now, e, active, podUpdate)
	case parked:
		q.updateRejected(now, e, pod)
	default:
		if e.listed {
			q.updateRejected(now, e, pod)
			return
		}
		e.pod = pod
	}
}

// showUpdate passes the changes of a gated pod to the hints of the plugin that gates it,
// as kube-scheduler does, because a plugin may track the pod there. PreEnqueue runs
// whatever the hints return, so that a change that a hint overlooks does not hold the pod
// for ever.
func (q *Queue) showUpdate(e *entry, before *model.Pod) {
	for _, action := range model.PodUpdates(before, e.pod) {
		q.helps(e, model.Event{Resource: model.TargetPodEvent, Action: action, OldPod: before, Pod: e.pod})
	}
}

// fail puts back a pod whose decision or binding ended in an error.
func (q *Queue) fail(now time.Time, pod *model.Pod) {
	e := q.entries[pod.Key()]
	if e == nil || e.pod.UID != pod.UID {
		return
	}
	e.pod = pod
	e.since, e.plugins, e.pending, e.activated = now, nil, nil, false
	e.errors++
	e.until = q.backoffEnd(e)
	// after its first error the group is retried at once
	if q.isGrouped(pod) && e.errors > 1 {
		q.backOffBinding(now, e)
	}
	q.admit(now, e, errorBackoff, attemptFailed)
}

// admit moves a pod to a place from which it can be popped, unless a PreEnqueue plugin
// gates the pod.
func (q *Queue) admit(now time.Time, e *entry, to place, why string) {
	plugin, _ := q.profiles[e.pod.SchedulerName].RunPreEnqueue(q.config.State.View(), e.pod)
	if plugin == "" && q.isPreempting(e) {
		plugin = preemptionPlugin
	}
	if q.isGrouped(e.pod) {
		q.admitMember(now, e, plugin, why)
		return
	}
	if plugin != "" {
		q.gate(e, plugin, why)
		return
	}
	if e.place == gated {
		q.ungate(e)
	}
	if to == active {
		e.beReady(now)
	}
	q.move(e, to, why)
}

// gate sets aside a pod that a PreEnqueue plugin gates. For a pod that is gated already,
// only the plugin changes.
func (q *Queue) gate(e *entry, plugin, why string) {
	if e.place == gated {
		q.ungate(e)
		q.idle.fix(e)
	} else {
		q.move(e, gated, why)
	}
	e.plugins, e.pending = []string{plugin}, nil
	q.gatedBy[e.gatedUnder()]++
	if p := q.profiles[e.pod.SchedulerName]; p.rechecks(plugin) {
		q.parked.add(e, p, q.config.State.View())
	}
}

func (q *Queue) ungate(e *entry) {
	if len(e.memberships) > 0 {
		q.parked.remove(e)
	}
	key := e.gatedUnder()
	if q.gatedBy[key]--; q.gatedBy[key] == 0 {
		delete(q.gatedBy, key)
	}
	e.plugins = nil
}

// beReady records when the pod could first be tried.
func (e *entry) beReady(now time.Time) {
	if e.ready.IsZero() {
		e.ready = now
	}
}

// helps reports whether the event may help the pod, by the registrations of the plugins
// that rejected it. atOnce means that such a plugin answered Pending.
func (q *Queue) helps(e *entry, event model.Event) (helps, atOnce bool) {
	registered := q.profiles[e.pod.SchedulerName].registered
	for _, plugin := range e.plugins {
		pending := slices.Contains(e.pending, plugin)
		if helps && !pending {
			continue
		}
		if slices.ContainsFunc(registered[plugin], func(r model.EventToRegister) bool { return r.Helps(e.pod, event) }) {
			if helps = true; pending {
				return true, true
			}
		}
	}
	return helps, false
}

// wake moves a parked or gated pod to where it can be retried after its backoff, or at
// once.
func (q *Queue) wake(now time.Time, e *entry, why string, atOnce bool) {
	if e.listed {
		q.wakeGroup(now, e.group, plan.Woken{Event: why, Plugin: e.wokenFor(why)}, atOnce)
		return
	}
	if !atOnce && q.isBackingOff(e, now) {
		q.admit(now, e, backingOff, why)
		return
	}
	q.admit(now, e, active, why)
}

// drop removes a pod from the queue.
func (q *Queue) drop(e *entry) {
	if e.place == gated {
		q.ungate(e)
	}
	q.forgetVictim(e)
	q.forgetLeaving(e)
	g := e.group
	if g != nil {
		if e.place == gated {
			g.held--
		}
	}
	q.move(e, gone, "")
	delete(q.entries, e.pod.Key())
	if g != nil {
		q.leave(e)
		q.review(q.now, g, groupChanged)
	}
}
