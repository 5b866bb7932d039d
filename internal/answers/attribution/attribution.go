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

// Version is the version of the JSON of a Result. It increases when a field is removed or
// changes its meaning. New fields do not change it.
const Version = 1

// Result explains why the answer about a pod differs from an older answer.
type Result struct {
	Version int `json:"version"`
	// Pod is namespace/name of the pod. For a pod group, PodGroup is set instead.
	Pod      string `json:"pod,omitempty"`
	PodGroup string `json:"podGroup,omitempty"`
	// OnlyThen and OnlyNow mean that only one snapshot has the pod, or members of the
	// group. The other snapshot is then judged with the same pod.
	OnlyThen bool `json:"onlyThen,omitempty"`
	OnlyNow  bool `json:"onlyNow,omitempty"`
	// Then is the answer in the older snapshot, Now the answer in the newer one.
	Then Answer `json:"then"`
	Now  Answer `json:"now"`
	// Differences is the number of differences in fields that scheduling can read.
	Differences int `json:"differences"`
	// Direction is the direction of the causes, Undo or Apply. It is empty if both
	// answers are equal; Causes is empty then.
	Direction Direction `json:"direction,omitempty"`
	// Lost lists the reasons of nodes that are feasible in one snapshot and infeasible in
	// the other. They are infeasible in the newer snapshot for Undo and in the older one
	// for Apply. The reason of the most nodes comes first.
	Lost []Lost `json:"lost,omitempty"`
	// Causes are sets of differences, the smallest first. Each set alone leads to the
	// other answer.
	Causes []Cause `json:"causes,omitempty"`
	// Decisions is the number of decisions of the search. CutShort is set if the search
	// reached a limit. Other causes may then exist even if none was found, and a cause
	// that is not Minimal may contain irrelevant differences.
	Decisions int  `json:"decisions"`
	CutShort  bool `json:"cutShort,omitempty"`
}

// Verdict is the result that an attempt to schedule the pod would have.
type Verdict string

// The verdicts, from the worst for the pod to the best.
const (
	// Failed means that a plugin fails, or that the pod is malformed.
	Failed Verdict = "failed"
	// Gated means that a PreEnqueue plugin holds the pod back.
	Gated Verdict = "gated"
	// Pending means that no node is feasible and preemption does not help.
	Pending Verdict = "pending"
	// Preempts means that the pod would preempt pods.
	Preempts Verdict = "preempts"
	// Placed means that the pod gets a node.
	Placed Verdict = "placed"
)

// ranks orders verdicts.
var ranks = map[Verdict]int{Failed: 0, Gated: 1, Pending: 2, Preempts: 3, Placed: 4}

// Answer is the result that an attempt would have in one cluster. A pod on a node is
// judged as if it were pending and not on the node. The answer about a pod group is the
// result of all members' attempt together: Placed means that enough members have nodes.
type Answer struct {
	Verdict Verdict `json:"verdict"`
	// Node is the node where the pod would be placed or nominated.
	Node string `json:"node,omitempty"`
	// On is the node of the pod in the snapshot.
	On string `json:"on,omitempty"`
	// Feasible is the number of feasible nodes.
	Feasible int `json:"feasible"`
	Nodes    int `json:"nodes"`
	// Members is the number of members of a pod group. Fit is the number of members that
	// get nodes if enough do.
	Members int `json:"members,omitempty"`
	Fit     int `json:"fit,omitempty"`
	// Message is the reason why the pod gets no node.
	Message string `json:"message,omitempty"`

	answers []plan.NodeAnswer
	// on are the nodes of the members of a pod group.
	on []string
}

// Direction states whether a cause's differences are undone or applied.
type Direction string

const (
	// Undo reverts the differences in the newer snapshot, which leads to the older
	// answer.
	Undo Direction = "undo"
	// Apply makes the differences in the older snapshot, which leads to the newer answer.
	Apply Direction = "apply"
)

// Lost is a reason of nodes that are infeasible here and feasible in the other snapshot.
type Lost struct {
	// Plugin is empty for missing nodes and for nodes on which no filter ran.
	Plugin  string   `json:"plugin,omitempty"`
	Reasons []string `json:"reasons"`
	Nodes   int      `json:"nodes"`
	// Examples are the first such nodes by name.
	Examples []string `json:"examples"`
}

// Cause is a set of differences that suffices.
type Cause struct {
	Changes []Change `json:"changes"`
	// Node is the node where the pod is then placed or nominated.
	Node string `json:"node,omitempty"`
	// Minimal means that the set does not suffice without any single one of its
	// differences. Exact means that no other subset suffices either; this is tested for
	// at most maxSubsets differences.
	Minimal bool `json:"minimal"`
	Exact   bool `json:"exact"`

	units []int
}

// Change is one difference, from the older snapshot to the newer.
type Change struct {
	Kind Kind `json:"kind"`
	// Object is the object that differs: "pod shop/web", "node n1",
	// "PersistentVolumeClaim shop/data".
	Object string `json:"object"`
	// Node is the node of the change; empty if it concerns none or several.
	Node string `json:"node,omitempty"`
	// Text describes the change, such as "pod shop/db came to node n1 (cpu 2)".
	Text string `json:"text"`
}

// Cluster is the cluster to undo or apply differences in. One goroutine uses it.
type Cluster struct {
	// State is the state of the newer snapshot. For leaves it anywhere between the two
	// snapshots, so it is not usable afterwards. In must have no pending objects.
	State    *state.State
	Engine   *engine.Engine
	In       *ingest.Ingest
	Profiles map[string]*plugin.Profile
}

// The limits of a search.
const (
	// MaxDecisions limits the decisions about one pod.
	MaxDecisions = 600
	// maxMemberDecisions limits the decisions about single members of one pod group.
	maxMemberDecisions = 20_000
	// maxReplaced limits the objects replaced in the state: this many per differing
	// object and per decision of MaxDecisions.
	maxReplaced = 100
	// maxNodes limits the nodes whose differences are tried separately.
	maxNodes = 32
	// maxCauses limits the causes.
	maxCauses = 5
	// maxSubsets is the size up to which every subset of a set is tried.
	maxSubsets = 6
	// maxSpare limits the size of a cause that is not minimal. A longer set, with unknown
	// relevance, is not reported.
	maxSpare = 20
	// maxExamples limits the nodes named as examples.
	maxExamples = 3
)

// For explains why the answer about a pod or pod group differs. The pod, or a member,
// must be in one of the snapshots. Its scheduler name must belong to a profile in both.
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

// what returns the name of the subject for errors.
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

// Make applies or undoes the cause. It returns the pod, or the members of the pod group,
// as they are then judged, and the changed and the deleted objects. All other members are
// absent.
func (r *Result) Make(d *Differences, cause *Cause) (members []*v1.Pod, set, gone []kinds.Object) {
	return d.make(r.Direction, cause.units)
}

// refOf returns the reference of an object.
func refOf(o kinds.Object) model.Ref { return kinds.Of(o).Ref(o) }
