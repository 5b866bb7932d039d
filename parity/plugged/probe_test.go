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

var probeScripts = map[string]script{
	"probe-access":    {nodes: 1, plugins: probePoints, run: probing("access")},
	"probe-canceled":  {nodes: 1, plugins: probePoints, run: canceledScript},
	"probe-held":      {nodes: 1, plugins: probePoints, run: heldScript},
	"probe-nominates": {nodes: 1, plugins: probePoints, run: nominatesScript},
	"probe-reasons":   {nodes: 1, plugins: probePoints, run: refusing("reasons")},
	"probe-runs":      {nodes: 2, plugins: probePoints, run: refusing("runs")},
	"probe-written":   {nodes: 1, plugins: probePoints, run: probing("written")},
	"probe-statuses":  {nodes: 2, plugins: probePoints, run: refusing("statuses")},
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

// nominatesScript has the plugin nominate a waiting pod in the attempt of another of the
// same priority.
func nominatesScript(ctx context.Context, s *stage) error {
	nominee := s.pod("nominee", 1)
	nominee.Spec.NodeSelector["plugged.example.com/none"] = "none"
	if err := s.create(ctx, nominee); err != nil {
		return err
	}
	if _, err := s.until(ctx, "nominee", "refused", func(p *v1.Pod) bool { return strings.Contains(scheduled(p), "didn't match") }); err != nil {
		return err
	}
	pod := s.pod("pod", 1, annotated(ProbeAnnotation, "nominates"), annotated(WantsAnnotation, s.nodes[0]))
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	return s.probed(ctx, "pod")
}
