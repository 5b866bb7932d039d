// Package plugintest builds the small clusters of plugins' test tables.
//
// It takes API objects and returns state views, built by the state that production uses.
// It owns nothing. Only tests import it.
package plugintest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Cluster returns a state with the nodes, and with the pods on the nodes they name.
func Cluster(nodes []*v1.Node, pods ...*v1.Pod) *state.State {
	s := state.New()
	var changes []model.Change
	for _, n := range nodes {
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(n)})
	}
	for _, p := range pods {
		changes = append(changes, model.Change{Kind: model.PodSet, Pod: model.NewPod(p)})
	}
	s.Apply(changes)
	return s
}

// DeviceClass returns a class whose devices are requested as an extended resource. An
// empty resource sets none.
func DeviceClass(name, resource string) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if resource != "" {
		c.Spec.ExtendedResourceName = &resource
	}
	return c
}

// WithDevices gives a node devices in one pool. A claim holds the first of them.
func WithDevices(s *state.State, node string, all, taken int) {
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "drv", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
	}}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: node}}
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	for i := range all {
		name := fmt.Sprint("d", i)
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: name})
		if i < taken {
			claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Driver: "drv", Pool: node, Device: name})
		}
	}
	Set(s, slice, claim)
}

// Set applies versions of objects to a state, as watches do.
func Set(s *state.State, objects ...runtime.Object) {
	var changes []model.Change
	for _, o := range objects {
		changes = append(changes, kinds.Of(o).Change(o.(kinds.Object)))
	}
	s.Apply(changes)
}

// Ruling returns the result of a filter with NeedIn for a pod, as in the pod's turn:
//
//	error: <error>     NeedIn failed
//	pod: <rejection>   NeedIn rejected the pod
//	skip               the pod has no need
//
// Otherwise it returns a verdict for each node, in slot order: "fits", "U <reasons>" (UU
// if unresolvable) or "E <error>". The nodes are judged in the view in, which is the view
// of the turn or a dry run of it.
func Ruling(p BuiltIn, pod *model.Pod, turn, in state.View) string {
	found, err := p.Parts().Filter.NeedIn(turn, pod)
	switch {
	case err != nil:
		return "error: " + err.Error()
	case found.Rejection != "":
		return "pod: " + found.Rejection
	case found.Need == nil:
		return "skip"
	}
	verdicts := found.Need.Compile()
	var words []string
	for slot, alive := range in.State().Alive() {
		if alive {
			words = append(words, verdictOf(verdicts, turn, pod, verdicts.Filter(in.Node(int32(slot)))))
		}
	}
	return strings.Join(words, ", ")
}

func verdictOf(verdicts *plugin.Verdicts, v state.View, pod *model.Pod, code reason.Code) string {
	switch {
	case code == reason.None:
		return "fits"
	case code.IsFailed():
		return "E " + verdicts.Failures.Err(v, pod, code).Error()
	case code.IsUnresolvable():
		return "UU " + strings.Join(verdicts.Reasons(code), "; ")
	}
	return "U " + strings.Join(verdicts.Reasons(code), "; ")
}

// NeedIn returns the text of the pod's need of a filter with NeedIn in a view. It is
// empty if the need is nil or the pod is rejected.
func NeedIn(p BuiltIn, pod *model.Pod, v state.View) string {
	found, _ := p.Parts().Filter.NeedIn(v, pod)
	if found.Need == nil {
		return ""
	}
	return string(found.Need.AppendText(nil))
}

// Helped reports whether a hint is positive for a registration that concerns the event,
// for a pod without an AskedIn need. If the registration has a cause, the event must
// touch it: otherwise the test fails.
func Helped(t testing.TB, p BuiltIn, waiting *model.Pod, event model.Event) bool {
	t.Helper()
	helped := false
	for _, r := range p.Parts().EnqueueExtensions.Events {
		if !r.Helps(waiting, event) || r.Asked != nil && !r.Asked.Hint(model.Need{}, event) {
			continue
		}
		helped = true
		if r.Cause != nil && !finds(&r, waiting, event) {
			t.Errorf("%s: the event %s helps pod %s and does not find it", p.Parts().Name, event.Label(), waiting)
		}
	}
	return helped
}

// Found reports whether the event finds the pod by a registration that concerns it,
// without looking at the hint.
func Found(p BuiltIn, waiting *model.Pod, event model.Event) bool {
	return slices.ContainsFunc(p.Parts().EnqueueExtensions.Events, func(r model.EventToRegister) bool {
		return r.Concerns(event) && r.Asked == nil && (r.Cause == nil || finds(&r, waiting, event))
	})
}

func finds(r *model.EventToRegister, waiting *model.Pod, event model.Event) bool {
	cause, touch := r.Cause(waiting), model.Touch{}
	r.Touches(event, &touch)
	return meets(cause.Wants, touch.Has) && (len(cause.Keys) == 0 || meets(touch.Seeks, cause.Keys))
}

// meets reports whether the keys meet a way. An empty list of ways is always met.
func meets(ways []model.Way, keys []model.Key) bool {
	return len(ways) == 0 || slices.ContainsFunc(ways, func(way model.Way) bool {
		return !slices.ContainsFunc(way, func(clause model.Clause) bool {
			return !slices.ContainsFunc(clause, func(k model.Key) bool { return slices.Contains(keys, k) })
		})
	})
}

// Node returns the view of a cluster's only node, with the given pods on it.
func Node(node *v1.Node, pods ...*v1.Pod) state.Node {
	placed := make([]*v1.Pod, len(pods))
	for i, p := range pods {
		on := p.DeepCopy()
		on.Spec.NodeName = node.Name
		placed[i] = on
	}
	s := Cluster([]*v1.Node{node}, placed...)
	slot, _ := s.Slot(node.Name)
	return s.Node(slot)
}

// BuiltIn is a built-in plugin.
type BuiltIn interface{ Parts() *plugin.Parts }

// Of is a BuiltIn of parts.
type Of struct{ Own *plugin.Parts }

// Parts returns the parts.
func (o Of) Parts() *plugin.Parts { return o.Own }

// FilterNeed returns the pod's need of a filter, interned. It is zero for a nil need.
func FilterNeed(p BuiltIn, pod *model.Pod) model.Need {
	if p.Parts().Filter.Count != nil {
		return plugin.NeedOf(p.Parts().Filter.Count(pod))
	}
	return plugin.NeedOf(p.Parts().Filter.Need(pod))
}

// ScoreNeed returns the pod's need of a Score plugin, interned. It is zero for a nil
// need.
func ScoreNeed(p BuiltIn, pod *model.Pod) model.Need {
	if p.Parts().Score.Set != nil {
		return plugin.NeedOf(p.Parts().Score.Set(pod))
	}
	return plugin.NeedOf(p.Parts().Score.Need(pod))
}

// Verdicts compiles the pod's need of a filter. Without a need, every node passes.
func Verdicts(p BuiltIn, pod *model.Pod) *plugin.Verdicts {
	if need := p.Parts().Filter.Need(pod); need != nil {
		return need.Compile()
	}
	return &plugin.Verdicts{NodeVerdicts: passing{}}
}

type passing struct{}

func (passing) Filter(state.Node) reason.Code { return reason.None }
func (passing) Reasons(reason.Code) []string  { return nil }

// NodeScores compiles the pod's need of a Score plugin, which must not be nil.
func NodeScores(p BuiltIn, pod *model.Pod) (plugin.NodeScores, error) {
	return p.Parts().Score.Need(pod).Compile()
}

// Counting compiles the pod's need of a filter with Count, which must not be nil.
func Counting(p BuiltIn, pod *model.Pod) plugin.Counting {
	return p.Parts().Filter.Count(pod).Compile()
}

// Rules returns the rules that apply in the state, after PreFilter, as in a pod's turn.
func Rules(c plugin.Counting, s *state.State, to []plugin.CountRule) []plugin.CountRule {
	if check, _, err := c.PreFilter(s.View()); !check || err != nil {
		return to
	}
	return c.Rules(s.View(), to)
}

// SetScores compiles the pod's need of a Score plugin with Set, which must not be nil.
func SetScores(p BuiltIn, pod *model.Pod) (plugin.SetScores, error) {
	return p.Parts().Score.Set(pod).Compile()
}
