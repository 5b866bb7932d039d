package kinds

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config/absent"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodedeclaredfeatures"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

func ptr[T any](v T) *T { return &v }

func amounts(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

// fullPod is a pod of a Deployment, with many fields set, running on a node.
func fullPod(i int) *v1.Pod {
	now := metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	probe := &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}}, PeriodSeconds: 10}
	environment := make([]v1.EnvVar, 20)
	for j := range environment {
		environment[j] = v1.EnvVar{Name: fmt.Sprintf("SETTING_%d", j), Value: fmt.Sprintf("https://service-%d.example.com/path", j)}
	}
	container := v1.Container{
		Name: "web", Image: "registry.example.com/team/web:v1.2.3", Command: []string{"/bin/web"}, Args: []string{"--listen=:8080"},
		Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "host", ContainerPort: 9090, HostPort: 9090}},
		Env:   environment, Resources: v1.ResourceRequirements{Requests: amounts("250m", "512Mi"), Limits: amounts("1", "1Gi")},
		VolumeMounts: []v1.VolumeMount{
			{Name: "config", MountPath: "/etc/web"},
			{Name: "data", MountPath: "/data", BindMountOptions: []string{"noexec"}},
		},
		LivenessProbe: probe, ReadinessProbe: probe, TerminationMessagePath: "/dev/termination-log", ImagePullPolicy: v1.PullIfNotPresent,
		SecurityContext: &v1.SecurityContext{RunAsNonRoot: ptr(true)},
	}
	sidecar := v1.Container{Name: "proxy", Image: "registry.example.com/mesh/proxy:v9", RestartPolicy: ptr(v1.ContainerRestartPolicyAlways),
		Resources: v1.ResourceRequirements{Requests: amounts("50m", "64Mi")}, Env: environment}
	name := fmt.Sprintf("web-5d9c7b6f4-%05d", i)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, GenerateName: "web-5d9c7b6f4-", Namespace: "shop", UID: types.UID(fmt.Sprintf("0b8f3a52-6c1d-4c39-9f0a-%012d", i)),
			ResourceVersion: fmt.Sprint(1000 + i), Generation: 1, CreationTimestamp: now,
			Labels:      map[string]string{"app": "web", "pod-template-hash": "5d9c7b6f4", "team": "storefront", "tier": "front"},
			Annotations: map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-05-01", "prometheus.io/scrape": "true"},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "example.com/v1", Kind: "Watcher", Name: "w", UID: "w"},
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d9c7b6f4", UID: "rs", Controller: ptr(true), BlockOwnerDeletion: ptr(true)},
			},
			Finalizers: []string{"example.com/keep"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kube-controller-manager", FieldsV1: metav1.NewFieldsV1(string(make([]byte, 1800)))},
				{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(string(make([]byte, 1200)))},
			},
		},
		Spec: v1.PodSpec{
			SchedulerName: "default-scheduler", NodeName: "node-7", ServiceAccountName: "web", RestartPolicy: v1.RestartPolicyAlways,
			DNSPolicy: v1.DNSClusterFirst, TerminationGracePeriodSeconds: ptr(int64(30)), Priority: ptr(int32(1000)),
			InitContainers: []v1.Container{sidecar}, Containers: []v1.Container{container},
			Tolerations: []v1.Toleration{
				{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: ptr(int64(300))},
				{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: ptr(int64(300))},
			},
			TopologySpreadConstraints: []v1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			}},
			Volumes: []v1.Volume{
				{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "web"}}}},
				{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "web"}}},
				{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}}},
				{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}},
				{Name: "files", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "app:v1", PullPolicy: v1.PullAlways}}},
			},
		},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, PodIP: "10.0.0.1", HostIP: "192.0.2.7", StartTime: &now, QOSClass: v1.PodQOSBurstable,
			Conditions: []v1.PodCondition{
				{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: now},
				{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: now},
			},
			ContainerStatuses: []v1.ContainerStatus{{
				Name: "web", ImageID: "sha256:0123456789", ContainerID: "containerd://0123456789", Ready: true,
				AllocatedResources: amounts("250m", "512Mi"),
				Resources:          &v1.ResourceRequirements{Requests: amounts("250m", "512Mi"), Limits: amounts("1", "1Gi")},
			}, {Name: "other", ImageID: "sha256:9876543210"}},
		},
	}
}

// fullNode is a node as a kubelet reports it.
func fullNode(i int) *v1.Node {
	name := fmt.Sprintf("node-%05d", i)
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(i),
			Labels: map[string]string{
				v1.LabelHostname: name, v1.LabelTopologyZone: "zone-a", v1.LabelTopologyRegion: "region", v1.LabelArchStable: "amd64",
				v1.LabelOSStable: "linux", v1.LabelInstanceTypeStable: "m-8", "pool": "general",
			},
			Annotations:   map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(string(make([]byte, 2500)))}},
		},
		Spec: v1.NodeSpec{PodCIDR: "10.1.0.0/24", PodCIDRs: []string{"10.1.0.0/24"}, ProviderID: "cloud://" + name},
		Status: v1.NodeStatus{
			Capacity: amounts("8", "32Gi"), Allocatable: amounts("7800m", "30Gi"), DeclaredFeatures: []string{"VolumeBindMountOptions"},
			NodeInfo:  v1.NodeSystemInfo{KernelVersion: "6.12", OSImage: "Linux", KubeletVersion: "v1.37.0"},
			Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.7"}},
		},
	}
	for _, kind := range []v1.NodeConditionType{v1.NodeReady, v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
		node.Status.Conditions = append(node.Status.Conditions, v1.NodeCondition{
			Type: kind, Status: v1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available",
		})
	}
	for j := range 20 {
		image := fmt.Sprintf("registry.example.com/team/image-%d", j)
		node.Status.Images = append(node.Status.Images, v1.ContainerImage{
			Names: []string{image + "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", image + ":v1"}, SizeBytes: 1 << 20,
		})
	}
	return node
}

// trimmed returns the trimmed object.
func trimmed[T any](t *testing.T, object T) T {
	t.Helper()
	kept, err := new(sharing).trim(object)
	if err != nil {
		t.Fatal(err)
	}
	return kept.(T)
}

func TestPodIsTrimmed(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	full := fullPod(7)
	want := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: full.Name, Namespace: "shop", UID: full.UID, ResourceVersion: "1007", Generation: 1, CreationTimestamp: now,
			Labels:          full.Labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d9c7b6f4", UID: "rs", Controller: ptr(true)}},
		},
		Spec: v1.PodSpec{
			SchedulerName: "default-scheduler", NodeName: "node-7", RestartPolicy: v1.RestartPolicyAlways, Priority: ptr(int32(1000)),
			InitContainers: []v1.Container{{Name: "proxy", Image: "registry.example.com/mesh/proxy:v9",
				RestartPolicy: ptr(v1.ContainerRestartPolicyAlways), Resources: v1.ResourceRequirements{Requests: amounts("50m", "64Mi")}}},
			Containers: []v1.Container{{
				Name: "web", Image: "registry.example.com/team/web:v1.2.3",
				Ports:        []v1.ContainerPort{{Name: "host", ContainerPort: 9090, HostPort: 9090}},
				Resources:    v1.ResourceRequirements{Requests: amounts("250m", "512Mi"), Limits: amounts("1", "1Gi")},
				VolumeMounts: []v1.VolumeMount{{BindMountOptions: []string{"noexec"}}},
			}},
			Tolerations:               full.Spec.Tolerations,
			TopologySpreadConstraints: full.Spec.TopologySpreadConstraints,
			Volumes: []v1.Volume{
				{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "web"}}},
				{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}},
				{Name: "files", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "app:v1"}}},
			},
		},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, StartTime: &now,
			Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: now}},
			ContainerStatuses: []v1.ContainerStatus{{
				Name: "web", AllocatedResources: amounts("250m", "512Mi"),
				Resources: &v1.ResourceRequirements{Requests: amounts("250m", "512Mi"), Limits: amounts("1", "1Gi")},
			}},
		},
	}
	for _, round := range []string{"once", "twice"} { // informers may trim an object twice
		if diff := cmp.Diff(want, trimmed(t, full)); diff != "" {
			t.Errorf("trimmed %s, -want +got:\n%s", round, diff)
		}
	}
}

func TestNodeIsTrimmed(t *testing.T) {
	full := fullNode(7)
	want := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: full.Name, UID: full.UID, ResourceVersion: "7", Labels: full.Labels},
		Status: v1.NodeStatus{
			Capacity: amounts("8", "32Gi"), Allocatable: amounts("7800m", "30Gi"), DeclaredFeatures: []string{"VolumeBindMountOptions"},
			Images: fullNode(7).Status.Images,
			Conditions: []v1.NodeCondition{
				{Type: v1.NodeReady, Status: v1.ConditionFalse}, {Type: v1.NodeMemoryPressure, Status: v1.ConditionFalse},
				{Type: v1.NodeDiskPressure, Status: v1.ConditionFalse}, {Type: v1.NodePIDPressure, Status: v1.ConditionFalse},
			},
		},
	}
	for _, round := range []string{"once", "twice"} {
		if diff := cmp.Diff(want, trimmed(t, full)); diff != "" {
			t.Errorf("trimmed %s, -want +got:\n%s", round, diff)
		}
	}
}

// TestOthersAreTrimmed trims objects of every other kind, with many unread fields.
func TestOthersAreTrimmed(t *testing.T) {
	labels := map[string]string{"app": "web"}
	full := metav1.ObjectMeta{
		Name: "web", Namespace: "shop", UID: "u", ResourceVersion: "7", Labels: labels, Annotations: map[string]string{"note": "long"},
		Finalizers: []string{"example.com/keep"}, OwnerReferences: []metav1.OwnerReference{{Name: "owner"}},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}
	kept := metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "u", ResourceVersion: "7", Labels: labels}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := v1.PodTemplateSpec{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}}}
	for _, test := range []struct{ full, want apiruntime.Object }{
		{&v1.Namespace{ObjectMeta: full, Spec: v1.NamespaceSpec{Finalizers: []v1.FinalizerName{"k"}}, Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}},
			&v1.Namespace{ObjectMeta: kept}},
		{&v1.Service{ObjectMeta: full, Spec: v1.ServiceSpec{Selector: labels, ClusterIP: "10.0.0.1"}, Status: v1.ServiceStatus{Conditions: []metav1.Condition{{}}}},
			&v1.Service{ObjectMeta: kept, Spec: v1.ServiceSpec{Selector: labels}}},
		{&v1.ReplicationController{ObjectMeta: full, Spec: v1.ReplicationControllerSpec{Replicas: ptr(int32(3)), Selector: labels, Template: &template},
			Status: v1.ReplicationControllerStatus{Replicas: 3}},
			&v1.ReplicationController{ObjectMeta: kept, Spec: v1.ReplicationControllerSpec{Selector: labels}}},
		{&appsv1.ReplicaSet{ObjectMeta: full, Spec: appsv1.ReplicaSetSpec{Replicas: ptr(int32(3)), Selector: selector, Template: template},
			Status: appsv1.ReplicaSetStatus{Replicas: 3}},
			&appsv1.ReplicaSet{ObjectMeta: kept, Spec: appsv1.ReplicaSetSpec{Selector: selector}}},
		{&appsv1.StatefulSet{ObjectMeta: full, Spec: appsv1.StatefulSetSpec{Replicas: ptr(int32(3)), Selector: selector, Template: template},
			Status: appsv1.StatefulSetStatus{Replicas: 3}},
			&appsv1.StatefulSet{ObjectMeta: kept, Spec: appsv1.StatefulSetSpec{Selector: selector}}},
	} {
		for _, round := range []string{"once", "twice"} {
			if diff := cmp.Diff(test.want, trimmed(t, test.full)); diff != "" {
				t.Errorf("%T trimmed %s, -want +got:\n%s", test.full, round, diff)
			}
		}
	}
}

// wire is an object that can be decoded from protobuf.
type wire[T any] interface {
	*T
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// kept holds the objects of a benchmark, to measure their memory.
type kept struct {
	objects []any
	before  runtime.MemStats
}

func newKept(n int) *kept {
	k := &kept{objects: make([]any, 0, n)}
	runtime.GC()
	runtime.ReadMemStats(&k.before)
	return k
}

// add keeps an object; when the limit is reached, it drops all others first.
func (k *kept) add(object any) {
	if len(k.objects) == cap(k.objects) {
		k.objects = k.objects[:0]
	}
	k.objects = append(k.objects, object)
}

func (k *kept) report(b *testing.B) {
	b.Helper()
	b.StopTimer()
	held := len(k.objects)
	clear(k.objects[held:cap(k.objects)])
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(k.before.HeapAlloc))/float64(held), "kept-B/object")
	runtime.KeepAlive(k.objects)
}

// benchmarkKept decodes objects as a watch does and reports the bytes of each that stay
// in memory, whole and trimmed.
func benchmarkKept[T any, P wire[T]](b *testing.B, object func(i int) P) {
	const objects = 2_000
	encoded := make([][]byte, objects)
	for i := range encoded {
		var err error
		if encoded[i], err = object(i).Marshal(); err != nil {
			b.Fatal(err)
		}
	}
	for _, how := range []struct {
		name string
		trim bool
	}{{"whole", false}, {"trimmed", true}} {
		b.Run(how.name, func(b *testing.B) {
			b.ReportAllocs()
			shared := new(sharing)
			kept := newKept(objects)
			for i := 0; b.Loop(); i++ {
				decoded := P(new(T))
				if err := decoded.Unmarshal(encoded[i%objects]); err != nil {
					b.Fatal(err)
				}
				if how.trim {
					if _, err := shared.trim(decoded); err != nil {
						b.Fatal(err)
					}
				}
				kept.add(decoded)
			}
			kept.report(b)
		})
	}
}

func BenchmarkPod(b *testing.B)  { benchmarkKept[v1.Pod](b, fullPod) }
func BenchmarkNode(b *testing.B) { benchmarkKept[v1.Node](b, fullNode) }

// TestDemandsStay trims pods with volumes that plugins read, and pods that a missing
// plugin's stand-in rejects. The fields that these read must remain, however the pod was
// decoded.
func TestDemandsStay(t *testing.T) {
	group := "workers"
	volume := func(source v1.VolumeSource) *v1.Pod {
		token := v1.Volume{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}}
		return &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{token, {Name: "v", VolumeSource: source}}}}
	}
	requesting := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{"deviceclass.resource.kubernetes.io/gpu": resource.MustParse("1")},
		Limits:   v1.ResourceList{"example.com/gpu": resource.MustParse("1")},
	}}}}}
	declared := nodedeclaredfeatures.New38()
	var plugins []*plugin.Parts
	for _, name := range []string{"GangScheduling"} {
		p, err := absent.New(name)
		if err != nil {
			t.Fatal(err)
		}
		plugins = append(plugins, p)
	}
	for i, pod := range []*v1.Pod{
		volume(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}),
		volume(v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}}),
		volume(v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d"}}),
		volume(v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "d"}}),
		volume(v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{IQN: "d"}}),
		volume(v1.VolumeSource{RBD: &v1.RBDVolumeSource{RBDPool: "d"}}),
		volume(v1.VolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{DiskName: "d"}}),
		volume(v1.VolumeSource{Cinder: &v1.CinderVolumeSource{VolumeID: "d"}}),
		volume(v1.VolumeSource{PortworxVolume: &v1.PortworxVolumeSource{VolumeID: "d"}}),
		{Spec: v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{{Name: "gpu"}}}},
		{Spec: v1.PodSpec{SchedulingGroup: &v1.PodSchedulingGroup{PodGroupName: &group}}},
		requesting,
		volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{PodCertificate: &v1.PodCertificateProjection{SignerName: "s", KeyType: "MLDSA44"}},
		}}}),
		{Spec: v1.PodSpec{SecurityContext: &v1.PodSecurityContext{SeccompProfile: &v1.SeccompProfile{Type: "OCI"}}}},
		{Spec: v1.PodSpec{Containers: []v1.Container{{SecurityContext: &v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: "OCI"}}}}}},
		{Spec: v1.PodSpec{InitContainers: []v1.Container{{SecurityContext: &v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: "OCI"}}}}}},
		{Spec: v1.PodSpec{EphemeralContainers: []v1.EphemeralContainer{
			{EphemeralContainerCommon: v1.EphemeralContainerCommon{SecurityContext: &v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: "OCI"}}}},
		}}},
	} {
		pod.Name = fmt.Sprint("p", i)
		rejections := func(pod *v1.Pod) (all []string) {
			for i := range pod.Spec.Containers {
				for name := range pod.Spec.Containers[i].Resources.Limits { // extenders read them
					all = append(all, "limits "+string(name))
				}
			}
			if needs := declared.FilterNeed(model.NewPod(pod)); needs != nil {
				all = append(all, "features "+string(needs.AppendText(nil)))
			}
			for _, p := range plugins {
				if volumes := model.NewPod(pod).Volumes; volumes != nil {
					all = append(all, fmt.Sprintf("%+v", *volumes))
				}
				if devices := model.NewPod(pod).Devices; devices != nil {
					all = append(all, fmt.Sprintf("%+v", *devices))
				}
				if rejection := p.PreFilter.Run(state.View{}, model.NewPod(pod)).Rejection; rejection != "" {
					all = append(all, rejection)
				}
			}
			return all
		}
		want := rejections(pod)
		if len(want) == 0 {
			t.Errorf("%s has no volume that is read, and is rejected by no plugin", pod.Name)
		}
		wire := build.Protobuf(t, pod)
		shared := new(sharing)
		for range 2 { // the second time from values that the first has left in the pools
			decoded, ok := shared.decodePod(wire)
			if !ok {
				t.Fatalf("%s was left to the library", pod.Name)
			}
			if diff := cmp.Diff(want, rejections(decoded)); diff != "" {
				t.Errorf("%s, from the wire, -want +got:\n%s", pod.Name, diff)
			}
			if len(pod.Spec.Volumes) > 0 && len(decoded.Spec.Volumes) != 1 {
				t.Errorf("%s keeps %d volumes, want 1", pod.Name, len(decoded.Spec.Volumes))
			}
		}
		if diff := cmp.Diff(want, rejections(trimmed(t, pod))); diff != "" {
			t.Errorf("%s, -want +got:\n%s", pod.Name, diff)
		}
	}
}
