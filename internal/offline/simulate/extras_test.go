package simulate_test

import (
	"encoding/json"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// generated schedules a generated cluster, and returns the result as JSON too.
func generated(t testing.TB, text string, seed uint64) (*simulate.Result, string) {
	t.Helper()
	size, err := sizeOf(text)
	if err != nil {
		t.Fatal(err)
	}
	size.Seed = seed
	groups := schedulerWith(t, map[string]bool{"GenericWorkload": true})
	result, err := simulate.Run(simulate.Config{Scheduler: groups, Seed: seed, Pods: &size}, size.WithoutPods(), nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	data, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	return result, string(data)
}

// counted counts the objects of a cluster, and its pods by their extras.
func counted(c *manifest.Cluster) string {
	var members, claims, devices, local int
	requests := map[string]bool{}
	for _, pod := range c.Pods {
		if pod.Spec.SchedulingGroup != nil {
			members++
		}
		claims += len(pod.Spec.Volumes)
		devices += len(pod.Spec.ResourceClaims)
		requests[fmt.Sprint(pod.Spec.Containers[0].Resources.Requests.Memory())] = true
	}
	for _, pv := range c.PersistentVolumes {
		if pv.Spec.Local != nil && pv.Spec.NodeAffinity != nil && pv.Spec.ClaimRef != nil {
			local++
		}
	}
	text := fmt.Sprintf("%d pods of %d requests", len(c.Pods), len(requests))
	if len(c.PodGroups) > 0 {
		text += fmt.Sprintf("; %d groups of %d", len(c.PodGroups), members)
	}
	if len(c.PersistentVolumeClaims) > 0 {
		text += fmt.Sprintf("; %d claims of %d pods, %d local, %d capacities",
			len(c.PersistentVolumeClaims), claims, local, len(c.CSIStorageCapacities))
	}
	if len(c.ResourceClaims) > 0 {
		text += fmt.Sprintf("; %d class, %d slices, %d devices of %d pods",
			len(c.DeviceClasses), len(c.ResourceSlices), len(c.ResourceClaims), devices)
	}
	return text
}

// extraSizes has one size for each key beyond plain pods, and one with all.
var extraSizes = []struct{ size, objects string }{
	{"nodes=30,pods=200,groups=20", "360 pods of 6 requests; 20 groups of 160"},
	{"nodes=30,pods=200,volumes=81", "200 pods of 2 requests; 81 claims of 81 pods, 40 local, 6 capacities"},
	{"nodes=30,pods=200,devices=100", "200 pods of 2 requests; 1 class, 30 slices, 100 devices of 100 pods"},
	{"nodes=30,pods=200,different=true", "200 pods of 200 requests"},
	{
		"nodes=30,pods=200,running=30,groups=5,volumes=60,devices=60,different=1",
		"270 pods of 270 requests; 5 groups of 40; 60 claims of 60 pods, 30 local, 6 capacities; " +
			"1 class, 30 slices, 60 devices of 60 pods",
	},
}

// TestExtras counts the objects of each key, and expects that all pods are placed.
func TestExtras(t *testing.T) {
	for _, row := range extraSizes {
		size, err := sizeOf(row.size)
		if err != nil {
			t.Fatal(err)
		}
		if got := counted(size.Generate()); got != row.objects {
			t.Errorf("%s:\n%s, want\n%s", row.size, got, row.objects)
		}
		result, _ := generated(t, row.size, 1)
		if s := &result.Summary; s.Placed != size.Pending() || s.Waiting != 0 || len(result.Groups) != size.Groups {
			t.Errorf("%s: %d groups, %+v", row.size, len(result.Groups), s)
		}
	}
}

// TestExtrasBeyondRoom asks for more devices, gangs and local volumes than the nodes can
// take. Each pending pod has a reason, and each gang has all of its members or none.
func TestExtrasBeyondRoom(t *testing.T) {
	for size, placed := range map[string]int{
		"nodes=3,pods=20,devices=20":              12,
		"nodes=1,groups=30":                       0,
		"nodes=20,pods=1000,apps=10,volumes=1000": 0,
	} {
		result, _ := generated(t, size, 1)
		if s := &result.Summary; s.Waiting == 0 || placed > 0 && s.Placed != placed {
			t.Errorf("%s: %d placed, %d wait", size, s.Placed, s.Waiting)
		}
		for i := range result.Pods {
			if p := &result.Pods[i]; p.Status != simulate.Scheduled && (p.Status != simulate.Pending || p.Message == "") {
				t.Errorf("%s: %+v", size, p)
			}
		}
		for _, g := range result.Groups {
			if g.Members != 8 || g.Placed != 0 && g.Placed != g.Members || g.Placed == 0 && g.Message == "" {
				t.Errorf("%s: %+v", size, g)
			}
		}
	}
}

// TestExtrasRepeat schedules each size twice. Output is the same for the same seed, and
// differs for another. Pods differ by seed too, not only the choice among equal nodes.
func TestExtrasRepeat(t *testing.T) {
	for _, row := range extraSizes {
		_, first := generated(t, row.size, 1)
		if _, again := generated(t, row.size, 1); again != first {
			t.Errorf("%s: two runs differ", row.size)
		}
		if _, other := generated(t, row.size, 2); other == first {
			t.Errorf("%s: the seed has no effect", row.size)
		}
		size, _ := sizeOf(row.size)
		one, two := size, size
		one.Seed, two.Seed = 1, 2
		if podsOf(t, one) == podsOf(t, two) {
			t.Errorf("%s: the seed does not change the pods", row.size)
		}
	}
	plain := simulate.Size{Nodes: 3, Zones: 3, Pods: 50, Apps: 10}
	seeded := plain
	if seeded.Seed = 7; podsOf(t, plain) != podsOf(t, seeded) {
		t.Error("the seed changes plain pods")
	}
}

// podsOf returns the pods of a size as JSON.
func podsOf(t *testing.T, size simulate.Size) string {
	t.Helper()
	specs := []v1.Pod{}
	for _, pod := range size.Generate().Pods {
		specs = append(specs, *pod)
	}
	data, err := json.Marshal(specs)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
