package gang

import (
	"fmt"
	"testing"

	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// newHosts returns a cluster with one gang. Every node is a domain of its own for the
// topology key of the gang, and has room for all members.
func newHosts(nodes, members int) *cluster {
	c := &cluster{group: newGroup(int32(members), "rack")}
	for i := range nodes {
		c.nodes = append(c.nodes, build.Node(fmt.Sprintf("n%05d", i), build.Allocatable("cpu=32 memory=128Gi pods=110"), build.NodeLabels(fmt.Sprint("rack=r", i))))
	}
	for i := range members {
		c.members = append(c.members, newMember(fmt.Sprint("m", i), build.Container("cpu=100m memory=500Mi")))
	}
	return c
}

// BenchmarkGangByHost decides about a gang with one domain placement per node.
func BenchmarkGangByHost(b *testing.B) {
	for _, nodes := range []int{build.Sized(1250), build.Sized(2500), build.Sized(5000)} {
		b.Run(fmt.Sprintf("nodes=%d/members=110", nodes), func(b *testing.B) {
			p := profileWith(b, 1, 1)
			c := newHosts(nodes, 110)
			s, e, work := c.state(anyNode), newEngine(b, p), c.work(p)
			b.ReportAllocs()
			for range b.N {
				before := s.Meter().Total()
				d := decided(s, e, work, nil)
				if d.Outcome != plan.Placed {
					b.Fatalf("%s: %s", d.Outcome, d.Message)
				}
				b.ReportMetric(float64(s.Meter().Total()-before)/float64(nodes), "units/node")
				takeOff(s, &d)
			}
		})
	}
}
