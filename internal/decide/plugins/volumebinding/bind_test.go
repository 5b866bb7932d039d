package volumebinding

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

func timeout(seconds int64) configv1.VolumeBindingArgs {
	return configv1.VolumeBindingArgs{BindTimeoutSeconds: ptr.To(seconds)}
}

func TestPreBind(t *testing.T) {
	const refToC = `"spec":{"claimRef":{"kind":"PersistentVolumeClaim","namespace":"default","name":"c","uid":"c","apiVersion":"v1","resourceVersion":"7"}}`
	claim := func(name, text string) runtime.Object { return pvc(name, "class=dp storage=1Gi version=7 "+text) }
	for _, row := range []struct {
		name    string
		objects []runtime.Object
		claims  string
		want    []string // writes in order
		waits   string
	}{
		{"nothing to do", having(pvc("c", "bound=v"), pv("v", "phase=Bound")), "c", nil, ""},
		{"a volume", having(claim("c", ""), pv("v", "class=dp storage=1Gi version=3")), "c", []string{
			`persistentvolumes v {"metadata":{"uid":"v","resourceVersion":"3","annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},` + refToC + `}`,
		}, "v c n1"},
		{"a volume that is meant for the claim", having(claim("c", ""), pv("v", "class=dp storage=1Gi version=3 claim=default/c")), "c", []string{
			`persistentvolumes v {"metadata":{"uid":"v","resourceVersion":"3"},` + refToC + `}`,
		}, "v c n1"},
		{"a volume that is bound to the claim", having(claim("c", ""), pv("v", "class=dp storage=1Gi version=3 claim=default/c/c")), "c", []string{
			`persistentvolumes v {"metadata":{"uid":"v","resourceVersion":"3"}}`,
		}, "v c n1"},
		{"a claim to provision", having(claim("c", "")), "c", []string{
			`persistentvolumeclaims c {"metadata":{"uid":"c","resourceVersion":"7","annotations":{"volume.kubernetes.io/selected-node":"n1"}}}`,
		}, "c n1"},
		{"a claim that names the node already", having(claim("c", "node=n1")), "c", []string{
			`persistentvolumeclaims c {"metadata":{"uid":"c","resourceVersion":"7","annotations":{"volume.kubernetes.io/selected-node":"n1"}}}`,
		}, "c n1"},
		{"first volumes, then claims", having(claim("a", "storage=9Gi"), claim("c", ""), pv("v", "class=dp storage=1Gi version=3")), "a c", []string{
			`persistentvolumes v {"metadata":{"uid":"v","resourceVersion":"3","annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},` + refToC + `}`,
			`persistentvolumeclaims a {"metadata":{"uid":"a","resourceVersion":"7","annotations":{"volume.kubernetes.io/selected-node":"n1"}}}`,
		}, "v c a n1"},
		{"a claim that is named twice", having(claim("c", "")), "c c", []string{
			`persistentvolumeclaims c {"metadata":{"uid":"c","resourceVersion":"7","annotations":{"volume.kubernetes.io/selected-node":"n1"}}}`,
		}, "c c n1"},
		{"a claim that is named twice, with one volume", having(claim("c", ""), pv("v", "class=dp storage=1Gi version=3")), "c c", []string{
			`persistentvolumes v {"metadata":{"uid":"v","resourceVersion":"3","annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},` + refToC + `}`,
			`persistentvolumeclaims c {"metadata":{"uid":"c","resourceVersion":"7","annotations":{"volume.kubernetes.io/selected-node":"n1"}}}`,
		}, "v c c n1"},
	} {
		w := newWorld(t, timeout(60), row.objects...)
		placement, err := w.reserve(pod(naming(row.claims)), "n1")
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		steps, err := w.plugin.PreBind(w.View(), placement)
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		var writes []string
		for i, s := range steps {
			switch {
			case s.Write != nil && s.Wait == nil && s.Undo == nil:
				writes = append(writes, fmt.Sprintf("%s %s %s", s.Write.Resource.Resource, s.Write.Name, s.Write.Data))
			case i != len(steps)-1 || s.Wait == nil:
				t.Errorf("%s: step %d is %+v", row.name, i, s)
			}
		}
		if got, want := strings.Join(writes, "\n"), strings.Join(row.want, "\n"); got != want {
			t.Errorf("%s:\n%s, want\n%s", row.name, got, want)
		}
		if row.want == nil {
			continue
		}
		wait := steps[len(steps)-1].Wait
		var refs []string
		for _, ref := range wait.For {
			refs = append(refs, ref.Name)
		}
		if got := strings.Join(refs, " "); got != row.waits || wait.Timeout != time.Minute || wait.Err.Error() != "binding volumes: context deadline exceeded" {
			t.Errorf("%s: waits for %s up to %v, then fails with %v; want %s", row.name, got, wait.Timeout, wait.Err, row.waits)
		}
	}
}

// With timeout 0 the wait ends at once. A wait without a timeout would never end.
func TestNoPatience(t *testing.T) {
	w := newWorld(t, timeout(0), pvc("c", "class=dp"))
	placement, err := w.reserve(pod(naming("c")), "n1")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := w.plugin.PreBind(w.View(), placement)
	if err != nil || steps[1].Wait.Timeout != 1 {
		t.Errorf("the wait takes up to %v: %v", steps[1].Wait.Timeout, err)
	}
}

// A pod without holds although its claim must be bound is not bound, for example if the
// plugin is disabled at Reserve.
func TestUnreserved(t *testing.T) {
	w := newWorld(t, timeout(60), pvc("c", "class=np storage=1Gi"), pv("v", "class=np storage=1Gi"), pvc("b", "bound=w"), pv("w", "phase=Bound"))
	for names, fails := range map[string]bool{"c": true, "b": false, "b c": true} {
		placement := &plan.Placement{Pod: pod(naming(names)), NodeName: "n1"}
		if steps, err := w.plugin.PreBind(w.View(), placement); len(steps) > 0 || (err != nil) != fails {
			t.Errorf("%s: %d steps, %v", names, len(steps), err)
		}
	}
}

func TestDone(t *testing.T) {
	static := having(pvc("c", "class=np storage=1Gi version=7"), pv("v", "class=np storage=1Gi version=3"))
	dynamic := having(pvc("c", "class=dp storage=1Gi version=7"))
	pinned := having(pvc("c", "class=dp storage=1Gi version=7 node=n1"))
	written := pv("v", "class=np storage=1Gi version=4 claim=default/c/c")
	selected := pvc("c", "class=dp storage=1Gi version=8 node=n1")
	bound := func(name, more string) *v1.PersistentVolumeClaim { return pvc(name, "bound=v version=9 "+more) }
	gce := build.CSINode("n1", "", "kubernetes.io/gce-pd")
	none := func(*world) {}
	see := func(objects ...runtime.Object) func(*world) { return func(w *world) { w.set(objects...) } }
	for _, row := range []struct {
		name    string
		objects []runtime.Object
		then    func(*world)
		want    string
	}{
		{"static, before the write", static, none, "waits"},
		{"static, the write is seen", static, see(written), "waits"},
		{"static, the claim is bound before the write is seen", static, see(bound("c", "")), "waits"},
		{"static, bound", static, see(written, bound("c", "")), "done"},
		{"static, bound to another volume", static, see(written, pv("w", "class=np storage=9Gi claim=default/c/c"), pvc("c", "bound=w version=9")),
			`persistentvolumeclaim "default/c" is bound to persistentvolume "w", and not to "v"`},
		{"static, the binding is not complete", static, see(written, pvc("c", "volume=v version=9")), "waits"},
		{"static, no node", static, func(w *world) { w.Apply([]model.Change{{Kind: model.NodeGone, Name: "n1"}}) }, `failed to get node "n1": node "n1" not found`},
		{"static, no volume", static, func(w *world) { w.remove(model.PersistentVolumeKind, "", "v") }, `failed to check binding: persistentvolumes "v" not found`},
		{"static, no claim", static, func(w *world) { w.remove(model.PersistentVolumeClaimKind, "default", "c") },
			`failed to check binding: persistentvolumeclaims "default/c" not found`},
		{"static, elsewhere", static, see(pv("v", "version=4 claim=default/c/c", on("n2"))),
			`pv "v" node affinity doesn't match node "n1": no matching NodeSelectorTerms`},
		{"static, elsewhere and bound", static, see(pv("v", "version=4 claim=default/c/c", on("n2")), bound("c", "")),
			`pv "v" node affinity doesn't match node "n1": no matching NodeSelectorTerms`},
		{"static, reset", static, see(pv("v", "version=5")), `ClaimRef got reset for pv "v"`},
		{"static, without UID", static, see(pv("v", "version=5 claim=default/c")), `ClaimRef got reset for pv "v"`},
		{"static, was bound to the claim before", having(pvc("c", "class=np storage=1Gi"), pv("v", "class=np storage=1Gi claim=default/c/c")), see(bound("c", "")), "done"},
		{"static, in-tree", static, see(pv("v", "version=4 claim=default/c/c pd=disk", from(zone+" In z1")), bound("c", "")), "done"},
		{"static, in-tree and migrated", static, see(gce, pv("v", "version=4 claim=default/c/c pd=disk", from(zone+" In z1")), bound("c", "")),
			`pv "v" node affinity doesn't match node "n1": no matching NodeSelectorTerms`},
		{"static, in-tree and cannot be migrated", static, see(build.CSINode("n1", "", "kubernetes.io/aws-ebs"), pv("v", "version=4 claim=default/c/c ebs=aws://z/disk")),
			"failed to translate pv to csi: failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z/disk)"},
		{"provisioned, before the write", dynamic, none, "waits"},
		{"provisioned, the node was selected before", pinned, none, "waits"},
		{"provisioned, the write is seen", dynamic, see(selected), "waits"},
		{"provisioned, no claim", dynamic, func(w *world) { w.remove(model.PersistentVolumeClaimKind, "default", "c") },
			`failed to check provisioning pvc: persistentvolumeclaims "default/c" not found`},
		{"provisioned, no annotations", dynamic, see(pvc("c", "class=dp version=8")), `selectedNode annotation reset for PVC "c"`},
		{"provisioned, handed back", dynamic, see(pvc("c", "class=dp version=8 annotation=a=b")), `provisioning failed for PVC "c"`},
		{"provisioned, for another node", dynamic, see(pvc("c", "class=dp version=8 node=n2")), `provisioning failed for PVC "c"`},
		{"provisioned, the volume is not seen", dynamic, see(bound("c", "node=n1")), "waits"},
		{"provisioned, the volume is elsewhere", dynamic, see(pv("v", "", on("n2")), pvc("c", "volume=v version=9 node=n1")),
			`pv "v" node affinity doesn't match node "n1": no matching NodeSelectorTerms`},
		{"provisioned, the binding is not complete", dynamic, see(pv("v", "", on("n1")), pvc("c", "volume=v version=9 node=n1")), "waits"},
		{"provisioned, bound", dynamic, see(pv("v", "", on("n1")), bound("c", "node=n1")), "done"},
		{"provisioned, in-tree and migrated", dynamic, see(gce, pv("v", "pd=disk", from(zone+" In z1")), bound("c", "node=n1")),
			`pv "v" node affinity doesn't match node "n1": no matching NodeSelectorTerms`},
	} {
		w := newWorld(t, timeout(60), row.objects...)
		placement := w.assume(t, pod(naming("c")), "n1")
		row.then(w)
		got := "waits"
		done, err := w.plugin.Done(w.View(), placement)
		switch {
		case err != nil && done:
			t.Errorf("%s: done and %v", row.name, err)
		case err != nil:
			got = strings.TrimPrefix(err.Error(), "binding volumes: ")
			if got == err.Error() {
				t.Errorf("%s: %v", row.name, err)
			}
		case done:
			got = "done"
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

// If a pod has two claims, both must be bound, in either order.
func TestDoneWhenAllAreBound(t *testing.T) {
	w := newWorld(t, timeout(60), pvc("c", "class=np storage=1Gi"), pv("v", "class=np storage=1Gi", on("n1")), pvc("d", "class=dp storage=1Gi"))
	placement := w.assume(t, pod(naming("d c")), "n1")
	if got := held(placement); got != "c=v d@n1" {
		t.Fatalf("held: %s", got)
	}
	w.set(pv("v", "version=2 claim=default/c/c"), pvc("c", "bound=v version=2"))
	if done, err := w.plugin.Done(w.View(), placement); done || err != nil {
		t.Errorf("one of two: %t, %v", done, err)
	}
	w.set(pv("w", ""), pvc("d", "bound=w node=n1 version=2"))
	if done, err := w.plugin.Done(w.View(), placement); !done || err != nil {
		t.Errorf("both: %t, %v", done, err)
	}
}

// An assumed pod changes the view of others, until a newer version of the object arrives
// or the assumption is reverted.
func TestAssumed(t *testing.T) {
	q := func(names string) *model.Pod { return pod(build.Named("q"), naming(names)) }
	type step func(w *world, t *testing.T)
	assumed := func(names, node string) step {
		return func(w *world, t *testing.T) { w.assume(t, pod(naming(names)), node) }
	}
	shared := having(pvc("c", "class=dp storage=1Gi"))
	one := having(pvc("c", "class=np storage=1Gi version=7"), pvc("d", "class=np storage=1Gi"), pv("v", "class=np storage=10Gi version=3"))
	for _, row := range []struct {
		name    string
		objects []runtime.Object
		then    []step
		claims  string
		want    string
		n2      string // the other pod's holds there
	}{
		{"V17", shared, []step{assumed("c", "n1")}, "c", "fits conflict", "rejected"},
		{"V17, on the other node", shared, []step{assumed("c", "n2")}, "c", "conflict fits", "c@n2"},
		{"V17, a newer claim", shared, []step{assumed("c", "n1"), seeing(pvc("c", "class=dp storage=1Gi version=2"))}, "c", "fits fits", "c@n2"},
		{"V17, the claim as it was written", shared, []step{assumed("c", "n1"), seeing(pvc("c", "class=dp storage=1Gi version=2 node=n1"))}, "c", "fits conflict", "rejected"},
		{"V17, handed back and reserved again", shared, []step{assumed("c", "n1"), seeing(pvc("c", "class=dp storage=1Gi version=2")),
			func(w *world, t *testing.T) { w.assume(t, pod(build.Named("r"), naming("c")), "n2") }}, "c", "conflict fits", "c@n2"},
		{"V18", one, []step{assumed("c", "n1")}, "d", "conflict conflict", "rejected"},
		{"V18, the claim's own volume", one, []step{assumed("c", "n1")}, "c", "fits fits", "c=v"},
		{"V18, a newer volume", one, []step{assumed("c", "n1"), seeing(pv("v", "class=np storage=10Gi version=4"))}, "d", "fits fits", "d=v"},
		{"V18, the volume as it was written", one, []step{assumed("c", "n1"), seeing(pv("v", "class=np storage=10Gi version=4 claim=default/c/c"))}, "d", "conflict conflict", "rejected"},
		{"V18, the claim of a promise is another", one, []step{assumed("c", "n1"), seeing(pvc("c", "class=np storage=1Gi version=8 uid=other"))}, "c", "conflict conflict", "rejected"},
		{"V18, a volume that was meant for it is another's", having(one[0], one[1], pv("v", "class=np storage=10Gi version=3 claim=default/c")),
			[]step{assumed("c", "n1"), seeing(pvc("c", "class=np storage=1Gi version=8 uid=other"))}, "c", "conflict conflict", "rejected"},
		{"V18, a newer volume is larger than another", one, []step{assumed("c", "n1"), seeing(pv("v", "class=np storage=10Gi version=4"), pv("w", "class=np storage=2Gi"))}, "c", "fits fits", "c=w"},
		{"V18, the volume is gone", one, []step{assumed("c", "n1"), func(w *world, _ *testing.T) { w.remove(model.PersistentVolumeKind, "", "v") }}, "c", "conflict conflict", "rejected"},
		{"V18, taken back", one, []step{func(w *world, t *testing.T) { w.Unassume(*w.assume(t, pod(naming("c")), "n1")) }}, "d", "fits fits", "d=v"},
		{"V18, a claim is deleted", one, []step{assumed("c", "n1"), func(w *world, _ *testing.T) { w.remove(model.PersistentVolumeClaimKind, "default", "c") }},
			"d", "conflict conflict", "rejected"},
		{"V18, the pod is deleted", one, []step{assumed("c", "n1"), func(w *world, _ *testing.T) {
			w.Apply([]model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: metav1.NamespaceDefault, Name: "p"}}})
		}}, "d", "fits fits", "d=v"},
		{"a holder of an old version is in nobody's way", one, []step{assumed("c", "n1"), seeing(pv("v", "class=np storage=10Gi version=4")),
			func(w *world, t *testing.T) { w.Unassume(*w.assume(t, pod(build.Named("r"), naming("d")), "n1")) }}, "d", "fits fits", "d=v"},
	} {
		w := newWorld(t, timeout(60), row.objects...)
		for _, step := range row.then {
			step(w, t)
		}
		if got := w.ruling(q(row.claims)); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
		if got := w.reserved(q(row.claims), "n2"); got != row.n2 {
			t.Errorf("%s: Reserve holds %s, want %s", row.name, got, row.n2)
		}
		if err := w.Audit(); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// TestRefused reserves for infeasible nodes: nothing is held, and the error has the
// reason.
func TestRefused(t *testing.T) {
	w := newWorld(t, timeout(60), pvc("c", "class=np storage=1Gi"), pvc("d", "class=np storage=1Gi"), pv("v", "class=np storage=1Gi", on("n1")))
	for _, row := range []struct{ claims, node, want string }{
		{"c", "n2", "the pod's claims cannot be bound on node n2 any more"},
		{"c d", "n1", "the pod's claims cannot be bound on node n1 any more"},
		{"c x", "n1", `persistentvolumeclaim "x" not found`},
	} {
		if placement, err := w.reserve(pod(naming(row.claims)), row.node); placement != nil || err == nil || err.Error() != row.want {
			t.Errorf("%s on %s: %v, %v, want %s", row.claims, row.node, placement, err, row.want)
		}
	}
	for what, p := range map[string]*model.Pod{"no volumes": pod(), "a volume without a claim": pod(build.Disks("pd=disk"))} {
		placement, err := w.reserve(p, "n1")
		if err != nil || len(placement.Holds) > 0 {
			t.Fatalf("%s: %+v, %v", what, placement, err)
		}
		if steps, err := w.plugin.PreBind(w.View(), placement); len(steps) > 0 || err != nil {
			t.Errorf("%s: %d steps, %v", what, len(steps), err)
		}
	}
	unreserved := &plan.Placement{Pod: pod(naming("c")), NodeName: "n1"}
	const want = "no volumes are reserved for the pod's claims: VolumeBinding must be enabled at Reserve"
	if _, err := w.plugin.PreBind(w.View(), unreserved); err == nil || err.Error() != want {
		t.Errorf("unreserved: %v, want %s", err, want)
	}
	// In a draft the store does not have the promise.
	placement, err := w.reserve(pod(naming("c")), "n1")
	if err != nil {
		t.Fatal(err)
	}
	slot, _ := w.Slot("n1")
	draft := w.View().Draft()
	draft.Add(placement.Pod, slot, placement.Holds...)
	holds, err := w.plugin.Reserve(draft.View(), pod(build.Named("q"), naming("d")), slot)
	if len(holds) > 0 || err == nil || err.Error() != `persistentvolume "v" is promised to another claim` {
		t.Errorf("in a draft: %+v, %v", holds, err)
	}
}

func seeing(objects ...runtime.Object) func(*world, *testing.T) {
	return func(w *world, _ *testing.T) { w.set(objects...) }
}
