package plugged

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// These scripts record the probe's arguments at its points and its Handle's results.

const probePoints = `{multiPoint: {enabled: [{name: Probe}]}, postFilter: {disabled: [{name: "*"}], enabled: [{name: Probe}]}}`

// preemptingPoints has the probe run before DefaultPreemption.
const preemptingPoints = `{multiPoint: {enabled: [{name: Probe}]}, postFilter: {disabled: [{name: "*"}], enabled: [{name: Probe}, {name: DefaultPreemption}]}}`

var probeScripts = map[string]script{
	"probe-access":          {nodes: 1, plugins: probePoints, run: probing("access")},
	"probe-canceled":        {nodes: 1, plugins: probePoints, run: canceledScript},
	"probe-held":            {nodes: 1, plugins: probePoints, run: heldScript},
	"probe-nominates":       {nodes: 1, plugins: probePoints, run: nominatesScript},
	"probe-outranks-before": {nodes: 1, plugins: preemptingPoints, run: outranksBefore},
	"probe-outranks-fresh":  {nodes: 1, plugins: preemptingPoints, run: outranksFresh},
	"probe-outranks-moved":  {nodes: 2, plugins: preemptingPoints, run: outranksMoved},
	"probe-outranks-away":   {nodes: 2, plugins: preemptingPoints, run: outranksAway},
	"probe-reasons":         {nodes: 1, plugins: probePoints, run: refusing("reasons")},
	"probe-runs":            {nodes: 2, plugins: probePoints, run: refusing("runs")},
	"probe-written":         {nodes: 1, plugins: probePoints, run: probing("written")},
	"probe-statuses":        {nodes: 2, plugins: probePoints, run: refusing("statuses")},
}

// probing has a pod bound and records the probe's notes.
func probing(of string) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		if err := s.create(ctx, s.pod("pod", 1, annotated(ProbeAnnotation, of))); err != nil {
			return err
		}
		return s.probed(ctx, "pod")
	}
}

// refusing has a pod rejected and records the probe's notes.
func refusing(of string) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		if err := s.create(ctx, s.pod("pod", 1, annotated(ProbeAnnotation, of))); err != nil {
			return err
		}
		if err := s.probed(ctx, "pod"); err != nil {
			return err
		}
		return s.failedScheduling(ctx, "pod", "nodes are available")
	}
}

// probed waits for the probe's notes on a pod and records them.
func (s *stage) probed(ctx context.Context, name string) error {
	err := poll(ctx, func() (bool, error) {
		list, err := s.clients.CoreV1().ConfigMaps(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, m := range list.Items {
			if m.Name == name {
				for line := range strings.Lines(m.Data["notes"]) {
					s.note("%s: %s", name, strings.TrimSpace(line))
				}
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the notes about pod %s: %w", name, err)
	}
	return nil
}

// canceledScript has a binding canceled at PreBind, with a cause.
func canceledScript(ctx context.Context, s *stage) error {
	pod := s.pod("pod", 1, annotated(ProbeAnnotation, "canceled"), annotated(FailAnnotation, "once"))
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	refused, err := s.until(ctx, "pod", "canceled", func(p *v1.Pod) bool { return strings.Contains(scheduled(p), "the cause") })
	if err != nil {
		return err
	}
	s.note("pod: %s", scheduled(refused)) // a nomination meanwhile depends on the order of the writes
	if err := s.failedScheduling(ctx, "pod", "the cause"); err != nil {
		return err
	}
	return s.bound(ctx, "pod")
}

// heldScript changes the labels of a pod that is held at PreEnqueue.
func heldScript(ctx context.Context, s *stage) error {
	if err := s.create(ctx, s.pod("pod", 1, annotated(ProbeAnnotation, "held"))); err != nil {
		return err
	}
	// its binding shows that the scheduler has seen the held pod
	if err := s.create(ctx, s.pod("other", 1)); err != nil {
		return err
	}
	if err := s.bound(ctx, "other"); err != nil {
		return err
	}
	for i, value := range []string{"no", "yes"} {
		if i > 0 { // versions in faster succession may reach the scheduler as one
			if err := s.create(ctx, s.pod("between", 1)); err != nil {
				return err
			}
			if err := s.bound(ctx, "between"); err != nil {
				return err
			}
		}
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, GoLabel, value)
		if _, err := s.clients.CoreV1().Pods(s.namespace).Patch(ctx, "pod", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	if err := s.bound(ctx, "pod"); err != nil {
		return err
	}
	return s.probed(ctx, "pod")
}

// waitingNominee has a pod wait that fits on no node.
func (s *stage) waitingNominee(ctx context.Context, change ...func(*v1.Pod)) error {
	nominee := s.pod("nominee", 1, change...)
	nominee.Spec.NodeSelector["plugged.example.com/none"] = "none"
	if err := s.create(ctx, nominee); err != nil {
		return err
	}
	_, err := s.until(ctx, "nominee", "refused", func(p *v1.Pod) bool { return strings.Contains(scheduled(p), "didn't match") })
	return err
}

// nominatesScript has the plugin nominate a waiting pod of the same priority in the turn
// of another.
func nominatesScript(ctx context.Context, s *stage) error {
	if err := s.waitingNominee(ctx); err != nil {
		return err
	}
	pod := s.pod("pod", 1, annotated(ProbeAnnotation, "nominates"), annotated(WantsAnnotation, s.nodes[0]))
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	return s.probed(ctx, "pod")
}

// outranks has a pod evict another from a node to which a pod of lower priority is
// nominated.
func (s *stage) outranks(ctx context.Context, change ...func(*v1.Pod)) error {
	pod := s.pod("pod", 20, append(change, prioritized("plugged-20"), annotated(ProbeAnnotation, "outranks"), at(s.nodes[0]))...)
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	if err := s.bound(ctx, "pod"); err != nil {
		return err
	}
	if err := s.probed(ctx, "pod"); err != nil {
		return err
	}
	nominee, err := s.clients.CoreV1().Pods(s.namespace).Get(ctx, "nominee", metav1.GetOptions{})
	if err != nil {
		return err
	}
	s.note("nominee: in the API, nominated to %q", nominee.Status.NominatedNodeName)
	return nil
}

// outranked prepares a full node, and the pod of lower priority.
func (s *stage) outranked(ctx context.Context) error {
	if err := s.create(ctx, s.pod("victim", 25, prioritized("plugged-10"), at(s.nodes[0]))); err != nil {
		return err
	}
	if err := s.bound(ctx, "victim"); err != nil {
		return err
	}
	return s.waitingNominee(ctx, prioritized("plugged-10"))
}

func nominating(node string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		annotated(NominatesAnnotation, "yes")(p)
		annotated(WantsAnnotation, node)(p)
	}
}

// outranksFresh has the plugin nominate the pod in the attempt that preempts.
func outranksFresh(ctx context.Context, s *stage) error {
	if err := s.outranked(ctx); err != nil {
		return err
	}
	return s.outranks(ctx, nominating(s.nodes[0]))
}

// outranksBefore has the plugin nominate the pod in an earlier attempt.
func outranksBefore(ctx context.Context, s *stage) error {
	if err := s.outranked(ctx); err != nil {
		return err
	}
	if err := s.create(ctx, s.pod("earlier", 1, annotated(ProbeAnnotation, "outranks"), nominating(s.nodes[0]))); err != nil {
		return err
	}
	if err := s.bound(ctx, "earlier"); err != nil {
		return err
	}
	return s.outranks(ctx, annotated(WantsAnnotation, s.nodes[0]))
}

// announced writes the pod's nomination to the API.
func (s *stage) announced(ctx context.Context, node string) error {
	patch := fmt.Appendf(nil, `{"status":{"nominatedNodeName":%q}}`, node)
	if _, err := s.clients.CoreV1().Pods(s.namespace).Patch(ctx, "nominee", types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	if err := s.create(ctx, s.pod("between", 1)); err != nil { // when it is bound, the scheduler has seen the patch
		return err
	}
	return s.bound(ctx, "between")
}

// outranksMoved has the plugin move a nomination of the API to the node, in the attempt
// that preempts.
func outranksMoved(ctx context.Context, s *stage) error {
	if err := s.outranked(ctx); err != nil {
		return err
	}
	if err := s.announced(ctx, s.nodes[1]); err != nil {
		return err
	}
	return s.outranks(ctx, nominating(s.nodes[0]))
}

// outranksAway has the plugin move a nomination of the API away from the node.
func outranksAway(ctx context.Context, s *stage) error {
	if err := s.outranked(ctx); err != nil {
		return err
	}
	if err := s.announced(ctx, s.nodes[0]); err != nil {
		return err
	}
	return s.outranks(ctx, nominating(s.nodes[1]))
}
