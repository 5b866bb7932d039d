package model

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// TestRequestsOfManyContainers compares requests of pods with very many containers with
// the library's.
func TestRequestsOfManyContainers(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	for seed := range 200 {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		amounts := func() v1.ResourceList {
			list := v1.ResourceList{}
			for range r.IntN(4) {
				name := []v1.ResourceName{"cpu", "memory", "e.io/a", "e.io/b", "hugepages-2Mi", "not counted"}[r.IntN(6)]
				list[name] = *resource.NewMilliQuantity(int64(r.IntN(5000)), resource.DecimalSI)
			}
			return list
		}
		pod := &v1.Pod{}
		for i := range manyContainers {
			c := v1.Container{Name: fmt.Sprint("c", i), Resources: v1.ResourceRequirements{Requests: amounts()}}
			status := v1.ContainerStatus{Name: c.Name}
			if r.IntN(2) == 0 {
				status.AllocatedResources = amounts()
			}
			if r.IntN(2) == 0 {
				status.Resources = &v1.ResourceRequirements{Requests: amounts()}
			}
			if r.IntN(2) == 0 {
				pod.Spec.Containers = append(pod.Spec.Containers, c)
				pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
				continue
			}
			if r.IntN(2) == 0 {
				c.RestartPolicy = &always
			}
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status)
		}
		pod.Spec.Overhead = amounts()
		if r.IntN(3) == 0 {
			pod.Spec.Resources = &v1.ResourceRequirements{Requests: amounts()}
		}
		if r.IntN(3) == 0 {
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonInfeasible}}
		}
		if r.IntN(3) == 0 {
			pod.Status.AllocatedResources, pod.Status.Resources = amounts(), &v1.ResourceRequirements{Requests: amounts()}
		}
		for i, opts := range []resourcehelper.PodResourcesOptions{
			{}, statusAware(), {SkipPodLevelResources: true, NonMissingContainerRequests: containerDefaults(true, true)},
			{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true, NonMissingContainerRequests: containerDefaults(true, false)},
		} {
			got, want := podRequests(pod, opts), resourcehelper.PodRequests(pod, opts)
			for name, q := range want {
				if have, ok := got[name]; !ok || have.Cmp(q) != 0 {
					t.Fatalf("seed %d, options %d: %s is %s, want %s", seed, i, name, have.String(), q.String())
				}
			}
			if len(got) != len(want) {
				t.Fatalf("seed %d, options %d: %v, want %v", seed, i, got, want)
			}
		}
	}
}

// TestSumsOfManyScalars compares the sum of long lists with the sums of single scalars.
func TestSumsOfManyScalars(t *testing.T) {
	for seed := range 300 {
		r := rand.New(rand.NewPCG(uint64(seed), 4))
		random := func(most int) (list Resources) {
			for i := range most {
				if r.IntN(3) > 0 {
					list.Scalars = append(list.Scalars, Scalar{ResourceNameOf(fmt.Sprintf("e.io/%03d", i)), int64(r.IntN(9))})
				}
			}
			return list
		}
		sum, add := Sum{Resources: random(r.IntN(80))}, random(fewScalars+r.IntN(80))
		want := map[ResourceName]int64{}
		for _, s := range sum.Scalars {
			want[s.Name] += s.Value
		}
		for _, s := range add.Scalars {
			want[s.Name] -= s.Value
		}
		sum.Add(&add, -1)
		if !slices.IsSortedFunc(sum.Scalars, func(a, b Scalar) int {
			return map[bool]int{true: -1, false: 1}[a.Name.Value() < b.Name.Value()]
		}) {
			t.Fatalf("seed %d: %v is not sorted", seed, sum.Scalars)
		}
		got := map[ResourceName]int64{}
		for _, s := range sum.Scalars {
			got[s.Name] = s.Value
			if sum.Scalar(s.Name) != s.Value || !sum.IsListed(s.Name) {
				t.Fatalf("seed %d: %s is listed with %d and found with %d", seed, s.Name.Value(), s.Value, sum.Scalar(s.Name))
			}
		}
		if !reflect.DeepEqual(got, want) || sum.IsListed(ResourceNameOf("e.io/none")) {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
	}
}

// TestConflictsOfManyPorts: sorted lists conflict exactly if two of their ports do.
func TestConflictsOfManyPorts(t *testing.T) {
	for seed := range 2000 {
		r := rand.New(rand.NewPCG(uint64(seed), 5))
		random := func(most int) (list []HostPort) {
			for range r.IntN(most) {
				list = append(list, HostPort{int32(1 + r.IntN(4)), []v1.Protocol{"TCP", "UDP", "SCTP"}[r.IntN(3)], []string{AnyIP, "10.0.0.1", "10.0.0.2", "0", "::"}[r.IntN(5)]})
			}
			slices.SortFunc(list, HostPort.Compare)
			return list
		}
		a, b := random(4), random(7)
		want := slices.ContainsFunc(a, func(x HostPort) bool { return slices.ContainsFunc(b, x.Conflicts) })
		if got := AnyPortConflicts(a, b); got != want || AnyPortConflicts(b, a) != want {
			t.Fatalf("seed %d: %v and %v conflict: %t, want %t", seed, a, b, got, want)
		}
	}
}

// TestConflictsOfManyDisks: a set of disks conflicts with a disk exactly if any disk of
// the set does.
func TestConflictsOfManyDisks(t *testing.T) {
	for seed := range 2000 {
		r := rand.New(rand.NewPCG(uint64(seed), 6))
		random := func() Disk {
			d := Disk{Kind: DiskKind(r.IntN(4)), Name: fmt.Sprint(r.IntN(12)), ReadOnly: r.IntN(3) > 0}
			if d.Kind == RBDDisk {
				d.Pool = fmt.Sprint(r.IntN(2))
				for range r.IntN(3) {
					d.Monitors = append(d.Monitors, fmt.Sprint(r.IntN(5)))
				}
			}
			return d
		}
		var list []Disk
		for range fewDisks + 1 + r.IntN(5) {
			list = append(list, random())
		}
		set := NewDisks(list)
		for range 10 {
			o := random()
			if got, want := set.Conflict(&o), slices.ContainsFunc(list, func(d Disk) bool { return d.Conflicts(&o) }); got != want {
				t.Fatalf("seed %d: %+v conflicts with %+v: %t, want %t", seed, list, o, got, want)
			}
		}
	}
}
