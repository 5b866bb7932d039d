package sequence

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// Script is one kind of simulated run.
type Script struct {
	Name string
	// About describes it in a few words.
	About string
	draw  func(seed uint64) *play
	// drawGroups is set instead of draw for a run with pod groups.
	drawGroups func(seed uint64) *groupPlay
	// trees means that its groups belong to composite ones.
	trees bool
}

// Groups reports whether the script needs the feature gate GenericWorkload, in both
// schedulers.
func (s Script) Groups() bool { return s.drawGroups != nil }

// Gates returns the feature gates that kube-scheduler needs.
func (s Script) Gates() upstream.Gates {
	switch {
	case s.drawGroups == nil:
		return upstream.Defaults
	case s.trees:
		return upstream.Trees
	}
	return upstream.PodGroups
}

// Scripts returns all scripts. Each schedules about the given number of pods.
func Scripts(pods int) []Script {
	script := func(name, about string, change func(p *play)) Script {
		return Script{Name: name, About: about, draw: func(seed uint64) *play { return newPlay(name, seed, pods, change) }}
	}
	all := []Script{
		script("seq-resources", "requests until nodes are full", func(p *play) { p.template, p.nodes = p.resources, pods/14 }),
		script("seq-spread", "hard and soft constraints", func(p *play) { p.template = p.spread }),
		script("seq-defaults", "default constraints, with services and controllers that come and go", func(p *play) { p.template, p.changes = p.belonging, 2 }),
		script("seq-terms", "affinity and anti-affinity of all kinds", func(p *play) { p.template = p.terms }),
		script("seq-mixed", "everything at once", func(p *play) { p.template = p.any }),
		script("seq-profile", "everything at once under a drawn configuration", func(p *play) { p.template, p.config = p.any, cases.Config(p.r) }),
		script("seq-nominated", "everything at once, where some pods have a nominated node that others leave room on", func(p *play) { p.template = p.nominated }),
		script("seq-churn", "everything at once while nodes, pods and namespaces come, change and go", func(p *play) { p.template, p.changes = p.any, 6 }),
		script("seq-faults", "the same, fewer, with late events and bindings that fail", func(p *play) {
			p.pods /= 5
			p.template, p.changes = p.any, 6
			p.faults = simulate.Faults{
				MaxWatchDelay: 300 * time.Millisecond, MaxBindDelay: 500 * time.Millisecond,
				DuplicatePercent: 5, Requests: map[simulate.Fault]int{simulate.Conflict: 3, simulate.Unavailable: 3, simulate.Lost: 1},
			}
		}),
	}
	return slices.Concat(all, VolumeScripts(pods), DeviceScripts(pods), PreemptScripts(pods), GroupScripts(pods))
}

// play is the plan of one run.
type play struct {
	r       *rand.Rand
	config  []byte
	faults  simulate.Faults
	nodes   int
	pods    int
	changes int // per batch
	// template makes the common part of pods.
	template func(i int) *v1.Pod
	made     int          // objects, for their names
	created  int          // pods
	preempts bool         // pods have priorities, and budgets and deletions change
	budgeted bool         // with small differences
	volumes  bool         // pods have volumes
	stock    *cases.Stock // of storage; nil without volumes
	devices  bool         // pods have claims for devices
	rack     *cases.Rack  // of devices; nil without claims for devices
}

// A play creates its pods in batches, from templates that are replaced occasionally.
const (
	batch     = 20
	templates = 6
)

func newPlay(name string, seed uint64, pods int, change func(p *play)) *play {
	p := &play{r: cases.Source(name, seed), config: cases.UntimedConfig(), nodes: 40 + pods/20, pods: pods}
	change(p)
	return p
}

// run executes the play, and calls each after every round of the scheduler.
func (p *play) run(c *simulate.Cluster, each func(simulate.Round) error) error {
	start := random.TopologyCluster(p.r, random.Size{Nodes: p.nodes})
	for _, o := range (&cases.Case{Cluster: start}).Others() {
		if err := c.SetObject(o); err != nil {
			return err
		}
	}
	if p.preempts {
		p.small(start.Nodes)
	}
	if p.volumes {
		p.stock = cases.NewStock(p.r, start.Nodes)
		if err := p.create(c); err != nil {
			return err
		}
	}
	if p.devices {
		p.rack = cases.NewRack(p.r, start.Nodes)
		if err := p.createDevices(c); err != nil {
			return err
		}
	}
	for _, n := range start.Nodes {
		c.SetNode(n)
	}
	current := make([]*v1.Pod, templates)
	size := batch
	if p.budgeted {
		size = 4 // so that most caches stay valid
	}
	for made := 0; made < p.pods; made += size {
		for i := range current {
			if current[i] == nil || chance(p.r, 10) {
				current[i] = p.template(i)
			}
		}
		for range size {
			pod := p.pod(current[p.r.IntN(templates)])
			if p.preempts {
				p.rank(pod)
			}
			if p.volumes {
				if err := p.mount(c, pod); err != nil {
					return err
				}
			}
			if p.devices {
				if err := p.claim(c, pod); err != nil {
					return err
				}
			}
			c.SetPod(pod)
			p.created++
		}
		for range p.changes {
			if err := p.change(c); err != nil {
				return err
			}
		}
		if p.preempts {
			if err := p.disturb(c); err != nil {
				return err
			}
		}
		if p.volumes {
			if err := errors.Join(p.control(c), p.changeStorage(c)); err != nil {
				return err
			}
		}
		if p.devices {
			if err := errors.Join(p.controlClaims(c), p.changeDevices(c)); err != nil {
				return err
			}
		}
		// Some of the new pods wait for the next batches, or back off until then.
		if err := c.AdvanceTo(c.Now().Add(time.Duration(p.r.IntN(4))*time.Second), each); err != nil {
			return err
		}
	}
	return c.AdvanceTo(c.Now().Add(time.Minute), each)
}

// pod makes a pod of a template.
func (p *play) pod(of *v1.Pod) *v1.Pod {
	pod := of.DeepCopy()
	pod.Name, pod.UID = fmt.Sprintf("%s-%d", of.Name, p.made), "" // the cluster sets it
	p.made++
	return pod
}

func (p *play) resources(i int) *v1.Pod {
	pod := random.Pod(p.r, i)
	pod.Spec.Affinity, pod.Spec.NodeSelector = nil, nil
	return pod
}

func (p *play) spread(i int) *v1.Pod {
	for {
		if pod := random.TopologyPod(p.r, i); len(pod.Spec.TopologySpreadConstraints) > 0 {
			return pod
		}
	}
}

func (p *play) belonging(i int) *v1.Pod {
	for {
		if pod := random.TopologyPod(p.r, i); len(pod.Labels) > 0 {
			pod.Spec.TopologySpreadConstraints = nil
			return pod
		}
	}
}

func (p *play) terms(i int) *v1.Pod {
	for {
		pod := random.TopologyPod(p.r, i)
		if a := pod.Spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
			pod.Spec.TopologySpreadConstraints = nil
			return pod
		}
	}
}

// nominated makes pods, some of which are nominated to a node, whether they fit there or
// not.
func (p *play) nominated(i int) *v1.Pod {
	pod := random.TopologyPod(p.r, i)
	if chance(p.r, 30) {
		pod.Status.NominatedNodeName = p.nodeName()
	}
	return pod
}

func (p *play) any(i int) *v1.Pod { return random.TopologyPod(p.r, i) }

// change makes one change to the cluster that the scheduler does not cause.
func (p *play) change(c *simulate.Cluster) error {
	m := random.TopologyChange(p.r, clusterOf(c))
	switch {
	case m.NewNode != nil:
		c.SetNode(m.NewNode)
	case m.OldNode != nil:
		c.DeleteNode(m.OldNode.Name)
	case m.NewPod != nil:
		if stored := c.Pod(keyOf(m.NewPod)); p.preempts && m.NewPod.Spec.NodeName != "" && (stored == nil || stored.Spec.NodeName == "") {
			withoutPorts(m.NewPod)
		}
		c.SetPod(m.NewPod)
	case m.OldPod != nil:
		c.DeletePod(model.PodKey{Namespace: m.OldPod.Namespace, Name: m.OldPod.Name})
	case m.New != nil:
		return c.SetObject(m.New.(runtime.Object))
	case m.Old != nil:
		ref, _ := kinds.RefOf(m.Old.(runtime.Object))
		c.DeleteObject(ref)
	}
	return nil
}

// clusterOf returns the stored objects of the cluster.
func clusterOf(c *simulate.Cluster) oracle.Cluster {
	now := oracle.Cluster{Nodes: c.Nodes(), Pods: c.Pods()}
	for _, o := range c.Objects() {
		now.Add(o)
	}
	return now
}

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func ptr[T any](v T) *T { return &v }
