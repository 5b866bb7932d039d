package world

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// shop is the namespace of the large apps.
const shop = "shop"

// The number of large apps, and their changes.
const (
	apps         = 120
	replicasMin  = 5
	maxReplicas  = 45
	rolloutEvery = Day
	scaleEvery   = 12 * time.Hour
	historyKept  = 2 // ReplicaSets without pods
	controlEvery = time.Second
)

// app is a Deployment with its ReplicaSets.
type app struct {
	w                    *World
	namespace, name      string
	labels               map[string]string
	demand               demand
	priority             int32
	cpu                  string
	replicasBase, wanted int
	revision             int
	// sets are the ReplicaSets, with the current one last.
	sets    []*replicaSet
	planned bool // to be reconciled
	ends    bool
}

// replicaSet is one version of an app.
type replicaSet struct {
	app      *app
	name     string
	template v1.Pod
	pods     []*pod // not terminating, oldest first
}

// startApps deploys the large apps.
func (w *World) startApps() {
	sizes := []string{"100m", "250m", "50m", "500m"}
	priorities := []int32{0, 0, 0, 100, 1000}
	for i := range w.of(apps) {
		d := demands[i%len(demands)]
		most := maxReplicas
		if d.maxReplicas > 0 {
			most = min(most, max(replicasMin, w.size/d.maxReplicas))
		}
		name := fmt.Sprintf("app-%d", i)
		a := w.deploy(&app{
			namespace: shop, name: name, labels: map[string]string{"app": name}, demand: d, priority: priorities[i%len(priorities)],
			cpu: sizes[i%len(sizes)], replicasBase: replicasMin + w.random.IntN(most-replicasMin+1),
		})
		w.again(a, rolloutEvery, a.rollout)
		w.again(a, scaleEvery, a.scale)
	}
}

// again calls do about once a period while the app exists. The first call is at a random
// time in the period.
func (w *World) again(a *app, every time.Duration, do func()) {
	var next func()
	next = func() {
		if !a.ends {
			do()
			w.after(w.about(every), next)
		}
	}
	w.after(w.upTo(every), next)
}

// deploy creates an app.
func (w *World) deploy(a *app) *app {
	a.w, a.wanted = w, a.replicasBase
	if a.demand.service {
		w.set(&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.name}, Spec: v1.ServiceSpec{Selector: a.labels}})
	}
	a.rollout()
	return a
}

// rollout makes another version the current one. Its pods replace the others step by
// step.
func (a *app) rollout() {
	a.revision++
	a.w.happened["rollout"]++
	hash := fmt.Sprintf("%s-%d", a.name, a.revision)
	labels := maps.Clone(a.labels)
	labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	s := &replicaSet{app: a, name: hash, template: podOf(a.namespace, "registry.example/"+a.namespace+"/"+hash, requests(a.cpu, "128Mi"), labels)}
	s.template.OwnerReferences = controlledBy("apps/v1", "ReplicaSet", s.name)
	if a.priority != 0 {
		s.template.Spec.Priority = &a.priority
	}
	a.demand.apply(a, &s.template)
	a.w.set(&appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: s.name},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
	})
	a.sets = append(a.sets, s)
	a.control()
}

// scale changes the number of replicas, around the same number each time.
func (a *app) scale() {
	a.w.happened["scaled"]++
	a.wanted = max(1, a.replicasBase/2+a.w.random.IntN(a.replicasBase+1))
	a.control()
}

// remove deletes an app and all its objects.
func (a *app) remove() {
	a.ends = true
	if a.demand.service {
		a.w.cluster.DeleteObject(model.Ref{Kind: model.ServiceKind, Namespace: a.namespace, Name: a.name})
	}
	for _, s := range a.sets {
		for _, p := range slices.Clone(s.pods) {
			a.w.remove(p)
		}
		a.forget(s)
	}
	a.sets = nil
}

func (a *app) forget(s *replicaSet) {
	a.w.cluster.DeleteObject(model.Ref{Kind: model.ReplicaSetKind, Namespace: a.namespace, Name: s.name})
}

// control plans a single reconciliation of the app for all changes until then.
func (a *app) control() {
	if a.planned {
		return
	}
	a.planned = true
	a.w.after(controlEvery, func() {
		a.planned = false
		if !a.ends {
			a.reconcile()
		}
	})
}

// reconcile makes one step towards the wanted number of pods of the current version. A
// quarter more pods may exist, and a quarter fewer may run.
func (a *app) reconcile() {
	current := a.sets[len(a.sets)-1]
	quarter := max(1, a.wanted/4)
	all, running := 0, 0
	for _, s := range a.sets {
		all += len(s.pods)
		for _, p := range s.pods {
			if p.runs {
				running++
			}
		}
	}
	for ; len(current.pods) < a.wanted && all < a.wanted+quarter; all++ {
		current.grow()
	}
	for len(current.pods) > a.wanted {
		a.w.remove(current.shrink(len(current.pods) - 1))
	}
	spare := running - (a.wanted - quarter)
	for _, s := range a.sets[:len(a.sets)-1] {
		for i := len(s.pods) - 1; i >= 0; i-- {
			if s.pods[i].runs {
				if spare <= 0 {
					continue
				}
				spare--
			}
			a.w.remove(s.shrink(i))
		}
	}
	a.forgetOld()
}

// forgetOld deletes the ReplicaSets without pods, except the latest ones.
func (a *app) forgetOld() {
	empty := 0
	for i := len(a.sets) - 2; i >= 0; i-- {
		if s := a.sets[i]; len(s.pods) == 0 {
			if empty++; empty > historyKept {
				a.w.happened["old version forgotten"]++
				a.forget(s)
				a.sets = slices.Delete(a.sets, i, i+1)
			}
		}
	}
}

func (s *replicaSet) grow() {
	object := s.template
	object.Name = s.app.w.next(s.name)
	s.pods = append(s.pods, s.app.w.create(s, &object))
}

// shrink removes a pod from the set.
func (s *replicaSet) shrink(at int) *pod {
	p := s.pods[at]
	s.pods = slices.Delete(s.pods, at, at+1)
	return p
}

func (s *replicaSet) started(*pod) { s.app.control() }

func (s *replicaSet) ended(p *pod) {
	if at := slices.Index(s.pods, p); at >= 0 {
		s.shrink(at)
	}
	s.app.control()
}
