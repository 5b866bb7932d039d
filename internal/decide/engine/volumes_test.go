package engine_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/decide/plugins/volumebinding"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// volumePlugins are the volume plugins, in the order of the default profile.
var volumePlugins = []string{"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}

// volumePair is an engine and an oracle with the same cluster, in which pods are assumed
// with their holds.
type volumePair struct {
	*enginetest.Pair
	// base is the API server's cluster; Cluster adds the assumptions.
	base    oracle.Cluster
	assumed []assumedPod
	r       *rand.Rand
}

// assumedPod is a placement, and the oracle's reservation for it.
type assumedPod struct {
	pod       *v1.Pod
	placement plan.Placement
	reserved  oracle.Reservation
}

// see updates the oracle's cluster. An assumed object counts as long as the API server
// has the version that was assumed.
func (p *volumePair) see() {
	c := p.base
	c.Pods = slices.Clone(c.Pods)
	c.PersistentVolumes, c.PersistentVolumeClaims = slices.Clone(c.PersistentVolumes), slices.Clone(c.PersistentVolumeClaims)
	p.assumed = slices.DeleteFunc(p.assumed, func(a assumedPod) bool {
		at := slices.IndexFunc(c.Pods, func(p *v1.Pod) bool { return p.UID == a.pod.UID })
		if at < 0 || c.Pods[at].Status.Phase == v1.PodSucceeded || c.Pods[at].Status.Phase == v1.PodFailed {
			return true
		}
		return c.Pods[at].Spec.NodeName != "" && c.Pods[at].Spec.NodeName != a.placement.NodeName
	})
	for _, a := range p.assumed {
		at := slices.IndexFunc(c.Pods, func(p *v1.Pod) bool { return p.UID == a.pod.UID })
		on := c.Pods[at].DeepCopy()
		on.Spec.NodeName, on.Status.NominatedNodeName = a.placement.NodeName, ""
		c.Pods[at] = on
		replaceSameVersion(c.PersistentVolumes, a.reserved.Volumes())
		replaceSameVersion(c.PersistentVolumeClaims, a.reserved.Claims())
	}
	p.Cluster = c
}

func replaceSameVersion[T metav1.Object](all, assumed []T) {
	for _, o := range assumed {
		for i := range all {
			if all[i].GetUID() == o.GetUID() && all[i].GetResourceVersion() == o.GetResourceVersion() {
				all[i] = o
			}
		}
	}
}

func (p *volumePair) apply(m random.Mutation) {
	p.base = m.After
	p.State.Apply(enginetest.MutationChanges(m))
}

// TestEngineAgreesWithOracleOnVolumes changes random clusters with volumes step by step.
// Meanwhile pods are placed with their holds, bound, and forgotten. Their writes are seen
// later or never.
func TestEngineAgreesWithOracleOnVolumes(t *testing.T) {
	var seen sightings
	if *seed == 0 && *seeds >= 20 {
		t.Cleanup(func() { seen.check(t) })
	}
	random.EverySeed(t, "./internal/decide/engine", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		p := newVolumePair(t, r, n, random.Size{Nodes: 1 + r.IntN(pickSize(r)), Placed: r.IntN(40), Pending: 6})
		for step := range 60 {
			p.see()
			for _, pod := range enginetest.Pending(p.Cluster) {
				if diff := p.Compare(pod); diff != "" {
					t.Fatalf("step %d, pod %s: engine (-) and oracle (+) differ:\n%s", step, pod.Name, diff)
				}
				seen.note(oracle.Judge(p.Cluster, pod, p.Oracle))
			}
			if err := p.Engine.Audit(); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			p.step(t, step)
			seen.noteHolds(p.assumed)
			if err := p.State.Audit(); err != nil {
				t.Fatalf("after step %d: %v", step, err)
			}
		}
	})
}

// sightings count events over all seeds, so that a test fails if it no longer covers
// them.
type sightings struct {
	sync.Mutex
	counts map[string]int
}

func (s *sightings) count(what string) {
	s.Lock()
	defer s.Unlock()
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.counts[what]++
}

func (s *sightings) note(j oracle.Judgment) {
	for _, n := range j.Nodes {
		for _, r := range n.Rejections {
			if slices.Contains(volumePlugins, r.Plugin) {
				for _, text := range r.Reasons {
					s.count(r.Plugin + ": " + withoutNames.ReplaceAllString(text, "x"))
				}
			}
		}
		for _, score := range n.Scores {
			if score.Plugin == volumebinding.Name && score.Score > 0 {
				s.count("a score")
			}
		}
	}
	if j.Err != nil {
		s.count("an error")
	}
}

var withoutNames = regexp.MustCompile(`"[^"]*"|\S+/\S+`)

func (s *sightings) noteHolds(assumed []assumedPod) {
	claims := map[string]int{}
	for _, a := range assumed {
		for range a.reserved.Static {
			s.count("a volume that is held")
		}
		for _, claim := range a.reserved.Provisioned {
			s.count("a claim whose node is held")
			if claims[claim.Name]++; claims[claim.Name] > 1 {
				s.count("a claim that is held twice")
			}
		}
	}
}

func (s *sightings) check(t *testing.T) {
	for _, what := range []string{
		"a score", "an error", "a volume that is held", "a claim whose node is held", "a claim that is held twice",
		"VolumeBinding: node(s) didn't match PersistentVolume's node affinity",
		"VolumeBinding: node(s) didn't find available persistent volumes to bind",
		"VolumeBinding: node(s) did not have enough free storage",
		"VolumeBinding: pod has unbound immediate PersistentVolumeClaims",
		"VolumeRestrictions: node(s) had no available disk", "NodeVolumeLimits: node(s) exceed max volume count",
		"NodeVolumeLimits: d.csi CSI driver is not installed on the node", "VolumeZone: node(s) had no available volume zone",
	} {
		if s.counts[what] == 0 {
			t.Errorf("%s: never in all seeds", what)
		}
	}
	if t.Failed() || testing.Verbose() {
		for what, n := range s.counts {
			t.Logf("%6d %s", n, what)
		}
	}
}

// pickSize is mostly small. In large clusters volumes can be used on more nodes than
// their changes are journalled on.
func pickSize(r *rand.Rand) int { return []int{6, 6, 20, 60}[r.IntN(4)] }

func newVolumePair(t *testing.T, r *rand.Rand, n uint64, size random.Size) *volumePair {
	cluster := random.StorageCluster(r, size)
	return &volumePair{Pair: newPair(t, r, n, cluster, random.StorageProfile(r)), base: cluster, r: r}
}

func (p *volumePair) step(t *testing.T, step int) {
	switch n := p.r.IntN(100); {
	case n < 30:
		p.place(t, step)
	case n < 38 && len(p.assumed) > 0:
		p.write(p.r.IntN(len(p.assumed)))
	case n < 42 && len(p.assumed) > 0:
		p.bind(p.r.IntN(len(p.assumed)))
	case n < 48 && len(p.assumed) > 0:
		p.forget(p.r.IntN(len(p.assumed)))
	default:
		p.apply(random.StorageChange(p.r, p.base))
	}
}

// forget reverts an assumption, unless the pod is bound already.
func (p *volumePair) forget(at int) {
	if i := p.indexOf(p.assumed[at]); i >= 0 && p.base.Pods[i].Spec.NodeName == "" {
		p.State.Unassume(p.assumed[at].placement)
		p.assumed = slices.Delete(p.assumed, at, at+1)
	}
}

// indexOf returns the position of an assumed pod in the API server, -1 if it is gone.
func (p *volumePair) indexOf(a assumedPod) int {
	return slices.IndexFunc(p.base.Pods, func(p *v1.Pod) bool { return p.UID == a.pod.UID })
}

// place places the first feasible pending pod, and compares its holds and writes.
func (p *volumePair) place(t *testing.T, step int) {
	for _, pod := range enginetest.Pending(p.Cluster) {
		if d := p.Engine.Decide(p.State.View(), plan.Alone(p.Compile(pod))); d.Outcome == plan.Placed {
			p.assume(t, step, pod, d.Placement)
			return
		}
	}
}

func (p *volumePair) assume(t *testing.T, step int, pod *v1.Pod, placement plan.Placement) {
	t.Helper()
	a := assumedPod{pod: pod, placement: placement, reserved: oracle.Reservation{Node: placement.NodeName}}
	if !p.Oracle.Disabled[volumebinding.Name] {
		var ok bool
		if a.reserved, ok = oracle.ReserveVolumes(p.Cluster, pod, placement.NodeName); !ok {
			t.Fatalf("step %d, pod %s: the oracle reserves nothing on %s", step, pod.Name, placement.NodeName)
		}
	}
	if diff := cmp.Diff(heldBy(placement), reservedRefs(a.reserved)); diff != "" {
		t.Fatalf("step %d, pod %s on %s: what the engine (-) and the oracle (+) hold differs:\n%s", step, pod.Name, placement.NodeName, diff)
	}
	if diff := cmp.Diff(p.written(t, placement), writtenByOracle(a.reserved)); diff != "" {
		t.Fatalf("step %d, pod %s on %s: what the engine (-) and the oracle (+) write differs:\n%s", step, pod.Name, placement.NodeName, diff)
	}
	p.State.Assume(placement)
	p.assumed = append(p.assumed, a)
}

// heldBy returns the objects of a placement's holds, sorted.
func heldBy(placement plan.Placement) []string {
	var all []string
	for _, h := range placement.Holds {
		all = append(all, fmt.Sprintf("%d %s/%s", h.Object.Kind, h.Object.Namespace, h.Object.Name))
	}
	slices.Sort(all)
	return all
}

func reservedRefs(r oracle.Reservation) []string {
	var all []string
	add := func(kind model.Kind, o metav1.Object) {
		all = append(all, fmt.Sprintf("%d %s/%s", kind, o.GetNamespace(), o.GetName()))
	}
	for _, b := range r.Static {
		add(model.PersistentVolumeKind, b.Volume)
		add(model.PersistentVolumeClaimKind, b.Claim)
	}
	for _, c := range r.Provisioned {
		add(model.PersistentVolumeClaimKind, c)
	}
	slices.Sort(all)
	return all
}

// written applies the patches of a placement to the API server's objects, and returns the
// results, each once.
func (p *volumePair) written(t *testing.T, placement plan.Placement) []metav1.Object {
	t.Helper()
	var all []metav1.Object
	for i, s := range placement.Steps {
		if s.Write == nil {
			if i != len(placement.Steps)-1 || s.Wait == nil {
				t.Fatalf("step %d of %d writes nothing and is not the last", i, len(placement.Steps))
			}
			continue
		}
		if s.Write.Type != types.MergePatchType {
			t.Fatalf("a patch of type %s", s.Write.Type)
		}
		var object metav1.Object
		switch s.Write.Resource.Resource {
		case "persistentvolumes":
			object = patched(t, p.base.PersistentVolumes, s.Write)
		case "persistentvolumeclaims":
			object = patched(t, p.base.PersistentVolumeClaims, s.Write)
		default:
			t.Fatalf("a write of %s", s.Write.Resource)
		}
		all = append(all, object)
	}
	return all
}

// patched returns an object with a merge patch applied.
func patched[T interface {
	metav1.Object
	DeepCopy() T
}](t *testing.T, all []T, w *plan.Write) T {
	t.Helper()
	at := slices.IndexFunc(all, func(o T) bool { return o.GetNamespace() == w.Namespace && o.GetName() == w.Name })
	if at < 0 {
		t.Fatalf("the patch of %s/%s, which does not exist", w.Namespace, w.Name)
	}
	before, after := all[at], all[at].DeepCopy()
	// as a merge patch of fields without lists
	if err := json.Unmarshal(w.Data, after); err != nil {
		t.Fatal(err)
	}
	if !sameVersion(before, after) || !strings.Contains(string(w.Data), `"resourceVersion":"`) || !strings.Contains(string(w.Data), `"uid":"`) {
		t.Fatalf("the patch %s is not of the object's version", w.Data)
	}
	return after
}

// writtenByOracle returns the objects that the oracle would write, in order, each as
// often as it is written. A second write without changes is left out.
func writtenByOracle(r oracle.Reservation) []metav1.Object {
	var all []metav1.Object
	seen := map[types.UID]bool{}
	add := func(o metav1.Object) {
		if !seen[o.GetUID()] {
			all = append(all, o)
		}
		seen[o.GetUID()] = true
	}
	for _, v := range r.Volumes() {
		add(v)
	}
	for _, c := range r.Claims() {
		add(c)
	}
	return all
}

// write shows the writes of an assumed pod: its objects that still have the promised
// version.
func (p *volumePair) write(at int) {
	a := p.assumed[at]
	for _, v := range a.reserved.Volumes() {
		p.writeOne(v, slices.ContainsFunc(p.base.PersistentVolumes, func(o *v1.PersistentVolume) bool { return sameVersion(o, v) }))
	}
	for _, c := range a.reserved.Claims() {
		p.writeOne(c, slices.ContainsFunc(p.base.PersistentVolumeClaims, func(o *v1.PersistentVolumeClaim) bool { return sameVersion(o, c) }))
	}
}

func sameVersion(a, b metav1.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
}

func (p *volumePair) writeOne(o metav1.Object, same bool) {
	if same {
		p.apply(random.Newer(p.base, o))
	}
}

// bind shows an assumed pod on its node.
func (p *volumePair) bind(at int) {
	a := p.assumed[at]
	i := p.indexOf(a)
	if i < 0 || p.base.Pods[i].Spec.NodeName != "" {
		return
	}
	p.apply(random.Place(p.base, i, a.placement.NodeName))
}
