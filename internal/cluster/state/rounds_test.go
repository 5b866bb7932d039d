package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/elements"
)

// TestRoundsOfFreshNamesLeaveNothing adds and removes rounds of everything that a state
// stores, each with fresh names of nodes, pods, namespaces, labels and their keys,
// taints, images, resources, ports, priorities, volumes, services and budgets. The memory
// kept after a round is bounded: no map and no list reachable from the state has more
// elements than in the first rounds, and most of them have none.
func TestRoundsOfFreshNamesLeaveNothing(t *testing.T) {
	build.NotRaced(t)
	const rounds, first = 200, 100
	s := New()
	var large, most map[string]int
	for n := range rounds {
		r := newRound(t, n)
		r.comes(s)
		if n%50 == 0 {
			audited(t, s)
		}
		if n == 0 {
			large = elements.Of(s)
		}
		r.goes(s)
		if n%50 == 0 {
			audited(t, s)
		}
		kept := elements.Of(s)
		for _, journal := range []struct {
			name string
			most int
		}{{"state.journal.entries", 2 * journalKept}, {"state.budgets.changes", 2 * maxBudgetChanges}} {
			if kept[journal.name] > journal.most {
				t.Errorf("%s has %d elements", journal.name, kept[journal.name])
			}
			delete(kept, journal.name)
		}
		if n < first {
			if most == nil {
				most = kept
			}
			for name, have := range kept {
				most[name] = max(most[name], have)
			}
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(kept)) {
			// The remainder after several sweeps depends on their progress; a leak would
			// double it.
			if kept[name] > most[name]+most[name]/10 {
				t.Errorf("%s has %d elements after %d rounds, and had at most %d in the first %d", name, kept[name], n, most[name], first)
			}
		}
		if t.Failed() {
			return
		}
	}
	for name, bound := range map[string]int{"state.tallies.byKey": 2 * fewIdle, "state.population.sets": fewEmpty, "storage.reaches.byText": 32, "state.State.alive": 5} {
		if have := most[name]; have > bound || have < bound/2 {
			t.Errorf("%s has %d elements after a round, want at most %d and not many fewer", name, have, bound)
		}
	}
	empty := 0
	for _, name := range slices.Sorted(maps.Keys(large)) {
		switch {
		case most[name] == 0 && large[name] > 0:
			empty++
		case most[name] > 0 && !slices.ContainsFunc(keptForAWhile, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) && most[name] != s.Slots():
			t.Errorf("%s has %d elements when all is gone", name, most[name])
		}
	}
	if empty < 60 {
		t.Errorf("only %d maps and lists are empty when all is gone: too few to prove anything", empty)
	}
}

// keptForAWhile are tallies without pods, label sets without pods, unused topologies, and
// idle reaches, with their parts. Everything else is by slot, or empty when all is gone.
var keptForAWhile = []string{
	"model.NodeSelector.", "model.Term.", "model.Zone.", "state.PodSet.", "state.chosenNodes.", "state.domains.topologies", "state.domainCounts.", "state.filing[", "steady.Map[",
	"state.labelSet.", "state.membership.", "state.minima.", "state.podCounts.", "state.population.", "state.tallies.", "state.topology.",
	"storage.filedReaches.", "storage.reach.", "storage.reaches.",
}

// round is the objects of one round.
type round struct {
	fresh   string
	nodes   []string
	pods    []*v1.Pod
	stored  []model.Compiled
	objects map[model.Ref]model.Change
	terms   []*model.Term
}

func newRound(t *testing.T, n int) *round {
	r := &round{fresh: fmt.Sprint(n), objects: map[model.Ref]model.Change{}}
	app := "app=a-" + r.fresh
	for i := range 4 {
		r.nodes = append(r.nodes, fmt.Sprintf("node-%s-%d", r.fresh, i))
	}
	for i := range 12 {
		pod := build.Pod(
			build.Named(fmt.Sprintf("pod-%s-%d", r.fresh, i)), build.InNamespace("ns-"+r.fresh), build.Labels(fmt.Sprintf("%s pod-%s=%d", app, r.fresh, i)),
			build.RequiredAntiAffinity(build.Term(fmt.Sprintf("key-%s-%d", r.fresh, i%4), app)), build.Claims("claim-"+r.fresh),
			build.Controller("apps/v1", "ReplicaSet", "set-"+r.fresh), build.Disks("ebs=disk-"+r.fresh),
		)
		pod.UID = types.UID(pod.Name)
		priority := int32(10*n + i/3)
		pod.Spec.Priority = &priority
		pod.Spec.Containers = []v1.Container{{Image: "image-" + r.fresh, Ports: []v1.ContainerPort{{HostPort: int32(1 + 12*n + i)}}, Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceName("example.com/r-" + r.fresh): resource.MustParse("1")},
		}}}
		r.pods = append(r.pods, pod)
	}
	claim := model.NewClaim(build.PersistentVolumeClaim("claim-"+r.fresh, fmt.Sprintf("namespace=ns-%s class=class-%[1]s bound=volume-%[1]s", r.fresh)))
	r.stored = []model.Compiled{
		claim, model.NewVolume(build.PersistentVolume("volume-"+r.fresh, fmt.Sprintf("class=class-%s csi=driver-%[1]s/handle-%[1]s", r.fresh))),
		model.NewVolume(build.PersistentVolume("local-"+r.fresh, "class=class-"+r.fresh, build.VolumeAffinity(fmt.Sprintf("zone-%s In z-%[1]s", r.fresh)))),
		model.NewCSINode(build.CSINode(r.nodes[0], "driver-"+r.fresh+"=3")), model.NewStorageClass(build.StorageClass("class-"+r.fresh, "provisioner=driver-"+r.fresh)),
		model.NewCSIDriver(build.CSIDriver("driver-"+r.fresh, "")),
		model.NewStorageCapacity(build.CSIStorageCapacity("room-"+r.fresh, "class=class-"+r.fresh+" capacity=1Gi", fmt.Sprintf("zone-%s=z-%[1]s", r.fresh))),
		model.NewVolumeAttachment(build.VolumeAttachment("at-"+r.fresh, fmt.Sprintf("attacher=driver-%s node=%s volume=volume-%[1]s", r.fresh, r.nodes[1]))),
	}
	for _, change := range []model.Change{
		{Ref: model.Ref{Kind: model.NamespaceKind, Name: "ns-" + r.fresh}, Object: build.Namespace("ns-"+r.fresh, "team="+r.fresh)},
		{Ref: model.Ref{Kind: model.ServiceKind, Namespace: "ns-" + r.fresh, Name: "service"}, Object: build.Service("service", build.LabelSet(app))},
		{
			Ref:    model.Ref{Kind: model.ReplicaSetKind, Namespace: "ns-" + r.fresh, Name: "set-" + r.fresh},
			Object: &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: build.LabelSet(app)}}},
		},
	} {
		change.Kind = model.ObjectSet
		r.objects[change.Ref] = change
	}
	budget := model.NewDisruptionBudget(budgetOf("ns-"+r.fresh, "budget", app, 1))
	r.objects[budget.Ref()] = model.Change{Kind: model.ObjectSet, Ref: budget.Ref(), Compiled: budget}
	for i := range 4 {
		affinity := build.Term(fmt.Sprintf("key-%s-%d", r.fresh, i), app)
		if i == 3 {
			affinity.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": r.fresh}}
		}
		term, err := model.NewTerm("ns-"+r.fresh, &affinity)
		if err != nil {
			t.Fatal(err)
		}
		r.terms = append(r.terms, term)
	}
	return r
}

// comes applies all objects of a round, and makes the changes of decisions.
func (r *round) comes(s *State) {
	for _, object := range r.stored {
		s.Apply([]model.Change{compiled(object)})
	}
	for _, change := range r.objects {
		s.Apply([]model.Change{change})
	}
	for i := range 20 { // reaches the maximum number of kept budget changes soon
		setBudget(s, budgetOf("ns-"+r.fresh, "budget", "app=a-"+r.fresh, int32(i%2)))
	}
	for i, name := range r.nodes {
		n := build.Node(name, func(n *v1.Node) {
			n.Labels = map[string]string{"zone-" + r.fresh: "z-" + r.fresh, fmt.Sprintf("key-%s-%d", r.fresh, i): name}
			n.Status.Images = []v1.ContainerImage{{Names: []string{"image-" + r.fresh}}}
			n.Status.Allocatable = v1.ResourceList{v1.ResourceName("example.com/r-" + r.fresh): resource.MustParse("100")}
			n.Spec.Taints = []v1.Taint{{Key: "taint-" + r.fresh, Effect: v1.TaintEffectNoSchedule}}
		})
		s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
	}
	for i, term := range r.terms {
		set, key := PodSet{Text: fmt.Sprintf("%s-%d", r.fresh, i), Terms: []*model.Term{term}, Staying: i == 1}, TopologyKey{Label: term.Key}
		tally := s.Tally(set, key, NodeSet{})
		s.View().KeepLeast(tally)
		s.Tally(set, key, NodeSet{Text: r.fresh, Match: func(n Node) bool { return n.Name() == r.nodes[0] }})
	}
	set := func(i int, node, nominated string) *model.Pod {
		pod := r.pods[i].DeepCopy()
		pod.Spec.NodeName, pod.Status.NominatedNodeName = node, nominated
		compiled := model.NewPod(pod)
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: compiled}})
		return compiled
	}
	assume := func(i int) plan.Placement {
		placement := plan.Placement{
			Pod: set(i, "", r.nodes[2]), NodeName: r.nodes[3], Holds: []plan.Hold{{Plugin: "VolumeBinding", Object: r.stored[1].Ref()}},
		}
		s.Assume(placement)
		return placement
	}
	var on []*model.Pod
	for i := range 6 {
		on = append(on, set(i, r.nodes[i%4], ""))
	}
	set(6, "", r.nodes[1])
	set(7, "gone-"+r.fresh, "") // a ghost
	s.Apply([]model.Change{bindDone(assume(8).Pod, r.nodes[3], nil)})
	s.Apply([]model.Change{bindDone(assume(9).Pod, r.nodes[3], errors.New("refused"))})
	s.Unassume(assume(10))
	assume(11)
	s.Nominate(plan.Nomination{Pod: model.NewPod(r.pods[9]), Mode: plan.Set, NodeName: r.nodes[0]})
	s.Evict(plan.Eviction{Pod: on[0], NodeName: r.nodes[0]}, plan.Eviction{Pod: on[1], NodeName: r.nodes[1]})
	s.Apply([]model.Change{{Kind: model.PreemptionDone, Preemption: &model.PreemptionResult{Preemptor: on[2], Kept: on[1:2], Err: errors.New("forbidden")}}})
	s.BeginTurn()
	s.ObjectsVersion()
	s.View().TermsMatching(on[0])
	s.DefaultSelector(on[0])
	s.View().BudgetsOf(on[0], model.AllSelected())
}

// goes removes all objects again, the nodes before their pods in every second round.
func (r *round) goes(s *State) {
	nodes := func() {
		for _, name := range r.nodes {
			s.Apply([]model.Change{nodeGone(name)})
		}
	}
	if len(r.fresh)%2 == 0 {
		nodes()
	}
	for _, pod := range r.pods {
		s.Apply([]model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: pod.Namespace, Name: pod.Name}}})
	}
	nodes()
	for ref := range r.objects {
		s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: ref}})
	}
	for _, object := range r.stored {
		s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: object.Ref()}})
	}
	s.Apply(nil)
}
