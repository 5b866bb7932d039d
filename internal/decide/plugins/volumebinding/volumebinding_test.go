package volumebinding

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

const zone = "topology.kubernetes.io/zone"

// world is a real state with the nodes n1 in zone z1 and n2 in zone z2.
type world struct {
	*state.State
	plugin *Plugin
}

func newWorld(t testing.TB, args configv1.VolumeBindingArgs, objects ...runtime.Object) *world {
	t.Helper()
	if args.Shape == nil {
		args.Shape = []configv1.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}
	}
	p, err := New(&args)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{state.New(), p}
	for _, n := range build.NodesInZones("n1=z1 n2=z2") {
		w.set(n)
	}
	w.set(class("np", ""), class("dp", "provisioner=d"), class("now", "provisioner=d mode=Immediate"))
	w.set(objects...)
	return w
}

// set applies versions of objects to the state.
func (w *world) set(objects ...runtime.Object) {
	var changes []model.Change
	for _, o := range objects {
		changes = append(changes, kinds.Of(o).Change(o.(kinds.Object)))
	}
	w.Apply(changes)
}

// remove applies the deletion of an object.
func (w *world) remove(kind model.Kind, namespace, name string) {
	w.Apply([]model.Change{kinds.Get(kind).Gone(model.Ref{Kind: kind, Namespace: namespace, Name: name})})
}

func pod(options ...build.PodOption) *model.Pod { return model.NewPod(build.Pod(options...)) }

// ruling returns the plugin's result for a pod: "fits conflict" for n1 and n2, or the
// result of PreFilter or Filter for all nodes.
func (w *world) ruling(pod *model.Pod) string {
	found, err := w.plugin.FilterNeedIn(w.View(), pod)
	need, rejection := found.Need, found.Rejection
	switch {
	case err != nil:
		return "error: " + err.Error()
	case rejection != "":
		return "pod: " + rejection
	case need == nil:
		return "fits fits"
	}
	verdicts := need.Compile()
	var all []string
	for _, name := range []string{"n1", "n2"} {
		slot, _ := w.Slot(name)
		code := verdicts.Filter(w.Node(slot))
		if code.IsFailed() {
			return "error: " + verdicts.Failures.Err(w.View(), pod, code).Error()
		}
		if code != reason.None && !code.IsUnresolvable() {
			return "resolvable"
		}
		var texts []string
		for _, text := range verdicts.Reasons(code) {
			texts = append(texts, short[text])
		}
		if code == reason.None {
			texts = []string{"fits"}
		}
		all = append(all, strings.Join(texts, "+"))
	}
	return strings.Join(all, " ")
}

var short = map[string]string{
	"node(s) didn't match PersistentVolume's node affinity":                     "elsewhere",
	"node(s) didn't find available persistent volumes to bind":                  "conflict",
	"node(s) did not have enough free storage":                                  "storage",
	"node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)": "vanished",
}

// scores returns the scores of n1 and n2, or "skip".
func (w *world) scores(t *testing.T, pod *model.Pod) string {
	t.Helper()
	need, err := w.plugin.ScoreNeedIn(w.View(), pod)
	if err != nil {
		t.Fatal(err)
	}
	if need == nil {
		return "skip"
	}
	scores, err := need.Compile()
	if err != nil {
		t.Fatal(err)
	}
	n1, _ := w.Slot("n1")
	n2, _ := w.Slot("n2")
	return fmt.Sprint(scores.Score(w.Node(n1)), " ", scores.Score(w.Node(n2)))
}

// reserve returns the pod's holds on a node.
func (w *world) reserve(pod *model.Pod, node string) (*plan.Placement, error) {
	slot, _ := w.Slot(node)
	holds, err := w.plugin.Reserve(w.View(), pod, slot)
	if err != nil {
		return nil, err
	}
	return &plan.Placement{Pod: pod, NodeName: node, Holds: holds}, nil
}

// assume reserves, and assumes the placement.
func (w *world) assume(t *testing.T, pod *model.Pod, node string) *plan.Placement {
	t.Helper()
	placement, err := w.reserve(pod, node)
	if err != nil {
		t.Fatal(err)
	}
	w.Assume(*placement)
	return placement
}

// held writes holds as "claim=volume" and "claim@node".
func held(placement *plan.Placement) string {
	var all []string
	for _, h := range placement.Holds {
		switch value := h.Value.(type) {
		case heldClaim:
			if value.volume != "" {
				all = append(all, h.Object.Name+"="+value.volume)
			} else {
				all = append(all, h.Object.Name+"@"+value.node)
			}
		case heldVolume:
			if !slices.ContainsFunc(placement.Holds, func(o plan.Hold) bool {
				claim, ok := o.Value.(heldClaim)
				return ok && o.Object == value.claim.Ref() && claim.volume == h.Object.Name
			}) {
				all = append(all, h.Object.Name+" without its claim")
			}
		}
	}
	return strings.Join(all, " ")
}

func (w *world) reserved(pod *model.Pod, node string) string {
	placement, err := w.reserve(pod, node)
	if err != nil {
		return "rejected"
	}
	return held(placement)
}

var (
	class  = build.StorageClass
	pv     = build.PersistentVolume
	pvc    = build.PersistentVolumeClaim
	pool   = build.CSIStorageCapacity
	naming = build.Claims
	from   = build.VolumeAffinity
)

func on(node string) build.VolumeOption { return from(v1.LabelHostname + " In " + node) }

func having(objects ...runtime.Object) []runtime.Object { return objects }

func TestPreFilter(t *testing.T) {
	const immediate = "pod: pod has unbound immediate PersistentVolumeClaims"
	for _, row := range []struct {
		name  string
		claim runtime.Object
		pod   build.PodOption
		want  string
	}{
		{"no claims", pvc("c", ""), naming(""), "fits fits"},
		{"V1", pvc("c", "class=now"), naming("c"), immediate},
		{"V2", pvc("c", "class=np volume=v"), naming("c"), immediate},
		{"no class", pvc("c", ""), naming("c"), immediate},
		{"no such class", pvc("c", "class=gone"), naming("c"), immediate},
		{"the annotation's class counts", pvc("c", "class=np annotation=volume.beta.kubernetes.io/storage-class="), naming("c"), immediate},
		{"a class without mode", pvc("c", "class=vague"), naming("c"), `error: VolumeBindingMode not set for StorageClass "vague"`},
		{"lost", pvc("c", "class=np volume=v phase=Lost"), naming("c"), `pod: persistentvolumeclaim "c" bound to non-existent persistentvolume "v"`},
		{"being deleted", pvc("c", "class=np deleting"), naming("c"), `pod: persistentvolumeclaim "c" is being deleted`},
		{"not there", pvc("c", ""), naming("d"), `pod: persistentvolumeclaim "d" not found`},
		{"in another namespace", pvc("c", "namespace=ns"), naming("c"), `pod: persistentvolumeclaim "c" not found`},
		{"not there yet", pvc("c", ""), build.Ephemeral("s"), `pod: waiting for ephemeral volume controller to create the persistentvolumeclaim "p-s"`},
		{"not the pod's", pvc("p-s", "class=np owner=q"), build.Ephemeral("s"), "pod: PVC default/p-s was not created for pod default/p (pod is not owner)"},
		{"nobody's", pvc("p-s", "class=np"), build.Ephemeral("s"), "pod: PVC default/p-s was not created for pod default/p (pod is not owner)"},
		{"the pod's own", pvc("p-s", "class=np owner=p"), build.Ephemeral("s"), "fits fits"},
		{"V4", pvc("c", "bound=gone"), naming("c"), "vanished vanished"},
	} {
		w := newWorld(t, configv1.VolumeBindingArgs{}, class("vague", "mode="), pv("v", "class=np storage=1Gi"), row.claim)
		if got := w.ruling(pod(row.pod)); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
	w := newWorld(t, configv1.VolumeBindingArgs{}, pvc("a", "class=now"), pvc("b", "phase=Lost"))
	if got, want := w.ruling(pod(naming("a b"))), `pod: persistentvolumeclaim "b" bound to non-existent persistentvolume ""`; got != want {
		t.Errorf("what is wrong with a claim counts before what it waits for: %s, want %s", got, want)
	}
}

func TestFilter(t *testing.T) {
	z1, z2 := from(zone+" In z1"), from(zone+" In z2")
	full := having(build.CSIDriver("d", "storageCapacity"), pool("a", "class=dp capacity=100Gi maximum=40Gi", zone+"=z1"))
	roomy := having(build.CSIDriver("d", "storageCapacity"), pool("a", "class=dp capacity=100Gi", zone+"=z1"))
	c5, c50 := pvc("c", "class=np storage=5Gi"), pvc("c", "class=dp storage=50Gi")
	inTree := pv("v", "phase=Bound pd=disk", z1)
	share := func(name string) runtime.Object {
		return pvc(name, "class=np storage=5Gi", build.ClaimSelector("share=x"))
	}
	for _, row := range []struct {
		name    string
		objects []runtime.Object
		claims  string
		want    string
		n1      string // Reserve's holds there
	}{
		{"V3", having(pvc("c", "bound=v"), pv("v", "phase=Bound", z1)), "c", "fits elsewhere", ""},
		{"bound, everywhere", having(pvc("c", "bound=v"), pv("v", "phase=Bound")), "c", "fits fits", ""},
		{"bound, two problems", having(pvc("b", "bound=gone"), pvc("c", "bound=v"), pv("v", "phase=Bound", z2)), "c b", "elsewhere vanished", ""},
		{"bound, the first problem ends it", having(pvc("b", "bound=gone"), pvc("c", "bound=v"), pv("v", "phase=Bound", z2)), "b c", "vanished vanished", ""},
		{"in-tree", having(pvc("c", "bound=v"), inTree), "c", "fits elsewhere", ""},
		{"in-tree, migrated", having(pvc("c", "bound=v"), inTree, build.CSINode("n1", "", "kubernetes.io/gce-pd"), build.CSINode("n2", "")), "c", "elsewhere elsewhere", ""},
		{"in-tree, cannot be migrated", having(pvc("c", "bound=v"), pv("v", "phase=Bound ebs=aws://z/disk"), build.CSINode("n2", "", "kubernetes.io/aws-ebs")), "c",
			"error: could not translate pv: failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z/disk)", ""},
		{"V5", having(c5, pv("a", "class=np storage=10Gi", on("n1")), pv("b", "class=np storage=8Gi", on("n1")), pv("c", "class=np storage=6Gi phase=Released", on("n1"))),
			"c", "fits conflict", "c=b"},
		{"V6", having(pvc("c20", "class=dp storage=20Gi"), pvc("c5", "class=dp storage=5Gi"), pv("v", "class=dp storage=20Gi", on("n1"))), "c20 c5", "fits fits", "c5=v c20@n1"},
		{"V7 np", having(c5, pv("a", "class=np storage=9Gi claim=default/c", on("n1")), pv("b", "class=np storage=5Gi", on("n2"))), "c", "fits conflict", "c=a"},
		{"V7 dp", having(pvc("c", "class=dp storage=5Gi"), pv("a", "class=dp storage=9Gi claim=default/c", on("n1")), pv("b", "class=dp storage=10Gi", on("n2"))), "c", "fits fits", "c=a"},
		{"V8", having(pvc("c", "class=dp node=n1"), pv("v", "class=dp storage=1Gi", on("n1"))), "c", "fits conflict", "c@n1"},
		{"V8 no provisioner", having(pvc("c", "class=np node=n1"), pv("v", "class=np storage=1Gi", on("n1"))), "c", "conflict conflict", "rejected"},
		{"V9", having(pvc("c", "class=in"), class("in", "provisioner=d", build.AllowedTopologies(zone+"=z1"))), "c", "fits conflict", "c@n1"},
		{"V10", append(slices.Clone(full), c50), "c", "storage storage", "rejected"},
		{"V10 two claims", append(slices.Clone(roomy), pvc("c", "class=dp storage=60Gi"), pvc("d", "class=dp storage=60Gi")), "c d", "storage storage", "rejected"},
		{"V10 two claims that fit", append(slices.Clone(roomy), pvc("c", "class=dp storage=60Gi"), pvc("d", "class=dp storage=40Gi")), "c d", "fits storage", "d@n1 c@n1"},
		{"V10 two claims, one is of the node already", append(slices.Clone(roomy), pvc("c", "class=dp storage=60Gi node=n1"), pvc("d", "class=dp storage=60Gi")), "c d", "storage conflict", "rejected"},
		{"V10 two claims, a volume for one", append(slices.Clone(roomy), pvc("c", "class=dp storage=60Gi"), pvc("d", "class=dp storage=60Gi"), pv("v", "class=dp storage=60Gi", on("n1"))), "c d", "fits storage", "c=v d@n1"},
		{"V10 two capacities", append(slices.Clone(roomy), pool("b", "class=dp capacity=60Gi", zone+"=z1"), pvc("c", "class=dp storage=60Gi"), pvc("d", "class=dp storage=60Gi")), "c d", "fits storage", "c@n1 d@n1"},
		{"V10 two classes", append(slices.Clone(roomy), class("other", "provisioner=d"), pool("b", "class=other capacity=60Gi", zone+"=z1"), pvc("c", "class=dp storage=60Gi"), pvc("d", "class=other storage=60Gi")), "c d", "fits storage", "c@n1 d@n1"},
		{"V10 larger than what is left", having(build.CSIDriver("d", "storageCapacity"), pool("a", "class=dp capacity=30Gi maximum=60Gi", zone+"=z1"), c50), "c", "storage storage", "rejected"},
		{"V10 only a maximum", having(build.CSIDriver("d", "storageCapacity"), pool("a", "class=dp maximum=60Gi", zone+"=z1"), c50, pvc("d", "class=dp storage=60Gi")), "c d", "fits storage", "c@n1 d@n1"},
		{"V10 beyond 64 bits", append(slices.Clone(roomy), pool("b", "class=dp capacity=7E", zone+"=z1"), pvc("c", "class=dp storage=7E"), pvc("d", "class=dp storage=7E")), "c d", "storage storage", "rejected"},
		{"V10 small enough", append(slices.Clone(full), pvc("c", "class=dp storage=40Gi")), "c", "fits storage", "c@n1"},
		{"V10 without request", append(slices.Clone(full), pvc("c", "class=dp")), "c", "fits fits", "c@n1"},
		{"V10 without driver", append(slices.Clone(full[1:]), c50), "c", "fits fits", "c@n1"},
		{"V10 a claim twice", append(slices.Clone(roomy), pvc("x", "class=dp storage=60Gi")), "x x", "fits storage", "x@n1 x@n1"},
		{"a claim twice", having(c5, pv("a", "class=np storage=5Gi", on("n1"))), "c c", "conflict conflict", "rejected"},
		{"a claim twice, two volumes", having(c5, pv("a", "class=np storage=5Gi", on("n1")), pv("b", "class=np storage=5Gi", on("n1"))), "c c", "fits conflict", "c=a c=b"},
		{"a claim twice, one volume and one provisioned", having(pvc("c", "class=dp storage=5Gi"), pv("a", "class=dp storage=5Gi", on("n1"))), "c c", "fits fits", "c=a c@n1"},
		{"a claim twice, provisioned", having(pvc("c", "class=dp storage=5Gi")), "c c", "fits fits", "c@n1 c@n1"},
		{"both reasons", having(c5, pvc("b", "bound=w"), pv("w", "phase=Bound", on("n2"))), "b c", "elsewhere+conflict conflict", "rejected"},
		{"the reason for provisioning replaces that for matching", append(slices.Clone(full), c5, pvc("b", "class=dp storage=50Gi")), "b c", "conflict conflict", "rejected"},
		{"a bad selector", having(pvc("c", "class=np", build.ClaimSelector("disk In"))), "c",
			"error: error creating internal label selector for claim: default/c: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty", "rejected"},
		{"modes of access", having(c5, pv("a", "class=np storage=5Gi modes=ROX", on("n1")), pv("b", "class=np storage=6Gi modes=ROX,RWO", on("n1"))), "c", "fits conflict", "c=b"},
		{"another mode", having(c5, pv("a", "class=np storage=5Gi mode=Block", on("n1")), pv("b", "class=np storage=6Gi mode=Filesystem", on("n1"))), "c", "fits conflict", "c=b"},
		{"mode Block", having(pvc("c", "class=np storage=5Gi mode=Block"), pv("a", "class=np storage=5Gi", on("n1")), pv("b", "class=np storage=6Gi mode=Block", on("n1"))),
			"c", "fits conflict", "c=b"},
		{"another class of attributes", having(c5, pv("a", "class=np storage=5Gi attributes=gold", on("n1")), pv("b", "class=np storage=6Gi attributes=", on("n1"))),
			"c", "fits conflict", "c=b"},
		{"a class of attributes", having(pvc("c", "class=np storage=5Gi attributes=gold"), pv("a", "class=np storage=5Gi", on("n1")), pv("b", "class=np storage=6Gi attributes=gold", on("n1"))),
			"c", "fits conflict", "c=b"},
		{"meant for it, and too small", having(c5, pv("a", "class=np storage=4Gi claim=default/c", on("n1")), pv("b", "class=np storage=6Gi", on("n1"))), "c", "fits conflict", "c=b"},
		{"meant for it, and of another mode", having(c5, pv("a", "class=np storage=5Gi mode=Block claim=default/c", on("n1"))), "c", "conflict conflict", "rejected"},
		{"meant for it, and of another class", having(c5, class("other", ""), pv("a", "class=other storage=5Gi claim=default/c", on("n1"))), "c", "conflict conflict", "rejected"},
		{"meant for it, and being deleted", having(c5, pv("a", "class=np storage=5Gi claim=default/c deleting", on("n1"))), "c", "conflict conflict", "rejected"},
		{"meant for it, whatever its modes of access", having(c5, pv("a", "class=np storage=5Gi modes=ROX claim=default/c", on("n1"))), "c", "fits conflict", "c=a"},
		{"two are meant for it: the smallest decides", having(c5, pv("a", "class=np storage=9Gi claim=default/c", on("n1")), pv("b", "class=np storage=5Gi claim=default/c", on("n2"))),
			"c", "conflict fits", "rejected"},
		{"two of one size are meant for it: the first by name decides",
			having(c5, pv("b", "class=np storage=5Gi claim=default/c", on("n2")), pv("a", "class=np storage=5Gi claim=default/c", on("n1"))), "c", "fits conflict", "c=a"},
		{"a selector, on few nodes", having(share("c"), pv("a", "class=np storage=5Gi", on("n1")), pv("b", "class=np storage=6Gi label=share=x", on("n1"))), "c", "fits conflict", "c=b"},
		{"a selector, on every node", having(share("c"), pv("a", "class=np storage=5Gi"), pv("b", "class=np storage=6Gi label=share=x")), "c", "fits fits", "c=b"},
		{"selectors of two claims", having(share("c"), share("d"), pv("a", "class=np storage=5Gi label=share=x"), pv("b", "class=np storage=6Gi label=share=x")),
			"c d", "fits fits", "c=a d=b"},
		{"selectors of two claims, one volume", having(share("c"), share("d"), pv("a", "class=np storage=5Gi label=share=x"), pv("b", "class=np storage=6Gi")),
			"c d", "conflict conflict", "rejected"},
		{"selectors, in two groups", having(share("c"), share("d"), pv("a", "class=np storage=7Gi label=share=x"), pv("b", "class=np storage=6Gi label=share=x modes=RWO,RWX")),
			"c d", "fits fits", "c=b d=a"},
		{"meant for an earlier claim", having(c5, pv("a", "class=np storage=5Gi claim=default/c/old", on("n1"))), "c", "conflict conflict", "rejected"},
	} {
		w := newWorld(t, configv1.VolumeBindingArgs{}, row.objects...)
		p := pod(naming(row.claims))
		if got := w.ruling(p); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
		if got := w.reserved(p, "n1"); got != row.n1 {
			t.Errorf("%s: Reserve holds %s, want %s", row.name, got, row.n1)
		}
	}
}

func TestScore(t *testing.T) {
	dynamic := having(build.CSIDriver("d", "storageCapacity"), pool("a", "class=dp capacity=100Gi", "everything"))
	c30 := pvc("c", "class=np storage=30Gi")
	bend := configv1.VolumeBindingArgs{Shape: []configv1.UtilizationShapePoint{{Utilization: 0}, {Utilization: 50, Score: 3}, {Utilization: 100, Score: 5}}}
	for _, row := range []struct {
		name    string
		objects []runtime.Object
		claims  string
		args    configv1.VolumeBindingArgs
		want    string
	}{
		{"V11", append(slices.Clone(dynamic), pvc("x", "class=dp storage=30Gi"), pvc("y", "class=dp storage=30Gi")), "x y", configv1.VolumeBindingArgs{}, "40 40"},
		{"V11 too much", append(slices.Clone(dynamic), pvc("x", "class=dp storage=60Gi"), pvc("y", "class=dp storage=60Gi")), "x y", configv1.VolumeBindingArgs{}, "0 0"},
		{"V12", having(c30, pv("a", "class=np storage=40Gi", on("n1")), pv("b", "class=np storage=100Gi", on("n2"))), "c", configv1.VolumeBindingArgs{}, "25 70"},
		{"V13", having(c30, class("other", ""), pvc("b", "class=other storage=30Gi"), pv("a", "class=np storage=40Gi", on("n1")), pv("b", "class=other storage=100Gi")),
			"c b", configv1.VolumeBindingArgs{}, "48 0"},
		{"V14", append(slices.Clone(dynamic), c30, pvc("x", "class=dp storage=10Gi"), pv("a", "class=np storage=40Gi", on("n1"))), "c x", configv1.VolumeBindingArgs{}, "25 0"},
		{"V15", having(build.CSIDriver("d", "storageCapacity"), pool("a", "class=dp capacity=3Gi", zone+"=z2"), pvc("c", "class=dp storage=1Gi")), "c",
			configv1.VolumeBindingArgs{}, "0 67"},
		{"V16", append(slices.Clone(dynamic), pvc("c", "class=dp storage=75Gi")), "c", bend, "40 40"},
		{"of two capacities that of the last claim counts", having(build.CSIDriver("d", "storageCapacity"), pool("a", "class=dp capacity=100Gi maximum=10Gi", "everything"),
			pool("b", "class=dp capacity=50Gi", "everything"), pvc("x", "class=dp storage=20Gi"), pvc("y", "class=dp storage=5Gi")), "x y", configv1.VolumeBindingArgs{}, "50 50"},
		{"nothing is requested of nothing", having(pvc("c", "class=np"), pv("v", "class=np")), "c", bend, "50 50"},
		{"more than there is", having(build.CSIDriver("d", "storageCapacity"), pool("a", "class=dp capacity=2Gi maximum=9Gi", "everything"), pvc("c", "class=dp storage=8Gi")), "c", bend, "0 0"},
		{"all that there is", having(pvc("c", "class=np storage=8Gi"), pv("v", "class=np storage=8Gi")), "c", bend, "50 50"},
		{"half of what there is", having(pvc("c", "class=np storage=4Gi"), pv("v", "class=np storage=8Gi")), "c", bend, "30 30"},
		{"no capacities", having(pvc("c", "class=dp storage=75Gi")), "c", configv1.VolumeBindingArgs{}, "0 0"},
		{"bound", having(pvc("c", "bound=v"), pv("v", "phase=Bound")), "c", configv1.VolumeBindingArgs{}, "skip"},
		{"no claims", nil, "", configv1.VolumeBindingArgs{}, "skip"},
		{"the volume's own class counts, not that of the annotation", having(c30, class("other", ""), pvc("b", "class=other storage=30Gi"),
			pv("a", "class=np storage=40Gi"), pv("b", "class=np storage=100Gi annotation=volume.beta.kubernetes.io/storage-class=other")),
			"c b", configv1.VolumeBindingArgs{}, "58 58"},
	} {
		w := newWorld(t, row.args, row.objects...)
		if got := w.scores(t, pod(naming(row.claims))); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
	w := newWorld(t, configv1.VolumeBindingArgs{}, c30)
	w.plugin, _ = New(&configv1.VolumeBindingArgs{})
	if got := w.scores(t, pod(naming("c"))); got != "skip" {
		t.Errorf("without a shape: %s", got)
	}
}

// TestVerdictsAllocateNothing filters a node for claims of every kind.
func TestVerdictsAllocateNothing(t *testing.T) {
	objects := having(build.CSIDriver("d", "storageCapacity"), pool("a", "class=dp capacity=100Gi", zone+"=z1"),
		pvc("b", "bound=v"), pv("v", "phase=Bound", from(zone+" In z1")), pvc("s", "class=np storage=1Gi"), pv("w", "class=np storage=1Gi", on("n1")),
		pvc("x", "class=dp storage=1Gi"), pvc("y", "class=dp storage=1Gi node=n1"))
	w := newWorld(t, configv1.VolumeBindingArgs{}, objects...)
	for _, names := range []string{"b", "s", "x", "y", "b s x y"} {
		p := pod(naming(names))
		found, err := w.plugin.FilterNeedIn(w.View(), p)
		need, rejection := found.Need, found.Rejection
		if rejection != "" || err != nil {
			t.Fatal(rejection, err)
		}
		verdicts := need.Compile()
		slot, _ := w.Slot("n1")
		if got := verdicts.Filter(w.Node(slot)); got != reason.None {
			t.Errorf("%s: %v", names, verdicts.Reasons(got))
		}
		if n := testing.AllocsPerRun(100, func() { verdicts.Filter(w.Node(slot)) }); n != 0 {
			t.Errorf("%s: Filter allocates %v times", names, n)
		}
		scoring, err := w.plugin.ScoreNeedIn(w.View(), p)
		if scoring == nil || err != nil {
			continue
		}
		scores, _ := scoring.Compile()
		if n := testing.AllocsPerRun(100, func() { scores.Score(w.Node(slot)) }); n != 0 {
			t.Errorf("%s: Score allocates %v times", names, n)
		}
	}
}
