package scene

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// everything returns all scenes, at a size.
func everything(t *testing.T, sizes Sizes, scale float64) []*Scene {
	t.Helper()
	var scenes []*Scene
	for _, name := range ShapeNames() {
		scenes = append(scenes, Shapes(name, sizes)...)
	}
	for _, name := range WorkloadNames() {
		found := Workloads(name, scale)
		if len(found) != 1 {
			t.Fatalf("%s stands for %d workloads", name, len(found))
		}
		scenes = append(scenes, found[0])
	}
	return scenes
}

func TestScenesHoldTogether(t *testing.T) {
	for _, sizes := range []struct {
		Sizes
		scale float64
	}{
		{Sizes{Nodes: 3, Running: []int{0, 4}, Pods: 2}, 0.001},
		{Sizes{Nodes: 100, Running: []int{600, 0}, Pods: 100}, 0.02},
	} {
		for _, s := range everything(t, sizes.Sizes, sizes.scale) {
			t.Run(fmt.Sprintf("%d nodes, %s, %d before", s.Site.Nodes, s.Name, s.Before()), func(t *testing.T) { holdsTogether(t, s) })
		}
	}
}

// holdsTogether checks that names are unique, that namespaces exist, and that a scheduler
// could have placed the existing pods on their nodes.
func holdsTogether(t *testing.T, s *Scene) {
	exists := map[string]bool{}
	for _, n := range s.Site.Namespaces {
		exists[n.Name] = true
	}
	names := map[string]bool{}
	use := make([]struct{ cpu, memory, pods int64 }, s.Site.Nodes)
	apps := map[string]map[int]bool{} // nodes by app, for pods with required anti-affinity
	groups := append(append([]Pods{s.Measured}, s.Standing...), s.Fresh...)
	for _, group := range groups {
		if !exists[group.Namespace] {
			t.Fatalf("there is no namespace %q", group.Namespace)
		}
		for i := range group.Count {
			p := group.Pod(i)
			if namespace := group.NamespaceOf(i); !exists[namespace] {
				t.Fatalf("there is no namespace %q", namespace)
			}
			p.Namespace = group.NamespaceOf(i)
			key := p.Namespace + "/" + p.Name
			if names[key] {
				t.Fatalf("two pods are called %s", key)
			}
			names[key] = true
			checkDisk(t, &group, i, p, names)
			if group.Node == nil {
				continue
			}
			n := group.Node(i)
			if n < 0 || n >= len(use) {
				t.Fatalf("%s is on node %d of %d", key, n, len(use))
			}
			requests := p.Spec.Containers[0].Resources.Requests
			use[n].cpu += requests.Cpu().MilliValue()
			use[n].memory += requests.Memory().Value()
			use[n].pods++
			checkDemands(t, s, p, n, apps)
		}
	}
	checkDevices(t, s, exists)
	checkGroups(t, s)
	for i, u := range use {
		if s.Site.CSINode != nil && s.Site.CSINode(i).Name != s.Site.Node(i).Name {
			t.Fatalf("node %d has the CSINode %s", i, s.Site.CSINode(i).Name)
		}
		free := s.Site.Node(i).Status.Allocatable
		if u.cpu > free.Cpu().MilliValue() || u.memory > free.Memory().Value() || u.pods > free.Pods().Value() {
			t.Fatalf("node %d has no room for %+v", i, u)
		}
	}
}

// checkGroups checks that each measured pod belongs to an existing group, and that each
// group has its minCount.
func checkGroups(t *testing.T, s *Scene) {
	t.Helper()
	missing := map[string]int{}
	for _, g := range s.Groups {
		missing[g.Namespace+"/"+g.Name] += int(g.Spec.SchedulingPolicy.Gang.MinCount)
	}
	for i := range s.Measured.Count {
		if of := s.Measured.Pod(i).Spec.SchedulingGroup; of != nil {
			missing[s.Measured.NamespaceOf(i)+"/"+*of.PodGroupName]--
		} else if len(s.Groups) > 0 {
			t.Fatalf("pod %d is in no group", i)
		}
	}
	for name, n := range missing {
		if n != 0 {
			t.Fatalf("group %s lacks %d pods", name, n)
		}
	}
}

// checkDevices checks that initial allocations are of existing, distinct devices and
// leave enough for the measured pods. It also checks that the binder gives each pod
// another device.
func checkDevices(t *testing.T, s *Scene, exists map[string]bool) {
	t.Helper()
	if s.Site.Slice == nil {
		if s.Devices > 0 || len(s.Site.Claims) > 0 {
			t.Fatal("there are no devices")
		}
		return
	}
	free := map[string]bool{}
	for i := range s.Site.Nodes {
		slice := s.Site.Slice(i)
		if node := *slice.Spec.NodeName; node != s.Site.Node(i).Name || slice.Spec.Pool.Name != node {
			t.Fatalf("the pool of node %d is %+v", i, slice.Spec)
		}
		for _, d := range slice.Spec.Devices {
			free[slice.Spec.Pool.Name+"/"+d.Name] = true
		}
	}
	for _, claim := range s.Site.Claims {
		for _, r := range claim.Status.Allocation.Devices.Results {
			if device := r.Pool + "/" + r.Device; !free[device] || !exists[claim.Namespace] {
				t.Fatalf("claim %s/%s cannot have %s", claim.Namespace, claim.Name, device)
			}
			delete(free, r.Pool+"/"+r.Device)
		}
	}
	for i := 0; s.Answer != nil && i < s.Measured.Count; i++ {
		answer := s.Answer(s.Measured.Pod(i))
		r := answer.Allocation.Devices.Results[0]
		if device := r.Pool + "/" + r.Device; !free[device] || r.Pool != s.Site.Node(answer.Node).Name {
			t.Fatalf("pod %d on node %d cannot have %s", i, answer.Node, device)
		}
		free[r.Pool+"/"+r.Device] = false
	}
	want := s.Measured.Count * s.Devices
	if s.Measured.Together > 0 {
		want = s.Devices // each pod leaves its devices to the next
	}
	if len(free) < want {
		t.Fatalf("%d devices are free, and pods want %d", len(free), want)
	}
}

// checkDisk checks that a pod with a claim has the disk for it, that a bound claim and
// volume name each other, and that no volume has two claims.
func checkDisk(t *testing.T, group *Pods, i int, p *v1.Pod, names map[string]bool) {
	t.Helper()
	if group.Disk == nil {
		if slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil }) {
			t.Fatalf("%s names a claim, and there is no disk", p.Name)
		}
		return
	}
	claim, volume := group.Disk(i)
	if claim.Namespace != p.Namespace || claim.Name != p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName {
		t.Fatalf("%s/%s has the disk of claim %s/%s", p.Namespace, p.Name, claim.Namespace, claim.Name)
	}
	for _, key := range []string{"claim " + claim.Namespace + "/" + claim.Name, "volume " + volume.Name} {
		if names[key] {
			t.Fatalf("there are two of %s", key)
		}
		names[key] = true
	}
	bound := claim.Status.Phase == v1.ClaimBound
	if ref := volume.Spec.ClaimRef; bound != (claim.Spec.VolumeName == volume.Name) || bound != (ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name) ||
		bound != (volume.Status.Phase == v1.VolumeBound) {
		t.Fatalf("the halves of a disk do not agree: %+v %+v", claim, volume)
	}
}

func checkDemands(t *testing.T, s *Scene, p *v1.Pod, n int, apart map[string]map[int]bool) {
	t.Helper()
	affinity := p.Spec.Affinity
	if affinity == nil {
		return
	}
	if a := affinity.PodAntiAffinity; a != nil && len(a.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		key := fmt.Sprint(p.Labels)
		if term := a.RequiredDuringSchedulingIgnoredDuringExecution[0]; len(term.Namespaces) == 0 && term.NamespaceSelector == nil {
			key += " in " + p.Namespace
		}
		if apart[key] == nil {
			apart[key] = map[int]bool{}
		}
		if apart[key][n] {
			t.Fatalf("two pods with labels %s are on node %d and refuse each other", key, n)
		}
		apart[key][n] = true
	}
	if a := affinity.NodeAffinity; a != nil && a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		e := a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0]
		value, ok := s.Site.Node(n).Labels[e.Key], false
		for _, v := range e.Values {
			ok = ok || v == value
		}
		if !ok {
			t.Fatalf("%s is on a node with %s=%s", p.Name, e.Key, value)
		}
	}
}

// TestAppsGrow checks that pending pods of a shape belong to running apps, and that no
// app has more pods than nodes exist.
func TestAppsGrow(t *testing.T) {
	sizes := Sizes{Nodes: 500, Running: []int{3000}, Pods: 500}
	s := Shapes("anti-affinity", sizes)[0]
	running, all := map[string]int{}, map[string]int{}
	for i := range s.Standing[0].Count {
		running[s.Standing[0].Pod(i).Labels["app"]]++
	}
	maps.Copy(all, running)
	for i := range s.Measured.Count {
		app := s.Measured.Pod(i).Labels["app"]
		if running[app] == 0 {
			t.Errorf("no pod of app %s runs", app)
		}
		all[app]++
	}
	for app, n := range all {
		if n > sizes.Nodes {
			t.Errorf("app %s has %d pods on %d nodes", app, n, sizes.Nodes)
		}
	}
}

func TestTestCaseSelectsItsWorkloads(t *testing.T) {
	for name, want := range map[string]int{"SchedulingBasic": 2, "ExtendedResource": 3, "SchedulingBasic/5000Nodes_10000Pods": 1, "Unschedulable": 2, "Scheduling": 0, "": 0} {
		if got := len(Workloads(name, 1)); got != want {
			t.Errorf("%q stands for %d workloads, want %d", name, got, want)
		}
	}
	if s := Workloads("SchedulingBasic", 0.1)[0]; s.Site.Nodes != 500 || s.Before() != 100 || s.Measured.Count != 1000 || s.Floor != 0 {
		t.Errorf("a tenth is %d nodes, %d before, %d measured, floor %d", s.Site.Nodes, s.Before(), s.Measured.Count, s.Floor)
	}
}
