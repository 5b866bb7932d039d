package world

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// daemonSets is the number of DaemonSets. One of them is rolled out each day.
const daemonSets = 2

// daemonSet has a pod on each node.
type daemonSet struct {
	w        *World
	name     string
	revision int
	pods     []*pod // of the present and the previous revision
	behind   []*pod // to be replaced
}

func (w *World) startDaemons() {
	for i := range daemonSets {
		d := &daemonSet{w: w, name: fmt.Sprintf("agent-%d", i)}
		w.daemons = append(w.daemons, d)
		for _, n := range w.nodes {
			d.join(n)
		}
	}
	turn := 0
	var next func()
	next = func() {
		w.daemons[turn%daemonSets].rollout()
		turn++
		w.after(Day, next)
	}
	w.after(Day/2, next)
}

// daemon is the pod of one node.
type daemon struct {
	set *daemonSet
	n   *node
}

// join creates the pod of a node, with an affinity to that node only.
func (d *daemonSet) join(n *node) {
	object := podOf(metav1.NamespaceSystem, fmt.Sprintf("registry.example/%s:%d", d.name, d.revision), requests("50m", "64Mi"),
		map[string]string{"name": d.name, "controller-revision-hash": fmt.Sprint(d.revision)})
	object.Name = d.w.next(d.name)
	object.OwnerReferences = controlledBy("apps/v1", "DaemonSet", d.name)
	object.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	object.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{
			Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{n.name},
		}}}},
	}}}
	d.pods = append(d.pods, d.w.create(&daemon{d, n}, &object))
}

// rollout replaces all pods, a tenth of them each minute.
func (d *daemonSet) rollout() {
	d.revision++
	d.w.happened["DaemonSet rolled out"]++
	d.behind = slices.Clone(d.pods)
	tenth := len(d.behind)/10 + 1
	var next func()
	next = func() {
		some := d.behind[:min(tenth, len(d.behind))]
		for _, p := range some {
			d.w.remove(p)
		}
		if d.behind = d.behind[len(some):]; len(d.behind) > 0 {
			d.w.after(time.Minute, next)
			return
		}
		d.behind = nil
	}
	next()
}

func (d *daemon) started(*pod) {}

func (d *daemon) ended(p *pod) {
	d.set.pods = slices.DeleteFunc(d.set.pods, func(other *pod) bool { return other == p })
	if !d.n.leaves {
		d.set.join(d.n)
	}
}
