package engine_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// wants sets the pod's request of cpu.
func wants(milli int64) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *cpuMilli(milli)
	}
}

func cpuMilli(milli int64) *resource.Quantity {
	return resource.NewMilliQuantity(milli, resource.DecimalSI)
}

// imageVersions returns two versions of a node that differ by an image. Applying them in
// turn changes the images each time. The pods may name this image or not.
func imageVersions(image string) [2]model.Change {
	var versions [2]model.Change
	for i := range versions {
		object := benchNode(0)
		if i == 1 {
			object.Status.Images = append(object.Status.Images, v1.ContainerImage{Names: []string{image}, SizeBytes: 300 << 20})
		}
		versions[i] = model.Change{Kind: model.NodeSet, Node: model.NewNode(object)}
	}
	return versions
}

// BenchmarkDecisionAfterImageChange applies a change of one node's images and decides.
// The image is none of the pod's, or the pod's on few nodes, or the pod's on a quarter of
// the nodes. With change=none nothing changes before the decision; with change=node a
// node comes or goes.
func BenchmarkDecisionAfterImageChange(b *testing.B) {
	for _, nodes := range []int{build.Sized(5000), build.Sized(50000)} {
		for _, row := range []struct {
			change, image string
			shape         func(*v1.Pod)
		}{
			{"none", "", shapes["plain"]},
			{"other-image", "registry.example/stranger:1", shapes["plain"]},
			{"own-image-on-no-other-node", "registry.example/other:1", shapes["plain"]},
			{"own-image-on-many-nodes", "registry.example/base:1", func(p *v1.Pod) { p.Spec.Containers[0].Image = "registry.example/base:1" }},
			{"node", "", shapes["plain"]},
		} {
			b.Run(fmt.Sprintf("nodes=%d/change=%s", nodes, row.change), func(b *testing.B) {
				c := newBench(b, nodes)
				changes := changesOf(row.change, row.image, nodes)
				work := plan.Alone(c.pod(0, row.shape))
				c.engine.Decide(c.state.View(), work)
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					c.state.Apply(changes[i%2])
					c.engine.Decide(c.state.View(), work)
				}
			})
		}
	}
}

func changesOf(change, image string, nodes int) [2][]model.Change {
	switch change {
	case "none":
		return [2][]model.Change{}
	case "node":
		node := model.NewNode(benchNode(nodes))
		return [2][]model.Change{{{Kind: model.NodeSet, Node: node}}, {{Kind: model.NodeGone, Name: node.Name}}}
	}
	versions := imageVersions(image)
	if image == "registry.example/base:1" { // the node has it already: remove it
		object := benchNode(0)
		object.Status.Images = object.Status.Images[1:]
		versions[1] = model.Change{Kind: model.NodeSet, Node: model.NewNode(object)}
	}
	return [2][]model.Change{{versions[1]}, {versions[0]}}
}

// BenchmarkRejection decides about a pod that fits nowhere, after one node has changed.
// Either every node is too small, or some are tainted, some have the wrong label and the
// others are too small. The rejection is remembered or, with remembered=no, decided from
// the columns.
func BenchmarkRejection(b *testing.B) {
	for _, nodes := range []int{build.Sized(5000), build.Sized(50000)} {
		for _, row := range []struct {
			name  string
			shape func(*v1.Pod)
		}{
			{"one-filter", func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}} }},
			{"three-filters", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }},
		} {
			for _, remembered := range []string{"no", "yes"} {
				b.Run(fmt.Sprintf("nodes=%d/objecting=%s/remembered=%s", nodes, row.name, remembered), func(b *testing.B) {
					benchmarkRejection(b, nodes, map[string]int{"no": 1, "yes": 0}[remembered], row.shape)
				})
			}
		}
	}
}

func benchmarkRejection(b *testing.B, nodes, rejectionBytes int, shape func(*v1.Pod)) {
	c := newBench(b, nodes)
	var err error
	if c.engine, err = engine.New(engine.Config{Profiles: []*plugin.Profile{c.profile}, RejectionBytes: rejectionBytes}); err != nil {
		b.Fatal(err)
	}
	work := plan.Alone(c.pod(0, func(p *v1.Pod) { shape(p); wants(64_000)(p) }))
	c.engine.Decide(c.state.View(), work)
	usage := c.pod(1, wants(1000))
	c.changeOneNode(usage)
	c.engine.Decide(c.state.View(), work)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		c.changeOneNode(usage)
		c.engine.Decide(c.state.View(), work)
	}
}

// changeOneNode places a pod on a node and removes it again.
func (b *bench) changeOneNode(pod *model.Pod) {
	b.state.Assume(plan.Placement{Pod: pod, NodeName: "node-00000"})
	b.state.Apply([]model.Change{{Kind: model.PodGone, Key: pod.Key()}})
}
