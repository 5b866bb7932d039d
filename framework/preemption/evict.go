package preemption

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/framework"
)

// patience limits the duration of the evictions of one preemption.
const patience = 30 * time.Second

// evict evicts the victims in the background, because the attempt does not wait for the
// API server and its context ends earlier.
//
// Victims that wait at Permit or run PreBind are cancelled instead. Pods of lower
// priority that are nominated to the node lose their nomination, since they may no longer
// fit. If an eviction fails, the preemptor is retried at once.
func (e *Evaluator) evict(ctx context.Context, c Candidate, preemptor *v1.Pod) {
	log := klog.LoggerWithValues(klog.FromContext(ctx), "plugin", e.PluginName, "preemptor", klog.KObj(preemptor), "node", c.Name())
	var running []*v1.Pod
	for _, victim := range c.Victims().Pods {
		switch {
		case e.stop(victim):
			e.record(victim, preemptor, c.Name(), " (in kube-scheduler memory).")
		case victim.DeletionTimestamp == nil:
			running = append(running, victim)
		}
	}
	var outranked []*v1.Pod
	for _, nominated := range e.Handler.NominatedPodsForNode(c.Name()) {
		if p := nominated.GetPod(); priorityOf(p) < priorityOf(preemptor) {
			outranked = append(outranked, p)
		}
	}
	if len(running)+len(outranked) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	go func() {
		defer cancel()
		failed := false
		for _, victim := range running {
			if err := e.evictOne(ctx, victim, preemptor, c.Name()); err != nil {
				log.Error(err, "Failed to evict a pod", "victim", klog.KObj(victim))
				failed = true
			}
		}
		for _, pod := range outranked {
			status := pod.Status.DeepCopy()
			status.NominatedNodeName = ""
			if err := framework.PatchPodStatus(ctx, e.Handler.ClientSet(), pod.Name, pod.Namespace, &pod.Status, status); err != nil && !apierrors.IsNotFound(err) {
				log.Error(err, "Failed to end the nomination of a pod", "pod", klog.KObj(pod))
			}
		}
		if failed {
			e.Handler.Activate(log, map[string]*v1.Pod{preemptor.Name: preemptor})
		}
	}()
}

// stop cancels the binding of a victim that is not bound yet, and reports success.
func (e *Evaluator) stop(victim *v1.Pod) bool {
	if w := e.Handler.GetWaitingPod(victim.UID); w != nil && w.Preempt(e.PluginName, "preempted") {
		return true
	}
	b := e.Handler.GetPodInPreBind(victim.UID)
	return b != nil && b.CancelPod(fmt.Sprintf("preempted by %s", e.PluginName))
}

// evictOne writes the victim's condition, deletes the victim and records an event.
func (e *Evaluator) evictOne(ctx context.Context, victim, preemptor *v1.Pod, nodeName string) error {
	status := victim.Status.DeepCopy()
	setCondition(status, v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, ObservedGeneration: victim.Generation, Reason: v1.PodReasonPreemptionByScheduler,
		Message: fmt.Sprintf("%s: preempting to accommodate a higher priority pod", preemptor.Spec.SchedulerName), LastTransitionTime: metav1.Now(),
	})
	err := framework.PatchPodStatus(ctx, e.Handler.ClientSet(), victim.Name, victim.Namespace, &victim.Status, status)
	if err == nil {
		err = framework.DeletePod(ctx, e.Handler.ClientSet(), victim)
	}
	if apierrors.IsNotFound(err) {
		return nil // it is already gone
	}
	if err == nil {
		e.record(victim, preemptor, nodeName, "")
	}
	return err
}

func (e *Evaluator) record(victim, preemptor *v1.Pod, nodeName, how string) {
	e.Handler.EventRecorder().Eventf(victim, preemptor, v1.EventTypeNormal, "Preempted", "Preempting", "Preempted by pod %v on node %v%s", preemptor.UID, nodeName, how)
}

// setCondition adds a condition, or replaces the condition of the same type. An unchanged
// status keeps its transition time.
func setCondition(status *v1.PodStatus, condition v1.PodCondition) {
	for i := range status.Conditions {
		if have := &status.Conditions[i]; have.Type == condition.Type {
			if have.Status == condition.Status {
				condition.LastTransitionTime = have.LastTransitionTime
			}
			*have = condition
			return
		}
	}
	status.Conditions = append(status.Conditions, condition)
}
