package world

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
)

// Each tenant has a namespace with one small app. All of these apps have the same labels.
const (
	tenants    = 100
	tenantLife = 12 * time.Hour
	teams      = 7
	teamLabel  = "example.com/team"
)

func teamOf(namespace string) string {
	h := fnv.New32a()
	h.Write([]byte(namespace))
	return fmt.Sprintf("team-%d", h.Sum32()%teams)
}

func (w *World) startTenants() {
	for i := range w.of(tenants) {
		// The first ones leave at different times, like all later ones.
		w.welcome(i, w.upTo(tenantLife))
	}
}

// welcome creates a tenant. When its life ends, another takes its place.
func (w *World) welcome(number int, life time.Duration) {
	namespace := w.next("tenant")
	w.setNamespace(namespace, map[string]string{teamLabel: teamOf(namespace), "kubernetes.io/metadata.name": namespace})
	a := w.deploy(&app{
		namespace: namespace, name: "web", labels: map[string]string{"app": "web"}, demand: tenantDemands[number%len(tenantDemands)],
		cpu: "100m", replicasBase: 3 + number%3,
	})
	w.after(life/2, func() { a.rollout() })
	w.after(life, func() {
		a.remove()
		w.happened["tenant left"]++
		w.after(2*maxGrace, func() {
			w.cluster.DeleteObject(model.Ref{Kind: model.NamespaceKind, Name: namespace})
			w.welcome(number, w.about(tenantLife))
		})
	})
}
