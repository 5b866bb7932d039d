package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/answers/advice"
	"github.com/berth-scheduler/berth/internal/answers/devicefit"
	"github.com/berth-scheduler/berth/internal/answers/history"
	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/decide/plugins/dynamicresources"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Snapshot is a cluster with its pending pods and an engine that judges them. One
// goroutine uses it.
type Snapshot struct {
	state    *state.State
	engine   *engine.Engine
	profiles map[string]*plugin.Profile
	pending  []*model.Pod
	// in compiles objects. nodes are the cluster's nodes, sorted by name.
	in    *ingest.Ingest
	nodes []*v1.Node
	// groups are the PodGroups. members are the pending pods by the group that they name,
	// in the order in which the scheduler tries them. holds caches the reasons why groups
	// are not tried. All are empty unless the members of a group are scheduled together.
	groups  []model.GroupKey
	members map[model.GroupKey][]*model.Pod
	holds   map[model.GroupKey]groupHold
	// trees is set if groups may belong to CompositePodGroups. turns caches the turns of
	// trees and treeHolds the reasons why trees are not tried. Both are keyed by the
	// CompositePodGroup at the top.
	trees     bool
	turns     map[model.GroupKey]*treeTurn
	treeHolds map[model.GroupKey]groupHold
	// readsClaims is set if a plugin reads claims, so the state has them. volumes and
	// capacities are in the order of the files.
	readsClaims bool
	volumes     []*model.Volume
	capacities  []*model.StorageCapacity
	// reads are the kinds that plugins read. others are the objects of these kinds except
	// pods and nodes.
	reads  []model.Kind
	others []kinds.Object
	// devices explains device claims.
	devices *devicefit.Examiner
}

// New builds a snapshot from nodes, pods and other objects. Objects that no configured
// plugin reads are ignored. Plugins compare times in the objects with `at`. Pending pods
// of unknown schedulers are omitted. The objects must not be changed afterwards.
func New(scheduler *config.Config, nodes []*v1.Node, pods []*v1.Pod, others []runtime.Object, at time.Time) (*Snapshot, error) {
	judge, err := engine.New(engine.Config{Profiles: scheduler.Profiles, GroupRetries: engine.DefaultGroupRetries})
	if err != nil {
		return nil, fmt.Errorf("build the engine: %w", err)
	}
	s := &Snapshot{state: state.New(), engine: judge, profiles: map[string]*plugin.Profile{}, members: map[model.GroupKey][]*model.Pod{}, holds: map[model.GroupKey]groupHold{},
		turns: map[model.GroupKey]*treeTurn{}, treeHolds: map[model.GroupKey]groupHold{}, devices: devicefit.New()}
	s.state.SetNow(at)
	for _, p := range scheduler.Profiles {
		s.profiles[p.Name] = p
	}
	in := ingest.New(scheduler.Compile())
	s.in, s.nodes = in, slices.SortedFunc(slices.Values(nodes), func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) })
	reads := scheduler.Reads()
	s.reads, s.readsClaims = reads, slices.Contains(reads, model.PersistentVolumeClaimKind)
	s.others = readOf(reads, pods, others)
	for _, other := range s.others {
		in.Set(other)
		switch o := other.(type) {
		case *v1.PersistentVolume:
			s.volumes = append(s.volumes, model.NewVolume(o))
		case *storagev1.CSIStorageCapacity:
			s.capacities = append(s.capacities, model.NewStorageCapacity(o))
		case *schedulingv1beta1.PodGroup:
			s.groups = append(s.groups, groupKeyOf(o))
		}
	}
	for _, node := range nodes {
		in.Set(node)
	}
	for _, pod := range pods {
		in.Set(pod)
	}
	s.pending = s.state.Apply(in.Drain()).Arrived
	slices.SortFunc(s.pending, func(a, b *model.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if s.trees = scheduler.Trees; scheduler.Groups {
		s.takeMembers()
	}
	return s, nil
}

// readOf returns the objects of the kinds that plugins read, except pods and nodes.
// PodDisruptionBudgets get a status if they have none.
func readOf(reads []model.Kind, pods []*v1.Pod, others []runtime.Object) []kinds.Object {
	var all []kinds.Object
	budgets := newKeeper(pods, others)
	for _, other := range others {
		row := kinds.Of(other)
		if row == nil || row.Kind == model.PodKind || row.Kind == model.NodeKind || !slices.Contains(reads, row.Kind) {
			continue
		}
		if budget, ok := other.(*policyv1.PodDisruptionBudget); ok {
			other = budgets.kept(budget)
		}
		all = append(all, other.(kinds.Object))
	}
	return all
}

// takeMembers collects the members of groups. Members of equal priority are tried in the
// order of their names, as after a failed attempt.
func (s *Snapshot) takeMembers() {
	for _, pod := range s.pending {
		if pod.Group != (model.GroupKey{}) {
			s.members[pod.Group] = append(s.members[pod.Group], pod)
		}
	}
	for _, members := range s.members {
		slices.SortStableFunc(members, func(a, b *model.Pod) int { return cmp.Compare(b.Priority, a.Priority) })
	}
}

// Pending returns the pods that can be explained, sorted by namespace and name. The
// snapshot owns the slice.
func (s *Snapshot) Pending() []*model.Pod { return s.pending }

// Explanation is the engine's full answer about one pod.
type Explanation struct {
	// Pod is namespace/name.
	Pod     string
	Profile string
	// PodGroup is namespace/name of the pod's group if its members are scheduled
	// together; empty for most pods.
	PodGroup string
	// Group is the explanation of that group. The caller sets it.
	Group *Group
	// Nodes are sorted by name. A malformed pod has none.
	Nodes []Node
	// Message is the text of the FailedScheduling event; empty if a node is feasible.
	Message string
	// PostFilterMessage is the part of Message that PostFilter plugins add: the result of
	// preemption, or the reason why it does nothing.
	PostFilterMessage string
	// Preemption is the result of preemption; nil if no pod would be nominated.
	Preemption *Preemption
	// Gated is the reason of a PreEnqueue plugin that holds the pod back, or the reason
	// why its pod group waits. The nodes are judged as if nothing did. If a missing
	// ResourceClaim holds the pod back, they are judged without the pod's ResourceClaims.
	Gated string
	// Error is set if the pod's attempt would end without a result on any node.
	Error string
	// Advice lists changes that would help. Advise sets it.
	Advice *advice.Advice
	// Decision and History come from the running scheduler. The caller sets them.
	Decision *history.Decision
	History  *history.Past

	pod      *model.Pod
	decision plan.Decision
}

// Node is the result of all plugins for one node.
type Node struct {
	Name     string `json:"name"`
	Feasible bool   `json:"feasible"`
	// Rejections are the rejections of all filters, in the profile's order;
	// kube-scheduler reports only the first. An entry without a plugin means that no
	// filter ran, because a PreFilter plugin returned other nodes only.
	Rejections []Rejection `json:"rejections,omitempty"`
	// LeftOutBy are the PreFilter plugins that did not return the node, if no filter ran
	// for this reason.
	LeftOutBy []string `json:"leftOutBy,omitempty"`
	// Scores are the scores of all score plugins that were not skipped, in the profile's
	// order. Scores is nil if the node is infeasible or nothing was scored: only one node
	// is feasible, or an error occurred.
	Scores []Score `json:"scores,omitzero"`
	// Total is the weighted sum of Scores; nil if Scores is.
	Total *int64 `json:"total,omitempty"`
}

// Rejection is a filter's rejection of a node.
type Rejection struct {
	Plugin string `json:"plugin"`
	// Code is kube-scheduler's name of the status.
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

// Score is a plugin's normalised score, 0 to 100, before the weight.
type Score struct {
	Plugin string `json:"plugin"`
	Weight int64  `json:"weight"`
	Score  int64  `json:"score"`
}

// Of explains one of the pending pods.
func (s *Snapshot) Of(pod *model.Pod) (*Explanation, error) { return s.explain(pod, false) }

// Tried explains one of the pending pods as if no PreEnqueue plugin held it back, with
// all its claims.
func (s *Snapshot) Tried(pod *model.Pod) (*Explanation, error) { return s.explain(pod, true) }

func (s *Snapshot) explain(pod *model.Pod, tried bool) (*Explanation, error) {
	by, gated := s.profiles[pod.SchedulerName].RunPreEnqueue(s.state.View(), pod)
	a := &Explanation{Pod: pod.String(), Profile: pod.SchedulerName, Nodes: []Node{}, Gated: gated, pod: pod}
	if s.isGrouped(pod) {
		a.PodGroup = pod.Group.String()
		if held, _ := s.held(pod.Group); gated == "" && held != "" {
			a.Gated = "its pod group waits: " + held
		}
	}
	judged := *pod
	// If a claim is missing, everything else can still be judged.
	if by == dynamicresources.Name && !tried {
		judged.Devices = nil
	}
	if pod.Terminating {
		// The pod would not be tried, but its nodes can be judged.
		judged.Terminating = false
		a.Error = report.Message(&plan.Decision{Outcome: plan.Terminating})
	}
	full, err := s.ask(&judged)
	if err != nil {
		return nil, fmt.Errorf("evaluate pod %s: %w", pod, err)
	}
	if s.isGrouped(pod) { // A member alone preempts no pods.
		full.Decision = s.engine.Decide(s.state.View(), s.memberOf(&judged))
	}
	a.decision = full.Decision
	switch d := &full.Decision; d.Outcome {
	case plan.Unschedulable, plan.NoNodes:
		a.Message, a.PostFilterMessage, a.Preemption = report.Message(d), d.PostFilter, s.preemption(d)
	case plan.Failed:
		a.Error = d.Err.Error()
	}
	a.addNodes(full.Nodes)
	s.nameLeavers(a, &judged)
	return a, nil
}

// nameLeavers sets LeftOutBy of each node for which no filter ran. The engine keeps only
// the intersection of the PreFilter results, so each PreFilter plugin runs again.
// External plugins need a turn of their own for this.
func (s *Snapshot) nameLeavers(a *Explanation, pod *model.Pod) {
	leftOut := func(n *Node) bool { return len(n.Rejections) == 1 && n.Rejections[0].Plugin == "" }
	if !slices.ContainsFunc(a.Nodes, func(n Node) bool { return leftOut(&n) }) {
		return
	}
	profile := s.profiles[pod.SchedulerName]
	if profile.External != nil {
		profile.External.Begin(s.state.View(), pod)
		defer profile.External.End()
	}
	for i, f := range profile.PreFilters {
		if i < 64 && pod.SkipsPreFilter&(1<<i) != 0 {
			continue
		}
		result := f.Run(s.state.View(), pod)
		if !result.Narrowed {
			continue
		}
		named := map[string]bool{}
		for _, name := range result.Nodes {
			named[name] = true
		}
		for i := range a.Nodes {
			if n := &a.Nodes[i]; leftOut(n) && !named[n.Name] {
				n.LeftOutBy = append(n.LeftOutBy, f.Name)
			}
		}
	}
}

// isGrouped reports whether a pod is scheduled together with other pods.
func (s *Snapshot) isGrouped(pod *model.Pod) bool { return len(s.members[pod.Group]) > 0 }

// memberOf returns a pod as a single member of its group, even if the PodGroup does not
// exist.
func (s *Snapshot) memberOf(pod *model.Pod) plan.Member {
	m := plan.Alone(pod)
	if m.Group = s.state.View().Group(pod.Group); m.Group == nil {
		m.Group = &model.PodGroup{Key: pod.Group, MinCount: 1}
	}
	if root, _ := s.rootOf(m.Group); root != nil {
		m.Tree = s.state.View().Tree(root.Key)
	}
	return m
}

// ask returns an answer without nodes for a malformed pod, because such a pod has no
// needs.
func (s *Snapshot) ask(pod *model.Pod) (plan.Answer, error) {
	if pod.Malformed != "" {
		return plan.Answer{Decision: s.engine.Decide(s.state.View(), plan.Alone(pod))}, nil
	}
	return s.engine.Answer(s.state.View(), pod)
}

func (a *Explanation) addNodes(nodes []plan.NodeAnswer) {
	feasible := 0
	for i := range nodes {
		if nodes[i].Feasible {
			feasible++
		}
	}
	scored := feasible > 1 && a.decision.Err == nil
	a.Nodes = slices.Grow(a.Nodes, len(nodes))
	for i := range nodes {
		from := &nodes[i]
		node := Node{Name: from.Name, Feasible: from.Feasible, Rejections: rejections(from.Rejections)}
		if node.Feasible && scored {
			node.Scores, node.Total = make([]Score, len(from.Scores)), &from.Total
			for i, score := range from.Scores {
				node.Scores[i] = Score(score)
			}
		}
		a.Nodes = append(a.Nodes, node)
	}
}

func rejections(from []reason.Rejection) []Rejection {
	if len(from) == 0 {
		return nil
	}
	to := make([]Rejection, len(from))
	for i, r := range from {
		to[i] = Rejection{Plugin: r.Plugin, Code: r.StatusCode(), Reasons: r.Reasons}
	}
	return to
}
