package simulate_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// TestFaultsFoundWithVolumes runs a seed that found a fault: the claim of a nominated pod
// was deleted, and a remembered rejection still counted its volume on the node (492).
func TestFaultsFoundWithVolumes(t *testing.T) {
	build.NotRaced(t)
	if _, err := runVolumeFaults(492); err != nil {
		t.Errorf("seed 492: %v", err)
	}
}

// TestFaultsOfVolumes is a seeded simulation of all faults between a decision about
// volumes and the binding. The loop is audited after each round. No volume is promised or
// bound twice, and no pod is bound without its claims or on a node that its volumes do
// not reach. In the end no pod waits that fits, and no memory is left.
func TestFaultsOfVolumes(t *testing.T) {
	countTrials(t, func(n uint64) ([]map[string]int, error) {
		trial, err := runVolumeFaults(n)
		if trial == nil {
			return nil, err
		}
		return []map[string]int{trial.happened, trial.c.Happened()}, err
	}, []string{
		"volume: provisioned", "volume: provisioning failed", "volume: provisioner hangs", "volume: touched before a write", "volume: taken before a write",
		"volume: released", "volume: deleted", "claim: bound", "claim: handed back", "volume: provisioner gone with its node", "claim: lost", "write: Conflict, in earnest", "write: lost",
		"PreBind: passed", "PreBind: failed", "pod deleted while binding", "claim deleted while binding", "node gone while binding", "killed while binding",
	})
}

// volumeTrial is one simulation of pods with volumes.
type volumeTrial struct {
	r        *rand.Rand
	c        *simulate.Cluster
	a        *auditor
	truth    *volumeTruth
	happened map[string]int
	nodes    []*v1.Node // each may be absent
	pods     int
}

func runVolumeFaults(n uint64) (*volumeTrial, error) {
	t, err := newVolumeTrial(n)
	if err != nil {
		return t, err
	}
	for range 2 {
		for step := range 60 {
			if step%20 == 0 {
				t.c.SetFaults(t.faults())
			}
			what, err := t.disturb()
			if err == nil {
				err = t.c.AdvanceTo(t.c.Now().Add(pause(t.r)), t.audit)
			}
			if err != nil {
				return t, fmt.Errorf("step %d (%s), %s after the start: %w", step, what, t.c.Elapsed(), err)
			}
		}
		if err := t.rested(); err != nil {
			return t, fmt.Errorf("at rest, %s after the start: %w", t.c.Elapsed(), err)
		}
	}
	return t, t.emptied()
}

func newVolumeTrial(n uint64) (*volumeTrial, error) {
	scheduler, err := config.Default()
	if err != nil {
		return nil, err
	}
	c, err := simulate.New(taped(simulate.Config{Scheduler: scheduler, Seed: n, Audit: true, Trim: n%2 == 0, EventHints: n%3 == 1}))
	if err != nil {
		return nil, err
	}
	t := &volumeTrial{r: random.New(n), c: c, a: newAuditor(c, oracle.DefaultProfile()), truth: newVolumeTruth(), happened: map[string]int{}}
	for i := range 5 {
		name := fmt.Sprint("n", i)
		node := node(name, "4")
		node.Labels = map[string]string{v1.LabelHostname: name, v1.LabelTopologyZone: fmt.Sprint("z", i%2)}
		t.nodes = append(t.nodes, node)
		t.c.SetNode(node.DeepCopy())
		if i > 0 {
			_ = c.SetObject(build.CSINode(name, "d=3 tracked="))
		}
		for j := range 3 {
			_ = c.SetObject(build.PersistentVolume(fmt.Sprint("local-", i, j), fmt.Sprintf("class=local storage=%dGi uid=", 1+j), build.VolumeAffinity("kubernetes.io/hostname In "+name)))
		}
	}
	for i := range 3 {
		_ = c.SetObject(build.PersistentVolume(fmt.Sprint("net-", i), "class=local storage=2Gi modes=RWO,RWX uid="))
	}
	for _, o := range []runtime.Object{
		build.StorageClass("local", ""), build.StorageClass("fast", "provisioner=d"), build.StorageClass("now", "provisioner=d mode=Immediate"),
		build.StorageClass("tracked", "provisioner=tracked"), build.StorageClass("zonal", "provisioner=d", build.AllowedTopologies("topology.kubernetes.io/zone=z1")),
	} {
		_ = c.SetObject(o)
	}
	_ = c.SetObject(build.CSIDriver("tracked", "storageCapacity"))
	_ = c.SetObject(build.CSIStorageCapacity("z0", "class=tracked capacity=6Gi", "topology.kubernetes.io/zone=z0"))
	_ = c.SetObject(build.CSIStorageCapacity("z1", "class=tracked capacity=9Gi maximum=2Gi", "topology.kubernetes.io/zone=z1"))
	return t, nil
}

// faults draws the faults for a while.
func (t *volumeTrial) faults() simulate.Faults {
	f := simulate.Faults{
		MaxWatchDelay: t.upTo(2 * time.Second), MaxBindDelay: t.upTo(time.Second), MaxControllerDelay: t.upTo(3 * time.Second), DuplicatePercent: t.r.IntN(10),
		ReplacedPercent: t.r.IntN(100), KeyOnlyPercent: t.r.IntN(50), Requests: map[simulate.Fault]int{},
		Volumes: map[simulate.VolumeFault]int{
			simulate.ProvisionFails: t.r.IntN(40), simulate.ProvisionHangs: t.r.IntN(20), simulate.VolumeTouched: t.r.IntN(20), simulate.VolumeTaken: t.r.IntN(20),
		},
	}
	for fault := simulate.Conflict; fault < simulate.Late; fault++ {
		f.Requests[fault] = t.r.IntN(5)
	}
	return f
}

func (t *volumeTrial) upTo(d time.Duration) time.Duration { return time.Duration(t.r.Int64N(int64(d))) }

// disturb makes one change to the cluster or the process.
func (t *volumeTrial) disturb() (string, error) {
	switch k := t.r.IntN(100); {
	case k < 45:
		return t.createPod(), nil
	case k < 60:
		return t.deletePod(), nil
	case k < 70:
		return t.deleteClaim(), nil
	case k < 78:
		return t.disturbNode(), nil
	case k < 84:
		return t.clearVolumes(), nil
	case k < 88:
		kind := t.c.Reads()[t.r.IntN(len(t.c.Reads()))]
		t.c.BreakWatch(kind)
		return "watch broken", nil
	case k < 93:
		t.mend()
		return "watches mended", nil
	case k < 96:
		return "restart", t.restart()
	}
	return "nothing", nil
}

func (t *volumeTrial) mend() {
	for _, kind := range t.c.Reads() {
		t.c.MendWatch(kind, t.r.IntN(2) == 0)
	}
}

// createPod creates a pod and its claims, in either order. Some share a claim with
// another pod.
func (t *volumeTrial) createPod() string {
	t.pods++
	name := fmt.Sprint("web-", t.pods)
	p := pod(name, fmt.Sprintf("%dm", 100*(1+t.r.IntN(8))), t.pods)
	classes := []string{"local", "local", "fast", "fast", "tracked", "zonal", "now"}
	class := func() string { return classes[t.r.IntN(len(classes))] }
	var claims []*v1.PersistentVolumeClaim
	for i := range t.r.IntN(3) {
		claim := fmt.Sprint(name, "-c", i)
		if t.pods > 5 && t.r.IntN(8) == 0 {
			claim = fmt.Sprint("web-", t.pods-1-t.r.IntN(5), "-c0")
		} else {
			claims = append(claims, build.PersistentVolumeClaim(claim, fmt.Sprintf("class=%s storage=%dGi uid=", class(), 1+t.r.IntN(3))))
		}
		build.Claims(claim)(p)
	}
	if t.r.IntN(4) == 0 {
		build.Ephemeral("scratch")(p)
		template, of := p.Spec.Volumes[len(p.Spec.Volumes)-1].Ephemeral.VolumeClaimTemplate, class()
		template.Spec.StorageClassName, template.Spec.AccessModes = &of, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
		template.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	}
	podFirst := t.r.IntN(2) == 0
	if podFirst {
		t.c.SetPod(p)
	}
	for _, claim := range claims {
		_ = t.c.SetObject(claim)
	}
	if !podFirst {
		t.c.SetPod(p)
	}
	return "pod created: " + name
}

// pick returns a pod, with a preference for pods with a binding in flight, or nil.
func (t *volumeTrial) pick() (p *v1.Pod, binding bool) {
	all := t.c.Pods()
	if len(all) == 0 {
		return nil, false
	}
	waiting := slices.DeleteFunc(slices.Clone(all), func(p *v1.Pod) bool { return !t.isBinding(p) })
	if len(waiting) > 0 && t.r.IntN(2) == 0 {
		all = waiting
	}
	p = all[t.r.IntN(len(all))]
	return p, t.isBinding(p)
}

func (t *volumeTrial) isBinding(p *v1.Pod) bool {
	return t.c.Loop().Queue().PlaceOf(keyOf(p)) == "binding"
}

func (t *volumeTrial) note(what string, binding bool) {
	if binding {
		what += " while binding"
	}
	t.happened[what]++
}

func (t *volumeTrial) deletePod() string {
	p, binding := t.pick()
	if p == nil {
		return t.createPod()
	}
	t.note("pod deleted", binding)
	t.c.DeletePod(keyOf(p))
	if t.r.IntN(2) == 0 {
		for _, claim := range claimsOf(p) {
			t.c.DeleteObject(claim.Ref())
		}
	}
	return "pod deleted: " + p.Name
}

// deleteClaim deletes a claim of a pod, or the volume that it is bound to.
func (t *volumeTrial) deleteClaim() string {
	p, binding := t.pick()
	if p == nil || len(claimsOf(p)) == 0 {
		return t.createPod()
	}
	key := claimsOf(p)[0]
	claim, _ := t.c.Object(key.Ref()).(*v1.PersistentVolumeClaim)
	if claim == nil {
		return "nothing"
	}
	if claim.Spec.VolumeName != "" && t.r.IntN(3) == 0 {
		t.note("volume deleted", binding)
		t.c.DeleteObject(model.VolumeRef(claim.Spec.VolumeName))
		return "volume deleted: " + claim.Spec.VolumeName
	}
	t.note("claim deleted", binding)
	t.c.DeleteObject(key.Ref())
	return "claim deleted: " + key.String()
}

// disturbNode deletes a node, with a preference for the node of a binding in flight, or
// restores it.
func (t *volumeTrial) disturbNode() string {
	node := t.nodes[t.r.IntN(len(t.nodes))]
	if p, binding := t.pick(); binding {
		on, _, _ := t.c.Loop().State().NodeOf(keyOf(p))
		for _, n := range t.nodes {
			if n.Name == on {
				node = n
			}
		}
	}
	if t.c.Node(node.Name) == nil {
		t.c.SetNode(node.DeepCopy())
		return "node back: " + node.Name
	}
	binding := slices.ContainsFunc(t.c.Pods(), func(p *v1.Pod) bool {
		on, _, _ := t.c.Loop().State().NodeOf(keyOf(p))
		return on == node.Name && t.isBinding(p)
	})
	t.note("node gone", binding)
	t.c.DeleteNode(node.Name)
	return "node gone: " + node.Name
}

// clearVolumes makes released volumes available again, and deletes the claims of others,
// as administrators do.
func (t *volumeTrial) clearVolumes() string {
	for _, o := range t.c.Objects() {
		switch o := o.(type) {
		case *v1.PersistentVolume:
			if o.Status.Phase == v1.VolumeReleased && o.Spec.StorageClassName == "local" {
				pv := o.DeepCopy()
				pv.Spec.ClaimRef = nil
				_ = t.c.SetObject(pv)
			}
		case *v1.PersistentVolumeClaim:
			if o.Namespace != "default" {
				t.c.DeleteObject(model.ClaimKey{Namespace: o.Namespace, Name: o.Name}.Ref())
			}
		}
	}
	return "volumes made available again"
}

// restart kills or stops the process, and starts another when the first has nothing in
// flight.
func (t *volumeTrial) restart() error {
	if slices.ContainsFunc(t.c.Pods(), t.isBinding) {
		t.happened["killed while binding"]++
	}
	pause := 6 * time.Second
	if t.r.IntN(3) > 0 {
		t.c.Kill()
	} else {
		t.c.Stop()
		pause += commit.DefaultDrain
	}
	if err := t.c.AdvanceTo(t.c.Now().Add(pause), t.audit); err != nil {
		return err
	}
	t.a.forget()
	return t.c.Restart()
}

func (t *volumeTrial) audit(r simulate.Round) error {
	if err := t.truth.look(t.c); err != nil {
		return err
	}
	for _, pod := range r.Stored {
		if err := t.truth.check(t.c, pod); err != nil {
			return fmt.Errorf("the API server stored that %s is bound to %s: %w", pod.Name, pod.Spec.NodeName, err)
		}
	}
	return t.a.audit(r)
}

func (t *volumeTrial) advance(d time.Duration) error { return t.c.AdvanceTo(t.c.Now().Add(d), t.audit) }

// rested ends all faults, and checks that after a while no pod waits that fits somewhere.
func (t *volumeTrial) rested() error {
	t.c.SetFaults(simulate.Faults{})
	t.mend()
	for _, node := range t.nodes {
		if t.c.Node(node.Name) == nil {
			t.c.SetNode(node.DeepCopy())
		}
	}
	t.clearVolumes()
	if err := t.a.nothingWaitsInVain(5*time.Minute, t.advance, t.a.byOracle(nobody)); err != nil {
		return err
	}
	if err := t.advance(15 * time.Minute); err != nil { // provisioners hang no longer
		return err
	}
	isBinding := func(p *v1.Pod) bool { return t.c.Loop().Queue().PlaceOf(keyOf(p)) == "binding" }
	for placed, rounds := -1, 0; placed != t.a.placedPods() || slices.ContainsFunc(t.c.Pods(), isBinding); rounds++ {
		if rounds == 100 {
			return errors.New("bindings have not ended for ten hours")
		}
		placed = t.a.placedPods()
		if err := t.advance(6 * time.Minute); err != nil {
			return err
		}
	}
	if err := t.a.checkSeen(); err != nil {
		return err
	}
	return t.a.nothingFits(nobody)
}

// emptied deletes all pods and claims, and checks that no memory is left of them.
func (t *volumeTrial) emptied() error {
	for _, pod := range t.c.Pods() {
		t.c.DeletePod(keyOf(pod))
	}
	for _, o := range t.c.Objects() {
		if claim, ok := o.(*v1.PersistentVolumeClaim); ok {
			t.c.DeleteObject(model.ClaimKey{Namespace: claim.Namespace, Name: claim.Name}.Ref())
		}
	}
	if err := t.c.AdvanceTo(t.c.Now().Add(forgotten), t.audit); err != nil {
		return err
	}
	t.clearVolumes()
	if err := t.c.AdvanceTo(t.c.Now().Add(time.Second), t.audit); err != nil {
		return err
	}
	l := t.c.Loop()
	if n := t.c.Outbox().Remembered(); n != 0 || l.Waiting() != 0 || l.State().Held() != 0 || l.State().Pods() != 0 || t.c.Unseen() != 0 {
		return fmt.Errorf("all pods are gone: %d things are remembered, %d pods wait, %d objects are held, the state has %d pods", n, l.Waiting(), l.State().Held(), l.State().Pods())
	}
	if left := storageOf(t.c); strings.Contains(left, "Bound") || strings.Contains(left, "Released") || strings.Contains(left, "pvc-") {
		return fmt.Errorf("all claims are gone: %s", left)
	}
	return nil
}
