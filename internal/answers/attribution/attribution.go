package attribution

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Version is that of the JSON of a Result. It is raised when a field changes its meaning or goes; fields may be added.
const Version = 1

// Result is why the answer about a pod is another one than before.
type Result struct {
	Version int `json:"version"`
	// Pod is namespace/name, or PodGroup is of the pod group that is asked about.
	Pod      string `json:"pod,omitempty"`
	PodGroup string `json:"podGroup,omitempty"`
	// OnlyThen and OnlyNow say that one snapshot alone has the pod, or any members. It is judged in the other as it is in that one.
	OnlyThen bool `json:"onlyThen,omitempty"`
	OnlyNow  bool `json:"onlyNow,omitempty"`
	// Then is the answer in the older snapshot, Now that in the newer.
	Then Answer `json:"then"`
	Now  Answer `json:"now"`
	// Differences is how many there are between the snapshots that scheduling can read.
	Differences int `json:"differences"`
	// Direction says what is done to the differences of a cause: Undo or Apply. It is empty if the answer is the same, and then there are no causes.
	Direction Direction `json:"direction,omitempty"`
	// Lost is what rejects nodes in the one snapshot that would do in the other, those of most nodes first: in the newer snapshot if the direction is Undo, and in the older if it is Apply.
	Lost []Lost `json:"lost,omitempty"`
	// Causes are sets of differences with each of which the answer is the other one, the smallest first.
	Causes []Cause `json:"causes,omitempty"`
	// Decisions is how many decisions the search took. CutShort says that it was ended by its bounds: there may be other causes, or none was found, and a cause that is not Minimal may have differences that do not matter.
	Decisions int  `json:"decisions"`
	CutShort  bool `json:"cutShort,omitempty"`
}

// Verdict is what a turn of the pod would come to.
type Verdict string

// The verdicts, from the worst for the pod to the best.
const (
	// Failed means that a plugin fails, or that the pod cannot be read.
	Failed Verdict = "failed"
	// Gated means that a PreEnqueue plugin holds the pod back.
	Gated Verdict = "gated"
	// Pending means that no node will do, and that evicting pods does not help.
	Pending Verdict = "pending"
	// Preempts means that pods would be evicted for it.
	Preempts Verdict = "preempts"
	// Placed means that it has a node.
	Placed Verdict = "placed"
)

// ranks orders verdicts.
var ranks = map[Verdict]int{Failed: 0, Gated: 1, Pending: 2, Preempts: 3, Placed: 4}

// Answer is what a turn of the pod would come to in one cluster. A pod on a node is judged as if it waited, and were not there. That of a pod group is what the turn of all its members together would come to: Placed means that enough of
// them have nodes.
type Answer struct {
	Verdict Verdict `json:"verdict"`
	// Node is where it would go, or what it would be nominated to.
	Node string `json:"node,omitempty"`
	// On is the node that the pod is on in the snapshot.
	On string `json:"on,omitempty"`
	// Feasible is how many of the nodes will do.
	Feasible int `json:"feasible"`
	Nodes    int `json:"nodes"`
	// Members is how many members a pod group has, Fit how many of them have nodes if enough have.
	Members int `json:"members,omitempty"`
	Fit     int `json:"fit,omitempty"`
	// Message is why the pod has no node.
	Message string `json:"message,omitempty"`

	answers []plan.NodeAnswer
	// on are the nodes of the members of a pod group.
	on []string
}

// Direction is what is done to the differences of a cause.
type Direction string

const (
	// Undo takes the differences back in the newer snapshot, and the answer is that of the older one.
	Undo Direction = "undo"
	// Apply makes the differences in the older snapshot, and the answer is that of the newer one.
	Apply Direction = "apply"
)

// Lost is a reason for which nodes do not do that would in the other snapshot.
type Lost struct {
	// Plugin is empty for nodes that are not there, and for those that no filter was asked about.
	Plugin  string   `json:"plugin,omitempty"`
	Reasons []string `json:"reasons"`
	Nodes   int      `json:"nodes"`
	// Examples are the first of them by name.
	Examples []string `json:"examples"`
}

// Cause is a set of differences that is enough.
type Cause struct {
	Changes []Change `json:"changes"`
	// Node is where the pod goes then, or what it is nominated to.
	Node string `json:"node,omitempty"`
	// Minimal says that without any single one of the differences it is not enough; Exact that no other part of them is enough either, which is tried of sets of up to subsetsMax differences.
	Minimal bool `json:"minimal"`
	Exact   bool `json:"exact"`

	units []int
}

// Change is one difference, from the older snapshot to the newer.
type Change struct {
	Kind Kind `json:"kind"`
	// Object is what differs: "pod shop/web", "node n1", "PersistentVolumeClaim shop/data".
	Object string `json:"object"`
	// Node is the node that it is about; empty if it is about none, or about several.
	Node string `json:"node,omitempty"`
	// Text says what has changed, such as "pod shop/db came to node n1 (cpu 2)".
	Text string `json:"text"`
}

// Cluster is where differences are made. It is used by one goroutine.
type Cluster struct {
	// State is that of the newer snapshot. For leaves it in between, and nobody can use it afterwards. Nothing may wait in In.
	State    *state.State
	Engine   *engine.Engine
	In       *ingest.Ingest
	Profiles map[string]*plugin.Profile
}

// The bounds of a search.
const (
	// DecisionsMax is how many decisions are made for one pod.
	DecisionsMax = 600
	// memberDecisionsMax is how many decisions about members are made for one pod group.
	memberDecisionsMax = 20_000
	// replacedMax is how many objects are replaced in the state, for each one that differs.
	replacedMax = 100
	// nodesMax is how many nodes are tried by themselves.
	nodesMax = 32
	// causesMax is how many causes are looked for.
	causesMax = 5
	// subsetsMax is the largest set of differences of which every part is tried.
	subsetsMax = 6
	// spareMax is how many differences a cause may have that is not minimal. A longer one, of which nobody knows what matters, is not offered.
	spareMax = 20
	// examplesMax is how many nodes are named as examples.
	examplesMax = 3
)

// For returns why the answer about a pod, or a pod group, is another one than before. The pod, or members, must be in one of the snapshots, and a profile of the cluster must have their scheduler name in both.
func For(c Cluster, d *Differences) (*Result, error) {
	if len(d.asked) == 0 {
		return nil, fmt.Errorf("%s is in neither snapshot", d.what())
	}
	for i := range d.asked {
		for _, pod := range []*v1.Pod{d.asked[i].then, d.asked[i].now} {
			if pod != nil && c.Profiles[pod.Spec.SchedulerName] == nil {
				return nil, fmt.Errorf("no profile has the scheduler name %q of pod %s/%s", pod.Spec.SchedulerName, pod.Namespace, pod.Name)
			}
		}
	}
	w := newWorld(c, d)
	r := &Result{Version: Version, OnlyThen: d.onlyThen, OnlyNow: d.onlyNow, Differences: len(d.units)}
	if d.group == nil {
		r.Pod = d.name
	} else {
		r.PodGroup = d.name
	}
	var err error
	if r.Now, err = w.whole(); err != nil {
		return nil, err
	}
	w.moveTo(func(int) bool { return true })
	if r.Then, err = w.whole(); err != nil {
		return nil, err
	}
	if d.group == nil {
		r.Then.On, r.Now.On = onNode(d.asked[0].then), onNode(d.asked[0].now)
	}
	s := search{world: w, result: r}
	switch {
	case r.Then.Verdict == r.Now.Verdict && (r.Then.Node == r.Now.Node || r.Then.Node == "" || r.Now.Node == ""):
	case ranks[r.Then.Verdict] >= ranks[r.Now.Verdict]:
		s.run(Undo, &r.Now, &r.Then)
	default:
		s.run(Apply, &r.Then, &r.Now)
	}
	r.Decisions, r.CutShort = w.decisions, w.cutShort
	return r, nil
}

// what names what is asked about.
func (d *Differences) what() string {
	if d.group != nil {
		return "a member of pod group " + d.name
	}
	return "pod " + d.name
}

func onNode(pod *v1.Pod) string {
	if pod == nil {
		return ""
	}
	return pod.Spec.NodeName
}

// Make returns the cluster's objects that are others after what is done to the differences of a cause, those that are gone then, and the pod as it is judged then.
func (r *Result) Make(d *Differences, cause *Cause) (pod *v1.Pod, set, gone []kinds.Object) {
	pods, set, gone := d.make(r.Direction, cause.units)
	return pods[0], set, gone
}

// MakeForGroup is Make for a pod group, of which it returns the members as they are judged then; members that the cluster has besides are not there.
func (r *Result) MakeForGroup(d *Differences, cause *Cause) (members []*v1.Pod, set, gone []kinds.Object) {
	return d.make(r.Direction, cause.units)
}

// Part returns a cause with some of the changes of another, for Make.
func (c *Cause) Part(has func(i int) bool) *Cause {
	part := &Cause{}
	for i := range c.Changes {
		if has(i) {
			part.Changes, part.units = append(part.Changes, c.Changes[i]), append(part.units, c.units[i])
		}
	}
	return part
}

// refOf names an object.
func refOf(o kinds.Object) model.Ref { return kinds.Of(o).Ref(o) }
