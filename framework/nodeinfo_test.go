package framework_test

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/framework"
	st "github.com/berth-scheduler/berth/framework/testing"
)

const gpu = "example.com/gpu"

func node() *v1.Node {
	return st.MakeNode().Name("n").Capacity(map[v1.ResourceName]string{"cpu": "4", "memory": "8Gi", "pods": "10", gpu: "2", "made-up": "3"}).Obj()
}

// alone returns a pod with required anti-affinity, a port and a claim.
func alone(name string) *st.PodWrapper {
	return st.MakePod().Name(name).Namespace("ns").UID(name).Node("n").Req(map[v1.ResourceName]string{"cpu": "500m", gpu: "1"}).
		PodAntiAffinityExists("app", "zone", st.PodAntiAffinityWithRequiredReq).HostPort(80).PVC("data")
}

func plain(name string) *v1.Pod {
	return st.MakePod().Name(name).Namespace("ns").UID(name).Node("n").Req(map[v1.ResourceName]string{"cpu": "1", "memory": "1Gi"}).HostPort(80).PVC("data").Obj()
}

// facts returns the values of a NodeInfo in one line.
func facts(n fwk.NodeInfo) string {
	var names []string
	for _, p := range n.GetPods() {
		names = append(names, p.GetPod().Name)
	}
	r, z := n.GetRequested(), n.GetNonZeroRequested()
	return fmt.Sprintf("pods %v, %d with affinity, %d anti; %dm %dMi gpu=%v; non-zero %dm %dMi; %d ports; claims %v; %dm of node", names,
		len(n.GetPodsWithAffinity()), len(n.GetPodsWithRequiredAntiAffinity()), r.GetMilliCPU(), r.GetMemory()>>20, r.GetScalarResources()[gpu],
		z.GetMilliCPU(), z.GetMemory()>>20, n.GetUsedPorts().Len(), n.GetPVCRefCounts(), n.GetAllocatable().GetMilliCPU())
}

// TestNodeInfoFollowsItsPods adds and removes pods. One NodeInfo has computed all its
// values before each step, another has not.
func TestNodeInfoFollowsItsPods(t *testing.T) {
	for _, asked := range []bool{false, true} {
		n := framework.NewNodeInfo(plain("a"))
		before := n.GetGeneration()
		for _, step := range []struct {
			what func() error
			want string
		}{
			{func() error { n.SetNode(node()); return nil }, "pods [a], 0 with affinity, 0 anti; 1000m 1024Mi gpu=0; non-zero 1100m 1224Mi; 1 ports; claims map[ns/data:1]; 4000m of node"},
			{func() error { n.AddPod(alone("b").Obj()); return nil }, "pods [a b], 1 with affinity, 1 anti; 1500m 1024Mi gpu=1; non-zero 1700m 1624Mi; 1 ports; claims map[ns/data:2]; 4000m of node"},
			{func() error { return n.RemovePod(klog.Logger{}, plain("a")) }, "pods [b], 1 with affinity, 1 anti; 500m 0Mi gpu=1; non-zero 600m 400Mi; 1 ports; claims map[ns/data:1]; 4000m of node"},
			{func() error { return n.RemovePod(klog.Logger{}, alone("b").Obj()) }, "pods [], 0 with affinity, 0 anti; 0m 0Mi gpu=0; non-zero 0m 0Mi; 0 ports; claims map[]; 4000m of node"},
		} {
			if asked {
				facts(n)
			}
			if err := step.what(); err != nil {
				t.Fatal(err)
			}
			if now := n.GetGeneration(); now <= before {
				t.Errorf("the generation goes from %d to %d", before, now)
			}
			before = n.GetGeneration()
			copied := n.SnapshotConcrete()
			if got := facts(copied); got != step.want {
				t.Errorf("asked before %t:\n     %s\nwant %s", asked, got, step.want)
			}
			if asked && facts(n) != step.want {
				t.Errorf("%s\nwant %s", facts(n), step.want)
			}
		}
		if len(n.GetRequested().GetScalarResources()) != 0 {
			t.Errorf("%v is left", n.GetRequested())
		}
	}
}

func TestRemovePodSaysWhatIsWrong(t *testing.T) {
	n := framework.NewNodeInfo(plain("a"))
	n.SetNode(node())
	for _, row := range []struct {
		pod  *v1.Pod
		want string
	}{
		{plain("b"), "no corresponding pod b in pods of node n"},
		{st.MakePod().Name("c").Obj(), "cannot get cache key for pod with empty UID"},
	} {
		if err := n.RemovePod(klog.Logger{}, row.pod); err == nil || err.Error() != row.want {
			t.Errorf("%v, want %s", err, row.want)
		}
	}
	if err := framework.NewNodeInfo().RemovePod(klog.Logger{}, plain("a")); err == nil {
		t.Error("a NodeInfo without a node has a pod")
	}
}

// TestSnapshotsAreIndependent changes a NodeInfo and its copy. Neither change affects the
// other, nor the slice of pods.
func TestSnapshotsAreIndependent(t *testing.T) {
	for _, asked := range []bool{false, true} {
		n := framework.NewNodeInfo(alone("a").Obj())
		n.AddPod(plain("b"))
		n.AddPod(plain("c")) // the slice has capacity for another
		n.SetNode(node())
		if asked {
			facts(n)
		}
		pods, before := n.GetPods(), facts(n.Snapshot())
		copied := n.Snapshot()
		copied.AddPodInfo(own{plain("x")})
		n.Snapshot().AddPodInfo(own{plain("w")})
		if err := copied.RemovePod(klog.Logger{}, alone("a").Obj()); err != nil {
			t.Fatal(err)
		}
		copied.GetRequested().SetMaxResource(v1.ResourceList{gpu: resource.MustParse("7")})
		copied.GetAllocatable().SetMaxResource(v1.ResourceList{"cpu": resource.MustParse("9")})
		copied.GetUsedPorts().Add("", "UDP", 5)
		copied.GetPVCRefCounts()["ns/other"]++
		if got := facts(n); got != before {
			t.Errorf("%s, want %s", got, before)
		}
		changed := facts(copied)
		n.AddPod(plain("y"))
		if err := n.RemovePod(klog.Logger{}, plain("b")); err != nil {
			t.Fatal(err)
		}
		if got := facts(copied); got != changed || !strings.HasPrefix(got, "pods [b c x]") || !strings.Contains(got, "gpu=7") {
			t.Errorf("%s, want %s", got, changed)
		}
		if len(pods) != 3 || pods[0].GetPod().Name != "a" || pods[1].GetPod().Name != "b" {
			t.Error("the slice of pods that was returned before has changed")
		}
	}
}

// own is a plugin's own PodInfo, with one cpu more than the pod requests.
type own struct{ pod *v1.Pod }

func (o own) GetPod() *v1.Pod                                           { return o.pod }
func (o own) GetRequiredAffinityTerms() []fwk.AffinityTerm              { return nil }
func (o own) GetRequiredAntiAffinityTerms() []fwk.AffinityTerm          { return nil }
func (o own) GetPreferredAffinityTerms() []fwk.WeightedAffinityTerm     { return nil }
func (o own) GetPreferredAntiAffinityTerms() []fwk.WeightedAffinityTerm { return nil }
func (o own) CalculateResource() fwk.PodResource {
	return fwk.PodResource{Resource: &framework.Resource{MilliCPU: 2000}, Non0CPU: 2000, Non0Mem: 1}
}

// TestReadersMeet reads all values of a NodeInfo from several goroutines, which get the
// same maps.
func TestReadersMeet(t *testing.T) {
	n := framework.NewNodeInfo(alone("a").Obj(), plain("b"))
	n.SetNode(node())
	n = n.SnapshotConcrete()
	var all [8]string
	var ports [8]fwk.HostPortInfo
	var done sync.WaitGroup
	for i := range all {
		done.Go(func() {
			all[i], ports[i] = facts(n.Snapshot())+facts(n)+n.String()+fmt.Sprint(n.GetNodeDeclaredFeatures()), n.GetUsedPorts()
			for _, p := range n.GetPods() {
				all[i] += fmt.Sprint(len(p.GetRequiredAntiAffinityTerms()), p.CalculateResource().Non0CPU)
			}
		})
	}
	done.Wait()
	for i := range all {
		if all[i] != all[0] || reflect.ValueOf(ports[i]).Pointer() != reflect.ValueOf(ports[0]).Pointer() {
			t.Errorf("%s and %s", all[i], all[0])
		}
	}
}

func TestPodInfo(t *testing.T) {
	if _, err := framework.NewPodInfo(nil); err == nil || err.Error() != "pod cannot be nil" {
		t.Error(err)
	}
	bad := alone("a").PodAffinity("zone", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "??"}}},
		st.PodAffinityWithPreferredReq).Obj()
	p, err := framework.NewPodInfo(bad)
	if err == nil || !strings.HasPrefix(err.Error(), "preferredAffinityTerms: ") || len(p.GetRequiredAntiAffinityTerms()) != 1 || p.GetPreferredAffinityTerms() != nil {
		t.Error(p, err)
	}
	resized := bad.DeepCopy()
	resized.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("3")
	copied := p.DeepCopy()
	if err := p.Update(resized); err != nil || p.CalculateResource().Non0CPU != 3100 || copied.CalculateResource().Non0CPU != 600 {
		t.Error(err, p.CalculateResource(), copied.CalculateResource())
	}
	if p.Update(nil) == nil || p.Update(plain("b")) == nil {
		t.Error("a PodInfo is updated to another pod")
	}
}

func TestResource(t *testing.T) {
	list := v1.ResourceList{"cpu": resource.MustParse("1500u"), "memory": resource.MustParse("1500m"), "pods": resource.MustParse("5"),
		"ephemeral-storage": resource.MustParse("1k"), gpu: resource.MustParse("2"), "made-up": resource.MustParse("3")}
	r := framework.NewResource(list)
	want := framework.Resource{MilliCPU: 2, Memory: 2, AllowedPodNumber: 5, EphemeralStorage: 1000, ScalarResources: map[v1.ResourceName]int64{gpu: 2}}
	if !reflect.DeepEqual(*r, want) {
		t.Errorf("%+v, want %+v", r, want)
	}
	c := r.Clone()
	c.Add(list)
	c.SetMaxResource(v1.ResourceList{"memory": resource.MustParse("100"), "pods": resource.MustParse("50"), gpu: resource.MustParse("3"), "hugepages-2Mi": resource.MustParse("1")})
	doubled := framework.Resource{MilliCPU: 4, Memory: 100, AllowedPodNumber: 10, EphemeralStorage: 2000, ScalarResources: map[v1.ResourceName]int64{gpu: 4, "hugepages-2Mi": 1}}
	if !reflect.DeepEqual(*c, doubled) || !reflect.DeepEqual(*r, want) {
		t.Errorf("%+v, want %+v; its original is %+v", c, doubled, r)
	}
	var none *framework.Resource
	none.Add(list)
	none.SetMaxResource(list)
}
