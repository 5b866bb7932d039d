package simulate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	volume "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// The classes of these tests. np has no provisioner and delayed binding, dp has a
// provisioner and delayed binding, now has a provisioner and immediate binding, still has
// no provisioner and immediate binding.
func withClasses(more ...runtime.Object) []runtime.Object {
	return append([]runtime.Object{
		build.StorageClass("np", ""), build.StorageClass("dp", "provisioner=d"), build.StorageClass("now", "provisioner=d mode=Immediate"),
		build.StorageClass("still", "mode=Immediate"),
	}, more...)
}

// storageOf returns the states of all claims and volumes, in order: "c Pending", "c Bound
// v", "v Available", "v Bound c".
func storageOf(c *simulate.Cluster) string {
	var all []string
	for _, o := range c.Objects() {
		switch o := o.(type) {
		case *v1.PersistentVolumeClaim:
			text := o.Name + " " + string(o.Status.Phase)
			if node := o.Annotations[volume.AnnSelectedNode]; node != "" {
				text += " @" + node
			}
			if o.Spec.VolumeName != "" {
				text += " " + o.Spec.VolumeName
			}
			if _, completed := o.Annotations[volume.AnnBindCompleted]; completed != (o.Status.Phase == v1.ClaimBound || o.Status.Phase == v1.ClaimLost) {
				text += " half"
			}
			all = append(all, text)
		case *v1.PersistentVolume:
			text := o.Name + " " + string(o.Status.Phase)
			if ref := o.Spec.ClaimRef; ref != nil {
				text += " " + ref.Name
				if ref.UID == "" {
					text += "?"
				}
			}
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

func storing(t *testing.T, config simulate.Config, objects ...runtime.Object) *simulate.Cluster {
	t.Helper()
	c, err := simulate.New(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if err := c.SetObject(o); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func pass(t *testing.T, c *simulate.Cluster, d time.Duration) {
	t.Helper()
	if err := c.AdvanceTo(c.Now().Add(d), nil); err != nil {
		t.Fatal(err)
	}
}

// TestVolumeController gives claims and volumes to the controller, and checks their
// states over time.
func TestVolumeController(t *testing.T) {
	pv, pvc := build.PersistentVolume, build.PersistentVolumeClaim
	pool := build.CSIStorageCapacity("pool", "class=dp capacity=10Gi", "everything")
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		after   time.Duration
		want    string
	}{
		{"a claim that waits for a pod", withClasses(pvc("c", "class=np storage=1Gi"), pv("v", "class=np storage=1Gi")), time.Hour, "v Available, c Pending"},
		{"a new volume", withClasses(pv("v", "class=np storage=1Gi phase=Pending")), 0, "v Available"},
		{"a volume that the scheduler has chosen", withClasses(pvc("c", "class=np storage=1Gi"), pv("v", "class=np storage=1Gi claim=default/c/c")), 0, "v Bound c, c Bound v"},
		{"a volume that is meant for the claim", withClasses(pvc("c", "class=np storage=1Gi"), pv("v", "class=np storage=2Gi claim=default/c")), 0, "v Bound c, c Bound v"},
		{"it is too small", withClasses(pvc("c", "class=np storage=1Gi"), pv("v", "class=np storage=1Mi claim=default/c")), 0, "v Available c?, c Pending"},
		{"it lacks an access mode", withClasses(pvc("c", "class=np storage=1Gi modes=RWX"), pv("v", "class=np storage=1Gi claim=default/c")), 0, "v Available c?, c Pending"},
		{"a claim that names a volume", withClasses(pvc("c", "class=np storage=1Gi volume=v"), pv("v", "class=np storage=1Gi")), 0, "v Bound c, c Bound v"},
		{"the smallest that fits", withClasses(pvc("c", "class=still storage=2Gi"), pv("a", "class=still storage=9Gi"), pv("b", "class=still storage=3Gi"),
			pv("c", "class=still storage=1Gi"), pv("d", "class=np storage=2Gi")), 0, "a Available, b Bound c, c Available, d Available, c Bound b"},
		{"of equal ones the first by name", withClasses(pvc("c", "class=still storage=2Gi"), pv("b", "class=still storage=3Gi"), pv("a", "class=still storage=3Gi")), 0,
			"a Bound c, b Available, c Bound a"},
		{"two claims, one volume", withClasses(pvc("c", "class=still storage=2Gi"), pvc("b", "class=still storage=2Gi"), pv("a", "class=still storage=3Gi")), 0,
			"a Bound c, b Pending, c Bound a"},
		{"no volume fits", withClasses(pvc("c", "class=still storage=2Gi modes=RWX"), pv("a", "class=still storage=3Gi")), 0, "a Available, c Pending"},
		{"a claim without a class", []runtime.Object{pvc("c", "storage=2Gi"), pv("a", "storage=3Gi")}, 0, "a Bound c, c Bound a"},
		{"provisioned at once", withClasses(pvc("c", "class=now storage=2Gi")), time.Second, "pvc-c Bound c, c Bound pvc-c"},
		{"not that soon", withClasses(pvc("c", "class=now storage=2Gi")), 999 * time.Millisecond, "c Pending"},
		{"provisioned for a node", withClasses(node("n1", "1"), pvc("c", "class=dp storage=2Gi node=n1")), time.Second, "pvc-c Bound c, c Bound @n1 pvc-c"},
		{"no node is chosen", withClasses(node("n1", "1"), pvc("c", "class=dp storage=2Gi")), time.Hour, "c Pending"},
		{"no provisioner", withClasses(node("n1", "1"), pvc("c", "class=np storage=2Gi node=n1")), time.Hour, "c Pending @n1"},
		{"the node is gone, and its provisioner: left", withClasses(pvc("c", "class=dp storage=2Gi node=n1")), time.Hour, "c Pending @n1"},
		{"no room: handed back", withClasses(node("n1", "1"), build.CSIDriver("d", "storageCapacity"), pool, pvc("c", "class=dp storage=20Gi node=n1")), time.Second, "c Pending"},
		{"room for one", withClasses(node("n1", "1"), build.CSIDriver("d", "storageCapacity"), pool,
			pvc("b", "class=dp storage=6Gi node=n1"), pvc("c", "class=dp storage=6Gi node=n1")), time.Second, "pvc-b Bound b, b Bound @n1 pvc-b, c Pending"},
		{"the claim is gone: retained", withClasses(pv("v", "class=np storage=1Gi claim=default/c/c phase=Bound")), 0, "v Released c"},
		{"the claim is another", withClasses(pvc("c", "class=np storage=9Gi uid=new"), pv("v", "class=np storage=1Gi claim=default/c/c phase=Bound")), 0, "v Released c, c Pending"},
		{"the claim has another volume", withClasses(pvc("c", "class=np storage=1Gi bound=w"), pv("w", "class=np storage=1Gi claim=default/c/c phase=Bound"),
			pv("v", "class=np storage=1Gi claim=default/c/c")), 0, "v Available c?, w Bound c, c Bound w"},
		{"the same, and the scheduler had chosen it", withClasses(pvc("c", "class=np storage=1Gi bound=w"), pv("w", "class=np storage=1Gi claim=default/c/c phase=Bound"),
			pv("v", "class=np storage=1Gi claim=default/c/c annotation=pv.kubernetes.io/bound-by-controller=yes")), 0, "v Available, w Bound c, c Bound w"},
		{"the volume has another claim", withClasses(pvc("c", "class=np storage=1Gi bound=v"), pvc("b", "class=np storage=1Gi bound=v"),
			pv("v", "class=np storage=1Gi claim=default/b/b phase=Bound")), 0, "v Bound b, b Bound v, c Lost v"},
		{"a bound claim whose volume nobody has seen", withClasses(pvc("c", "class=np storage=1Gi bound=v")), 0, "c Bound v"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := storing(t, defaults(t), test.objects...)
			pass(t, c, test.after)
			if got := storageOf(c); got != test.want {
				t.Errorf("%s; want %s", got, test.want)
			}
			version := versions(c)
			pass(t, c, time.Hour)
			if storageOf(c) == test.want && versions(c) != version {
				t.Errorf("it writes on and on: %s, then %s", version, versions(c))
			}
			unattended := defaults(t)
			unattended.Volumes.Unattended = true
			c = storing(t, unattended, test.objects...)
			version = versions(c)
			pass(t, c, time.Hour)
			if versions(c) != version {
				t.Errorf("unattended, it is %s", storageOf(c))
			}
		})
	}
}

// versions returns the resource versions of all objects.
func versions(c *simulate.Cluster) string {
	var all []string
	for _, o := range c.Objects() {
		all = append(all, o.(metav1.Object).GetName()+"="+o.(metav1.Object).GetResourceVersion())
	}
	return strings.Join(all, " ")
}

// TestVolumeChanges makes changes to claims and volumes one after another.
func TestVolumeChanges(t *testing.T) {
	pv, pvc := build.PersistentVolume, build.PersistentVolumeClaim
	claim := model.ClaimKey{Namespace: "default", Name: "c"}
	c := storing(t, defaults(t), withClasses(node("n1", "1"), build.CSIDriver("d", "storageCapacity"),
		build.CSIStorageCapacity("pool", "class=dp capacity=10Gi maximum=8Gi", "everything"))...)
	steps := []struct {
		what string
		do   any // an object to set, or the reference of an object to delete
		wait time.Duration
		want string
	}{
		{"a claim without a volume", pvc("c", "class=still storage=2Gi"), 0, "c Pending"},
		{"a volume that is too small", pv("a", "class=still storage=1Gi"), 0, "a Available, c Pending"},
		{"one that fits", pv("b", "class=still storage=2Gi"), 0, "a Available, b Bound c, c Bound b"},
		{"the claim goes", claim.Ref(), 0, "a Available, b Released c"},
		{"another of its name finds nothing", pvc("c", "class=still storage=2Gi uid=c2"), 0, "a Available, b Released c, c Pending"},
		{"somebody makes the volume available again", pv("b", "class=still storage=2Gi phase=Released"), 0, "a Available, b Bound c, c Bound b"},
		{"the volume goes", model.VolumeRef("b"), 0, "a Available, c Lost b"},
		{"the claim goes, too", claim.Ref(), 0, "a Available"},
		{"and the other volume", model.VolumeRef("a"), 0, ""},
		{"a class that is not known", pvc("c", "class=late storage=2Gi"), time.Hour, "c Pending"},
		{"now it is", build.StorageClass("late", "mode=Immediate provisioner=d"), time.Second, "pvc-c Bound c, c Bound pvc-c"},
		{"deleted with its claim", claim.Ref(), 0, ""},
		{"drawn from a pool", pvc("c", "class=dp storage=6Gi node=n1"), time.Second, "pvc-c Bound c, c Bound @n1 pvc-c"},
		{"given back", claim.Ref(), 0, ""},
	}
	for _, s := range steps {
		switch o := s.do.(type) {
		case runtime.Object:
			if err := c.SetObject(o); err != nil {
				t.Fatal(err)
			}
		case model.Ref:
			if !c.DeleteObject(o) {
				t.Fatalf("%s: there is no %v", s.what, o)
			}
		}
		pass(t, c, s.wait)
		if got := storageOf(c); got != s.want {
			t.Fatalf("%s: %s; want %s", s.what, got, s.want)
		}
		want := "10Gi 8Gi"
		if s.what == "drawn from a pool" {
			want = "4Gi 4Gi"
		}
		pool := object[*storagev1.CSIStorageCapacity](t, c, "pool")
		if got := pool.Capacity.String() + " " + pool.MaximumVolumeSize.String(); got != want {
			t.Fatalf("%s: the pool has %s; want %s", s.what, got, want)
		}
	}
}

// object returns a stored object.
func object[T runtime.Object](t *testing.T, c *simulate.Cluster, name string) T {
	t.Helper()
	for _, o := range c.Objects() {
		if o, ok := o.(T); ok && any(o).(metav1.Object).GetName() == name {
			return o
		}
	}
	t.Fatalf("there is no %s", name)
	panic("unreachable")
}

// TestProvisionedVolume checks the fields of a provisioned volume, and that it can be
// used near its node.
func TestProvisionedVolume(t *testing.T) {
	zoned := build.Node("n1", build.NodeLabels("topology.kubernetes.io/zone=z1 rack=r7"))
	racked := build.CSINode("n1", "d=3")
	racked.Spec.Drivers[0].TopologyKeys = []string{"rack"}
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		claim   string
		reach   string
	}{
		{"in the zone", []runtime.Object{zoned}, "node=n1", "topology.kubernetes.io/zone [z1]"},
		{"on the node", []runtime.Object{build.Node("n1", build.NodeLabels("kubernetes.io/hostname=n1"))}, "node=n1", "kubernetes.io/hostname [n1]"},
		{"in the rack", []runtime.Object{zoned, racked}, "node=n1", "rack [r7]"},
		{"everywhere", []runtime.Object{zoned}, "class=now", ""},
	} {
		c := storing(t, defaults(t), withClasses(append(test.objects, build.PersistentVolumeClaim("c", "class=dp storage=5Gi modes=RWX mode=Block "+test.claim))...)...)
		pass(t, c, time.Second)
		pv, reach := object[*v1.PersistentVolume](t, c, "pvc-c"), ""
		if pv.Spec.NodeAffinity != nil {
			r := pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
			reach = fmt.Sprint(r.Key, " ", r.Values)
		}
		if reach != test.reach {
			t.Errorf("%s: it can be used in %q, want %q", test.name, reach, test.reach)
		}
		size := pv.Spec.Capacity[v1.ResourceStorage]
		if got := fmt.Sprint(size.String(), pv.Spec.AccessModes, *pv.Spec.VolumeMode, pv.Spec.CSI.Driver, pv.Spec.ClaimRef.UID); got != "5Gi[ReadWriteMany]Blockdc" {
			t.Errorf("%s: it is %s", test.name, got)
		}
	}
}

// TestProvisionFails fails the provisioner. A claim for a node is handed back to the
// scheduler; provisioning is retried for a claim that waits for no pod.
func TestProvisionFails(t *testing.T) {
	for _, row := range []struct{ claim, after, later string }{
		{"class=dp node=n1", "c Pending", "c Pending"},
		{"class=now", "c Pending", "pvc-c Bound c, c Bound pvc-c"},
	} {
		c := storing(t, defaults(t), withClasses(build.Node("n1"), build.PersistentVolumeClaim("c", "storage=5Gi "+row.claim))...)
		key := model.ClaimKey{Namespace: "default", Name: "c"}
		c.FailProvision(key, 1)
		c.DelayProvision(key, time.Minute)
		pass(t, c, time.Minute)
		if got := storageOf(c); !strings.HasPrefix(got, "c Pending") || c.Happened()["volume: provisioning failed"] != 0 {
			t.Errorf("%s: a minute has passed, and it is %s", row.claim, got)
		}
		pass(t, c, time.Second)
		if got := storageOf(c); got != row.after || c.Happened()["volume: provisioning failed"] != 1 {
			t.Errorf("%s: %s, want %s", row.claim, got, row.after)
		}
		pass(t, c, 2*time.Minute)
		if got := storageOf(c); got != row.later {
			t.Errorf("%s: later %s, want %s", row.claim, got, row.later)
		}
	}
}

// TestProvisionIsOvertaken changes a claim during its provisioning. The volume matches
// the final claim.
func TestProvisionIsOvertaken(t *testing.T) {
	pvc := build.PersistentVolumeClaim
	for _, row := range []struct {
		name   string
		change func(c *simulate.Cluster) error
		want   string
	}{
		{"deleted", func(c *simulate.Cluster) error {
			c.DeleteObject(model.Ref{Kind: model.PersistentVolumeClaimKind, Namespace: "default", Name: "c"})
			return nil
		}, ""},
		{"replaced", func(c *simulate.Cluster) error { return c.SetObject(pvc("c", "class=dp storage=1Gi uid=new")) }, "c Pending"},
		{"for another node", func(c *simulate.Cluster) error { return c.SetObject(pvc("c", "class=dp storage=1Gi node=n2")) }, "pvc-c Bound c, c Bound @n2 pvc-c"},
		{"node gone", func(c *simulate.Cluster) error { c.DeleteNode("n1"); return nil }, "c Pending @n1"},
	} {
		c := storing(t, defaults(t), withClasses(build.Node("n1"), build.Node("n2"), pvc("c", "class=dp storage=1Gi node=n1"))...)
		pass(t, c, 500*time.Millisecond)
		if err := row.change(c); err != nil {
			t.Fatal(err)
		}
		pass(t, c, time.Minute)
		if got := storageOf(c); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

// TestEphemeralClaims expects a claim for each ephemeral volume of a pod, with the
// default class, which is deleted with the pod.
func TestEphemeralClaims(t *testing.T) {
	standard := build.StorageClass("standard", "provisioner=d annotation=storageclass.kubernetes.io/is-default-class=true")
	c := storing(t, defaults(t), append(withClasses(), standard)...)
	with := func(p *v1.Pod) { build.Ephemeral("scratch cache")(p) }
	c.SetPod(pod("web", "1", 0, with))
	pass(t, c, 0)
	if got := storageOf(c); got != "web-cache Pending, web-scratch Pending" {
		t.Fatal(got)
	}
	claim := object[*v1.PersistentVolumeClaim](t, c, "web-scratch")
	if !metav1.IsControlledBy(claim, c.Pod(key("web"))) || claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName != "standard" {
		t.Errorf("its owners are %v, its class is %v", claim.OwnerReferences, claim.Spec.StorageClassName)
	}
	c.DeleteObject(model.Ref{Kind: model.PersistentVolumeClaimKind, Namespace: "default", Name: "web-cache"})
	pass(t, c, 0)
	if got := storageOf(c); got != "web-cache Pending, web-scratch Pending" {
		t.Errorf("a claim was deleted: %s", got)
	}
	c.SetPod(pod("web", "1", 0, with, func(p *v1.Pod) { p.UID = "another" }))
	pass(t, c, 0)
	if claim := object[*v1.PersistentVolumeClaim](t, c, "web-scratch"); claim.OwnerReferences[0].UID != "another" {
		t.Errorf("the pod was replaced, and its claim's owner is %s", claim.OwnerReferences[0].UID)
	}
	c.DeletePod(key("web"))
	pass(t, c, 0)
	if got := storageOf(c); got != "" {
		t.Errorf("the pod is gone: %s", got)
	}
	others := build.PersistentVolumeClaim("web-scratch", "class=np")
	if err := c.SetObject(others); err != nil {
		t.Fatal(err)
	}
	c.SetPod(pod("web", "1", 0, with))
	pass(t, c, 0)
	c.DeletePod(key("web"))
	pass(t, c, 0)
	if got := storageOf(c); got != "web-scratch Pending" {
		t.Errorf("a claim that is not the pod's: %s", got)
	}
}

// TestControllerIsLate delays the controller. The binding is seen half done, in the order
// of a real controller's writes.
func TestControllerIsLate(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(20) {
		config := defaults(t)
		config.Seed, config.Faults = seed, simulate.Faults{MaxControllerDelay: 2 * time.Second}
		c := storing(t, config, withClasses(build.PersistentVolumeClaim("c", "class=np storage=1Gi"), build.PersistentVolume("v", "class=np storage=1Gi claim=default/c"))...)
		for range 200 {
			seen[storageOf(c)] = true
			pass(t, c, 50*time.Millisecond)
		}
		if got := storageOf(c); got != "v Bound c, c Bound v" {
			t.Errorf("seed %d: %s", seed, got)
		}
	}
	for _, want := range []string{"v Available c?, c Pending", "v Available c, c Pending", "v Bound c, c Pending", "v Bound c, c Pending v half"} {
		if !seen[want] {
			t.Errorf("%q was never seen: %v", want, seen)
		}
	}
}
