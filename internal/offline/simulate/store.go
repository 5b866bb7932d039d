package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// store holds the API server's objects. They are immutable: a change replaces the object.
type store struct {
	nodes  map[string]*v1.Node
	pods   map[model.PodKey]*v1.Pod
	others map[model.Ref]kinds.Object
	events map[eventName]report.Series
	// written has the writes of events until they expire, the oldest first.
	written   []eventWrite
	lastWrite map[eventName]time.Time
	eventTTL  time.Duration
	revision  int64
	uids      int64
}

func newStore(eventTTL time.Duration) store {
	return store{
		nodes: map[string]*v1.Node{}, pods: map[model.PodKey]*v1.Pod{}, others: map[model.Ref]kinds.Object{},
		events: map[eventName]report.Series{}, lastWrite: map[eventName]time.Time{}, eventTTL: cmp.Or(eventTTL, defaultEventTTL),
	}
}

// stamp sets the metadata that the API server sets: a revision, and a UID if missing.
func (s *store) stamp(object metav1.Object, before types.UID) {
	s.revision++
	object.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	if object.GetUID() != "" {
		return
	}
	if before == "" {
		s.uids++
		before = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.uids))
	}
	object.SetUID(before)
}

func (s *store) setNode(node *v1.Node) *v1.Node {
	stored := *node
	var before types.UID
	if have := s.nodes[node.Name]; have != nil {
		before = have.UID
	}
	s.stamp(&stored, before)
	s.nodes[node.Name] = &stored
	return &stored
}

func (s *store) setPod(pod *v1.Pod) *v1.Pod {
	stored := *pod
	return s.adoptPod(&stored)
}

// adoptPod stores a pod without a copy. The caller must not keep it.
func (s *store) adoptPod(pod *v1.Pod) *v1.Pod {
	key := keyOf(pod)
	var before types.UID
	if have := s.pods[key]; have != nil {
		before = have.UID
	}
	s.stamp(pod, before)
	s.pods[key] = pod
	return pod
}

// setOther stores an object that is neither a node nor a pod.
func (s *store) setOther(ref model.Ref, object kinds.Object) kinds.Object {
	stored := object.DeepCopyObject().(kinds.Object)
	var before types.UID
	if have := s.others[ref]; have != nil {
		before = have.GetUID()
	}
	s.stamp(stored, before)
	s.others[ref] = stored
	return stored
}

// get returns a stored object or nil.
func (s *store) get(ref model.Ref) kinds.Object {
	switch ref.Kind {
	case model.PodKind:
		if pod := s.pods[model.PodKey{Namespace: ref.Namespace, Name: ref.Name}]; pod != nil {
			return pod
		}
	case model.NodeKind:
		if node := s.nodes[ref.Name]; node != nil {
			return node
		}
	default:
		return s.others[ref]
	}
	return nil
}

// list returns the stored objects of a kind, sorted.
func (s *store) list(kind model.Kind) []kinds.Object {
	var objects []kinds.Object
	switch kind {
	case model.PodKind:
		for _, key := range slices.SortedFunc(maps.Keys(s.pods), compareKeys) {
			objects = append(objects, s.pods[key])
		}
	case model.NodeKind:
		for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
			objects = append(objects, s.nodes[name])
		}
	default:
		for _, ref := range slices.SortedFunc(maps.Keys(s.others), compareRefs) {
			if ref.Kind == kind {
				objects = append(objects, s.others[ref])
			}
		}
	}
	return objects
}

// bind stores a Binding as the API server does, with the same refusals.
func (s *store) bind(key model.PodKey, uid types.UID, nodeName string) (*v1.Pod, error) {
	pod := s.pods[key]
	refuse := func(format string, args ...any) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, key.Name, fmt.Errorf(format, args...))
	}
	switch {
	case pod == nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
	case pod.UID != uid:
		return nil, refuse("the UID in the precondition is %s, the pod's is %s", uid, pod.UID)
	case pod.DeletionTimestamp != nil:
		return nil, refuse("pod %s is being deleted, cannot be assigned to a host", key.Name)
	case pod.Spec.NodeName != "":
		return nil, refuse("pod %s is already assigned to node %q", key.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return nil, refuse("pod %s has non-empty .spec.schedulingGates", key.Name)
	}
	bound := *pod
	bound.Spec.NodeName = nodeName
	bound.Status.NominatedNodeName = ""
	bound.Status.Conditions = withCondition(pod.Status.Conditions, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
	return s.adoptPod(&bound), nil
}

// setCondition writes a PodScheduled condition and a nomination. It does nothing if the
// pod was deleted or replaced.
func (s *store) setCondition(key model.PodKey, uid types.UID, condition v1.PodCondition, nomination plan.Nomination) (*v1.Pod, bool) {
	pod := s.pods[key]
	if pod == nil || pod.UID != uid {
		return nil, false
	}
	patched := *pod
	patched.Status.Conditions = withCondition(pod.Status.Conditions, condition)
	switch nomination.Mode {
	case plan.Set:
		patched.Status.NominatedNodeName = nomination.NodeName
	case plan.Clear:
		patched.Status.NominatedNodeName = ""
	}
	return s.adoptPod(&patched), true
}

// withCondition returns a copy of the list in which the condition replaces the one of the
// same type.
func withCondition(conditions []v1.PodCondition, condition v1.PodCondition) []v1.PodCondition {
	at := slices.IndexFunc(conditions, func(c v1.PodCondition) bool { return c.Type == condition.Type })
	if at < 0 {
		with := make([]v1.PodCondition, len(conditions), len(conditions)+1)
		copy(with, conditions)
		return append(with, condition)
	}
	with := slices.Clone(conditions)
	with[at] = condition
	return with
}

func keyOf(pod *v1.Pod) model.PodKey { return model.PodKey{Namespace: pod.Namespace, Name: pod.Name} }

func compareKeys(a, b model.PodKey) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func compareRefs(a, b model.Ref) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
