package random

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const bindMountOption = "noexec"

// Pod returns a pending pod named pod-<i>. Its node affinity is never malformed in a way
// that fails the whole cycle; see WithBrokenPreference.
func Pod(r *rand.Rand, i int) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pod-%d", i), Namespace: pick(r, "default", "other"), UID: uid(r), ResourceVersion: "1", CreationTimestamp: epoch, Labels: podLabels(r),
		},
		Spec: v1.PodSpec{
			SchedulerName: v1.DefaultSchedulerName,
			Priority:      priority(r),
			Tolerations:   tolerations(r),
			NodeSelector:  nodeSelector(r),
			Affinity:      affinity(r),
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	addContainers(r, p)
	addPodLevel(r, p)
	addFeatures(r, p)
	return p
}

// WithBrokenPreference returns a copy of a pod with a malformed preferred term: with two
// or more feasible nodes its cycle fails.
func WithBrokenPreference(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	if p.Spec.Affinity.NodeAffinity == nil {
		p.Spec.Affinity.NodeAffinity = &v1.NodeAffinity{}
	}
	na := p.Spec.Affinity.NodeAffinity
	na.PreferredDuringSchedulingIgnoredDuringExecution = append(na.PreferredDuringSchedulingIgnoredDuringExecution,
		v1.PreferredSchedulingTerm{Weight: 1, Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{brokenBound()}}})
	return p
}

// PlacedPod returns a pod that runs or has run on a node: some are terminal, some
// terminating, some being resized.
func PlacedPod(r *rand.Rand, i int, nodeName string) *v1.Pod {
	p := Pod(r, i)
	settle(r, p, nodeName)
	return p
}

// settle places a pod on a node.
func settle(r *rand.Rand, p *v1.Pod, nodeName string) {
	p.Spec.NodeName = nodeName
	p.Status.Phase = pick(r, v1.PodPending, v1.PodRunning, v1.PodRunning, v1.PodRunning)
	if chance(r, 8) {
		p.Status.Phase = pick(r, v1.PodSucceeded, v1.PodFailed)
	}
	if chance(r, 5) {
		p.DeletionTimestamp = ptr(epoch)
		p.DeletionGracePeriodSeconds = ptr(int64(30))
	}
	if chance(r, 30) {
		setResize(r, p)
	}
}

func priority(r *rand.Rand) *int32 {
	if chance(r, 30) {
		return nil
	}
	return ptr(pick(r, int32(-5), 0, 0, 10, 1000))
}

func podLabels(r *rand.Rand) map[string]string {
	labels := map[string]string{}
	if chance(r, 80) {
		labels["app"] = pick(r, "web", "db")
	}
	if chance(r, 50) {
		labels["tier"] = pick(r, "front", "back")
	}
	return labels
}

func addContainers(r *rand.Rand, p *v1.Pod) {
	for range 1 + r.IntN(2) {
		p.Spec.Containers = append(p.Spec.Containers, container(r, fmt.Sprintf("c%d", len(p.Spec.Containers))))
	}
	if chance(r, 65) {
		return
	}
	for range 1 + r.IntN(2) {
		c := container(r, fmt.Sprintf("i%d", len(p.Spec.InitContainers)))
		if chance(r, 35) {
			c.RestartPolicy = ptr(v1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

func container(r *rand.Rand, name string) v1.Container {
	c := v1.Container{
		Name:  name,
		Image: pick(r, "nginx", "nginx:latest", "app:v1", "localhost:5000/app", digest, "tiny:1", "unknown:2"),
		Ports: ports(r),
	}
	c.Resources.Requests = requests(r)
	// Extended resources and huge pages may not be overcommitted: the API requires limits
	// equal to requests.
	for name, q := range c.Resources.Requests {
		if name == gpu || name == fpga || name == hugePages {
			if c.Resources.Limits == nil {
				c.Resources.Limits = v1.ResourceList{}
			}
			c.Resources.Limits[name] = q
		}
	}
	return c
}

// requests may be empty. The scheduler treats nil and an empty list alike, so both occur.
func requests(r *rand.Rand) v1.ResourceList {
	if chance(r, 15) {
		return nil
	}
	list := v1.ResourceList{}
	set(r, list, 70, v1.ResourceCPU, "0", "100m", "100500u", "250m", "250m", "500m", "1", "2")
	set(r, list, 65, v1.ResourceMemory, "0", "1500m", "64Mi", "128Mi", "200Mi", "512Mi", "1Gi")
	set(r, list, 8, v1.ResourceEphemeralStorage, "0", "500Mi", "1Gi")
	set(r, list, 6, gpu, "0", "1", "1", "2")
	set(r, list, 3, fpga, "0", "1")
	// Huge pages need a request for cpu or memory beside them.
	if _, ok := list[v1.ResourceCPU]; ok {
		set(r, list, 4, hugePages, "0", "64Mi")
	}
	return list
}

func ports(r *rand.Rand) []v1.ContainerPort {
	if chance(r, 82) {
		return nil
	}
	var all []v1.ContainerPort
	for range 1 + r.IntN(2) {
		port := v1.ContainerPort{ContainerPort: pick(r, int32(80), 443, 8080), Protocol: pick(r, "", v1.ProtocolTCP, v1.ProtocolTCP, v1.ProtocolUDP)}
		if chance(r, 70) {
			port.HostPort = port.ContainerPort
			port.HostIP = pick(r, "", "0.0.0.0", "10.0.0.1", "127.0.0.1", "::")
		}
		all = append(all, port)
	}
	return all
}

func addPodLevel(r *rand.Rand, p *v1.Pod) {
	if chance(r, 15) {
		p.Spec.Overhead = v1.ResourceList{}
		set(r, p.Spec.Overhead, 80, v1.ResourceCPU, "0", "50m", "250m")
		set(r, p.Spec.Overhead, 60, v1.ResourceMemory, "0", "64Mi", "120Mi")
	}
	if chance(r, 20) {
		p.Spec.Resources = &v1.ResourceRequirements{Requests: podLevelRequests(r)}
	}
}

func podLevelRequests(r *rand.Rand) v1.ResourceList {
	list := v1.ResourceList{}
	set(r, list, 70, v1.ResourceCPU, "0", "500m", "1", "2")
	set(r, list, 60, v1.ResourceMemory, "0", "512Mi", "1Gi", "2Gi")
	set(r, list, 5, hugePages, "64Mi")
	// Not supported at pod level: must not count.
	set(r, list, 5, v1.ResourceEphemeralStorage, "1Gi")
	return list
}

// addFeatures gives some pods a field that requires a declared feature of the node, and
// some an image volume.
func addFeatures(r *rand.Rand, p *v1.Pod) {
	if chance(r, 12) {
		p.Spec.HostNetwork = true
		p.Spec.HostUsers = pick(r, nil, ptr(true), ptr(false))
	}
	if chance(r, 5) {
		p.Spec.Containers[0].RestartPolicy = ptr(v1.ContainerRestartPolicyNever)
		p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
			Action:    v1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
		}}
	}
	if chance(r, 10) {
		p.Spec.Volumes = []v1.Volume{{Name: "files", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: pick(r, "app:v1", "nginx")}}}}
		mount := v1.VolumeMount{Name: "files", MountPath: "/files", ReadOnly: true}
		if chance(r, 40) {
			mount.BindMountOptions = []string{bindMountOption}
		}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{mount}
	}
}

func tolerations(r *rand.Rand) []v1.Toleration {
	if chance(r, 55) {
		return nil
	}
	var all []v1.Toleration
	for range 1 + r.IntN(3) {
		all = append(all, toleration(r))
	}
	return all
}

func toleration(r *rand.Rand) v1.Toleration {
	if chance(r, 12) {
		return v1.Toleration{Operator: v1.TolerationOpExists, Effect: pick(r, "", v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute)}
	}
	t := v1.Toleration{
		Key:      pick(r, "dedicated", "dedicated", "sla", cordonKey),
		Operator: pick(r, "", v1.TolerationOpEqual, v1.TolerationOpExists, v1.TolerationOpExists, v1.TolerationOpLt, v1.TolerationOpGt),
		Effect:   pick(r, "", "", v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute),
	}
	switch t.Operator {
	case "", v1.TolerationOpEqual:
		t.Value = pick(r, "gpu", "db", "950", "")
	case v1.TolerationOpLt, v1.TolerationOpGt:
		t.Value = pick(r, "900", "1000")
	}
	if t.Effect == v1.TaintEffectNoExecute && chance(r, 50) {
		t.TolerationSeconds = ptr(int64(300))
	}
	return t
}
