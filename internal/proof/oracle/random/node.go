package random

import (
	"fmt"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	gpu       = "example.com/gpu"
	fpga      = "example.com/fpga"
	hugePages = "hugepages-2Mi"
	cordonKey = "node.kubernetes.io/unschedulable"
)

// Node is a ready node named node-<i>.
func Node(r *rand.Rand, i int) *v1.Node {
	name := fmt.Sprintf("node-%d", i)
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid(r), ResourceVersion: "1", CreationTimestamp: epoch, Labels: nodeLabels(r, name)},
		Spec:       v1.NodeSpec{Taints: taints(r), Unschedulable: chance(r, 8)},
		Status: v1.NodeStatus{
			Allocatable:      allocatable(r),
			Images:           images(r),
			DeclaredFeatures: features(r),
			Conditions:       []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
}

func uid(r *rand.Rand) types.UID {
	return types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", r.Uint32(), r.Uint64()&(1<<48-1)))
}

func nodeLabels(r *rand.Rand, name string) map[string]string {
	labels := map[string]string{v1.LabelHostname: name}
	if chance(r, 85) {
		labels["zone"] = pick(r, "a", "b", "c")
	}
	if chance(r, 70) {
		labels["disk"] = pick(r, "ssd", "hdd")
	}
	if chance(r, 60) {
		labels["cores"] = pick(r, "4", "16", "abc")
	}
	return labels
}

// taints returns at most one taint per key and effect, as the API requires.
func taints(r *rand.Rand) []v1.Taint {
	if chance(r, 65) {
		return nil
	}
	var all []v1.Taint
	for range 1 + r.IntN(3) {
		t := pick(r, v1.Taint{Key: "dedicated", Value: "gpu"}, v1.Taint{Key: "dedicated", Value: "db"}, v1.Taint{Key: "sla", Value: "950"},
			v1.Taint{Key: "sla", Value: "0950"}, v1.Taint{Key: cordonKey})
		t.Effect = pick(r, v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute)
		same := func(other v1.Taint) bool { return other.Key == t.Key && other.Effect == t.Effect }
		if !slices.ContainsFunc(all, same) {
			all = append(all, t)
		}
	}
	return all
}

func allocatable(r *rand.Rand) v1.ResourceList {
	list := v1.ResourceList{}
	set(r, list, 97, v1.ResourceCPU, "0", "500m", "1", "1500500u", "2", "4", "4", "8", "8", "8")
	set(r, list, 97, v1.ResourceMemory, "0", "512Mi", "1Gi", "4Gi", "8Gi", "8Gi", "8Gi", "16Gi", "16Gi")
	set(r, list, 97, v1.ResourcePods, "0", "1", "2", "3", "5", "110", "110", "110", "110", "110", "110", "110", "110", "110", "110")
	set(r, list, 70, v1.ResourceEphemeralStorage, "0", "1Gi", "10Gi")
	set(r, list, 40, gpu, "0", "1", "2", "4")
	set(r, list, 25, fpga, "0", "1", "2")
	set(r, list, 25, hugePages, "0", "64Mi", "128Mi")
	return list
}

// set adds any of the quantities to the list, with a probability in percent.
func set(r *rand.Rand, list v1.ResourceList, percent int, name v1.ResourceName, quantities ...string) {
	if chance(r, percent) {
		list[name] = resource.MustParse(pick(r, quantities...))
	}
}

const digest = "repo/app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// images lists the images of the vocabulary. An image has the same size on all nodes.
func images(r *rand.Rand) []v1.ContainerImage {
	return some(r, 40,
		v1.ContainerImage{Names: []string{"nginx:latest", "docker.io/library/nginx:latest"}, SizeBytes: 500 << 20},
		v1.ContainerImage{Names: []string{"app:v1"}, SizeBytes: 40 << 20},
		v1.ContainerImage{Names: []string{"localhost:5000/app:latest"}, SizeBytes: 300 << 20},
		v1.ContainerImage{Names: []string{digest}, SizeBytes: 1200 << 20},
		v1.ContainerImage{Names: []string{"tiny:1"}, SizeBytes: 22 << 20},
	)
}

func features(r *rand.Rand) []string {
	declared := some(r, 50, "Aaa", "InPlacePodLevelResourcesVerticalScaling", "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport",
		"VolumeBindMountOptions", "Zzz")
	if chance(r, 20) {
		r.Shuffle(len(declared), func(i, j int) { declared[i], declared[j] = declared[j], declared[i] })
	}
	return declared
}
