// Package world simulates weeks of activity in a cluster, on the virtual clock of a
// simulation.
//
// It takes a number of nodes and a seed. It returns a simulated cluster with activity at
// the same rate every day: Deployments are rolled out and scaled, jobs run, tenants come
// and go, nodes join, leave and change, and pods wait for room. It owns the state of the
// kubelets and controllers. It never measures, and never decides where a pod goes. The
// same numbers and seed give the same world.
//
// Nothing in it grows: the second day and the thirtieth differ by chance alone.
package world

import (
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// Day is the period in which every kind of activity happens about once.
const Day = 24 * time.Hour

// base is the number of nodes to which this package's numbers apply. They scale in
// proportion.
const base = 1000

// Config configures a world.
type Config struct {
	// Simulation has the scheduler, observers and seed. Its faults are the world's own.
	Simulation simulate.Config
	// Nodes is the number of nodes, at least 20.
	Nodes int
}

// World is a cluster with its activity. It is not safe for concurrent use.
type World struct {
	cluster *simulate.Cluster
	random  *rand.Rand
	size    int // the number of nodes
	pods    map[model.PodKey]*pod
	nodes   []*node // existing nodes, unordered
	byName  map[string]*node
	daemons []*daemonSet
	serial  int // of unique names
	build   int // newest build label of a node
	// happened counts events by kind.
	happened map[string]int
}

// leastNodes is the smallest world with room for everything.
const leastNodes = 20

// New returns a world at the beginning of its first day.
func New(config Config) (*World, error) {
	if config.Nodes < leastNodes {
		return nil, fmt.Errorf("a world of %d nodes: must have at least %d", config.Nodes, leastNodes)
	}
	config.Simulation.Faults = faults()
	cluster, err := simulate.New(config.Simulation)
	if err != nil {
		return nil, err
	}
	w := &World{
		cluster: cluster, random: rand.New(rand.NewPCG(config.Simulation.Seed, 2)), size: config.Nodes,
		pods: map[model.PodKey]*pod{}, byName: map[string]*node{}, happened: map[string]int{},
	}
	w.setNamespace(shop, nil)
	w.setNamespace(batch, nil)
	w.startNodes()
	w.startDaemons()
	w.startApps()
	w.startTenants()
	w.startJobs()
	w.startWaiting()
	w.every(Day, w.loseWatch)
	return w, nil
}

// faults returns the faults of an ordinary day: requests and watch events have short
// delays, and few of them are lost or duplicated.
func faults() simulate.Faults {
	return simulate.Faults{
		MaxWatchDelay: 20 * time.Millisecond, MaxBindDelay: 20 * time.Millisecond, DuplicatePercent: 1,
		Requests: map[simulate.Fault]int{simulate.Unavailable: 1, simulate.Lost: 1},
		Kinds:    []commit.RequestKind{commit.Bind},
	}
}

// Run runs the world for a duration.
func (w *World) Run(d time.Duration) error {
	return w.cluster.AdvanceTo(w.cluster.Now().Add(d), func(r simulate.Round) error {
		for _, stored := range r.Stored {
			w.bound(stored)
		}
		return nil
	})
}

// Cluster returns the simulated cluster. It may be read between runs.
func (w *World) Cluster() *simulate.Cluster { return w.cluster }

// Happened returns the number of events of each kind so far.
func (w *World) Happened() map[string]int { return w.happened }

// of scales a number to the number of nodes.
func (w *World) of(n int) int { return max(1, n*w.size/base) }

// after plans a call.
func (w *World) after(d time.Duration, do func()) { w.cluster.Plan(w.cluster.Now().Add(d), do) }

// often calls do at random times, the given number of times a day in a cluster of the
// base size.
func (w *World) often(times int, do func()) {
	w.every(Day*time.Duration(base)/time.Duration(times*w.size), do)
}

// every calls do about once a period.
func (w *World) every(period time.Duration, do func()) {
	var again func()
	again = func() {
		do()
		w.after(w.about(period), again)
	}
	w.after(w.upTo(period), again)
}

// about returns a random duration between half and one and a half times d.
func (w *World) about(d time.Duration) time.Duration {
	return d/2 + time.Duration(w.random.Int64N(int64(d)+1))
}

// upTo returns a random duration of at most d.
func (w *World) upTo(d time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(d) + 1))
}

// next returns a unique name.
func (w *World) next(prefix string) string {
	w.serial++
	return fmt.Sprintf("%s-%d", prefix, w.serial)
}

func (w *World) now() metav1.Time { return metav1.NewTime(w.cluster.Now()) }

// loseWatch breaks the watch of pods. The pods are listed again a while later.
func (w *World) loseWatch() {
	w.cluster.BreakWatch(model.PodKind)
	w.after(30*time.Second, func() { w.cluster.MendWatch(model.PodKind, true) })
}

func (w *World) setNamespace(name string, labels map[string]string) {
	w.set(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
}
