package framework

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/external/framework/snapshot"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// gate lets plugins run the built-in plugins while the loop waits for a PostFilter
// plugin, because the state does not change then. It closes before the loop continues, so
// a late goroutine gets an error. Any goroutine may call it; calls run one at a time.
type gate struct {
	mu       sync.Mutex
	cycle    plugin.Cycle // nil: closed
	snapshot *snapshot.Snapshot
	pod      *model.Pod
	// open means that the engine is running filters for a plugin. Out-of-tree filters
	// pass every node meanwhile.
	open     bool
	draft    state.Draft
	compiled map[*v1.Pod]*model.Pod
}

var errShut = errors.New("built-in plugins can only be run during PostFilter, until it returns")

func (g *gate) openFor(c plugin.Cycle, pod *model.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cycle, g.pod, g.compiled = c, pod, map[*v1.Pod]*model.Pod{}
}

// close closes the gate. It waits for a running call.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cycle, g.pod, g.compiled = nil, nil, nil
}

// filter runs the built-in filters for the turn's pod on a node, with the pods of a
// NodeInfo and the changes in a CycleState. Pods on this and other nodes may differ from
// the state.
func (g *gate) filter(cycle fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) (status *fwk.Status) {
	defer func() {
		if r := recover(); r != nil { // on a plugin's goroutine, a panic would end the process
			status = fwk.AsStatus(fmt.Errorf("running built-in filters: panicked: %s", textOf(r)))
		}
	}()
	asked := questionAbout(pod, cycle, info)
	g.mu.Lock()
	defer g.mu.Unlock()
	slots, err := g.slotsOf(&asked)
	if err != nil {
		return fwk.AsStatus(err)
	}
	return g.filterAt(slots[0], &asked)
}

// question is the input of built-in plugins: nodes with pods, and calls of AddPod and
// RemovePod.
type question struct {
	pod     *v1.Pod
	nodes   []askedNode
	changes []change
}

type askedNode struct {
	info fwk.NodeInfo
	node *v1.Node
	pods []*v1.Pod
}

// questionAbout copies a question from plugins' values. Their types may be the plugin's
// own, with methods of any duration, and the loop must not wait for them.
func questionAbout(pod *v1.Pod, cycle fwk.CycleState, infos ...fwk.NodeInfo) question {
	asked := question{pod: pod, changes: changesIn(cycle)}
	for _, info := range infos {
		n := askedNode{info: info, node: info.Node()}
		for _, p := range info.GetPods() {
			n.pods = append(n.pods, p.GetPod())
		}
		asked.nodes = append(asked.nodes, n)
	}
	return asked
}

// slotsOf returns the slots of the nodes of a question, or the reason why it has no
// answer.
func (g *gate) slotsOf(asked *question) ([]int32, error) {
	switch {
	case g.cycle == nil:
		return nil, errShut
	case asked.pod.UID != g.pod.UID:
		return nil, fmt.Errorf("plugins can only be run for pod %s, whose turn it is; not for %s/%s", g.pod, asked.pod.Namespace, asked.pod.Name)
	}
	slots := make([]int32, len(asked.nodes))
	for i := range asked.nodes {
		node := asked.nodes[i].node
		if node == nil {
			return nil, errors.New("node not found")
		}
		slot, ok := g.cycle.View().Slot(node.Name)
		if !ok {
			return nil, fmt.Errorf("plugins can only be run for nodes of the snapshot; %q is not one", node.Name)
		}
		if was := g.snapshot.NodeInfoIn(g.cycle.View(), slot).Node(); was != node && !equality.Semantic.DeepEqual(was, node) {
			return nil, fmt.Errorf("built-in plugins cannot be run for a changed node object: %q", node.Name)
		}
		slots[i] = slot
	}
	return slots, nil
}

// arrange returns a dry run that has the pods of a question on its nodes.
func (g *gate) arrange(asked *question, slots []int32) *state.Draft {
	v := g.cycle.View()
	draft := v.DryRun(&g.draft)
	for _, c := range asked.changes {
		other, ok := v.Slot(c.node)
		if !ok || slices.Contains(slots, other) {
			continue // the question lists all pods of these nodes
		}
		if c.add {
			g.add(draft, c.pod, other)
		} else if key := keyOf(c.pod); draft.On(key) {
			draft.Remove(key)
		}
	}
	for i, slot := range slots {
		if asked.nodes[i].info != g.snapshot.NodeInfoIn(v, slot) {
			g.place(draft, slot, asked.nodes[i].pods)
		}
	}
	return draft
}

// place replaces the pods on a node.
func (g *gate) place(draft *state.Draft, slot int32, pods []*v1.Pod) {
	left := map[types.UID]*v1.Pod{}
	for _, pod := range pods {
		left[pod.UID] = pod
	}
	for pod := range g.cycle.View().PodsOn(slot) {
		if left[pod.UID] != nil {
			delete(left, pod.UID)
		} else if draft.On(pod.Key()) {
			draft.Remove(pod.Key())
		}
	}
	for _, pod := range pods { // in order
		if left[pod.UID] == pod {
			g.add(draft, pod, slot)
		}
	}
}

func (g *gate) filterAt(slot int32, asked *question) *fwk.Status {
	draft := g.arrange(asked, []int32{slot})
	g.open = true
	defer func() { g.open = false }()
	rejection, err := g.cycle.RejectionIn(draft, slot)
	switch {
	case err != nil:
		return fwk.AsStatus(err)
	case rejection.Plugin == "" && len(rejection.Reasons) == 0:
		return nil
	}
	return statusOf(&rejection)
}

// add moves a pod to a node.
func (g *gate) add(draft *state.Draft, object *v1.Pod, slot int32) {
	pod := g.compiled[object]
	if pod == nil {
		pod = model.NewPod(object)
		g.compiled[object] = pod
	}
	if draft.On(pod.Key()) {
		draft.Remove(pod.Key())
	}
	draft.Add(pod, slot)
}

func keyOf(pod *v1.Pod) model.PodKey { return model.PodKey{Namespace: pod.Namespace, Name: pod.Name} }

// changesKey is the CycleState key of the calls of AddPod and RemovePod.
const changesKey fwk.StateKey = "berth.dev/changes"

// changes is a list of calls of AddPod and RemovePod, the last one first. It never
// changes, so clones of a CycleState share it.
type changes struct {
	before *changes
	change
	n int
}

type change struct {
	pod  *v1.Pod
	node string
	add  bool
}

// Clone returns the list.
func (c *changes) Clone() fwk.StateData { return c }

// changesIn returns the calls in their order.
func changesIn(state fwk.CycleState) []change {
	data, err := state.Read(changesKey)
	last, ok := data.(*changes)
	if err != nil || !ok {
		return nil
	}
	list := make([]change, last.n)
	for c := last; c != nil; c = c.before {
		list[c.n-1] = c.change
	}
	return list
}

// noteChange adds a call.
func noteChange(state fwk.CycleState, c change) {
	data, _ := state.Read(changesKey)
	before, _ := data.(*changes)
	n := 1
	if before != nil {
		n += before.n
	}
	state.Write(changesKey, &changes{before, c, n})
}
