package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// explainedPods is the limit of pods with details in a failure.
const explainedPods = 20

// awaitRunning waits as world.awaitRunning does. If pods do not run in time, it prints
// the API server's objects for each of them, before anything is deleted, and the
// scheduler's log with its state of waiting pods.
func (w *storage) awaitRunning(want int, scheduler *rig.Process) {
	w.Helper()
	began, running := time.Now(), 0
	err := wait.PollUntilContextTimeout(w.ctx, 100*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
		running = 0
		for _, p := range w.pods() {
			w.must(rig.Refused(&p))
			if p.Status.Phase == v1.PodRunning {
				running++
			}
		}
		return running == want, nil
	})
	if err == nil {
		return
	}
	scheduler.Signal(syscall.SIGUSR2)
	time.Sleep(time.Second) // for the scheduler to log meanwhile
	w.Fatalf("after %s %d of %d pods run: %v\n%s\nthe end of the scheduler's log:\n%s", time.Since(began).Round(time.Second), running, want, err, w.stuck(), scheduler.Log())
}

// stuck describes the pods that do not run, their claims and volumes, their nodes, and
// the events about them.
func (w *storage) stuck() string {
	ctx := context.Background()
	var text strings.Builder
	claims, err := w.client.CoreV1().PersistentVolumeClaims(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	volumes, err := w.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	events, err := w.client.EventsV1().Events(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	pods, err := w.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	about := func(kind, name string) {
		for _, e := range events.Items {
			if e.Regarding.Kind == kind && e.Regarding.Name == name {
				fmt.Fprintf(&text, "    event %s %s %s by %s: %.300s\n", when(&e), e.Type, e.Reason, e.ReportingController, e.Note)
			}
		}
	}
	told := 0
	for _, pod := range pods.Items {
		if pod.Namespace != w.namespace || pod.Status.Phase == v1.PodRunning {
			continue
		}
		if told++; told > explainedPods {
			continue
		}
		fmt.Fprintf(&text, "pod %s: %s on node %q, nominated to %q, deleted %v\n", pod.Name, pod.Status.Phase, pod.Spec.NodeName, pod.Status.NominatedNodeName, pod.DeletionTimestamp)
		for _, c := range pod.Status.Conditions {
			fmt.Fprintf(&text, "    condition %s %s=%s %s: %.300s\n", clock(c.LastTransitionTime.Time), c.Type, c.Status, c.Reason, c.Message)
		}
		about("Pod", pod.Name)
		for _, v := range pod.Spec.Volumes {
			name := pod.Name + "-" + v.Name
			if v.PersistentVolumeClaim != nil {
				name = v.PersistentVolumeClaim.ClaimName
			}
			at := slices.IndexFunc(claims.Items, func(c v1.PersistentVolumeClaim) bool { return c.Name == name })
			if at < 0 {
				fmt.Fprintf(&text, "  claim %s does not exist\n", name)
				continue
			}
			claim := &claims.Items[at]
			fmt.Fprintf(&text, "  claim %s: %s, version %s, volume %q, deleted %v, %s\n", name, claim.Status.Phase, claim.ResourceVersion, claim.Spec.VolumeName, claim.DeletionTimestamp, pairs(claim.Annotations))
			about("PersistentVolumeClaim", name)
			w.history(&text, name)
			for _, pv := range volumes.Items {
				if ref := pv.Spec.ClaimRef; pv.Name == claim.Spec.VolumeName || ref != nil && ref.UID == claim.UID {
					fmt.Fprintf(&text, "  volume %s: %s, version %s, for %+v, on %v, deleted %v, %s\n", pv.Name, pv.Status.Phase, pv.ResourceVersion, ref, hostsOf(&pv), pv.DeletionTimestamp, pairs(pv.Annotations))
					for _, host := range hostsOf(&pv) {
						fmt.Fprintf(&text, "    %s\n", w.room(host, pods.Items))
					}
				}
			}
		}
	}
	if told > explainedPods {
		fmt.Fprintf(&text, "and %d more pods\n", told-explainedPods)
	}
	free := map[string]int{}
	for _, pv := range volumes.Items {
		if pv.Spec.ClaimRef == nil {
			free[pv.Spec.StorageClassName]++
		}
	}
	fmt.Fprintf(&text, "volumes without a claim, by class: %v\n", free)
	return text.String()
}

// history lists the writes to a claim and its volumes, with their users and the API
// server's answers.
func (w *storage) history(text *strings.Builder, claim string) {
	w.audit(func(a *audited) {
		var object struct {
			Metadata metav1.ObjectMeta
			Spec     struct {
				VolumeName string
				ClaimRef   *v1.ObjectReference
			}
		}
		_ = json.Unmarshal(a.ResponseObject, &object) // a refusal has another form
		about := a.ObjectRef.Name
		switch a.ObjectRef.Resource {
		case "persistentvolumeclaims":
			if about != claim {
				return
			}
		case "persistentvolumes":
			ref := object.Spec.ClaimRef
			if (ref == nil || ref.Namespace != w.namespace || ref.Name != claim) && !strings.Contains(string(a.RequestObject), fmt.Sprintf("%q", claim)) {
				return
			}
		case "pods":
			if about != claim { // the tests give both the same name
				return
			}
		}
		fmt.Fprintf(text, "    %s to %s %s %s by %s: %d, now version %s, volume %q, %s\n", clock(a.RequestReceivedTimestamp), clock(a.StageTimestamp), a.what(), about,
			a.User.Username[strings.LastIndex(a.User.Username, ":")+1:], a.ResponseStatus.Code, object.Metadata.ResourceVersion, object.Spec.VolumeName, pairs(object.Metadata.Annotations))
	})
}

// room returns the capacity of a node and the requests on it.
func (w *storage) room(name string, pods []v1.Pod) string {
	node := w.nodes[name]
	if node == nil {
		return "node " + name + " was not there at the start"
	}
	n, cpu := 0, int64(0)
	for i := range pods {
		if pods[i].Spec.NodeName == name {
			n++
			for _, c := range pods[i].Spec.Containers {
				cpu += c.Resources.Requests.Cpu().MilliValue()
			}
		}
	}
	return fmt.Sprintf("node %s: %d of %s pods, %dm of %s cpu, taints %v", name, n, node.Status.Allocatable.Pods(), cpu, node.Status.Allocatable.Cpu(), node.Spec.Taints)
}

func hostsOf(pv *v1.PersistentVolume) []string {
	var hosts []string
	if pv.Spec.NodeAffinity != nil && pv.Spec.NodeAffinity.Required != nil {
		for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				hosts = append(hosts, e.Values...)
			}
		}
	}
	return hosts
}

func pairs(m map[string]string) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, key[strings.LastIndex(key, "/")+1:]+"="+m[key])
	}
	return strings.Join(list, " ")
}

func when(e *eventsv1.Event) string {
	switch {
	case e.Series != nil:
		return fmt.Sprintf("%s to %s (%d times)", clock(e.EventTime.Time), clock(e.Series.LastObservedTime.Time), e.Series.Count)
	case !e.EventTime.IsZero():
		return clock(e.EventTime.Time)
	case e.DeprecatedCount > 1:
		return fmt.Sprintf("%s to %s (%d times)", clock(e.DeprecatedFirstTimestamp.Time), clock(e.DeprecatedLastTimestamp.Time), e.DeprecatedCount)
	}
	return clock(e.DeprecatedFirstTimestamp.Time)
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
