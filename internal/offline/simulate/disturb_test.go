package simulate_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// faults draws the faults of requests and watches for a while: sometimes few, sometimes
// with a dominant one.
func (t *faultTrial) faults() simulate.Faults {
	f := simulate.Faults{
		MaxWatchDelay: time.Duration(t.r.IntN(3000)) * time.Millisecond, MaxBindDelay: time.Duration(t.r.IntN(2000)) * time.Millisecond,
		DuplicatePercent: t.r.IntN(20), ReplacedPercent: t.r.IntN(100), KeyOnlyPercent: t.r.IntN(50), StuckPercent: t.r.IntN(20),
		Requests: map[simulate.Fault]int{},
	}
	for fault := simulate.Conflict; fault <= simulate.Late; fault++ {
		f.Requests[fault] = t.r.IntN(6)
	}
	if t.r.IntN(3) == 0 {
		f.Requests[simulate.Conflict+simulate.Fault(t.r.IntN(int(simulate.Late)))] = 30
	}
	return f
}

// disturb makes one change to the cluster, the process or the clock.
func (t *faultTrial) disturb() (string, error) {
	for _, d := range []struct {
		percent int
		do      func() (string, error)
	}{
		{30, t.createPods}, {31, t.disturbPod}, {16, t.disturbNode}, {9, t.disturbWatch}, {8, t.disturbOther}, {3, t.cutOff}, {3, t.kill}, {4, t.disturbClock}, {10, t.expireEvents},
	} {
		if t.r.IntN(100) < d.percent {
			return d.do()
		}
	}
	return t.disturbPod()
}

func (t *faultTrial) createPods() (string, error) {
	if len(t.c.Pods()) > 90 {
		return t.deletePods()
	}
	n := 1 + t.r.IntN(6)
	for range n {
		t.pods++
		pod := t.newPod(fmt.Sprint("pod-", t.pods))
		if t.r.IntN(60) == 0 {
			pod.Name, pod.Spec.Priority = fmt.Sprint("cursed-", t.pods), ptr(int32(1000))
			t.cursed[pod.Name] = true
			t.c.FailBind(keyOf(pod), simulate.Denied, -1)
		}
		t.c.SetPod(pod)
	}
	return fmt.Sprintf("%d pods created", n), nil
}

func (t *faultTrial) deletePods() (string, error) {
	for _, pod := range t.c.Pods() {
		if t.r.IntN(3) == 0 {
			t.deletePod(pod)
		}
	}
	return "a third of the pods deleted", nil
}

func (t *faultTrial) deletePod(pod *v1.Pod) {
	t.note("deleted", pod)
	t.c.DeletePod(keyOf(pod))
}

// expireEvents deletes the events, as the API server does after an hour. A repetition
// then has no event to be counted in.
func (t *faultTrial) expireEvents() (string, error) {
	t.c.DeleteEvents()
	return "events expired", nil
}

// note counts a change to a pod by the pod's stage.
func (t *faultTrial) note(what string, pod *v1.Pod) {
	place := t.c.Loop().Queue().PlaceOf(keyOf(pod))
	if place == "" {
		place = "on its node"
		if pod.Spec.NodeName == "" {
			place = "unseen"
		}
	}
	t.happened["pod "+what+" while "+place]++
}

// newPod draws a pod: most requests are small, some exceed every node, some pods have
// constraints.
func (t *faultTrial) newPod(name string) *v1.Pod {
	r := t.r
	p := pod(name, fmt.Sprintf("%dm", 100*(1+r.IntN(15))), r.IntN(60))
	p.Labels = map[string]string{"app": fmt.Sprint("app-", r.IntN(3))}
	p.Spec.Priority = ptr(int32(r.IntN(4)))
	main := &p.Spec.Containers[0]
	main.Resources.Requests[v1.ResourceMemory] = resource.MustParse(fmt.Sprintf("%dMi", 64*(1+r.IntN(20))))
	switch r.IntN(16) {
	case 0:
		main.Resources.Requests[v1.ResourceCPU] = resource.MustParse("9")
	case 1, 2:
		main.Ports = []v1.ContainerPort{{HostPort: int32(80 + r.IntN(2))}}
	case 3:
		p.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: fmt.Sprint("zone-", r.IntN(3))}
	case 4:
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}}
	case 8:
		p.Status.NominatedNodeName = fmt.Sprint("node-", r.IntN(3))
	case 5:
		p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	case 6:
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}}}
	case 7:
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
	}
	return p
}

// disturbPod makes a change to one pod at any stage, with a preference for pods with a
// binding in flight.
func (t *faultTrial) disturbPod() (string, error) {
	all := t.c.Pods()
	if len(all) == 0 {
		return t.createPods()
	}
	old := all[t.r.IntN(len(all))]
	binding := slices.DeleteFunc(slices.Clone(all), func(p *v1.Pod) bool { return t.c.Loop().Queue().PlaceOf(keyOf(p)) != "binding" })
	if len(binding) > 0 && t.r.IntN(2) == 0 {
		old = binding[t.r.IntN(len(binding))]
	}
	pod := old.DeepCopy()
	what := "updated"
	switch t.r.IntN(7) {
	case 0, 1:
		t.deletePod(old)
		return "pod deleted: " + old.Name, nil
	case 2:
		what = "replaced"
		t.c.DeletePod(keyOf(old))
		pod = t.newPod(old.Name)
	case 3:
		what = "terminating"
		pod.DeletionTimestamp = ptr(metav1.NewTime(t.c.Now()))
	case 4:
		if pod.Spec.NodeName == "" {
			pod.Spec.SchedulingGates, what = nil, "released from its gates"
			break
		}
		pod.Status.Phase, what = v1.PodSucceeded, "finished"
	case 5:
		pod.Labels = map[string]string{"app": fmt.Sprint("app-", t.r.IntN(3))}
	default:
		if pod.Spec.NodeName == "" {
			pod.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
		}
	}
	t.note(what, old)
	t.c.SetPod(pod)
	return fmt.Sprintf("pod %s: %s", what, pod.Name), nil
}

// disturbNode deletes, restores or changes a node. Nodes never shrink.
func (t *faultTrial) disturbNode() (string, error) {
	nodes := t.c.Nodes()
	if back := slices.Sorted(maps.Keys(t.lost)); len(back) > 0 && (t.r.IntN(3) == 0 || len(nodes) < 2) {
		n := t.lost[back[0]]
		delete(t.lost, n.Name)
		n.UID = "" // a new node of the same name
		t.c.SetNode(n)
		return "node back: " + n.Name, nil
	}
	if len(nodes) == 0 {
		return t.createPods()
	}
	n := nodes[t.r.IntN(len(nodes))].DeepCopy()
	switch t.r.IntN(5) {
	case 0:
		for _, pod := range t.c.Pods() {
			if on, confirmed, _ := t.c.Loop().State().NodeOf(keyOf(pod)); on == n.Name && !confirmed {
				t.happened["node gone under assumed pods"]++
				break
			}
		}
		t.lost[n.Name] = n
		t.c.DeleteNode(n.Name)
		return "node gone: " + n.Name, nil
	case 1:
		n.Spec.Unschedulable = !n.Spec.Unschedulable
	case 2:
		n.Spec.Taints = nil
		if t.r.IntN(2) == 0 {
			n.Spec.Taints = []v1.Taint{{Key: "t", Effect: v1.TaintEffectNoSchedule}}
		}
	case 3:
		n.Labels[v1.LabelTopologyZone] = fmt.Sprint("zone-", t.r.IntN(3))
	default:
		cpu := n.Status.Allocatable[v1.ResourceCPU]
		if cpu.Value() < 8 {
			cpu.Add(resource.MustParse("1"))
		}
		n.Status.Allocatable[v1.ResourceCPU] = cpu
	}
	t.c.SetNode(n)
	return "node changed: " + n.Name, nil
}

// disturbOther changes a namespace or a Service. Most of the new versions are equal for
// scheduling.
func (t *faultTrial) disturbOther() (string, error) {
	app := map[string]string{"app": fmt.Sprint("app-", t.r.IntN(2))}
	var object kinds.Object = &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: app}}
	if t.r.IntN(2) == 0 {
		object = &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("s-", t.r.IntN(2))}, Spec: v1.ServiceSpec{Selector: app}}
	}
	ref, _ := kinds.RefOf(object)
	what := "set"
	switch t.r.IntN(4) {
	case 0:
		t.c.DeleteObject(ref)
		return words(ref) + " deleted", nil
	case 1:
		what = "replaced"
		t.c.DeleteObject(ref)
	}
	return words(ref) + " " + what, t.c.SetObject(object)
}

func (t *faultTrial) disturbWatch() (string, error) {
	reads := t.c.Reads()
	kind := reads[t.r.IntN(2)] // pods and nodes come first, and matter most
	if others := reads[2:]; len(others) > 0 && t.r.IntN(3) == 0 {
		kind = others[t.r.IntN(len(others))]
	}
	if t.r.IntN(2) == 0 {
		t.c.BreakWatch(kind)
		return "watch broken", nil
	}
	for _, kind := range reads {
		t.c.MendWatch(kind, t.r.IntN(2) == 0)
	}
	return "watches mended", nil
}

// cutOff disconnects the API server for seconds or minutes.
func (t *faultTrial) cutOff() (string, error) {
	if t.backAt.IsZero() {
		t.c.Disconnect()
		t.backAt = t.c.Now().Add(time.Duration(1+t.r.IntN(10)*t.r.IntN(30)) * time.Second)
	}
	return "API server gone", nil
}

// kill ends the process, sometimes in order. Another starts when the first has nothing in
// flight, as a lease ensures. A process that stops in order writes for five more seconds.
func (t *faultTrial) kill() (string, error) {
	if !t.startAt.IsZero() {
		return "no process to kill", nil
	}
	t.startAt = t.c.Now().Add(6*time.Second + time.Duration(t.r.IntN(10_000))*time.Millisecond)
	if t.r.IntN(3) > 0 {
		t.c.Kill()
		return "process killed", nil
	}
	t.startAt = t.startAt.Add(commit.DefaultDrain)
	t.c.Stop()
	if d := t.c.Outbox(); d.Waiting() > 0 {
		return "", fmt.Errorf("a process that was stopped has %d bindings to send", d.Waiting())
	}
	return "process stopped", nil
}

func (t *faultTrial) disturbClock() (string, error) {
	if t.r.IntN(2) == 0 {
		t.c.SetClock(time.Duration(t.r.IntN(14_400_000)-7_200_000) * time.Millisecond)
		return "clock set", nil
	}
	d := time.Duration(1+t.r.IntN(20)*t.r.IntN(60)) * time.Second
	t.c.Stall(d)
	return "process stalled for " + d.String(), nil
}

func ptr[T any](of T) *T { return &of }
