// Package sample is a plugin that demonstrates arguments, six extension points, an
// informer, a waiting pod, and a write to the API.
//
//   - PreFilter reads the color that a pod wants.
//   - Filter rejects nodes that are labelled with another color.
//   - Score prefers nodes whose number is near the favorite number.
//   - Reserve assigns the pod a seat on its node, in memory.
//   - Permit makes a pod that wants thanks wait until somebody has thanked.
//   - PreBind writes the seat into the pod's annotations.
package sample

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name is the plugin's name in configurations.
const Name = "Sample"

// Labels of nodes, and annotations of pods.
const (
	ColorLabel  = "sample.example.com/color"
	NumberLabel = "sample.example.com/number"
	// ColorAnnotation is on pods that want another color than the favorite one; AnyColor
	// accepts any.
	ColorAnnotation = "sample.example.com/color"
	AnyColor        = "any"
	// WantsThanksAnnotation is, with any value, on pods that wait until ThanksAnnotation
	// has the name in the arguments.
	WantsThanksAnnotation = "sample.example.com/wants-thanks"
	ThanksAnnotation      = "sample.example.com/thanks"
	// PreBind writes SeatAnnotation, the pod's seat number among its profile's pods on
	// the node, from 1 on, and ProfileAnnotation, the profile's scheduler name.
	SeatAnnotation    = "sample.example.com/seat"
	ProfileAnnotation = "sample.example.com/profile"
)

// thanksWait is how long a pod holds its node while it waits for thanks.
const thanksWait = 15 * time.Second

// Sample is the plugin of one profile.
type Sample struct {
	handle fwk.Handle
	args   *SampleArgs
	seats  seats
}

var (
	_ fwk.PreFilterPlugin   = (*Sample)(nil)
	_ fwk.FilterPlugin      = (*Sample)(nil)
	_ fwk.ScorePlugin       = (*Sample)(nil)
	_ fwk.ReservePlugin     = (*Sample)(nil)
	_ fwk.PermitPlugin      = (*Sample)(nil)
	_ fwk.PreBindPlugin     = (*Sample)(nil)
	_ fwk.EnqueueExtensions = (*Sample)(nil)
)

// New builds the plugin of a profile. Its arguments have their defaults already, because
// AddToScheme has registered their type.
func New(_ context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, ok := object.(*SampleArgs)
	if !ok {
		return nil, fmt.Errorf("arguments of plugin %s: got %T, want *SampleArgs: give the program app.WithScheme(sample.AddToScheme)", Name, object)
	}
	if err := args.validate(); err != nil {
		return nil, fmt.Errorf("arguments of plugin %s: %w", Name, err)
	}
	s := &Sample{handle: handle, args: args}
	// The scheduler starts the informer, and no pod has a turn before it has synced.
	_, err := handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) { s.updated(object.(*v1.Pod)) },
		DeleteFunc: func(object any) {
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			if pod, ok := object.(*v1.Pod); ok {
				s.seats.leave(pod.UID)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return s, nil
}

// Name returns the plugin's name.
func (s *Sample) Name() string { return Name }

// EventsToRegister returns the events that can help a pod that the plugin has rejected.
func (s *Sample) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}, QueueingHintFn: s.nodeHelps},
		// An update may change the pod's color.
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}},
	}, nil
}

func (s *Sample) nodeHelps(_ klog.Logger, pod *v1.Pod, _, object any) (fwk.QueueingHint, error) {
	node, ok := object.(*v1.Node)
	if !ok {
		return fwk.Queue, fmt.Errorf("got %T, want a node", object)
	}
	if color, labelled := node.Labels[ColorLabel]; labelled && s.colorFor(pod) != AnyColor && color != s.colorFor(pod) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// colorFor returns the color of nodes that a pod goes to.
func (s *Sample) colorFor(pod *v1.Pod) string {
	if color, ok := pod.Annotations[ColorAnnotation]; ok {
		return color
	}
	return s.args.FavoriteColor
}

// wanted is PreFilter's data for Filter in the CycleState.
type wanted struct{ color string }

const wantedKey fwk.StateKey = "example.com/Sample"

// Clone returns the same value, which never changes.
func (w *wanted) Clone() fwk.StateData { return w }

// PreFilter determines the pod's color. With any color, Filter is skipped.
func (s *Sample) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	color := s.colorFor(pod)
	if color == AnyColor {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(wantedKey, &wanted{color})
	return nil, nil
}

// PreFilterExtensions returns nil: other pods do not affect Filter.
func (s *Sample) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects nodes that are labelled with another color. Preemption cannot change
// that.
func (s *Sample) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	data, err := state.Read(wantedKey)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("read what PreFilter has left: %w", err))
	}
	color, labelled := node.Node().Labels[ColorLabel]
	if want := data.(*wanted).color; labelled && color != want {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) had another color than "+want)
	}
	return nil
}

// Score returns the distance between the node's number and the favorite number: 0 to
// 1000. A node without a valid number has the largest distance.
func (s *Sample) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	number, err := strconv.Atoi(node.Node().Labels[NumberLabel])
	if err != nil || number < 0 || number > numberMax {
		return numberMax, nil
	}
	return int64(max(number-*s.args.FavoriteNumber, *s.args.FavoriteNumber-number)), nil
}

// ScoreExtensions returns the plugin itself.
func (s *Sample) ScoreExtensions() fwk.ScoreExtensions { return s }

// NormalizeScore turns distances into scores: 100 for 0, and 0 for the largest distance.
func (s *Sample) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	var farthest int64
	for _, score := range scores {
		farthest = max(farthest, score.Score)
	}
	for i := range scores {
		if farthest == 0 {
			scores[i].Score = fwk.MaxScore
			continue
		}
		scores[i].Score = fwk.MaxScore - scores[i].Score*fwk.MaxScore/farthest
	}
	return nil
}

// Reserve assigns the pod a seat on its node.
func (s *Sample) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	s.seats.take(pod.UID, node)
	return nil
}

// Unreserve frees the seat.
func (s *Sample) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	s.seats.leave(pod.UID)
}

// Permit makes a pod that wants thanks wait. After the timeout the pod frees its node,
// and thanks retry it (see updated).
func (s *Sample) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if s.thanked(pod) {
		return nil, 0
	}
	return fwk.NewStatus(fwk.Wait, "waits for thanks to "+s.args.ThanksTo), thanksWait
}

func (s *Sample) thanked(pod *v1.Pod) bool {
	_, wants := pod.Annotations[WantsThanksAnnotation]
	return !wants || pod.Annotations[ThanksAnnotation] == s.args.ThanksTo
}

// updated continues a pod that has been thanked. If it waits at Permit, it is allowed; if
// it was rejected there, it is retried.
func (s *Sample) updated(pod *v1.Pod) {
	if _, wants := pod.Annotations[WantsThanksAnnotation]; !wants || pod.Spec.NodeName != "" || !s.thanked(pod) ||
		pod.Spec.SchedulerName != s.handle.ProfileName() {
		return
	}
	if waiting := s.handle.GetWaitingPod(pod.UID); waiting != nil {
		waiting.Allow(Name)
		return
	}
	s.handle.Activate(klog.Background(), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
}

// PreBindPreFlight returns success, because PreBind must run.
func (s *Sample) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

// PreBind writes the seat and the profile into the pod's annotations.
func (s *Sample) PreBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	seat, ok := s.seats.of(pod.UID)
	if !ok {
		return fwk.AsStatus(errors.New("the pod has lost its seat on " + node))
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, // a recreated pod of this name has no seat
		"annotations": map[string]string{
			SeatAnnotation:    strconv.Itoa(seat),
			ProfileAnnotation: s.handle.ProfileName(),
		},
	}})
	if err != nil {
		return fwk.AsStatus(err)
	}
	_, err = s.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return fwk.AsStatus(fmt.Errorf("the pod has been deleted: %w", err))
	}
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("annotate pod %s/%s: %w", pod.Namespace, pod.Name, err))
	}
	return nil
}
