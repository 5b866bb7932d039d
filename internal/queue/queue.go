package queue

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/slab"
	"github.com/berth-scheduler/berth/internal/state"
)

// Config is the configuration of a queue.
type Config struct {
	// Profiles are the scheduler names of the pods, with their plugins. The first one's QueueSort orders all pods.
	Profiles []*plugin.Profile
	// State is what plugins read at PreEnqueue. The loop that the queue is for writes it, between two calls of the queue; if it is nil, New makes one.
	State *state.State
	// BackoffInitial and BackoffMax bound the wait after a failed attempt.
	BackoffInitial, BackoffMax time.Duration
	// ParkedMax is how long a pod is parked before it is tried again although nothing happened.
	ParkedMax time.Duration
	// Groups means that the members of a pod group have their turn together. Otherwise each pod waits alone, whatever group it names.
	Groups bool
	// Trees means that pod groups may be parts of composite ones, and that all groups of a tree have their turn together.
	Trees bool
	// GroupPatience is how long a pod group that is rejected lets other pods overtake it;
	// 0 means for ever, and that no event wakes such a group.
	GroupPatience time.Duration
	// Slice is how many hints one call of Wake asks, and how many pods one call of Wake or Pop moves, before it leaves the rest to the next; 0
	// means DefaultSlice.
	Slice int
}

// Defaults of kube-scheduler.
const (
	DefaultBackoffInitial = time.Second
	DefaultBackoffMax     = 10 * time.Second
	DefaultParkedMax      = 5 * time.Minute
)

// DefaultGroupPatience is Berth's own.
const DefaultGroupPatience = time.Minute

// parkedCheck is how often pods that are parked for too long are looked for.
const parkedCheck = 30 * time.Second

// Queue holds the waiting pods. One goroutine uses it.
//
// What must hold between two calls of its methods stands next to the fields, as invariants. Audit checks them.
type Queue struct {
	config   Config
	profiles map[string]profile
	// Invariant: each entry is listed under its pod's key. None is arriving or gone.
	entries map[model.PodKey]*entry
	// Invariant: each heap holds exactly the entries of its places, each once and at
	// its index. Active entries with an account are in the heap of the account instead
	// of active. A parent never comes after its child.
	active   heap[*entry]
	backoff  heap[*entry] // rejected pods that back off; taken early when no pod is active, as far as early allows
	errored  heap[*entry] // pods whose attempt ended in an error; they always wait
	idle     heap[*entry] // parked and gated pods, the longest idle first
	accounts accounts
	parked   parkedIndex
	waking   waking

	// Invariant: counts is how many entries are in each place.
	counts [places]int
	// Invariant: each member of a group waits in it, and each group has a member. It is listed under the PodGroups of its members: its own, or those of a tree.
	groups map[model.GroupKey]*group
	// Invariant: trees lists the groups that are trees under the CompositePodGroup at the top, and no other.
	trees map[model.GroupKey]*group
	// Invariant: joined is how many joined members have a group whose head is in each place.
	joined [places]int
	// Invariant: gatedBy has exactly the PreEnqueue plugins that hold pods. A gated pod has one plugin.
	gatedBy map[pluginKey]int // gated pods by the PreEnqueue plugin that holds them
	// Invariant: awaited lists each pod under the last victim that it waits for, and no other; no list is empty.
	awaited map[types.UID][]*entry
	// Invariant: leaving lists each pod under each victim that it waits for to be gone, and no other; no list is empty.
	leaving  map[types.UID][]*entry
	moves    []Move
	works    slab.Slab[plan.QueuedPod]
	missed   missed
	now      time.Time // of the last call of Wake
	batches  uint64    // of changes that Wake has taken in
	arrivals uint64
	early    earlyTries
	last     lastTurns
	checked  time.Time // when pods that are idle for too long were last looked for
	flushing bool      // not all of them have been moved yet
	holding  bool      // Pop stopped while it set aside pods that await a write
}

// Move is pods that came to wait somewhere, in kube-scheduler's words: one, or members of a group that moved together.
type Move struct {
	Queue string // active, backoff or unschedulable
	Event string // what made them move, such as AssignedPodDelete or BackoffComplete
	Pods  int
}

// What makes pods move besides the events of the cluster.
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

// entry is one waiting pod.
type entry struct {
	pod   *model.Pod
	group *group // with which it waits, nil for most pods and while it is binding
	heads *group // that it stands for; nil for a pod
	place place
	index int // in the heap of its place
	kept  any // what the QueueSort plugin has made of the pod
	// Invariant: no two entries have the same order, and none a later one than the last arrival.
	order uint64 // of arrival; decides between pods of equal priority and time

	since time.Time // of arrival, or of the last failed attempt
	// Invariant: ready is known of every pod but those that are gated or joined, which may not have been ready yet; and of the members of an active group.
	ready      time.Time     // when it first could be tried
	until      time.Time     // end of the backoff
	lasts      time.Duration // how long it lasts from its beginning, of a group
	flushed    time.Time     // when it was last looked at only because it was idle for long
	afterFlush bool          // the next attempt was caused by that
	unfinished bool          // its last turn continues in its next
	rounds     int           // of its last turn that ended unfinished
	// Invariant: only active entries have an account, and it belongs to their
	// namespace.
	account *account
	cost    int64      // units of its last turn, 0 if none was expensive yet
	costs   bool       // cost belongs to an unfinished turn
	woken   plan.Woken // what made the pod, or the group, ready
	early   bool       // the last attempt was made before the backoff ended
	// Invariant: neither rejections nor errors are more than attempts.
	attempts   int
	rejections int      // attempts that ended in a rejection
	errors     int      // attempts in a row that ended in an error
	plugins    []string // that rejected the pod, or the PreEnqueue plugin that holds it
	// Invariant: each of pending is one of plugins; a gated pod has none.
	pending []string // those of plugins that answered Pending
	// Invariant: a parked pod, a listed member of a group, and a gated pod whose plugin has it looked at again, has a membership in each index of each of its plugins, in their
	// order; other pods have none. Its parking is not later than the last.
	memberships []membership
	parking     uint64     // the number of its last parking
	parkedLast  *model.Pod // the version that was parked last
	parkedUnder []string   // and the plugins that had rejected it
	listed      bool       // it is a joined member that its group listens for
	awaitsWrite bool       // when it was parked, a write in flight gave back a claim of it
	batch       uint64     // the last batch of changes in which it was rejected at Permit
	// Invariant: only a pod that is binding permits, and from is not after the last event that was kept.
	permits bool   // the binding waits, or may, for plugins at Permit
	from    uint64 // then, the first event that it missed
	// Invariant: only a pod that is deciding, or at Permit, is activated.
	activated bool // a plugin has asked to have it tried again
	// Invariant: a pod whose last victim is awaited is listed in Queue.awaited, and no other. A pod that DefaultPreemption holds awaits one. While a pod
	// is parked, it either awaits room or does not; that changes in no parking.
	preempting preempting
}

// New builds a queue. It checks the times; config has checked the file that they come from.
func New(config Config) (*Queue, error) {
	switch {
	case config.BackoffInitial <= 0:
		return nil, fmt.Errorf("initial backoff %v: must be greater than 0", config.BackoffInitial)
	case config.BackoffMax < config.BackoffInitial:
		return nil, fmt.Errorf("maximal backoff %v: must not be less than the initial backoff %v", config.BackoffMax, config.BackoffInitial)
	case config.ParkedMax <= 0:
		return nil, fmt.Errorf("maximal time parked %v: must be greater than 0", config.ParkedMax)
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
		accounts: accounts{none: config.Profiles[0].QueueSort.Name() != ownSort, byNamespace: map[string]*account{}},
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

// State returns the state that plugins read at PreEnqueue. It must have taken in what a Delta came from when Wake gets that.
func (q *Queue) State() *state.State { return q.config.State }

// Wake takes in what happened: pods that came, went or failed to bind, evictions, and events that may help those that are parked. It may leave events to the
// next call; see Unfinished.
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
		q.hear(*event, ok)
	}
	q.hearOverdue(now)
	q.wakeSlice(now)
}

// Pop returns the work whose turn it is, if any is ready: a pod, or all waiting members of a group.
func (q *Queue) Pop(now time.Time) (plan.Work, bool) {
	q.flush(now)
	e, early, ok := q.first(now)
	for held := 0; ok && q.holdBack(now, e); held++ {
		if q.holding = held == q.config.Slice; q.holding {
			return plan.Work{}, false
		}
		e, early, ok = q.first(now)
	}
	q.holding = false
	if !ok {
		return plan.Work{}, false
	}
	e.early = early || e.early && e.unfinished
	if e.heads != nil {
		return q.popGroup(now, e.heads), true
	}
	rounds := e.goesOn()
	q.move(e, deciding, "")
	e.attempts++
	pod := plan.QueuedPod{Pod: e.pod, Attempt: e.attempts, Since: e.ready, AfterFlush: e.afterFlush, Popped: now, Woken: e.woken}
	e.afterFlush = false
	return plan.Work{Pods: q.works.One(pod), Rounds: rounds}, true
}

// goesOn begins a round of an entry's turn, and returns the number of the turn's earlier rounds.
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

// Renominate replaces pods by versions that differ in the nominated node alone: what was decided, and the API does not show yet. That wakes none of
// them.
func (q *Queue) Renominate(pods ...*model.Pod) {
	for _, pod := range pods {
		if e := q.entries[pod.Key()]; e != nil && e.pod.UID == pod.UID {
			e.pod = pod // neither the order of turns nor what can wake a pod depends on it
		}
	}
}

// Waiting returns a pod that waits in the queue or is being decided about, nil if there is none such with this UID.
func (q *Queue) Waiting(key model.PodKey, uid types.UID) *model.Pod {
	e := q.entries[key]
	if e == nil || e.pod.UID != uid || e.place == binding {
		return nil
	}
	return e.pod
}

// Settle takes in the decision about the pods that were popped last.
func (q *Queue) Settle(now time.Time, d plan.Decision) {
	for i := range d.Pods {
		if e := q.entries[d.Pods[i].Pod.Key()]; e != nil {
			if d.Outcome == plan.Unfinished {
				q.goOn(e, &d)
				continue
			}
			e.permits = i < len(d.Placements) && slices.ContainsFunc(d.Placements[i].Steps, atPermit)
			if i == 0 {
				q.preempts(e, &d) // before it is parked: what it hears of depends on that
			}
			q.settle(now, e, &d)
		}
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

// goOn puts a pod with an unfinished turn back to its place in the active queue. The
// turn counts as no attempt.
func (q *Queue) goOn(e *entry, d *plan.Decision) {
	e.attempts--
	e.afterFlush, e.unfinished = d.Pods[0].AfterFlush, true
	e.rounds++
	q.move(e, active, toGoOn)
}

// park sets a pod aside until an event can change the mind of the plugins that rejected it. A pod that was activated meanwhile is tried again after its
// backoff.
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

// Activate makes pods that wait for the end of a backoff or for an event ready at once, for plugins that ask for it. A pod that is being decided about, or
// that waits at Permit, is tried again after its backoff if it is rejected. Pods that are ready or unknown stay as they are; so do pods that a PreEnqueue
// plugin goes on holding.
func (q *Queue) Activate(now time.Time, keys []model.PodKey) {
	for _, key := range keys {
		e := q.entries[key]
		switch {
		case e == nil:
		case e.place == parked || e.place == gated:
			q.admit(now, e, active, forced)
		case e.place == backingOff || e.place == erring: // they have passed the PreEnqueue plugins
			q.move(e, active, forced)
		case e.place == joined && e.group.head.backsOff():
			e.group.head.until = time.Time{}
			q.review(now, e.group, forced)
		case e.place == deciding || e.place == binding && e.permits:
			e.activated = true
		}
	}
}

// Next returns when the queue next has something to do without an event or a change: at once if work is left, or when a pod may be tried, or for the
// check for pods parked too long. ok is false when no pod waits for a time.
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

// update takes in a new version of a waiting pod. A pod in a heap keeps its time; a parked pod is woken if the change may help.
func (q *Queue) update(now time.Time, e *entry, pod *model.Pod) {
	switch e.place {
	case active, backingOff, erring:
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

// showUpdate passes the changes of a held pod to the hints of the plugin that holds it, as
// kube-scheduler does: a plugin may follow the pod there. Whatever the hints return, the plugin is
// called at PreEnqueue, so that a change which a hint overlooks does not hold the pod for ever.
func (q *Queue) showUpdate(e *entry, before *model.Pod) {
	for _, action := range model.PodUpdates(before, e.pod) {
		q.helps(e, model.Event{Resource: model.TargetPodEvent, Action: action, OldPod: before, Pod: e.pod})
	}
}

// fail puts back a pod whose attempt ended in an error, in the decision or in the binding.
func (q *Queue) fail(now time.Time, pod *model.Pod) {
	e := q.entries[pod.Key()]
	if e == nil || e.pod.UID != pod.UID {
		return
	}
	e.pod = pod
	e.since, e.plugins, e.pending, e.activated = now, nil, nil, false
	e.errors++
	e.until = q.backoffEnd(e)
	if q.isGrouped(pod) && e.errors > 1 { // once, its group is tried again at once
		q.backOffBinding(now, e)
	}
	q.admit(now, e, erring, attemptFailed)
}

// admit moves a pod to a place from which it can be popped, unless a PreEnqueue plugin holds it.
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

// gate sets aside a pod that a PreEnqueue plugin holds. For a pod that is gated already, only the plugin changes.
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

// helps reports whether the event may help the pod, by the registrations of the plugins that rejected it; atOnce says that one of them answered Pending.
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

// wake moves a parked or gated pod to where it can be tried again, as soon as its backoff allows, or at once.
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

// drop forgets a pod.
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
