// Package explain says what the scheduler thinks of each node for each pending pod of a cluster that does not change.
//
// It takes a checked configuration and API objects, and gives an Answer for a pod (every plugin's view of every node, in
// kube-scheduler's words, as JSON) and a Summary of it for people. It owns a state that the pods with a node are on, and an engine. A
// pending pod is judged against that state alone: it never places one, so no answer influences another, and it never asks an API
// server, reads a file or knows the time.
package explain

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/ingest"
	"github.com/berth-scheduler/berth/internal/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/report"
	"github.com/berth-scheduler/berth/internal/state"
)

// Snapshot is a cluster with its pending pods, and an engine that judges them. One goroutine uses it.
type Snapshot struct {
	state    *state.State
	engine   *engine.Engine
	profiles map[string]*plugin.Profile
	pending  []*model.Pod
}

// New takes in a cluster: its nodes, its pods, and of the others those that the configured plugins read. Pending pods whose scheduler name no
// profile has are left out. The objects must not be changed afterwards.
func New(scheduler *config.Config, nodes []*v1.Node, pods []*v1.Pod, others []runtime.Object) (*Snapshot, error) {
	judge, err := engine.New(engine.Config{Profiles: scheduler.Profiles})
	if err != nil {
		return nil, fmt.Errorf("build the engine: %w", err)
	}
	s := &Snapshot{state: state.New(), engine: judge, profiles: map[string]*plugin.Profile{}}
	for _, p := range scheduler.Profiles {
		s.profiles[p.Name] = p
	}
	in := ingest.New(scheduler.Compile())
	reads := scheduler.Reads()
	for _, other := range others {
		row := kinds.Of(other)
		if row == nil || row.Kind == model.PodKind || row.Kind == model.NodeKind || !slices.Contains(reads, row.Kind) {
			continue
		}
		in.Set(other.(kinds.Object))
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
	return s, nil
}

// Pending returns the pods that there are answers for, by namespace and name. The slice is the snapshot's own.
func (s *Snapshot) Pending() []*model.Pod { return s.pending }

// Answer is everything the engine thinks about one pod.
type Answer struct {
	// Pod is namespace/name.
	Pod     string
	Profile string
	// Nodes are sorted by name. There are none for a pod that is so malformed that none could be asked.
	Nodes []Node
	// Message is the text of the FailedScheduling event, before what preemption has to say; empty if a node is feasible.
	Message string
	// Gated says what keeps the pod from being tried at all. It is judged as if nothing did.
	Gated string
	// Error says why the pod's turn would end without a result, whatever the nodes are like.
	Error string

	pod      *model.Pod
	decision plan.Decision
}

// Node is what the plugins think of one node.
type Node struct {
	Name     string `json:"name"`
	Feasible bool   `json:"feasible"`
	// Rejections are of every filter that objects, in the profile's order; the first is what kube-scheduler reports. One without a
	// plugin says that the node was not looked at, because plugins had named the only nodes that were worth it.
	Rejections []Rejection `json:"rejections,omitempty"`
	// Scores are of every scorer that has a say, in the profile's order; nil where nothing was scored: there was no choice, or an error.
	Scores []Score `json:"scores,omitzero"`
	// Total is the weighted sum of Scores, nil where there are none.
	Total *int64 `json:"total,omitempty"`
}

// Rejection is a filter's "no".
type Rejection struct {
	Plugin string `json:"plugin"`
	// Code is kube-scheduler's name of the status.
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

// Score is one scorer's opinion: 0..100, before the weight.
type Score struct {
	Plugin string `json:"plugin"`
	Weight int64  `json:"weight"`
	Score  int64  `json:"score"`
}

// Of answers for one of the pending pods.
func (s *Snapshot) Of(pod *model.Pod) (*Answer, error) {
	_, gated := s.profiles[pod.SchedulerName].RunPreEnqueue(pod)
	a := &Answer{Pod: pod.String(), Profile: pod.SchedulerName, Nodes: []Node{}, Gated: gated, pod: pod}
	judged := *pod
	if pod.Terminating {
		// It would not be tried. The nodes can be asked all the same.
		judged.Terminating = false
		a.Error = report.Message(&plan.Decision{Outcome: plan.Terminating})
	}
	full, err := s.ask(&judged)
	if err != nil {
		return nil, fmt.Errorf("ask the engine about pod %s: %w", pod, err)
	}
	a.decision = full.Decision
	switch d := &full.Decision; d.Outcome {
	case plan.Unschedulable, plan.NoNodes:
		a.Message = report.Message(d)
	case plan.Failed:
		a.Error = d.Err.Error()
	}
	a.addNodes(full.Nodes)
	return a, nil
}

// ask has an answer without nodes for a malformed pod: it has no needs that nodes could be asked about.
func (s *Snapshot) ask(pod *model.Pod) (plan.Answer, error) {
	if pod.Malformed != "" {
		return plan.Answer{Decision: s.engine.Decide(s.state.View(), plan.WorkFor(pod))}, nil
	}
	return s.engine.Answer(s.state.View(), pod)
}

func (a *Answer) addNodes(nodes []plan.NodeAnswer) {
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
