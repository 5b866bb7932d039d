package history

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/queue"
	"github.com/berth-scheduler/berth/internal/state"
)

// Version is that of Decision and of Past: it is raised when a field changes its meaning or goes.
const Version = 1

// Answer is what a running scheduler knows of a pod.
type Answer struct {
	// Pod is namespace/name.
	Pod     string `json:"pod"`
	UID     string `json:"uid,omitempty"`
	Profile string `json:"profile,omitempty"`
	// Decision is why the pod is, or was last, on its node; nil if no such decision is kept.
	Decision *Decision `json:"decision,omitempty"`
	History  *Past     `json:"history"`
}

// Decision is a decision that placed the pod.
type Decision struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
	Node    string    `json:"node"`
	// Total is the node's weighted score, nil where there was no choice. Of so many Nodes so many were Feasible.
	Total    *int64 `json:"total,omitempty"`
	Nodes    int    `json:"nodes"`
	Feasible int    `json:"feasible"`
	// Best are the best nodes, the one that was taken first; Tipped says by which plugins it is ahead of the second, those that count most first.
	Best   []Node   `json:"best,omitempty"`
	Tipped []Margin `json:"tipped,omitempty"`
	// Removed are the plugins that removed nodes, in the order in which they run.
	Removed []Removal `json:"removed,omitempty"`
	// NotRecorded says why Best, Tipped and Removed are not there.
	NotRecorded string `json:"notRecorded,omitempty"`
}

// Node is a node with its scores.
type Node struct {
	Name   string  `json:"name"`
	Total  int64   `json:"total"`
	Scores []Score `json:"scores"`
}

// Score is one plugin's normalised score, 0..100, before the weight.
type Score struct {
	Plugin string `json:"plugin"`
	Weight int64  `json:"weight"`
	Score  int64  `json:"score"`
}

// Margin is how far a plugin puts the node that was taken before the second, in weighted points; negative where it prefers the second.
type Margin struct {
	Plugin string `json:"plugin"`
	Weight int64  `json:"weight"`
	// Score is that of the node that was taken minus that of the second, Points is Score times Weight.
	Score  int64 `json:"score"`
	Points int64 `json:"points"`
}

// Removal is how many nodes a plugin was the first to reject; several PreFilter plugins may have left out nodes together.
type Removal struct {
	Plugins []string `json:"plugins"`
	Nodes   int      `json:"nodes"`
}

// Past is the way of a pod so far, and what it waits for.
type Past struct {
	Version int `json:"version"`
	// Place is where it is, in words; Since is when it came there, if that is known.
	Place string     `json:"place"`
	Since *time.Time `json:"since,omitempty"`
	// Attempts counts its turns, and Kept has the first and the last of them that are kept.
	Attempts int       `json:"attempts"`
	Kept     []Attempt `json:"kept"`
	// Forgotten says that attempts were made of which nothing is kept.
	Forgotten bool `json:"forgotten,omitempty"`
	// Rejectors are the plugins that rejected it, or the PreEnqueue plugin that holds it; of these, Pending wait for something outside of the cluster. WaitsFor are the events that
	// they have registered for, any of which may wake it.
	Rejectors []string   `json:"rejectors,omitempty"`
	Pending   []string   `json:"pending,omitempty"`
	WaitsFor  []WaitsFor `json:"waitsFor,omitempty"`
	// WokenBy is what ended its last wait, WokenFor the plugin whose registration that event met.
	WokenBy  string `json:"wokenBy,omitempty"`
	WokenFor string `json:"wokenFor,omitempty"`
	// Nominated is the node that the pod is nominated to, Leaving counts the victims of its last attempt that are not gone yet.
	Nominated string `json:"nominated,omitempty"`
	Leaving   int    `json:"leaving,omitempty"`
	// BackoffEnd is when it may be tried again.
	BackoffEnd *time.Time `json:"backoffEnd,omitempty"`
	// CostUnits is what its last turn cost if that was expensive, in units of about a
	// nanosecond. Yields says that it lets others of its priority go first, because turns
	// of its namespace are expensive.
	CostUnits int64 `json:"costUnits,omitempty"`
	Yields    bool  `json:"yields,omitempty"`
	// Ahead says who has the turn before it, of a pod that is ready; or AheadUnknown why that is not worked out.
	Ahead        *Ahead `json:"ahead,omitempty"`
	AheadUnknown string `json:"aheadUnknown,omitempty"`
	// Group says what holds up the pod group that it waits with.
	Group *Group `json:"group,omitempty"`
}

// Attempt is one turn of the pod.
type Attempt struct {
	// Number is 0 for a binding that failed of which the turn is not kept.
	Number int       `json:"number,omitempty"`
	At     time.Time `json:"at"`
	// Outcome is one of placed, unschedulable, failed and no nodes.
	Outcome string `json:"outcome"`
	// WokenBy is what made the pod ready for this turn, WokenFor the plugin whose registration the event met. Helped says whether the pod found a node.
	WokenBy  string `json:"wokenBy,omitempty"`
	WokenFor string `json:"wokenFor,omitempty"`
	Helped   bool   `json:"helped"`
	// InGroup says that it was decided about together with the members of its group.
	InGroup  bool   `json:"inGroup,omitempty"`
	Node     string `json:"node,omitempty"`
	Nodes    int    `json:"nodes"`
	Feasible int    `json:"feasible"`
	// Message is the text of the FailedScheduling event, cut if it is very long.
	Message string `json:"message,omitempty"`
	// Removed are the plugins that removed nodes, if the details of the turn were recorded.
	Removed []Removal `json:"removed,omitempty"`
	// Nominated is the node that the pod was nominated to. Of the Evictions pods that were evicted for it, Victims are the first, as far as they are in its namespace.
	Nominated string   `json:"nominated,omitempty"`
	Victims   []string `json:"victims,omitempty"`
	Evictions int      `json:"evictions,omitempty"`
	// BindingFailed is why the binding failed; RejectedBy are the plugins that rejected the pod at Permit.
	BindingFailed string   `json:"bindingFailed,omitempty"`
	RejectedBy    []string `json:"rejectedBy,omitempty"`
}

// WaitsFor is the events that a plugin has registered for.
type WaitsFor struct {
	Plugin string   `json:"plugin"`
	Events []string `json:"events"`
}

// Ahead is how many pods have their turn before the pod, and those of the first of them that are in its namespace.
type Ahead struct {
	Pods    int      `json:"pods"`
	AtLeast bool     `json:"atLeast,omitempty"`
	Next    []string `json:"next,omitempty"`
}

// Group is what holds up a pod group, or a tree of them.
type Group struct {
	Name string `json:"name"`
	// Composite says that it is a CompositePodGroup. Exists says whether the object exists.
	Composite bool `json:"composite,omitempty"`
	Exists    bool `json:"exists"`
	// MinCount is how many members must have a node; Missing how many of these do not exist yet.
	MinCount int `json:"minCount,omitempty"`
	Missing  int `json:"missing,omitempty"`
	Waiting  int `json:"waiting"`
	Placed   int `json:"placed"`
	// Gate is the PreEnqueue plugin that holds the group. Held and Rejected are the first members that a PreEnqueue plugin holds, and that plugins rejected in their last attempt.
	Gate          string   `json:"gate,omitempty"`
	HeldCount     int      `json:"heldCount,omitempty"`
	Held          []Member `json:"held,omitempty"`
	RejectedCount int      `json:"rejectedCount,omitempty"`
	Rejected      []Member `json:"rejected,omitempty"`
}

// Member is a member of a group, with the plugins that hold or reject it.
type Member struct {
	Pod     string   `json:"pod"`
	Plugins []string `json:"plugins"`
}

// The places of pods that do not wait.
const (
	placeOnNode  = "on its node"
	placeAssumed = "on its node, which the API server has not confirmed"
)

// Of returns what is known of a pod, nil if the scheduler does not have it: it neither waits for a node nor is on one. It is called between two rounds of the loop that owns the state and
// the queue. It looks at all placements that are kept, and at what queue.Describe looks at, which takes a few milliseconds at most. outside says in which profiles plugins from outside or extenders have a say.
func (h *History) Of(key model.PodKey, s *state.State, q *queue.Queue, outside func(profile string) bool) *Answer {
	d, waits := q.Describe(h.now(), key)
	node, confirmed, placed := s.NodeOf(key)
	if !waits && !placed {
		return nil
	}
	a := &Answer{Pod: key.String(), History: &Past{Version: Version, Kept: []Attempt{}}}
	p := a.History
	switch {
	case waits:
		a.UID, a.Profile = string(d.Pod.UID), d.Pod.SchedulerName
		p.describe(&d)
	case confirmed:
		p.Place = placeOnNode
	default:
		p.Place = placeAssumed
	}
	if pod := s.PlacedPod(key); pod != nil {
		a.UID, a.Profile = string(pod.UID), pod.SchedulerName
	}
	if x := h.placed.of(key); x != nil && (a.UID == "" || string(x.uid) == a.UID) {
		a.UID, a.Profile = string(x.uid), x.profile
		a.Decision = h.decision(x, outside)
		p.Attempts = max(p.Attempts, int(x.attempt))
	}
	if r := h.waiting.byPod[key]; r != nil && (a.UID == "" || string(r.uid) == a.UID) {
		a.UID, a.Profile = string(r.uid), r.profile
		for i := range r.attempts {
			p.Kept = append(p.Kept, h.attempt(&r.attempts[i], key.Namespace+"/"))
			p.Attempts = max(p.Attempts, int(r.attempts[i].number))
		}
		if a.Decision != nil {
			p.complete(a.Decision)
		}
	} else if x := a.Decision; x != nil {
		p.Kept = append(p.Kept, Attempt{Number: x.Attempt, At: x.At, Outcome: plan.Placed.String(), Helped: true, Node: x.Node, Nodes: x.Nodes, Feasible: x.Feasible})
	}
	if placed && a.Decision != nil && a.Decision.Node != node { // somebody else has bound it
		a.Decision = nil
	}
	p.Forgotten = p.Numbered() < p.Attempts
	a.shift(h.ahead())
	return a
}

// ahead returns how far the system's clock is ahead of the steady one, which it is not
// once somebody has set it. Rounding drops the time between the two reads.
func (h *History) ahead() time.Duration {
	if h.wall == nil {
		return 0
	}
	return h.wall().Round(0).Sub(h.now().Round(0)).Round(time.Millisecond)
}

// shift moves all times of an answer, so that they fit the system's clock.
func (a *Answer) shift(by time.Duration) {
	if a.Decision != nil {
		a.Decision.At = a.Decision.At.Add(by)
	}
	for i := range a.History.Kept {
		a.History.Kept[i].At = a.History.Kept[i].At.Add(by)
	}
	for _, t := range []*time.Time{a.History.Since, a.History.BackoffEnd} {
		if t != nil {
			*t = t.Add(by)
		}
	}
}

// Numbered returns of how many attempts the turn is kept.
func (p *Past) Numbered() (n int) {
	for i := range p.Kept {
		if p.Kept[i].Number > 0 {
			n++
		}
	}
	return n
}

// complete takes the turn of a failed binding of which no turn was noted from the placement that it was for. x is the last placement of the pod.
func (p *Past) complete(x *Decision) {
	for i := range p.Kept {
		switch a := &p.Kept[i]; {
		case a.Number == x.Attempt:
			return
		case a.Number == 0 && !a.At.Before(x.At):
			a.Number, a.At, a.Node, a.Nodes, a.Feasible = x.Attempt, x.At, x.Node, x.Nodes, x.Feasible
			return
		}
	}
}

// describe fills in what the queue knows.
func (p *Past) describe(d *queue.Description) {
	p.Place, p.Attempts = d.Place, d.Attempts
	p.Since, p.BackoffEnd = timeOf(d.Since), timeOf(d.BackoffEnd)
	p.Rejectors, p.Pending = d.Rejectors, d.Pending
	p.WokenBy, p.WokenFor = d.WokenBy.Event, d.WokenBy.Plugin
	p.Nominated, p.Leaving = d.Pod.NominatedNode, len(d.Leaving)
	for _, w := range d.WaitsFor {
		p.WaitsFor = append(p.WaitsFor, WaitsFor(w))
	}
	p.CostUnits, p.Yields = d.Cost, d.Yields
	if d.Unordered {
		p.AheadUnknown = unordered
	}
	if x := d.Ahead; x != nil {
		p.Ahead = &Ahead{Pods: x.Pods, AtLeast: x.AtLeast}
		for _, key := range x.Next {
			if key.Namespace == d.Pod.Namespace { // who may see this pod need not see those of others
				p.Ahead.Next = append(p.Ahead.Next, key.String())
			}
		}
	}
	if g := d.Group; g != nil {
		p.Group = &Group{
			Name: g.Key.String(), Composite: g.Tree, Exists: g.Exists, MinCount: g.MinCount, Missing: max(0, g.MinCount-g.Waiting-g.Placed), Waiting: g.Waiting, Placed: g.Placed, Gate: g.Gate,
			HeldCount: g.HeldCount, Held: members(g.Held), RejectedCount: g.RejectedCount, Rejected: members(g.Rejected),
		}
	}
}

func members(of []queue.Member) (named []Member) {
	for i := range of {
		named = append(named, Member{of[i].Key.String(), of[i].Plugins})
	}
	return named
}

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// unordered is why it is not said who has the turn before a pod.
const unordered = "a plugin from outside orders the queue, and is not asked for an answer"

// Why the details of a decision are not there.
const (
	notOutside   = "plugins from outside or extenders have a say in this profile, and they are not asked a second time"
	notForgotten = "they were not recorded, as recording takes at most 2 % of the time that decisions take, or are forgotten"
)

// decision is what is kept of a placement.
func (h *History) decision(x *placement, outside func(profile string) bool) *Decision {
	d := &Decision{Version: Version, At: time.Unix(0, x.at).UTC(), Attempt: int(x.attempt), Node: x.node, Nodes: int(x.nodes), Feasible: int(x.feasible)}
	if x.feasible > 1 {
		total := x.total // the memory is the next placement's
		d.Total = &total
	}
	detail := h.details.of(x.detail)
	switch {
	case detail != nil:
	case outside(x.profile):
		d.NotRecorded = notOutside
		return d
	default:
		d.NotRecorded = notForgotten
		return d
	}
	d.Removed = removals(detail.Removed)
	if detail.Feasible < 2 {
		return d
	}
	for i := range detail.Best {
		from := &detail.Best[i]
		node := Node{Name: from.Name, Total: from.Total, Scores: make([]Score, len(from.Scores))}
		for j, s := range from.Scores {
			node.Scores[j] = Score(s)
		}
		d.Best = append(d.Best, node)
	}
	d.Tipped = margins(detail.Best[0].Scores, detail.Best[1].Scores)
	return d
}

// margins returns what puts the first node before the second, what counts most first. Both have scores of the same plugins.
func margins(first, second []plan.Score) []Margin {
	var all []Margin
	for i, s := range first {
		if by := s.Score - second[i].Score; by != 0 {
			all = append(all, Margin{Plugin: s.Plugin, Weight: s.Weight, Score: by, Points: by * s.Weight})
		}
	}
	slices.SortStableFunc(all, func(a, b Margin) int { return cmp.Compare(b.Points, a.Points) })
	return all
}

func removals(from []plan.Removal) (to []Removal) {
	for _, r := range from {
		to = append(to, Removal(r))
	}
	return to
}

// attempt is what is kept of a turn of a pod. The namespace ends with a slash.
func (h *History) attempt(from *attempt, namespace string) Attempt {
	a := Attempt{
		Number: int(from.number), At: time.Unix(0, from.at).UTC(), Outcome: from.outcome.String(), WokenBy: from.woken.Event, WokenFor: from.woken.Plugin,
		Helped: from.outcome == plan.Placed, InGroup: from.grouped, Nodes: int(from.nodes), Feasible: int(from.feasible), Message: from.text,
	}
	if r := from.rejection; r != nil {
		a.Message = r.Text(a.Nodes)
		if from.text != "" {
			a.Message += " " + from.text
		}
	}
	if x := from.more; x != nil {
		a.Node, a.Nominated, a.Evictions = x.node, x.nominated, x.evictions
		for _, victim := range x.victims {
			if strings.HasPrefix(victim, namespace) {
				a.Victims = append(a.Victims, victim)
			}
		}
		a.BindingFailed, a.RejectedBy = x.failed, x.rejectors
		a.Helped = a.Helped && x.failed == ""
	}
	if detail := h.details.of(from.detail); detail != nil {
		a.Removed = removals(detail.Removed)
	}
	return a
}
