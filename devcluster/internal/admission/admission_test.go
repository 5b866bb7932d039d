package admission

import (
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

func TestAdmit(t *testing.T) {
	const (
		cpu3       = "containers: [{resources: {requests: {cpu: 3}}}]"
		gpu1       = "containers: [{resources: {requests: {example.com/gpu: 1}}}]"
		web        = "containers: [{ports: [{hostPort: 80}]}]"
		webUDP     = "containers: [{ports: [{hostPort: 80, protocol: UDP}]}]"
		webOnOne   = "containers: [{ports: [{hostPort: 80, hostIP: 10.0.0.1}]}]"
		webOnTwo   = "containers: [{ports: [{hostPort: 80, hostIP: 10.0.0.2}]}]"
		drain      = "taints: [{key: drain, effect: NoExecute}]"
		reserved   = "taints: [{key: team, effect: NoSchedule}]"
		noAffinity = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
		noPorts    = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
		noTaint    = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
	)
	for _, test := range []struct {
		rule            string
		node            string // of the spec
		others          []string
		pod             string
		reason, message string
	}{
		{"nothing asked", "", nil, "", "", ""},
		{"cpu fits exactly", "", nil, "containers: [{resources: {requests: {cpu: 4}}}]", "", ""},
		{"cpu", "", nil, "containers: [{resources: {requests: {cpu: 4001m}}}]", "OutOfcpu", "Node didn't have enough resource: cpu, requested: 4001, used: 0, capacity: 4000"},
		{"cpu beside another", "", []string{cpu3}, cpu3, "OutOfcpu", "Node didn't have enough resource: cpu, requested: 3000, used: 3000, capacity: 4000"},
		{"cpu of an init container", "", nil, "initContainers: [{resources: {requests: {cpu: 5}}}]", "OutOfcpu", "Node didn't have enough resource: cpu, requested: 5000, used: 0, capacity: 4000"},
		{"cpu of a sidecar", "", []string{cpu3}, "initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 2}}}]", "OutOfcpu", "Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000"},
		{"cpu of the overhead", "", nil, "overhead: {cpu: 5}", "OutOfcpu", "Node didn't have enough resource: cpu, requested: 5000, used: 0, capacity: 4000"},
		{"cpu of the pod", "", nil, "resources: {requests: {cpu: 5}}", "OutOfcpu", "Node didn't have enough resource: cpu, requested: 5000, used: 0, capacity: 4000"},
		{"memory", "", nil, "containers: [{resources: {requests: {memory: 8Gi}}}, {resources: {requests: {memory: 1}}}]", "OutOfmemory", "Node didn't have enough resource: memory, requested: 8589934593, used: 0, capacity: 8589934592"},
		{"storage", "", nil, "containers: [{resources: {requests: {ephemeral-storage: 11Gi}}}]", "OutOfephemeral-storage", "Node didn't have enough resource: ephemeral-storage, requested: 11811160064, used: 0, capacity: 10737418240"},
		{"device", "", nil, gpu1, "", ""},
		{"device beside another", "", []string{gpu1}, gpu1, "OutOfexample.com/gpu", "Node didn't have enough resource: example.com/gpu, requested: 1, used: 1, capacity: 1"},
		{"device that the node lacks", "", nil, "containers: [{resources: {requests: {example.com/fpga: 1}}}]", "OutOfexample.com/fpga", "Node didn't have enough resource: example.com/fpga, requested: 1, used: 0, capacity: 0"},
		{"third pod", "", []string{"", ""}, "", "", ""},
		{"fourth pod", "", []string{"", "", ""}, "", "OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"},
		{"port", "", []string{web}, web, "NodePorts", noPorts},
		{"port of another protocol", "", []string{web}, webUDP, "", ""},
		{"port on another address", "", []string{webOnOne}, webOnTwo, "", ""},
		{"port on one and all addresses", "", []string{webOnOne}, web, "NodePorts", noPorts},
		{"selector", "", nil, "nodeSelector: {zone: a}", "", ""},
		{"other selector", "", nil, "nodeSelector: {zone: b}", "NodeAffinity", noAffinity},
		{"affinity", "", nil, affinity("a"), "", ""},
		{"other affinity", "", nil, affinity("b"), "NodeAffinity", noAffinity},
		{"node name", "", nil, "nodeName: other", "NodeName", "Predicate NodeName failed: node(s) didn't match the requested node name"},
		{"NoExecute", drain, nil, "", "TaintToleration", noTaint},
		{"NoExecute, tolerated", drain, nil, "tolerations: [{key: drain, operator: Exists}]", "", ""},
		{"NoSchedule is the scheduler's", reserved, nil, "", "", ""},
		{"unschedulable is the scheduler's", "unschedulable: true", nil, "", "", ""},
		{"undeclared feature", "", nil, "hostNetwork: true\nhostUsers: false", "PodFeatureUnsupported", "Pod requires node features that are not available: UserNamespacesHostNetworkSupport"},
	} {
		node := testNode(t, test.node)
		var others []*v1.Pod
		for i, other := range test.others {
			others = append(others, testPod(t, strconv.Itoa(i), other))
		}
		before := node.DeepCopy()
		reason, message := Admit(node, others, testPod(t, "pod", test.pod))
		if reason != test.reason || message != test.message {
			t.Errorf("%s: got %q, %q; want %q, %q", test.rule, reason, message, test.reason, test.message)
		}
		if !equality.Semantic.DeepEqual(node, before) {
			t.Errorf("%s: the node has changed", test.rule)
		}
	}
}

// TestExtendedResourceOfAClaim admits a pod whose extended resource the node lacks, if a
// claim satisfies it for all requesting containers.
func TestExtendedResourceOfAClaim(t *testing.T) {
	const fpga = "containers: [{name: a, resources: {requests: {example.com/fpga: 1}}}, {name: b, resources: {requests: {example.com/fpga: 2}}}]"
	for status, want := range map[string]string{
		"": "OutOfexample.com/fpga",
		"{resourceClaimName: c, requestMappings: [{containerName: a, resourceName: example.com/fpga, requestName: r}]}":                                                                     "OutOfexample.com/fpga",
		"{resourceClaimName: c, requestMappings: [{containerName: a, resourceName: example.com/fpga, requestName: r}, {containerName: b, resourceName: example.com/fpga, requestName: s}]}": "",
	} {
		pod := testPod(t, "pod", fpga)
		read(t, status, &pod.Status.ExtendedResourceClaimStatus)
		if reason, message := Admit(testNode(t, ""), nil, pod); reason != want {
			t.Errorf("%s: %q, %q; want %q", status, reason, message, want)
		}
	}
}

func affinity(zone string) string {
	return "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [" + zone + "]}]}]}}}"
}

// testNode has 4 CPUs, 8Gi of memory, 10Gi of storage, one GPU, room for 3 pods, and the
// given spec.
func testNode(t *testing.T, spec string) *v1.Node {
	t.Helper()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"zone": "a"}}}
	read(t, spec, &node.Spec)
	node.Status.Allocatable = v1.ResourceList{}
	for name, amount := range map[v1.ResourceName]string{"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "3", "example.com/gpu": "1"} {
		node.Status.Allocatable[name] = resource.MustParse(amount)
	}
	return node
}

// testPod is bound to the node unless its spec names another. It has the API server's
// defaults, such as protocols.
func testPod(t *testing.T, uid, spec string) *v1.Pod {
	t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Spec: v1.PodSpec{NodeName: "node"}}
	read(t, spec, &pod.Spec)
	for i := range pod.Spec.Containers {
		for j := range pod.Spec.Containers[i].Ports {
			if port := &pod.Spec.Containers[i].Ports[j]; port.Protocol == "" {
				port.Protocol = v1.ProtocolTCP
			}
		}
	}
	return pod
}

func read(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
