package random

import (
	"math/rand/v2"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// Size is the size of a cluster to make.
type Size struct {
	Nodes   int
	Placed  int // placed pods, terminal ones included; none without nodes
	Pending int
}

// Cluster returns a cluster with nodes node-0 onward and pods pod-0 onward, placed ones
// first. Pods are placed whether they fit or not.
func Cluster(r *rand.Rand, size Size) oracle.Cluster {
	var c oracle.Cluster
	for i := range size.Nodes {
		c.Nodes = append(c.Nodes, Node(r, i))
	}
	for range size.Placed {
		if size.Nodes > 0 {
			c.Pods = append(c.Pods, PlacedPod(r, len(c.Pods), pick(r, c.Nodes...).Name))
		}
	}
	for range size.Pending {
		c.Pods = append(c.Pods, Pod(r, len(c.Pods)))
	}
	return c
}
