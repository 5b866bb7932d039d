package cases

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// crowd draws larger clusters of pods that come from few templates, as in production.
func crowd(r *rand.Rand) Case {
	size := random.Size{Nodes: 150 + r.IntN(200)}
	tc := Case{Config: EmptyConfig(), Cluster: random.TopologyCluster(r, size)}
	templates := Templates(r, 8)
	for i := range 300 + r.IntN(500) {
		p := templates[r.IntN(len(templates))].Pod(r, i)
		p.Spec.NodeName, p.Status.Phase = pick(r, tc.Nodes...).Name, v1.PodRunning
		tc.Pods = append(tc.Pods, p)
	}
	for i, t := range templates {
		tc.Pods = append(tc.Pods, t.Pod(r, 10_000+i))
	}
	return tc
}

// Template is the part that the pods of one controller share.
type Template struct{ of *v1.Pod }

// Templates draws n templates.
func Templates(r *rand.Rand, n int) []Template {
	var all []Template
	for i := range n {
		all = append(all, Template{random.TopologyPod(r, i)})
	}
	return all
}

// Pod makes a pod of the template.
func (t Template) Pod(r *rand.Rand, i int) *v1.Pod {
	p := t.of.DeepCopy()
	p.Name = fmt.Sprintf("%s-%d", t.of.Name, i)
	p.UID = types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", r.Uint32(), i))
	return p
}
