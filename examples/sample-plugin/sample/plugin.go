// Package sample is a plugin that shows what a plugin can do: arguments of its own, six extension points, an informer, a waiting pod, a write.
//
//   - PreFilter reads the color that a pod asks for.
//   - Filter keeps pods off nodes that are labelled with another color.
//   - Score prefers nodes whose number is near the favorite one.
//   - Reserve seats the pod on its node: it counts in memory.
//   - Permit lets a pod that wants thanks wait until somebody has thanked.
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
	// ColorAnnotation is on pods that ask for another color than the favorite one; AnyColor is for those that do not mind.
	ColorAnnotation = "sample.example.com/color"
	AnyColor        = "any"
	// WantsThanksAnnotation is, with any value, on pods that wait until ThanksAnnotation says whom the arguments name.
	WantsThanksAnnotation = "sample.example.com/wants-thanks"
	ThanksAnnotation      = "sample.example.com/thanks"
	// SeatAnnotation and ProfileAnnotation are written by PreBind: which one of its profile's pods on its node the pod is, from 1 on, and the
	// profile's scheduler name.
	SeatAnnotation    = "sample.example.com/seat"
	ProfileAnnotation = "sample.example.com/profile"
)

// thanksWait is how long a pod keeps its room while it waits for thanks.
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

// New makes the plugin of a profile. Its arguments have their defaults already: AddToScheme has registered their type.
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

// EventsToRegister returns what can help a pod that the plugin has rejected.
func (s *Sample) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}, QueueingHintFn: s.nodeHelps},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}}, // it may ask for another color now
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

// colorFor returns the color that a pod goes to.
func (s *Sample) colorFor(pod *v1.Pod) string {
	if color, ok := pod.Annotations[ColorAnnotation]; ok {
		return color
	}
	return s.args.FavoriteColor
}

// wanted is what PreFilter leaves for Filter in the CycleState.
type wanted struct{ color string }

const wantedKey fwk.StateKey = "example.com/Sample"

// Clone returns the same: it never changes.
func (w *wanted) Clone() fwk.StateData { return w }

// PreFilter finds out which color the pod goes to. With any, there is nothing to filter.
func (s *Sample) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	color := s.colorFor(pod)
	if color == AnyColor {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(wantedKey, &wanted{color})
	return nil, nil
}

// PreFilterExtensions returns nil: other pods do not matter.
func (s *Sample) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects nodes that are labelled with another color. No eviction changes that.
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

// Score returns how far the node's number is from the favorite one: 0 to 1000. A node without a number, or with one that is none, is the farthest.
func (s *Sample) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	number, err := strconv.Atoi(node.Node().Labels[NumberLabel])
	if err != nil || number < 0 || number > numberMax {
		return numberMax, nil
	}
	return int64(max(number-*s.args.FavoriteNumber, *s.args.FavoriteNumber-number)), nil
}

// ScoreExtensions returns the plugin itself.
func (s *Sample) ScoreExtensions() fwk.ScoreExtensions { return s }

// NormalizeScore turns distances into scores: 100 for 0, and 0 for the farthest.
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

// Reserve seats the pod on its node.
func (s *Sample) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	s.seats.take(pod.UID, node)
	return nil
}

// Unreserve gives the seat back.
func (s *Sample) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	s.seats.leave(pod.UID)
}

// Permit lets a pod that wants thanks wait for them. When it has waited for too long it gives its room to others; thanks bring it back (updated).
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

// updated lets a pod go on that has been thanked: one that waits at Permit is allowed, and one that has been rejected there is tried again.
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

// PreBindPreFlight says that PreBind has something to do.
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
		"uid": pod.UID, // another pod of this name has no seat
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
