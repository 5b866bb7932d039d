package engine

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// shape is everything in a pod that a rejection depends on, like kube-scheduler's pod
// signature. In one state, pods of one shape are rejected for the same reasons. The pod
// itself matters only if it is nominated, or names its node; rejections of such pods are
// not remembered.
type shape struct {
	filters int32 // number of the list of filters; profiles that are alike share it
	// priority is the pod's if other pods are nominated to nodes, 0 otherwise. It decides
	// which nominated pods it leaves space for.
	priority  int32
	nominated bool // other pods are nominated
	// then the pod's group: its members leave no space for each other
	group model.GroupKey
	// needs is indexed by filter. The need of a count filter without rules is zero,
	// whatever the pod's labels. These may differ for each pod of a StatefulSet or a Job.
	needs [maxFilters]model.Need
}

// maxFilters bounds the filters of a profile whose rejections are remembered;
// kube-scheduler has 16.
const maxFilters = 24

// rejected is a remembered rejection.
type rejected struct {
	shape shape
	// rejection is the text for the counts of objections; nil if they have changed since.
	rejection *plan.Rejection
	// versions are from the decision or the last check. Versions that cannot matter to
	// the shape are 0.
	versions state.Versions
	used     uint64 // the engine's clock when it was last used
	// nothingHelps is the result of PostFilter plugins.
	nothingHelps nothingHelps
	again        bool // the shape was decided before, and remembered

	// With a column of objections by slot, a rejection follows the journal: filters run
	// again only on nodes that changed. These rejections have no column:
	//
	//   - a shape's first, since most shapes are rejected once;
	//   - with too many different objections;
	//   - with rules of a count filter while pods are nominated, because each nominated
	//     pod would need other rules.
	//
	// Invariant: the counts of objections are those of bySlot, or there are none.
	objectionCounts
	// reads are the aspects of a node that its objection depends on.
	reads model.Aspect
	// verdicts returned the codes, by filter. They are kept with the codes, because only
	// they can explain a code.
	verdicts []*plugin.Verdicts
	// rules are the versions that the rules about counts depend on. While they stay the
	// same, a placed pod changes only the objection to its own node.
	rules []uint64
}

// rejections are all remembered rejections, bounded in bytes. The least recently used are
// evicted first.
type rejections struct {
	// Invariant: each is listed under its shape.
	byShape map[shape]*rejected
	// Invariant: bytes is the sum over byShape.
	bytes, maxBytes int
	decided         uint64 // number of decisions with a column
}

// next returns the number of one more decision with a column.
func (x *rejections) next() uint64 {
	x.decided++
	return x.decided
}

// rejectedBytes is about the size of a remembered rejection without its column.
// objectionBytes is about the size of each different objection.
const (
	rejectedBytes  = 1 << 10
	objectionBytes = 64
)

func (r *rejected) bytes() int {
	return rejectedBytes + len(r.bySlot) + objectionBytes*len(r.list) + 8*len(r.rules)
}

// shapeOf returns the shape of the cycle's pod. ok is false if rejections of the pod are
// not remembered, or the view is restricted or differs from the state.
func shapeOf(c *cycle) (s shape, ok bool) {
	if c.asksOutside() || c.view.Restriction() != nil || len(c.needs) > maxFilters || len(c.narrowed.by) > 0 || len(c.view.Touched()) > 0 || c.pod.NominatedNode != "" {
		return s, false
	}
	s.filters = c.profile.filters
	if c.view.Nominated() > 0 {
		if c.pod.UID == "" || c.view.IsNominated(c.pod.Key()) {
			return s, false
		}
		// a pod leaves no space for members of its own group
		s.priority, s.nominated, s.group = c.pod.Priority, true, c.pod.Group
	}
	for i, need := range c.needs {
		if c.profile.Filters[i].Count == nil || c.counting[i] != nil {
			s.needs[i] = need
		}
	}
	return s, true
}

// counts reports whether a count filter has rules to check.
func (c *cycle) counts() bool {
	return slices.ContainsFunc(c.profile.counting, func(i int) bool { return c.counting[i] != nil })
}

// versionsFor returns the versions that matter to the cycle's pod.
func (e *Engine) versionsFor(c *cycle) state.Versions {
	v := c.view.Versions()
	if !c.counts() {
		v.Terms, v.DefaultSelectors = 0, 0
	}
	if c.view.Nominated() == 0 || e.usageOf(c).only {
		// the journal lists the nodes, and nothing else about nominated pods matters
		v.Nominations = 0
	}
	if !c.sharesDevices {
		v.Devices = 0
	}
	return v
}

// recall returns a remembered rejection that still holds for the cycle's pod, or nil. It
// runs the filters again on nodes that have changed since.
func (e *Engine) recall(c *cycle) *rejected {
	if len(e.rejections.byShape) == 0 {
		return nil
	}
	s, ok := shapeOf(c)
	if !ok {
		return nil
	}
	r := e.rejections.byShape[s]
	if r == nil {
		return nil
	}
	r.used = e.columns.clock
	now := e.versionsFor(c)
	if r.versions != now && !e.follow(r, c, now) {
		return nil
	}
	r.versions = now
	e.work.Recalled++
	return r
}

// followed bounds the node changes that a remembered rejection follows: one in this many
// slots. Beyond it a new decision is cheaper.
const followed = 32

// follow brings a remembered rejection up to date. It returns false if the pod needs a
// new decision: a node no longer objects, or too much has changed.
func (e *Engine) follow(r *rejected, c *cycle, now state.Versions) bool {
	entries, ok := c.view.State().Since(r.versions.Journal)
	had := r.versions
	had.Journal = now.Journal
	if !ok || r.bySlot == nil || had != now || len(entries) > fewNodes+c.view.State().Slots()/followed {
		return false
	}
	verdicts, ok := e.presentVerdicts(r, c)
	if !ok {
		return false
	}
	before := r.bytes()
	ok = e.askAgain(r, c, verdicts, entries)
	e.rejections.bytes += r.bytes() - before
	e.rejections.makeRoom(0) // it may have grown
	return ok
}

// presentVerdicts returns the verdicts of a remembered rejection, with this turn's rules
// about counts. It returns false if these may reject other nodes than before.
func (e *Engine) presentVerdicts(r *rejected, c *cycle) (verdicts []*plugin.Verdicts, ok bool) {
	// a rule may appear, as with the first node of a topology key
	if len(r.rules) == 0 && !c.counts() {
		return r.verdicts, true
	}
	versions := c.ruleVersions(e.scratch.versions[:0])
	if e.scratch.versions = versions; !slices.Equal(versions, r.rules) {
		return nil, false
	}
	f := &e.scratch.again
	f.counts = slices.Grow(f.counts[:0], len(r.verdicts))[:len(r.verdicts)]
	f.verdicts = append(f.verdicts[:0], r.verdicts...)
	for _, i := range c.profile.counting {
		if counting := c.counting[i]; counting != nil {
			own := &f.counts[i]
			f.verdicts[i] = own.with(counting, counting.Rules(c.view, own.rules[:0]))
		}
	}
	return f.verdicts, true
}

// ruleVersions appends the versions that the cycle's rules about counts depend on.
func (c *cycle) ruleVersions(to []uint64) []uint64 {
	for _, i := range c.profile.counting {
		if counting := c.counting[i]; counting != nil {
			to = counting.AppendVersions(to)
		}
	}
	return to
}

// askAgain runs the filters again on the nodes that have changed. It returns false if a
// node no longer objects.
func (e *Engine) askAgain(r *rejected, c *cycle, verdicts []*plugin.Verdicts, entries []state.Entry) bool {
	s := c.view.State()
	r.resize(s.Slots())
	for i, entry := range entries {
		if entry.Aspects&r.reads == 0 || i+1 < len(entries) && entries[i+1].Slot == entry.Slot && entries[i+1].Aspects&r.reads != 0 {
			continue
		}
		o := objection{}
		if s.Alive()[entry.Slot] {
			if o = e.objectionTo(c, r, verdicts, entry.Slot); o.code == reason.None || o.code.IsFailed() {
				return false
			}
		}
		if r.replace(entry.Slot, o) {
			r.rejection = nil // also if another node stops this half-way
		}
		if r.bySlot == nil { // too many different objections
			r.objectionCounts = objectionCounts{}
			return false
		}
	}
	if r.rejection == nil {
		r.rejection = c.rejectionFor(r.verdicts, &r.objectionCounts)
		e.listed(len(r.rejection.Counts))
	}
	return true
}

// resize adds slots, which the journal lists, or drops slots that the state has cut off
// after moving their nodes.
func (r *rejected) resize(slots int) {
	if missing := slots - len(r.bySlot); missing >= 0 {
		r.bySlot = append(r.bySlot, make([]uint8, missing)...)
		return
	}
	for _, at := range r.bySlot[slots:] {
		if at > 0 {
			r.list[at-1].nodes--
			r.rejection = nil
		}
	}
	r.bySlot = slices.Clone(r.bySlot[:slots])
}

// replace counts a node under another objection; a code of None means that the node is
// gone. It reports whether a count changed.
func (t *objectionCounts) replace(slot int32, o objection) (changed bool) {
	before := t.bySlot[slot]
	if before > 0 && t.list[before-1].objection == o {
		return false
	}
	if before > 0 {
		t.list[before-1].nodes--
		t.bySlot[slot] = 0
	}
	if o.code != reason.None {
		t.add(slot, o)
	}
	return before > 0 || o.code != reason.None
}

// objectionTo returns the first objection to a node, with its nominated pods or, if none
// of the filters objects, without them. The code of a failure means that the pod needs a
// new decision.
func (e *Engine) objectionTo(c *cycle, r *rejected, verdicts []*plugin.Verdicts, slot int32) objection {
	f := filters{view: c.view, verdicts: verdicts}
	own := e.first(c, &f, slot)
	if !r.shape.nominated || own.code.IsFailed() {
		return own
	}
	before := c.view.NominatedBefore(c.pod, slot)
	theirs, kept := c.view.WithoutRoomHolds(before)
	if len(theirs) > 0 {
		if beside := e.objectionBeside(c, verdicts, slot, theirs); beside.code != reason.None && !(beside.code.IsFailed() && (own.code != reason.None || e.usageOf(c).only)) {
			return beside
		}
	}
	if kept == 0 || own.code != reason.None {
		return own
	}
	beside := e.objectionBeside(c, verdicts, slot, before)
	if beside.code != reason.None {
		beside.kept = kept
	}
	return beside
}

// objectionBeside returns the first objection of the verdicts to a node with other pods
// on it.
func (e *Engine) objectionBeside(c *cycle, verdicts []*plugin.Verdicts, slot int32, others []*model.Pod) objection {
	if e.usageOf(c).only {
		return e.objectionWith(c, verdicts, slot, others)
	}
	dryRun := c.view.DryRun(&e.scratch.dryRun)
	for _, pod := range others {
		dryRun.Add(pod, slot)
	}
	return e.first(c, &filters{view: dryRun.View(), verdicts: verdicts}, slot)
}

// toLearn returns the entry for the rejection of the cycle's pod, or nil if it is not to
// be remembered.
func (x *rejections) toLearn(c *cycle, clock uint64) *rejected {
	s, ok := shapeOf(c)
	if !ok {
		return nil
	}
	if r := x.byShape[s]; r != nil {
		r.again = true
		return r
	}
	return &rejected{shape: s, used: clock}
}

// emptyColumn returns a column for the objections by slot, or nil if the rejection is not
// to follow the journal.
func (r *rejected) emptyColumn(c *cycle) []uint8 {
	if !r.again || c.counts() && r.shape.nominated {
		return nil
	}
	slots := c.view.State().Slots()
	if have := cap(r.bySlot); have < slots || have > 2*slots {
		return make([]uint8, slots)
	}
	column := r.bySlot[:slots]
	clear(column)
	return column
}

// learn remembers a rejection that was just decided.
func (x *rejections) learn(r *rejected, c *cycle, versions state.Versions, counts objectionCounts, rejection *plan.Rejection) {
	if x.byShape[r.shape] == r {
		x.bytes -= r.bytes()
		delete(x.byShape, r.shape)
	}
	r.rejection, r.versions = rejection, versions
	r.objectionCounts, r.reads, r.verdicts, r.rules = objectionCounts{}, 0, nil, nil
	if counts.bySlot != nil {
		r.objectionCounts, r.reads, r.verdicts = counts, c.reads(), slices.Clone(c.here.verdicts)
		r.rules = c.ruleVersions(nil)
		for i, counting := range c.counting {
			if counting != nil {
				// without rules, which are valid in their turn only
				r.verdicts[i] = new(countVerdicts).with(counting, nil)
			}
		}
	}
	if x.makeRoom(r.bytes()) {
		x.byShape[r.shape] = r
		x.bytes += r.bytes()
	}
}

// reads returns the aspects of a node that the verdicts of the cycle's filters depend on,
// besides counts.
func (c *cycle) reads() model.Aspect {
	// Nominations for the pods nominated to the node
	reads := model.Presence | model.Nominations
	for i, f := range c.profile.Filters {
		if f.HasColumn() && !c.needs[i].IsZero() {
			reads |= f.Reads.Nodes
		}
	}
	return reads
}

// makeRoom evicts rejections until another one of this size fits. It returns false if
// none of that size is allowed.
func (x *rejections) makeRoom(bytes int) bool {
	if bytes > x.maxBytes {
		return false
	}
	for x.bytes+bytes > x.maxBytes {
		// Evicting an eighth at once makes the search for the oldest rare, so its cost
		// does not matter.
		times := make([]uint64, 0, len(x.byShape))
		for _, r := range x.byShape {
			times = append(times, r.used)
		}
		slices.Sort(times)
		horizon := times[len(times)/8]
		maps.DeleteFunc(x.byShape, func(_ shape, r *rejected) bool {
			if r.used <= horizon {
				x.bytes -= r.bytes()
			}
			return r.used <= horizon
		})
	}
	return true
}

// Rejections returns the number of remembered rejections and their approximate size.
func (e *Engine) Rejections() (rejections, bytes int) {
	return len(e.rejections.byShape), e.rejections.bytes
}
