package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/storage/volume"
)

// isRight is the outcome of a report whose expectations were all met.
const isRight = "right"

// stage is an API server with a scheduler.
type stage struct {
	client  kubernetes.Interface
	dynamic dynamic.Interface
	// patience is the minimum time for an expectation to be met.
	patience time.Duration
}

// played is a report with the objects that it created.
type played struct {
	*stage
	*Report
	made []*unstructured.Unstructured
	uids map[string]any // of its pods
}

// begin executes the first step, which sets the scene.
func (s *stage) begin(ctx context.Context, r *Report) (*played, error) {
	p := &played{stage: s, Report: r, uids: map[string]any{}}
	namespace := json.RawMessage(fmt.Sprintf(`{"kind": "Namespace", "name": %q}`, r.Name))
	if err := p.create(ctx, namespace); err != nil {
		return nil, err
	}
	if err := p.do(ctx, &r.Steps[0]); err != nil {
		return nil, fmt.Errorf("the scene of %s: %w", r.Name, err)
	}
	return p, nil
}

// finish executes the other steps. It returns isRight, or the first expectation that was
// not met.
func (p *played) finish(ctx context.Context) (outcome string, err error) {
	for i := range p.Steps[1:] {
		step := &p.Steps[i+1]
		if step.Expect == nil {
			if err := p.do(ctx, step); err != nil {
				return "", fmt.Errorf("step %d of %s: %w", i+2, p.Name, err)
			}
			continue
		}
		if outcome, err = p.await(ctx, step.Expect); err != nil || outcome != isRight {
			break
		}
	}
	return outcome, err
}

func (p *played) do(ctx context.Context, step *Step) error {
	for _, object := range step.Create {
		if err := p.create(ctx, object); err != nil {
			return err
		}
	}
	if d := step.Delete; d != nil {
		return p.in(d).Delete(ctx, d.Name, metav1.DeleteOptions{GracePeriodSeconds: &d.Grace})
	}
	if step.Patch == nil {
		return nil
	}
	return p.patch(ctx, &step.Patch.Target, step.Patch.Merge, step.Patch.Status)
}

// in returns the client for an object.
func (p *played) in(t *Target) dynamic.ResourceInterface {
	k := kinds[t.Kind]
	switch {
	case !k.namespaced:
		return p.dynamic.Resource(k.GroupVersionResource)
	case t.Namespace != "":
		return p.dynamic.Resource(k.GroupVersionResource).Namespace(t.Namespace)
	}
	return p.dynamic.Resource(k.GroupVersionResource).Namespace(p.Name)
}

func (p *played) create(ctx context.Context, raw json.RawMessage) error {
	object, err := p.expand(raw, p.uids)
	if err != nil {
		return err
	}
	t := &Target{Kind: object.GetKind(), Name: object.GetName(), Namespace: object.GetNamespace()}
	stored, err := p.in(t).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create %s %s: %w", t.Kind, t.Name, err)
	}
	if t.Kind == "Pod" {
		p.uids[t.Name] = string(stored.GetUID())
	}
	p.made = append(p.made, object)
	status, ok := object.Object["status"]
	if !ok || t.Kind == "Node" {
		return nil // the API stores the status of a new Node
	}
	merge, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	return p.patch(ctx, t, merge, true)
}

func (p *played) patch(ctx context.Context, t *Target, merge []byte, status bool) error {
	var parts []string
	if status {
		parts = []string{"status"}
	}
	_, err := p.in(t).Patch(ctx, t.Name, types.MergePatchType, merge, metav1.PatchOptions{}, parts...)
	if err != nil {
		return fmt.Errorf("patch %s %s: %w", t.Kind, t.Name, err)
	}
	return nil
}

// clear deletes the objects, so that the next report finds an empty cluster. No
// controller runs that would empty the namespace.
func (p *played) clear(ctx context.Context) error {
	now := int64(0)
	for _, object := range slices.Backward(p.made) {
		t := &Target{Kind: object.GetKind(), Name: object.GetName(), Namespace: object.GetNamespace()}
		err := p.in(t).Delete(ctx, t.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s %s: %w", t.Kind, t.Name, err)
		}
	}
	return nil
}

// await polls until an expectation is met, can no longer be met, or times out.
func (p *played) await(ctx context.Context, e *Expectation) (string, error) {
	end := time.Now().Add(max(e.within(), p.patience))
	for {
		outcome, final, err := p.compare(ctx, e)
		if err != nil || final || outcome == isRight || time.Now().After(end) {
			return outcome, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// compare returns the first difference from an expectation. final means that more time
// cannot remove it.
func (p *played) compare(ctx context.Context, e *Expectation) (outcome string, final bool, err error) {
	pods, err := p.client.CoreV1().Pods(p.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", false, err
	}
	outcome = isRight
	for i := range pods.Items {
		pod := &pods.Items[i]
		difference, final := e.differs(pod)
		if final {
			return difference, true, nil
		}
		if difference != "" && outcome == isRight {
			outcome = difference
		}
	}
	claims, err := p.client.CoreV1().PersistentVolumeClaims(p.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", false, err
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		want, ok := e.Selected[claim.Name]
		if ok && claim.Annotations[volume.AnnSelectedNode] != want && outcome == isRight {
			outcome = fmt.Sprintf("claim `%s` waits", claim.Name)
		}
	}
	return outcome, false, nil
}

// differs compares a pod with an expectation.
func (e *Expectation) differs(pod *v1.Pod) (difference string, final bool) {
	node := pod.Spec.NodeName
	if nodes, ok := e.Bound[pod.Name]; ok {
		switch {
		case node == "":
			return fmt.Sprintf("`%s` waits", pod.Name), false
		case len(nodes) > 0 && !slices.Contains(nodes, node):
			return fmt.Sprintf("`%s` is bound to `%s`", pod.Name, node), true
		}
	}
	if message, ok := e.Pending[pod.Name]; ok {
		switch {
		case node != "":
			return fmt.Sprintf("`%s` is bound to `%s`", pod.Name, node), true
		case message != "" && rejection(pod) == "":
			return fmt.Sprintf("`%s` is not rejected", pod.Name), false
		case !strings.Contains(rejection(pod), message):
			return fmt.Sprintf("`%s` is pending: %s", pod.Name, rejection(pod)), false
		}
	}
	if slices.Contains(e.Gone, pod.Name) && pod.DeletionTimestamp == nil {
		return fmt.Sprintf("`%s` is not preempted", pod.Name), false
	}
	return "", false
}

// rejection returns the message of a rejected pod, or "".
func rejection(pod *v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}
