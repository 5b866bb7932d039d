package gang

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// The gangs of equal members to measure.
var gangs = []struct {
	name   string
	member func(*v1.Pod)
	// objects are further objects in the cluster.
	objects []runtime.Object
}{
	{name: "plain", member: func(*v1.Pod) {}},
	{name: "zone-spread", member: func(p *v1.Pod) {
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
	}},
	{name: "host-anti-affinity", member: func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}}}
	}},
	{name: "service", member: func(*v1.Pod) {}, objects: []runtime.Object{
		&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "gang"}}},
	}},
}

// newRows returns a large regular cluster: three zones, every twentieth node tainted,
// each node with room for a hundred members.
func newRows(t testing.TB, nodes int, objects ...runtime.Object) *gangCluster {
	all := slices.Clone(objects)
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		n := build.Node(name, build.Allocatable("cpu=32 memory=128Gi pods=110"))
		n.Labels = map[string]string{v1.LabelHostname: name, v1.LabelTopologyZone: fmt.Sprintf("zone-%c", 'a'+i%3)}
		if i%20 == 7 {
			n.Spec.Taints = []v1.Taint{{Key: "spot", Effect: v1.TaintEffectNoSchedule}}
		}
		if i%20 == 8 {
			n.Spec.Taints = []v1.Taint{{Key: "busy", Effect: v1.TaintEffectPreferNoSchedule}}
		}
		all = append(all, n)
	}
	return newGangCluster(t, 1, all...)
}

// gangOf returns the work of a gang of equal members. All of them are required.
func (c *gangCluster) gangOf(members int, member func(*v1.Pod)) turn {
	pods := make([]*v1.Pod, members)
	for i := range pods {
		pods[i] = build.Pod(build.Named(fmt.Sprintf("member-%05d", i)), build.Container("cpu=100m memory=500Mi"), of("g"))
		pods[i].Labels = map[string]string{"app": "gang"}
		member(pods[i])
	}
	return c.work(podGroup("g", int32(members), 0), pods...)
}

// BenchmarkGang decides about gangs of equal members that fit.
func BenchmarkGang(b *testing.B) {
	for _, g := range gangs {
		for _, nodes := range []int{build.Sized(5000), build.Sized(50000)} {
			for _, members := range []int{build.Sized(512), build.Sized(5000)} {
				if g.name == "host-anti-affinity" && members > nodes*9/10 {
					members = nodes * 9 / 10 // not on tainted nodes
				}
				b.Run(fmt.Sprintf("%s/nodes=%d/members=%d", g.name, nodes, members), func(b *testing.B) {
					c := newRows(b, nodes, g.objects...)
					work := c.gangOf(members, g.member)
					first := decided(c.state, c.engine, work, nil)
					takeOff(c.state, &first)
					b.ReportAllocs()
					b.ResetTimer()
					for range b.N {
						d := decided(c.state, c.engine, work, nil)
						b.StopTimer()
						if d.Outcome != plan.Placed {
							b.Fatalf("%s: %s", d.Outcome, d.Message)
						}
						takeOff(c.state, &d)
						b.StartTimer()
					}
				})
			}
		}
	}
}

// BenchmarkGangJustTooLarge decides about a gang whose last member finds no node.
func BenchmarkGangJustTooLarge(b *testing.B) {
	nodes := build.Sized(5000)
	c := newRows(b, nodes)
	// each node without an untolerated taint has room for two
	room := (nodes - (nodes+12)/20) * 2
	work := c.gangOf(room+1, func(p *v1.Pod) {
		p.Spec.Containers[0].Resources = build.Pod(build.Container("cpu=16")).Spec.Containers[0].Resources
	})
	b.ReportAllocs()
	for range b.N {
		d := decided(c.state, c.engine, work, nil)
		if last := &d.Members[room]; d.Outcome != plan.Unschedulable || last.Rejection == nil || last.Rejection.Group != "" {
			b.Fatalf("%s: %s; the last member: %+v", d.Outcome, d.Message, last)
		}
	}
}
