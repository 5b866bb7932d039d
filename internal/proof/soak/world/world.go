// Package world is what goes on in a cluster for weeks, on the virtual clock of a simulation.
//
// It takes a number of nodes and a seed; it gives a simulated cluster in which Deployments are rolled out and scaled, jobs run, tenants come and
// go, nodes join, leave and change, and pods wait for room, at the same rate every day. It owns what kubelets and controllers would know of
// these things. It never measures, and never decides where a pod goes. The same numbers and seed give the same world.
//
// Nothing in it grows: what there is on the second day differs from what there is on the thirtieth by chance alone.
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

// Day is the period after which everything has happened about once.
const Day = 24 * time.Hour

// base is the number of nodes for which this package's numbers of things are given; others are in proportion.
const base = 1000

// Config is what a world needs.
type Config struct {
	// Simulation has the scheduler, observers and seed. Its faults are the world's own.
	Simulation simulate.Config
	// Nodes is how many nodes there are, at least 20.
	Nodes int
}

// World is a cluster with what goes on in it. One goroutine uses it.
type World struct {
	cluster *simulate.Cluster
	random  *rand.Rand
	size    int // the number of nodes
	pods    map[model.PodKey]*pod
	nodes   []*node // those that exist, in no particular order
	byName  map[string]*node
	daemons []*daemonSet
	serial  int // of names that are given once
	build   int // the newest that a node is labelled with
	// happened counts by what happened.
	happened map[string]int
}

// leastNodes is the smallest world in which everything has a place.
const leastNodes = 20

// New builds a world at the beginning of its first day.
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

// faults are those of an ordinary day: requests and watch events take a while, and few of them are lost or shown twice.
func faults() simulate.Faults {
	return simulate.Faults{
		WatchDelayMax: 20 * time.Millisecond, BindDelayMax: 20 * time.Millisecond, DuplicatePercent: 1,
		Requests: map[simulate.Fault]int{simulate.Unavailable: 1, simulate.Lost: 1},
		Kinds:    []commit.RequestKind{commit.Bind},
	}
}

// Run lets the world go on for so long.
func (w *World) Run(d time.Duration) error {
	return w.cluster.AdvanceTo(w.cluster.Now().Add(d), func(r simulate.Round) error {
		for _, stored := range r.Stored {
			w.bound(stored)
		}
		return nil
	})
}

// Cluster is the simulated cluster, to be read between runs.
func (w *World) Cluster() *simulate.Cluster { return w.cluster }

// Happened says how often things of each kind have happened so far.
func (w *World) Happened() map[string]int { return w.happened }

// of returns a number of things in proportion to the number of nodes.
func (w *World) of(n int) int { return max(1, n*w.size/base) }

// after has something happen later.
func (w *World) after(d time.Duration, do func()) { w.cluster.Plan(w.cluster.Now().Add(d), do) }

// often has something happen so many times a day in a cluster of the base size, at random times.
func (w *World) often(times int, do func()) {
	w.every(Day*time.Duration(base)/time.Duration(times*w.size), do)
}

// every has something happen once in about a period.
func (w *World) every(period time.Duration, do func()) {
	var again func()
	again = func() {
		do()
		w.after(w.about(period), again)
	}
	w.after(w.upTo(period), again)
}

// about returns between half and one and a half times as much.
func (w *World) about(d time.Duration) time.Duration {
	return d/2 + time.Duration(w.random.Int64N(int64(d)+1))
}

// upTo returns at most that much.
func (w *World) upTo(d time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(d) + 1))
}

// next returns a name that was never given before.
func (w *World) next(prefix string) string {
	w.serial++
	return fmt.Sprintf("%s-%d", prefix, w.serial)
}

func (w *World) now() metav1.Time { return metav1.NewTime(w.cluster.Now()) }

// loseWatch breaks the watch of pods; a while later they are listed anew.
func (w *World) loseWatch() {
	w.cluster.BreakWatch(model.PodKind)
	w.after(30*time.Second, func() { w.cluster.MendWatch(model.PodKind, true) })
}

func (w *World) setNamespace(name string, labels map[string]string) {
	w.set(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
}
