package simulate

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// Status is the outcome for a pod that was pending.
type Status string

// The statuses.
const (
	Scheduled Status = "Scheduled"
	// Pending: no node is feasible.
	Pending Status = "Pending"
	// Gated: the pod must not be tried yet.
	Gated Status = "Gated"
	// Failed: an attempt ended with an error.
	Failed Status = "Error"
	// Incomplete: the pod's PodGroup does not exist.
	Incomplete Status = "Incomplete"
	// Ignored: the pod belongs to another scheduler, or is being deleted.
	Ignored Status = "Ignored"
	// Evicted: the pod was placed, then preempted.
	Evicted Status = "Evicted"
)

// Placement is the outcome for one pod that was pending.
type Placement struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Status    Status `json:"status"`
	// Node is the pod's node, or empty.
	Node string `json:"node,omitempty"`
	// Message is the reason why the pod is not placed, in the words of the
	// FailedScheduling event.
	Message string `json:"message,omitempty"`
	// FeasibleNodes is the number of feasible nodes at the last attempt. Score is the
	// chosen node's; nil unless several were feasible, because then no node is scored.
	FeasibleNodes int    `json:"feasibleNodes"`
	Score         *int64 `json:"score,omitempty"`
}

// Result is the outcome of a whole simulation.
type Result struct {
	// Pods are the pods that were pending, in the order in which the scheduler first saw
	// them.
	Pods []Placement `json:"pods"`
	// Groups are the pod groups of these pods, in the order of their first pods. It is
	// empty if members are decided about one by one.
	Groups []GroupResult `json:"groups,omitempty"`
	// Evictions are the preempted pods, in the order of the decisions.
	Evictions []Eviction `json:"evictions,omitempty"`
	Summary   Summary    `json:"summary"`

	// before and after are the requests of the pods on each node.
	before, after map[string]amounts
}

// Run puts the files' objects into a cluster and runs the scheduler until no progress is
// possible. Then every pending pod is placed, or was tried on the final cluster and waits
// for a change that will not happen. It calls progress, if set, after every decision, or
// every few with Config.Pods.
//
// Claims for devices are made from templates, and drivers prepare devices. Patience and
// retries of pod groups are the scheduler's defaults, whatever the configuration has.
func Run(config Config, files *manifest.Cluster, progress func(decided, pending int)) (*Result, error) {
	config.Devices.Prepared = true
	config.GroupPatience, config.GroupRetries = DefaultGroupPatience, DefaultGroupRetries
	config.EventTTL = -1 // events have no reader here
	c, err := New(config)
	if err != nil {
		return nil, err
	}
	if err := c.take(files); err != nil {
		return nil, err
	}
	pending, placed := divide(files.Pods)
	before := initial{amounts: tallied(files.Nodes, placed), pending: make([]pendingPod, 0, len(pending))}
	for _, pod := range placed {
		c.SetPod(pod)
	}
	for _, pod := range pending {
		before.ask(pod)
		c.SetPod(pod)
	}
	all := len(pending)
	if config.Pods != nil {
		all += config.Pods.Pending()
		defer c.feed(&before)()
	}
	decided, victims := 0, victims{}
	each := func(r Round) error {
		victims.take(&r)
		if r.Decided && progress != nil {
			decided += len(r.Decisions)
			progress(min(decided, all), all)
		}
		return nil
	}
	if err := c.untilQuiet(each); err != nil {
		return nil, err
	}
	return c.result(files.Nodes, &before, &victims), nil
}

// initial is the pods of a simulation before the first decision.
type initial struct {
	amounts map[string]amounts // the requests of the placed pods on each node
	pending []pendingPod
}

// pendingPod identifies a pod that was pending. The pod itself is replaced in the store.
type pendingPod struct {
	pod   model.PodKey
	group model.GroupKey // zero without a group
}

// ask adds a pending pod.
func (b *initial) ask(pod *v1.Pod) {
	group, _ := groupKeyOf(pod)
	b.pending = append(b.pending, pendingPod{keyOf(pod), group})
}

// feed makes the cluster create the pods of Config.Pods one by one and adds each to the
// initial pods. The returned function ends that.
func (c *Cluster) feed(before *initial) (stop func()) {
	before.pending = slices.Grow(before.pending, c.config.Pods.Pending())
	next, stop := iter.Pull(c.config.Pods.pods())
	c.more = func() bool {
		pod, ok := next()
		switch {
		case !ok:
			c.more = nil
			return false
		case pod.Spec.NodeName == "":
			before.ask(pod)
		default:
			addTo(before.amounts, pod)
		}
		c.changes++
		c.show(c.store.adoptPod(pod))
		return true
	}
	return stop
}

// result returns the outcome for the initial pods.
func (c *Cluster) result(nodes []*v1.Node, before *initial, victims *victims) *Result {
	result := &Result{Pods: make([]Placement, 0, len(before.pending))}
	groups := c.newGroupResults()
	for i := range before.pending {
		p := c.placement(before.pending[i].pod)
		groups.take(&before.pending[i], &p)
		result.Pods = append(result.Pods, p)
	}
	result.Groups = groups.all()
	result.Evictions = victims.evicted(c)
	result.before, result.after = before.amounts, c.tallied(nodes)
	result.Summary = summarize(nodes, result.before, result.after, result.Pods)
	result.Summary.Evicted = len(result.Evictions)
	return result
}

// take creates everything but pods.
func (c *Cluster) take(files *manifest.Cluster) error {
	for _, object := range files.Objects() {
		if row := kinds.Of(object); row != nil && row.Kind == model.PodKind || row == nil && !isTemplate(object) {
			continue
		}
		if err := c.SetObject(object); err != nil {
			return err
		}
	}
	return nil
}

// divide separates pending and placed pods, in the order in which the scheduler would
// have seen them. Finished pods are in neither list.
func divide(pods []*v1.Pod) (pending, placed []*v1.Pod) {
	for _, pod := range pods {
		switch {
		case kinds.Finished(pod):
		case pod.Spec.NodeName != "":
			placed = append(placed, pod)
		default:
			pending = append(pending, pod)
		}
	}
	slices.SortStableFunc(pending, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), compareKeys(keyOf(a), keyOf(b)))
	})
	return pending, placed
}

// untilQuiet advances the time while progress is possible.
func (c *Cluster) untilQuiet(each func(Round) error) error {
	for {
		if err := c.Settle(each); err != nil {
			return err
		}
		at, ok := c.agenda.next()
		if !ok {
			if !c.hopeful() {
				return nil
			}
			at, _ = c.Next()
		}
		if err := c.AdvanceTo(at, each); err != nil {
			return err
		}
	}
}

// hopeful reports whether a pod that backs off or is parked will be retried on a cluster
// that has changed since its last attempt. The changes that could help a parked pod have
// happened already. But some events wake no pod, as in kube-scheduler: pods that a
// namespace selector matches, for example. Such a pod is retried after MaxParked.
func (c *Cluster) hopeful() bool {
	if n := c.loop.Queue().Counts(); n.BackingOff+n.Parked == 0 {
		return false
	}
	for key, v := range c.verdicts {
		if v.changes == c.changes {
			continue
		}
		if place := c.loop.Queue().PlaceOf(key); place != "" && place != "gated" && place != "incomplete" && place != "binding" {
			return true
		}
	}
	return false
}

func (c *Cluster) placement(key model.PodKey) Placement {
	pod := c.store.pods[key]
	p := Placement{Namespace: key.Namespace, Pod: key.Name}
	if pod == nil { // no one else deletes pods here
		p.Status, p.Message = Evicted, "the pod got a node, and was evicted for another"
		return p
	}
	verdict, decided := c.Verdict(key)
	p.FeasibleNodes = verdict.Decision.Feasible
	if p.Node = pod.Spec.NodeName; p.Node != "" {
		if p.Status = Scheduled; p.FeasibleNodes > 1 {
			total := verdict.Placement.Total // a copy, so that the verdict stays on the stack
			p.Score = &total
		}
		return p
	}
	switch gate := c.Gated(pod); {
	case c.profiles[pod.Spec.SchedulerName] == nil:
		p.Status, p.Message = Ignored, fmt.Sprintf("no profile has the scheduler name %q; the profiles are %s", pod.Spec.SchedulerName, c.profileNames())
	case gate != "":
		p.Status, p.Message = Gated, gate
	case pod.DeletionTimestamp != nil:
		p.Status, p.Message = Ignored, "the pod is being deleted"
	case !decided:
		p.Status, p.Message = Failed, "the pod was never tried"
	case verdict.Decision.Outcome == plan.Unschedulable:
		p.Status, p.Message = Pending, verdict.Message()
	default:
		p.Status, p.Message = Failed, verdict.Message()
	}
	return p
}

func (c *Cluster) profileNames() string {
	var names []string
	for _, name := range c.config.Scheduler.SchedulerNames() {
		names = append(names, fmt.Sprintf("%q", name))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Message returns the full text of the FailedScheduling event, which the event itself
// truncates. It is empty for a placed pod.
func (v Verdict) Message() string { return v.message }
