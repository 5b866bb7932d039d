package simulate

import (
	"fmt"
	"iter"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// groupMembers is the number of pods in a generated gang, and its minCount.
const groupMembers = 8

// A stream of random numbers for each purpose, so that one key of a Size does not change
// the objects of another.
const (
	groupStream = iota + 1
	volumeStream
	requestStream
	volumePodStream
	devicePodStream
)

func (s Size) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(s.Seed, stream)) }

func generated(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: types.UID(name)}
}

func generatedInDefault(name string) metav1.ObjectMeta {
	meta := generated(name)
	meta.Namespace = metav1.NamespaceDefault
	return meta
}

func groupName(i int) string { return fmt.Sprintf("gang-%05d", i) }

// addGroups adds the PodGroups.
func (s Size) addGroups(c *manifest.Cluster) {
	for i := range s.Groups {
		c.PodGroups = append(c.PodGroups, &schedulingv1beta1.PodGroup{
			ObjectMeta: generatedInDefault(groupName(i)),
			Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: groupMembers},
			}},
		})
	}
}

// members generates the members of the groups. Groups have four sizes.
func (s Size) members() iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		random := s.random(groupStream)
		for i := range s.Groups {
			size, name := int64(1)<<random.IntN(4), groupName(i)
			gang := newTemplate(name, 250*size, size*512<<20)
			gang.template.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
			for n := range groupMembers {
				if !yield(gang.pod(n)) {
					return
				}
			}
		}
	}
}

// extras adds claims and requests to the pods of a Size.
type extras struct {
	volumes, devices map[int]int // claims by the number of their pod
	requests         *rand.Rand  // nil unless pods are different
	varied           int64
}

func (s Size) extras() *extras {
	e := &extras{volumes: s.claimants(s.Volumes, volumePodStream), devices: s.claimants(s.Devices, devicePodStream)}
	if s.Different {
		e.requests = s.random(requestStream)
	}
	return e
}

// claimants distributes claims evenly over the pending pods, from a random one on. Pods
// that may use any node get claims first, because a volume also restricts the nodes.
func (s Size) claimants(claims int, stream uint64) map[int]int {
	if claims == 0 {
		return nil
	}
	var pods []int
	for i := range s.Apps {
		if restricts := i%10 == spreadApp || i%10 == exclusiveApp || i%10 == zonalApp; !restricts {
			pods = s.appendApp(pods, i)
		}
	}
	if claims > len(pods) {
		pods = pods[:0]
		for i := range s.Apps {
			pods = s.appendApp(pods, i)
		}
	}
	of, first := make(map[int]int, claims), s.random(stream).IntN(len(pods))
	for i := range claims {
		of[pods[(first+i*len(pods)/claims)%len(pods)]] = i
	}
	return of
}

// appendApp appends the numbers of an application's pending pods.
func (s Size) appendApp(pods []int, app int) []int {
	for n := app * s.Pods / s.Apps; n < (app+1)*s.Pods/s.Apps; n++ {
		pods = append(pods, n)
	}
	return pods
}

// claim gives the n-th pending pod its claims.
func (e *extras) claim(pod *v1.Pod, n int) {
	if i, ok := e.volumes[n]; ok {
		pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(i)},
		}}}
	}
	if i, ok := e.devices[n]; ok {
		name := deviceClaimName(i)
		pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "device", ResourceClaimName: &name}}
	}
}

// vary changes the requests of a pod if pods are different: half to one and a half of the
// CPU, and memory that no other pod of the application requests.
func (e *extras) vary(pod *v1.Pod) {
	if e.requests == nil {
		return
	}
	e.varied++
	main := pod.Spec.Containers[0]
	cpu, memory := main.Resources.Requests[v1.ResourceCPU], main.Resources.Requests[v1.ResourceMemory]
	cpuMilli := cpu.MilliValue()/2 + e.requests.Int64N(cpu.MilliValue()+1)
	main.Resources.Requests = v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(cpuMilli, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(memory.Value()+e.varied<<10, resource.BinarySI),
	}
	pod.Spec.Containers = []v1.Container{main}
}

// The names of the generated devices.
const (
	deviceDriver   = "device.example"
	deviceClass    = "device"
	devicesOfANode = 4
)

func deviceClaimName(i int) string { return fmt.Sprintf("device-%07d", i) }

// addDevices adds one DeviceClass, a ResourceSlice of each node, and the claims.
func (s Size) addDevices(c *manifest.Cluster) {
	if s.Devices == 0 {
		return
	}
	c.DeviceClasses = append(c.DeviceClasses, &resourcev1.DeviceClass{
		ObjectMeta: generated(deviceClass),
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{
			CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", deviceDriver)},
		}}},
	})
	var devices []resourcev1.Device
	for i := range devicesOfANode {
		devices = append(devices, resourcev1.Device{Name: fmt.Sprintf("device-%d", i)})
	}
	for i := range s.Nodes {
		name := nodeName(i)
		c.ResourceSlices = append(c.ResourceSlices, &resourcev1.ResourceSlice{
			ObjectMeta: generated(name),
			Spec: resourcev1.ResourceSliceSpec{
				Driver: deviceDriver, NodeName: &name, Devices: devices,
				Pool: resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
			},
		})
	}
	for i := range s.Devices {
		c.ResourceClaims = append(c.ResourceClaims, &resourcev1.ResourceClaim{
			ObjectMeta: generatedInDefault(deviceClaimName(i)),
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "device", Exactly: &resourcev1.ExactDeviceRequest{
					DeviceClassName: deviceClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
				},
			}}}},
		})
	}
}
