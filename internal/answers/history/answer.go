package history

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/queue"
)

// Version is the version of Decision and Past. It increases when a field changes its
// meaning or is removed.
const Version = 1

// Answer describes a pod of the running scheduler.
type Answer struct {
	// Pod is namespace/name.
	Pod     string `json:"pod"`
	UID     string `json:"uid,omitempty"`
	Profile string `json:"profile,omitempty"`
	// Decision is the decision that last placed the pod; nil if none is stored.
	Decision *Decision `json:"decision,omitempty"`
	History  *Past     `json:"history"`
}

// Decision is a decision that placed the pod.
type Decision struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
	Node    string    `json:"node"`
	// Total is the node's weighted score, nil without a choice. Feasible of Nodes passed
	// all filters.
	Total    *int64 `json:"total,omitempty"`
	Nodes    int    `json:"nodes"`
	Feasible int    `json:"feasible"`
	// Best are the best nodes, the chosen node first. Tipped has the plugins whose scores
	// differ between the first and the second node, the most points first.
	Best   []Node   `json:"best,omitempty"`
	Tipped []Margin `json:"tipped,omitempty"`
	// Removed has the plugins that removed nodes, in the order of their calls.
	Removed []Removal `json:"removed,omitempty"`
	// NotRecorded is the reason why Best, Tipped and Removed are missing.
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

// Margin is a plugin's difference between the chosen node and the second, in weighted
// points. It is negative if the plugin prefers the second.
type Margin struct {
	Plugin string `json:"plugin"`
	Weight int64  `json:"weight"`
	// Score is the score of the chosen node minus the score of the second. Points is
	// Score times Weight.
	Score  int64 `json:"score"`
	Points int64 `json:"points"`
}

// Removal is the number of nodes that a plugin was the first to reject. PreFilter plugins
// may have removed nodes together.
type Removal struct {
	Plugins []string `json:"plugins"`
	Nodes   int      `json:"nodes"`
}

// Past is the history of a pod and the reason for its wait.
type Past struct {
	Version int `json:"version"`
	// Place is where the pod is, in words. Since is when its present wait began, if
	// known.
	Place string     `json:"place"`
	Since *time.Time `json:"since,omitempty"`
	// Attempts counts its turns. Kept has the first and the last of the stored turns.
	Attempts int       `json:"attempts"`
	Kept     []Attempt `json:"kept"`
	// Forgotten means that some attempts are not stored.
	Forgotten bool `json:"forgotten,omitempty"`
	// Rejectors are the plugins that rejected the pod, or the PreEnqueue plugin that
	// gates it. Pending are the Rejectors that wait for something outside the cluster.
	// WaitsFor has the registered events of the Rejectors; any of them may wake the pod.
	Rejectors []string   `json:"rejectors,omitempty"`
	Pending   []string   `json:"pending,omitempty"`
	WaitsFor  []WaitsFor `json:"waitsFor,omitempty"`
	// WokenBy is the event that ended its last wait, WokenFor the plugin whose
	// registration matched.
	WokenBy  string `json:"wokenBy,omitempty"`
	WokenFor string `json:"wokenFor,omitempty"`
	// Nominated is the nominated node. Leaving counts the victims of the last attempt
	// that are not gone yet.
	Nominated string `json:"nominated,omitempty"`
	Leaving   int    `json:"leaving,omitempty"`
	// BackoffEnd is the end of its backoff.
	BackoffEnd *time.Time `json:"backoffEnd,omitempty"`
	// CostUnits is the cost of its last turn if that was expensive, in units of about a
	// nanosecond. Yields means that other pods of its priority go first, because turns of
	// its namespace are expensive.
	CostUnits int64 `json:"costUnits,omitempty"`
	Yields    bool  `json:"yields,omitempty"`
	// Ahead has the pods before a ready pod. AheadUnknown is the reason why Ahead is
	// missing.
	Ahead        *Ahead `json:"ahead,omitempty"`
	AheadUnknown string `json:"aheadUnknown,omitempty"`
	// Group describes the pod group that the pod waits with.
	Group *Group `json:"group,omitempty"`
}

// Attempt is one turn of the pod.
type Attempt struct {
	// Number is 0 for a failed binding whose turn is not stored.
	Number int       `json:"number,omitempty"`
	At     time.Time `json:"at"`
	// Outcome is placed, unschedulable, failed or no nodes.
	Outcome string `json:"outcome"`
	// WokenBy is the event that made the pod ready for this turn, WokenFor the plugin
	// whose registration matched. Helped means that the pod was placed.
	WokenBy  string `json:"wokenBy,omitempty"`
	WokenFor string `json:"wokenFor,omitempty"`
	Helped   bool   `json:"helped"`
	// InGroup means that the decision included the other members of its group.
	InGroup  bool   `json:"inGroup,omitempty"`
	Node     string `json:"node,omitempty"`
	Nodes    int    `json:"nodes"`
	Feasible int    `json:"feasible"`
	// Message is the text of the FailedScheduling event, shortened if very long.
	Message string `json:"message,omitempty"`
	// Removed has the plugins that removed nodes, if the details of the turn were
	// recorded.
	Removed []Removal `json:"removed,omitempty"`
	// Nominated is the nominated node. Evictions counts the pods evicted for this pod.
	// Victims are the first of these, without pods of other namespaces.
	Nominated string   `json:"nominated,omitempty"`
	Victims   []string `json:"victims,omitempty"`
	Evictions int      `json:"evictions,omitempty"`
	// BindingFailed is the reason why the binding failed. RejectedBy are the plugins that
	// rejected the pod at Permit.
	BindingFailed string   `json:"bindingFailed,omitempty"`
	RejectedBy    []string `json:"rejectedBy,omitempty"`
}

// WaitsFor has the events that a plugin registered.
type WaitsFor struct {
	Plugin string   `json:"plugin"`
	Events []string `json:"events"`
}

// Ahead is the number of pods whose turn is earlier. Next has the first of them, without
// pods of other namespaces.
type Ahead struct {
	Pods    int      `json:"pods"`
	AtLeast bool     `json:"atLeast,omitempty"`
	Next    []string `json:"next,omitempty"`
}

// Group describes the wait of a pod group or a tree.
type Group struct {
	Name string `json:"name"`
	// Composite means a CompositePodGroup. Exists means that the object exists.
	Composite bool `json:"composite,omitempty"`
	Exists    bool `json:"exists"`
	// MinCount is the number of members that must have a node. Missing is the number of
	// these that do not exist yet.
	MinCount int `json:"minCount,omitempty"`
	Missing  int `json:"missing,omitempty"`
	Waiting  int `json:"waiting"`
	Placed   int `json:"placed"`
	// Gate is the PreEnqueue plugin that gates the group. Held has the first of the gated
	// members. Rejected has the first of the members that plugins rejected in their last
	// attempt.
	Gate          string   `json:"gate,omitempty"`
	HeldCount     int      `json:"heldCount,omitempty"`
	Held          []Member `json:"held,omitempty"`
	RejectedCount int      `json:"rejectedCount,omitempty"`
	Rejected      []Member `json:"rejected,omitempty"`
}

// Member is a member of a group, with the plugins that gate or reject it.
type Member struct {
	Pod     string   `json:"pod"`
	Plugins []string `json:"plugins"`
}

// The places of pods that do not wait.
const (
	placeOnNode  = "on its node"
	placeAssumed = "on its node, which the API server has not confirmed"
)

// Of returns the history of a pod. It returns nil if the pod neither waits nor is on a
// node. Of may be called only between two rounds of the loop that owns the state and the
// queue. It searches all stored placements and calls queue.Describe, which takes at most
// a few milliseconds. external reports whether a profile has out-of-tree plugins or
// extenders.
func (h *History) Of(key model.PodKey, s *state.State, q *queue.Queue, external func(profile string) bool) *Answer {
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
		a.Decision = h.decision(x, external)
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
	// another scheduler has bound it
	if placed && a.Decision != nil && a.Decision.Node != node {
		a.Decision = nil
	}
	p.Forgotten = p.Numbered() < p.Attempts
	a.shift(h.ahead())
	return a
}

// ahead returns the offset of the system's clock from the steady clock, which is not zero
// after the system's clock was set. Rounding removes the time between the two reads.
func (h *History) ahead() time.Duration {
	if h.wall == nil {
		return 0
	}
	return h.wall().Round(0).Sub(h.now().Round(0)).Round(time.Millisecond)
}

// shift moves all times of an answer to the system's clock.
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

// Numbered returns the number of attempts whose turn is stored.
func (p *Past) Numbered() (n int) {
	for i := range p.Kept {
		if p.Kept[i].Number > 0 {
			n++
		}
	}
	return n
}

// complete fills in the turn of a failed binding from the placement, if the turn was not
// recorded. x is the last placement of the pod.
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

// describe copies the description from the queue.
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
			// a user who may see this pod may lack access to other namespaces
			if key.Namespace == d.Pod.Namespace {
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

// unordered is the reason for an unknown Ahead.
const unordered = "an out-of-tree plugin orders the queue"

// The reasons for missing details.
const (
	notExternal  = "the profile has out-of-tree plugins or extenders, whose results are not recorded"
	notForgotten = "they were not recorded, as recording takes at most 2 % of the time that decisions take, or are forgotten"
)

// decision converts a stored placement.
func (h *History) decision(x *placement, external func(profile string) bool) *Decision {
	d := &Decision{Version: Version, At: time.Unix(0, x.at).UTC(), Attempt: int(x.attempt), Node: x.node, Nodes: int(x.nodes), Feasible: int(x.feasible)}
	if x.feasible > 1 {
		total := x.total // a copy, because the next placement may reuse the memory
		d.Total = &total
	}
	detail := h.details.of(x.detail)
	switch {
	case detail != nil:
	case external(x.profile):
		d.NotRecorded = notExternal
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

// margins returns the plugins that score the two nodes differently, the most points for
// the first node first. Both nodes have scores of the same plugins.
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

// attempt converts a stored turn of a pod. The namespace ends with a slash.
func (h *History) attempt(from *attempt, namespace string) Attempt {
	a := Attempt{
		Number: int(from.number), At: time.Unix(0, from.at).UTC(), Outcome: from.outcome.String(), WokenBy: from.woken.Event, WokenFor: from.woken.Plugin,
		Helped: from.outcome == plan.Placed, InGroup: from.grouped, Nodes: int(from.nodes), Feasible: int(from.feasible),
		Message: messageOf(from.rejection, int(from.nodes), from.text),
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
