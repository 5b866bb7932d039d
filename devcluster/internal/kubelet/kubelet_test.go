package kubelet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	core "k8s.io/client-go/testing"
)

// admitByCount admits as many pods as the node's label "room" allows.
func admitByCount(node *v1.Node, admitted []*v1.Pod, _ *v1.Pod) (reason, message string) {
	if fmt.Sprint(len(admitted)) == node.Labels["room"] {
		return "OutOfpods", "it is full"
	}
	return "", ""
}

// world is an API server in memory, with the kubelets of all nodes.
type world struct {
	*testing.T
	*fake.Clientset
}

// run runs a test with objects from before the kubelets' start.
func run(t *testing.T, test func(w *world), before ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{t, fake.NewClientset(before...)}
		// for the discovery
		w.Resources = []*metav1.APIResourceList{{GroupVersion: resourcev1.SchemeGroupVersion.String()}}
		stopped := make(chan error)
		go func() {
			stopped <- Run(ctx, Config{Client: w, Admit: admitByCount, NodeIP: "172.31.0.1", PodCIDR: "100.64.0.0/10", Workers: 4})
		}()
		settle()
		test(w)
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// settle waits until the kubelets are idle. In a test the time passes at once.
func settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

func testNode(name string, room int) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"room": fmt.Sprint(room)}},
		Spec:       v1.NodeSpec{PodCIDRs: []string{"10.0.0.0/24"}},
		Status:     v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "172.16.0.1"}}},
	}
}

// bound returns a pod bound to node a.
func bound(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Generation: 1},
		Spec:       v1.PodSpec{NodeName: "a", Containers: []v1.Container{{Name: "main"}}},
		Status:     v1.PodStatus{Phase: v1.PodPending, QOSClass: v1.PodQOSBestEffort, Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}}},
	}
}

func withClaim(pod *v1.Pod, claim string) *v1.Pod {
	pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	return pod
}

// add creates pods and waits until the kubelets are idle.
func (w *world) add(pods ...*v1.Pod) {
	w.Helper()
	for _, pod := range pods {
		_, err := w.CoreV1().Pods(pod.Namespace).Create(w.Context(), pod, metav1.CreateOptions{})
		w.must(err)
	}
	settle()
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) pod(name string) *v1.Pod {
	w.Helper()
	pod, err := w.CoreV1().Pods("default").Get(w.Context(), name, metav1.GetOptions{})
	w.must(err)
	return pod
}

// expect compares phase and reason of pods, such as "a Running, b Failed OutOfpods".
func (w *world) expect(want string) {
	w.Helper()
	for line := range strings.SplitSeq(want, ", ") {
		name, state, _ := strings.Cut(line, " ")
		status := w.pod(name).Status
		if got := strings.TrimSpace(string(status.Phase) + " " + status.Reason); got != state {
			w.Errorf("pod %s is %s, want %s", name, got, state)
		}
	}
}

// writes lists the write requests, except the test's own.
func (w *world) writes() (list []string) {
	for _, action := range w.Actions() {
		if v := action.GetVerb(); v == "update" || v == "patch" || v == "create" && action.GetResource().Resource == "events" {
			list = append(list, v+" "+action.GetResource().Resource+"/"+action.GetSubresource())
		}
	}
	return list
}

func TestOrdinaryPodCostsOneWrite(t *testing.T) {
	run(t, func(w *world) {
		w.add(bound("x"))
		w.expect("x Running")
		if got := w.writes(); !slices.Equal(got, []string{"update pods/status"}) {
			t.Errorf("writes: %v", got)
		}
		w.noneReadTwice()
		status := w.pod("x").Status
		if status.PodIP != "10.0.0.1" || status.HostIP != "172.16.0.1" || status.QOSClass != v1.PodQOSBestEffort || status.StartTime == nil {
			t.Errorf("status: %+v", status)
		}
		want := []v1.PodConditionType{v1.PodScheduled, v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady}
		for _, kind := range want {
			if !slices.ContainsFunc(status.Conditions, func(c v1.PodCondition) bool { return c.Type == kind && c.Status == v1.ConditionTrue }) {
				t.Errorf("%s is not true", kind)
			}
		}
	}, testNode("a", 1))
}

func TestRefusedPodFails(t *testing.T) {
	run(t, func(w *world) {
		w.add(bound("x"))
		w.add(bound("y"))
		w.expect("x Running, y Failed OutOfpods")
		status := w.pod("y").Status
		if status.Message != "Pod was rejected: it is full" || len(status.Conditions) != 1 {
			t.Errorf("status: %+v", status)
		}
		if got := w.events(); !slices.Equal(got, []string{"y Warning OutOfpods it is full kubelet a x1"}) {
			t.Errorf("events: %q", got)
		}
	}, testNode("a", 1))
}

func (w *world) events() (list []string) {
	w.Helper()
	events, err := w.CoreV1().Events("default").List(w.Context(), metav1.ListOptions{})
	w.must(err)
	for _, e := range events.Items {
		list = append(list, fmt.Sprint(e.InvolvedObject.Name, " ", e.Type, " ", e.Reason, " ", e.Message, " ", e.Source.Component, " ", e.Source.Host, " x", e.Count))
	}
	return list
}

func TestRoomIsFreed(t *testing.T) {
	node := testNode("a", 1)
	node.Spec.PodCIDRs = []string{"10.0.0.0/31"} // one pod's address
	run(t, func(w *world) {
		pods := w.CoreV1().Pods("default")
		w.add(bound("first"))
		ended := w.pod("first")
		ended.Status.Phase = v1.PodSucceeded
		_, err := pods.UpdateStatus(w.Context(), ended, metav1.UpdateOptions{})
		w.must(err)
		w.add(bound("second"))
		w.expect("first Succeeded, second Running")

		w.must(pods.Delete(w.Context(), "second", metav1.DeleteOptions{}))
		w.add(bound("third"))
		w.expect("third Running")
		w.noneReadTwice()
	}, node)
}

// noneReadTwice expects that the first decision refused no pod. A refusal would have read
// the node again.
func (w *world) noneReadTwice() {
	w.Helper()
	for _, action := range w.Actions() {
		if action.Matches("get", "nodes") {
			w.Errorf("a node was read for a pod that it admits: %v", action)
		}
	}
}

func TestBurst(t *testing.T) {
	const room, many = 40, 200
	run(t, func(w *world) {
		var pods []*v1.Pod
		for i := range many {
			pods = append(pods, bound(fmt.Sprint("x", i)))
		}
		w.add(pods...)
		phases, addresses := map[v1.PodPhase]int{}, map[string]bool{}
		for _, pod := range pods {
			status := w.pod(pod.Name).Status
			phases[status.Phase]++
			if status.Phase == v1.PodRunning {
				addresses[status.PodIP] = true
			}
		}
		if phases[v1.PodRunning] != room || phases[v1.PodFailed] != many-room || len(addresses) != room {
			t.Errorf("%v, with %d addresses; want %d to run, each with an address of its own", phases, len(addresses), room)
		}
	}, testNode("a", room))
}

// TestRestart expects that pods admitted by an earlier run keep their rooms and
// addresses, running or waiting.
func TestRestart(t *testing.T) {
	runs := bound("runs")
	runs.Status.Phase, runs.Status.PodIPs = v1.PodRunning, []v1.PodIP{{IP: "10.0.0.1"}}
	waits := withClaim(bound("waits"), "missing")
	waits.Status.StartTime = new(metav1.Now())
	ended := bound("ended")
	ended.Status.Phase = v1.PodFailed
	run(t, func(w *world) {
		w.expect("ended Failed, excess Failed OutOfpods, runs Running, waits Pending")
		w.must(w.CoreV1().Pods("default").Delete(w.Context(), "waits", metav1.DeleteOptions{}))
		w.add(bound("fits"))
		w.expect("fits Running")
		if ip := w.pod("fits").Status.PodIP; ip != "10.0.0.2" {
			t.Errorf("the new pod has address %s", ip)
		}
	}, testNode("a", 2), ended, bound("excess"), runs, waits)
}

func TestPodWaitsForItsClaim(t *testing.T) {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default", UID: "claim"}}
	claim.Spec.VolumeName, claim.Status.Phase = "disk", v1.ClaimBound
	volume := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	volume.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "data", UID: "claim"}
	add := map[string]func(w *world) error{
		"claim": func(w *world) error {
			_, err := w.CoreV1().PersistentVolumeClaims("default").Create(w.Context(), claim, metav1.CreateOptions{})
			return err
		},
		"volume": func(w *world) error {
			_, err := w.CoreV1().PersistentVolumes().Create(w.Context(), volume, metav1.CreateOptions{})
			return err
		},
	}
	for _, order := range [][2]string{{"claim", "volume"}, {"volume", "claim"}} {
		run(t, func(w *world) {
			w.add(withClaim(bound("x"), "data"))
			w.add(bound("y"))
			w.expect("x Pending, y Failed OutOfpods") // x keeps its room while it waits
			w.checkWaiting("x")
			w.must(add[order[0]](w))
			settle()
			w.expect("x Pending")
			w.must(add[order[1]](w))
			settle()
			w.expect("x Running")
		}, testNode("a", 1))
	}
}

// checkWaiting expects the reason for waiting in a pod's status and in one event.
func (w *world) checkWaiting(name string) {
	w.Helper()
	status := w.pod(name).Status
	ready := status.Conditions[slices.IndexFunc(status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady })]
	if ready.Status != v1.ConditionFalse || ready.Reason != "ContainersNotReady" || ready.Message != "containers with unready status: [main]" {
		w.Errorf("condition: %+v", ready)
	}
	events := slices.DeleteFunc(w.events(), func(e string) bool {
		return !strings.HasPrefix(e, name+" Warning FailedMount Unable to attach or mount volumes: ")
	})
	if len(events) != 1 || !strings.HasSuffix(events[0], " x1") {
		w.Errorf("events: %q", events)
	}
}

func TestPodWaitsForItsDevices(t *testing.T) {
	run(t, func(w *world) {
		pod := bound("x")
		pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("gpu")}}
		w.add(pod)
		w.expect("x Pending")
		claims := w.ResourceV1().ResourceClaims("default")
		claim, err := claims.Create(w.Context(), &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "default"}}, metav1.CreateOptions{})
		w.must(err)
		settle()
		w.expect("x Pending")
		claim.Status.Allocation = &resourcev1.AllocationResult{}
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "x", UID: "x"}}
		_, err = claims.UpdateStatus(w.Context(), claim, metav1.UpdateOptions{})
		w.must(err)
		settle()
		w.expect("x Running")
	}, testNode("a", 1))
}

func TestPodWaitsForItsNode(t *testing.T) {
	run(t, func(w *world) {
		w.add(bound("x"))
		w.expect("x Pending")
		_, err := w.CoreV1().Nodes().Create(w.Context(), testNode("a", 1), metav1.CreateOptions{})
		w.must(err)
		settle()
		w.expect("x Running")
	})
}

// TestRefusalDoesNotComeFromAStaleCache returns objects from reads before the watches
// deliver them.
func TestRefusalDoesNotComeFromAStaleCache(t *testing.T) {
	t.Run("of nodes", func(t *testing.T) {
		run(t, func(w *world) {
			w.PrependReactor("get", "nodes", func(core.Action) (bool, runtime.Object, error) { return true, testNode("a", 1), nil })
			w.add(bound("x"))
			w.expect("x Running")
		}, testNode("a", 0))
	})
	t.Run("of pods", func(t *testing.T) {
		run(t, func(w *world) {
			w.add(bound("gone"))
			w.PrependReactor("list", "pods", func(core.Action) (bool, runtime.Object, error) {
				return true, &v1.PodList{Items: []v1.Pod{*bound("x")}}, nil
			})
			w.add(bound("x"))
			w.expect("x Running")
		}, testNode("a", 1))
	})
}

func TestPodThatIsDeletedDoesNotStart(t *testing.T) {
	deleted := bound("x")
	deleted.DeletionTimestamp, deleted.Finalizers = new(metav1.Now()), []string{"example.com/x"}
	run(t, func(w *world) { w.expect("x Pending") }, testNode("a", 1), deleted)
}

func TestPodOnTheNetworkOfItsHost(t *testing.T) {
	run(t, func(w *world) {
		pod := bound("x")
		pod.Spec.HostNetwork = true
		w.add(pod)
		if ip := w.pod("x").Status.PodIP; ip != "172.16.0.1" {
			t.Errorf("it has address %s", ip)
		}
	}, testNode("a", 1))
}

func TestContainersOfARunningPod(t *testing.T) {
	pod := bound("x")
	pod.Spec.InitContainers = []v1.Container{{Name: "once"}, {Name: "sidecar", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}
	pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	status := running(pod, []v1.HostIP{{IP: "h"}}, []v1.PodIP{{IP: "p"}}, metav1.Now())
	if s := status.InitContainerStatuses; s[0].State.Terminated == nil || s[1].State.Running == nil || !s[1].Ready {
		t.Errorf("init containers: %+v", s)
	}
	if s := status.ContainerStatuses; s[0].State.Running == nil || !s[0].Ready {
		t.Errorf("containers: %+v", s)
	}
	if c := status.Conditions[len(status.Conditions)-1]; c.Type != "example.com/gate" || c.Status != v1.ConditionTrue {
		t.Errorf("readiness gate: %+v", c)
	}
}

func TestAddresses(t *testing.T) {
	a := newRooms("192.0.2.0/30").addresses
	node := &v1.Node{}
	for _, want := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
		if ips, err := a.take(node); err != nil || ips[0].IP != want {
			t.Errorf("got %v, %v; want %s", ips, err, want)
		}
	}
	if ips, err := a.take(node); err == nil {
		t.Errorf("got %v of a range that is full", ips)
	}
	a.free([]v1.PodIP{{IP: "192.0.2.2"}})
	if ips, err := a.take(node); err != nil || ips[0].IP != "192.0.2.2" {
		t.Errorf("got %v, %v; want the one that is free", ips, err)
	}
}
