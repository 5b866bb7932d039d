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

// patience is how long the evictions of one preemption may take.
const patience = 30 * time.Second

// evict evicts the victims in the background: the turn does not wait for the API server, and its context ends before. Victims that wait at Permit or are at PreBind are
// stopped instead. Pods of lower priority that are nominated to the node lose their nomination, as there may be no room for them any more. If an eviction fails, the
// pod is tried again at once.
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

// stop ends the binding of a victim that is not bound yet. It reports whether it could.
func (e *Evaluator) stop(victim *v1.Pod) bool {
	if w := e.Handler.GetWaitingPod(victim.UID); w != nil && w.Preempt(e.PluginName, "preempted") {
		return true
	}
	b := e.Handler.GetPodInPreBind(victim.UID)
	return b != nil && b.CancelPod(fmt.Sprintf("preempted by %s", e.PluginName))
}

// evictOne writes why a victim goes, deletes it and records it.
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
		return nil // it has gone by itself
	}
	if err == nil {
		e.record(victim, preemptor, nodeName, "")
	}
	return err
}

func (e *Evaluator) record(victim, preemptor *v1.Pod, nodeName, how string) {
	e.Handler.EventRecorder().Eventf(victim, preemptor, v1.EventTypeNormal, "Preempted", "Preempting", "Preempted by pod %v on node %v%s", preemptor.UID, nodeName, how)
}

// setCondition puts a condition in the place of the one of its type, whose transition it keeps if the status is the same.
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
