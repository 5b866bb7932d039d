package plugged

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// stage is a script's namespace and its own nodes. It records results in the order of the
// script's steps, so the notes of two schedulers can be compared line by line.
type stage struct {
	clients   kubernetes.Interface
	dynamic   dynamic.Interface
	scheduler string // also the profile
	namespace string
	nodes     []string
	notes     []string
	seen      map[string]*v1.Pod // last version returned by until, by name; the created one at first
}

func (s *stage) note(format string, args ...any) {
	// The namespace differs between the schedulers.
	s.notes = append(s.notes, strings.ReplaceAll(fmt.Sprintf(format, args...), s.namespace, "NAMESPACE"))
}

// pod returns a pod with one container for the script's nodes.
func (s *stage) pod(name string, cpus int64, change ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: v1.PodSpec{
			SchedulerName: s.scheduler, NodeSelector: map[string]string{PoolLabel: s.scheduler},
			Containers: []v1.Container{{
				Name: "main", Image: "registry.example.com/app",
				Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI)}},
			}},
		},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func annotated(name, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations[name] = value }
}

func labelled(name, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Labels[name] = value }
}

func at(node string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.NodeSelector[v1.LabelHostname] = node }
}

func (s *stage) create(ctx context.Context, pods ...*v1.Pod) error {
	for _, pod := range pods {
		created, err := s.clients.CoreV1().Pods(s.namespace).Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		s.seen[created.Name] = created
	}
	return nil
}

func (s *stage) remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := s.clients.CoreV1().Pods(s.namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) labelNode(ctx context.Context, node, label, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, label, value)
	_, err := s.clients.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// patience is a script's timeout for each step.
const patience = 2 * time.Minute

// until returns a pod's first matching version after the last returned one, or the last
// one itself while none is newer. Even on a busy machine a script sees a pod's state
// before its next attempt, and takes no old state for the present one.
func (s *stage) until(ctx context.Context, name, what string, wanted func(*v1.Pod) bool) (*v1.Pod, error) {
	last := s.seen[name]
	now, err := s.clients.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if now.ResourceVersion == last.ResourceVersion && wanted(last) {
		return last, nil
	}
	waiting, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %v", patience))
	defer cancel()
	versions, err := watchtools.NewRetryWatcherWithContext(waiting, last.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		return s.clients.CoreV1().Pods(s.namespace).Watch(ctx, options)
	}})
	if err != nil {
		return nil, err
	}
	_, err = watchtools.UntilWithoutRetry(waiting, versions, func(event watch.Event) (bool, error) {
		switch event.Type {
		case watch.Error:
			return false, apierrors.FromObject(event.Object)
		case watch.Deleted:
			return false, errors.New("it is gone")
		case watch.Bookmark:
			return false, nil
		}
		last = event.Object.(*v1.Pod)
		return wanted(last), nil
	})
	// the versions in between have expired at the API server
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		s.seen[name] = now
		return s.until(ctx, name, what, wanted)
	}
	if waiting.Err() != nil {
		err = context.Cause(waiting)
	}
	if err != nil {
		return nil, fmt.Errorf("wait until pod %s is %s: %w: node %q, nominated to %q, phase %s, %s", name, what, err, last.Spec.NodeName, last.Status.NominatedNodeName, last.Status.Phase, scheduled(last))
	}
	s.seen[name] = last
	return last, nil
}

// poll calls done until it returns true.
func poll(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %v", patience))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// scheduled returns a pod's PodScheduled condition as text.
func scheduled(pod *v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return fmt.Sprintf("PodScheduled %s %s %q", c.Status, c.Reason, c.Message)
		}
	}
	return "no condition PodScheduled"
}

// scheduledStatus returns the status and the reason of a bound pod's PodScheduled
// condition. The message is left out. When a pod is rejected at Permit, kube-scheduler
// 1.37.1 puts it back into the queue before it patches the condition. A busy machine may
// apply that patch after the binding of the next attempt. The patch has only what
// changed, so the condition is then True with the message of the rejection.
func scheduledStatus(pod *v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return fmt.Sprintf("%s %q", c.Status, c.Reason)
		}
	}
	return "missing"
}

// bound waits until the pods run. It notes their nodes and the plugins' annotations.
func (s *stage) bound(ctx context.Context, names ...string) error {
	for _, name := range names {
		pod, err := s.until(ctx, name, "running", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning || p.Status.Phase == v1.PodFailed })
		if err != nil {
			return err
		}
		if pod.Status.Phase == v1.PodFailed {
			return fmt.Errorf("node %s refused pod %s: %s", pod.Spec.NodeName, name, pod.Status.Message)
		}
		s.note("%s runs on %s, PodScheduled %s, bound by %q, order %q", name, pod.Spec.NodeName, scheduledStatus(pod), annotation(pod, BoundByAnnotation), annotation(pod, OrderAnnotation))
	}
	return nil
}

// pending waits until a pod's condition and an event contain a text, and notes both.
func (s *stage) pending(ctx context.Context, name, text string) error {
	pod, err := s.until(ctx, name, "pending because of "+text, func(p *v1.Pod) bool { return strings.Contains(scheduled(p), text) })
	if err != nil {
		return err
	}
	s.note("%s is on %q, nominated to %q, %s", name, pod.Spec.NodeName, pod.Status.NominatedNodeName, scheduled(pod))
	return s.failedScheduling(ctx, name, text)
}

// failedScheduling waits for a FailedScheduling event with a text and notes the pod's
// distinct ones.
func (s *stage) failedScheduling(ctx context.Context, name, text string) error {
	texts, err := s.rejections(ctx, name, text)
	for _, t := range texts {
		s.note("%s: FailedScheduling %q", name, t)
	}
	return err
}

// preempts waits for a preemption's FailedScheduling event and notes only that one. While
// the victims go, kube-scheduler retries the pod at events that Berth ignores, and the
// text then depends on the remaining victims.
func (s *stage) preempts(ctx context.Context, name, text string) error {
	texts, err := s.rejections(ctx, name, text)
	for _, t := range texts {
		if strings.Contains(t, text) {
			s.note("%s: FailedScheduling %q", name, t)
		}
	}
	return err
}

// rejections waits for an event FailedScheduling with one of the wanted texts, and
// returns the different texts of all such events of the pod.
func (s *stage) rejections(ctx context.Context, name string, wanted ...string) ([]string, error) {
	var texts []string
	err := poll(ctx, func() (bool, error) {
		events, err := s.clients.EventsV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		texts = nil
		for _, e := range events.Items {
			if e.Regarding.Name == name && e.Reason == "FailedScheduling" {
				texts = append(texts, e.Note)
			}
		}
		return slices.ContainsFunc(texts, func(text string) bool {
			return slices.ContainsFunc(wanted, func(w string) bool { return strings.Contains(text, w) })
		}), nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for an event FailedScheduling of pod %s with %q: %w, there are %q", name, wanted, err, texts)
	}
	slices.Sort(texts)
	return slices.Compact(texts), nil
}

// parked waits until a pod is rejected and its backoff of a second is certainly over. Any
// event can then retry it at once.
func (s *stage) parked(ctx context.Context, names ...string) error {
	for _, name := range names {
		err := poll(ctx, func() (bool, error) {
			pod, err := s.clients.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			for _, c := range pod.Status.Conditions {
				if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
					return time.Since(c.LastTransitionTime.Time) > 5*time.Second, nil
				}
			}
			return false, nil
		})
		if err != nil {
			return fmt.Errorf("wait until pod %s has been rejected for some seconds: %w", name, err)
		}
	}
	return nil
}

// pods notes the existing pods and their nodes.
func (s *stage) pods(ctx context.Context) error {
	list, err := s.clients.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	slices.SortFunc(list.Items, func(a, b v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for _, pod := range list.Items {
		s.note("there is %s on %q", pod.Name, pod.Spec.NodeName)
	}
	return nil
}
