// Package shape creates the simulated nodes.
//
// It takes a fleet and a node's index. It returns the complete node object with its
// status, always the same for the same index and time. It owns the pools, sizes and
// names. It never does I/O.
package shape

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxNodes bounds a node's index: each node has its own pod range 10.x.y.0/24.
const MaxNodes = 1 << 16

const (
	// PoolLabel names the pool of a node.
	PoolLabel = "berth.dev/pool"
	// GPU is the extended resource of the gpu pool, and the key of its taint.
	GPU = "nvidia.com/gpu"

	// KubeletVersion is the release of every node's simulated kubelet.
	KubeletVersion = "v1.37.1"

	region = "eu-1"
	mebi   = int64(1) << 20
	gibi   = int64(1) << 30
)

var zones = [...]string{region + "a", region + "b", region + "c"}

// Fleet is a mix of pools.
type Fleet int

const (
	// Realistic mixes seven pools from 4 to 64 CPUs; every twentieth node has GPUs and a
	// taint.
	Realistic Fleet = iota
	// Uniform is ten pools of one size, 32 CPU and 128Gi, for benchmarks.
	Uniform
)

// String returns the name that ParseFleet reads.
func (f Fleet) String() string {
	if f == Uniform {
		return "uniform"
	}
	return "realistic"
}

// ParseFleet reads a fleet's name.
func ParseFleet(name string) (Fleet, error) {
	for _, f := range []Fleet{Realistic, Uniform} {
		if name == f.String() {
			return f, nil
		}
	}
	return 0, fmt.Errorf("%q is neither %s nor %s", name, Realistic, Uniform)
}

// pool has the common size and labels of some nodes. reserved is for a node's own
// daemons: allocatable is capacity minus reserved.
type pool struct {
	name             string
	instance         string
	cpu              int64 // cores
	memory           int64 // bytes
	reservedCPUMilli int64
	reservedMemory   int64 // bytes
	gpus             int64
}

func (f Fleet) pool(i int) pool {
	if f == Uniform {
		return pool{name: fmt.Sprintf("pool-%d", i%10), instance: "uniform-32", cpu: 32, memory: 128 * gibi}
	}
	return realistic[mix[i%len(mix)]]
}

var realistic = [...]pool{
	{"small", "general-4", 4, 16 * gibi, 80, 1 * gibi, 0},
	{"medium", "general-8", 8, 32 * gibi, 90, 2 * gibi, 0},
	{"large", "general-16", 16, 64 * gibi, 110, 3 * gibi, 0},
	{"compute", "compute-32", 32, 64 * gibi, 150, 3 * gibi, 0},
	{"memory", "memory-32", 32, 256 * gibi, 150, 8 * gibi, 0},
	{"huge", "general-64", 64, 256 * gibi, 230, 8 * gibi, 0},
	{"gpu", "gpu-32", 32, 128 * gibi, 150, 5 * gibi, 4},
}

// mix repeats every 20 nodes. Its length and the number of zones are coprime, so every
// pool reaches every zone. Its first ten entries include every pool.
var mix = [...]int{1, 2, 0, 3, 4, 1, 2, 6, 5, 0, 1, 2, 1, 3, 2, 1, 4, 0, 1, 2}

// images are distributed over the nodes in turns, so image locality makes a difference.
var images = [...]struct {
	name  string
	bytes int64
}{
	{"registry.example/pause:3.10", 1 * mebi},
	{"registry.example/web:1.4", 140 * mebi},
	{"registry.example/api:2.0", 85 * mebi},
	{"registry.example/worker:7", 320 * mebi},
	{"registry.example/postgres:17", 430 * mebi},
	{"registry.example/redis:8", 40 * mebi},
	{"registry.example/train:12", 6 * gibi},
	{"registry.example/ingress:3", 190 * mebi},
}

// Node returns the i-th node of the fleet, 0 <= i < MaxNodes, Ready since now.
func (f Fleet) Node(i int, now time.Time) *corev1.Node {
	p := f.pool(i)
	name := fmt.Sprintf("%s-%05d", p.name, i)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels(p, name, i)},
		Spec: corev1.NodeSpec{
			ProviderID: "devcluster://" + name,
			PodCIDR:    podCIDR(i),
			PodCIDRs:   []string{podCIDR(i)},
		},
		Status: status(p, name, i, now),
	}
	if p.gpus > 0 {
		node.Spec.Taints = []corev1.Taint{{Key: GPU, Value: "present", Effect: corev1.TaintEffectNoSchedule}}
	}
	return node
}

func podCIDR(i int) string {
	return fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255)
}

func address(i int) string {
	return fmt.Sprintf("172.16.%d.%d", i>>8, i&255)
}

func labels(p pool, name string, i int) map[string]string {
	return map[string]string{
		corev1.LabelHostname:           name,
		corev1.LabelOSStable:           "linux",
		corev1.LabelArchStable:         "amd64",
		corev1.LabelTopologyRegion:     region,
		corev1.LabelTopologyZone:       zones[i%len(zones)],
		corev1.LabelInstanceTypeStable: p.instance,
		PoolLabel:                      p.name,
	}
}

func status(p pool, name string, i int, now time.Time) corev1.NodeStatus {
	return corev1.NodeStatus{
		// Only the agent's heartbeat still reads the phase.
		Phase:       corev1.NodeRunning,
		Capacity:    resources(p, p.cpu*1000, p.memory),
		Allocatable: resources(p, p.cpu*1000-p.reservedCPUMilli, p.memory-p.reservedMemory),
		Conditions:  conditions(metav1.NewTime(now)),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: address(i)},
			{Type: corev1.NodeHostName, Address: name},
		},
		NodeInfo: corev1.NodeSystemInfo{
			OperatingSystem: "linux", Architecture: "amd64", OSImage: "simulated", KernelVersion: "6.12.0",
			ContainerRuntimeVersion: "containerd://2.1.0", KubeletVersion: KubeletVersion,
		},
		Images: nodeImages(i),
	}
}

func resources(p pool, cpuMilli, memory int64) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(cpuMilli, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(200*gibi, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(110, resource.DecimalSI),
	}
	if p.gpus > 0 {
		list[GPU] = *resource.NewQuantity(p.gpus, resource.DecimalSI)
	}
	return list
}

func conditions(now metav1.Time) []corev1.NodeCondition {
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
	}
}

// nodeImages returns the first image and three more, in turns.
func nodeImages(i int) []corev1.ContainerImage {
	const others = len(images) - 1
	list := make([]corev1.ContainerImage, 0, 4)
	for _, k := range []int{0, 1 + i%others, 1 + (i+2)%others, 1 + (i+3)%others} {
		list = append(list, corev1.ContainerImage{Names: []string{images[k].name}, SizeBytes: images[k].bytes})
	}
	return list
}
