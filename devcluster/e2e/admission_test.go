package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// good is a running pod with a port of its node.
const good = "containers: [{name: app, image: i, ports: [{containerPort: 80, hostPort: 80}], resources: {requests: {cpu: 1, memory: 1Gi}}}]"

// checkAdmission binds unfitting pods to the first node and checks that they do not run.
func checkAdmission(t *testing.T, admin, scheduler *kubernetes.Clientset) {
	node := firstNode(t, admin)
	place := func(name, spec string) { bindSpec(t, admin, scheduler, node, name, spec) }

	place("good", good)
	expect(t, admin, "good", corev1.PodRunning, "", "")
	for _, wrong := range []struct{ name, spec, reason, message string }{
		{"too-much-cpu", "containers: [{name: app, image: i, resources: {requests: {cpu: 100}}}]", "OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 100000, used: 1000"},
		{"too-much-memory", "containers: [{name: app, image: i, resources: {requests: {memory: 1Ti}}}]", "OutOfmemory", "Pod was rejected: Node didn't have enough resource: memory"},
		{"no-such-device", "containers: [{name: app, image: i, resources: {requests: {example.com/fpga: 1}, limits: {example.com/fpga: 1}}}]", "OutOfexample.com/fpga", ""},
		{"wrong-selector", "nodeSelector: {topology.kubernetes.io/zone: mars}\ncontainers: [{name: app, image: i}]", "NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed"},
		{"port-in-use", good, "NodePorts", "Pod was rejected: Predicate NodePorts failed"},
	} {
		place(wrong.name, wrong.spec)
		expect(t, admin, wrong.name, corev1.PodFailed, wrong.reason, wrong.message)
		expectWarning(t, admin, wrong.name, wrong.reason)
	}
	t.Run("a pod waits for its volume", func(t *testing.T) { checkVolume(t, admin, scheduler, node) })
	t.Run("a pod waits for its devices", func(t *testing.T) { checkDevices(t, admin, scheduler, node) })
}

// checkAdmissionAfterResume expects that pods from before the restart still have their
// room.
func checkAdmissionAfterResume(t *testing.T, admin, scheduler *kubernetes.Clientset) {
	expect(t, admin, "good", corev1.PodRunning, "", "")
	pod, err := admin.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "good", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bindSpec(t, admin, scheduler, pod.Spec.NodeName, "late", good)
	expect(t, admin, "late", corev1.PodFailed, "NodePorts", "")
}

func checkVolume(t *testing.T, admin, scheduler *kubernetes.Clientset, node string) {
	bindSpec(t, admin, scheduler, node, "with-volume", "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\ncontainers: [{name: app, image: i}]")
	expectWarning(t, admin, "with-volume", "FailedMount")
	expectUnready(t, admin, "with-volume")

	var volume corev1.PersistentVolume
	parse(t, `{metadata: {name: disk}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /disk}, claimRef: {namespace: default, name: data}}}`, &volume)
	if _, err := admin.CoreV1().PersistentVolumes().Create(t.Context(), &volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var claim corev1.PersistentVolumeClaim
	parse(t, `{metadata: {name: data}, spec: {storageClassName: "", volumeName: disk, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`, &claim)
	if _, err := admin.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).Create(t.Context(), &claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(t, admin, "with-volume", corev1.PodRunning, "", "")
}

func checkDevices(t *testing.T, admin, scheduler *kubernetes.Clientset, node string) {
	claims := admin.ResourceV1().ResourceClaims(metav1.NamespaceDefault)
	var claim *resourcev1.ResourceClaim
	parse(t, `{metadata: {name: gpu}, spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}`, &claim)
	claim, err := claims.Create(t.Context(), claim, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := bindSpec(t, admin, scheduler, node, "with-devices", "resourceClaims: [{name: gpu, resourceClaimName: gpu}]\ncontainers: [{name: app, image: i, resources: {claims: [{name: gpu}]}}]")
	expectWarning(t, admin, "with-devices", "FailedPrepareDynamicResources")
	expectUnready(t, admin, "with-devices")

	parse(t, fmt.Sprintf(`{allocation: {devices: {results: [{request: gpu, driver: gpu.example.com, pool: %s, device: gpu-0}]}}, reservedFor: [{resource: pods, name: with-devices, uid: %s}]}`, node, pod.UID), &claim.Status)
	if _, err := claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(t, admin, "with-devices", corev1.PodRunning, "", "")
}

func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// bindSpec creates a pod and binds it to a node, whether it fits or not.
func bindSpec(t *testing.T, admin, scheduler *kubernetes.Clientset, node, name, text string) *corev1.Pod {
	t.Helper()
	var spec corev1.PodSpec
	parse(t, text, &spec)
	pod := createPod(t, admin, name, spec)
	bind(t, scheduler, pod, node)
	return pod
}

// expect waits until a pod has a phase, a reason and the beginning of a message.
func expect(t *testing.T, admin *kubernetes.Clientset, name string, phase corev1.PodPhase, reason, message string) {
	t.Helper()
	eventually(t, fmt.Sprintf("pod %s is %s", name, phase), func(ctx context.Context) error {
		pod, err := admin.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := pod.Status
		if s.Phase == corev1.PodPending {
			return fmt.Errorf("it is %s", s.Phase)
		}
		if s.Phase != phase || s.Reason != reason || !strings.HasPrefix(s.Message, message) {
			t.Fatalf("pod %s is %s, %q, %q; want %s, %q, %q", name, s.Phase, s.Reason, s.Message, phase, reason, message)
		}
		return nil
	})
}

// expectUnready expects the reason for waiting and the node's address in a pod's status.
func expectUnready(t *testing.T, admin *kubernetes.Clientset, name string) {
	t.Helper()
	eventually(t, "pod "+name+" says that it waits", func(ctx context.Context) error {
		pod, err := admin.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		waits := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.ContainersReady && c.Status == corev1.ConditionFalse && c.Reason == "ContainersNotReady"
		})
		if pod.Status.Phase != corev1.PodPending || !waits || pod.Status.HostIP == "" {
			return fmt.Errorf("its status is %+v", pod.Status)
		}
		return nil
	})
}

// expectWarning waits for an event of a node's kubelet about a pod.
func expectWarning(t *testing.T, admin *kubernetes.Clientset, name, reason string) {
	t.Helper()
	eventually(t, "event "+reason+" about pod "+name, func(ctx context.Context) error {
		events, err := admin.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Type == corev1.EventTypeWarning && e.Reason == reason && e.Source.Component == "kubelet" {
				return nil
			}
		}
		return fmt.Errorf("there are %d others", len(events.Items))
	})
}
