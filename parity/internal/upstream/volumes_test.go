package upstream_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// These are the worked examples of the reference page about volumes, run by
// kube-scheduler alone, to keep the page true.

const (
	volumeRestrictions = "VolumeRestrictions"
	nodeVolumeLimits   = "NodeVolumeLimits"
	volumeBinding      = "VolumeBinding"
	volumeZone         = "VolumeZone"

	noDisk       = "node(s) had no available disk"
	inUse        = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
	tooMany      = "node(s) exceed max volume count"
	affinity     = "node(s) didn't match PersistentVolume's node affinity"
	noVolumes    = "node(s) didn't find available persistent volumes to bind"
	noStorage    = "node(s) did not have enough free storage"
	missing      = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
	immediate    = "pod has unbound immediate PersistentVolumeClaims"
	otherZone    = "node(s) had no available volume zone"
	bindDone     = "pv.kubernetes.io/bind-completed"
	selectedNode = "volume.kubernetes.io/selected-node"
)

// world is a cluster of kube-scheduler alone, built one object after another.
type world struct {
	*testing.T
	*upstream.Scheduler
}

// newWorld returns a world with nodes n1 and n2 in zones z1 and z2.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t, newUpstream(t, cases.EmptyConfig())}
	w.node("n1", v1.LabelTopologyZone, "z1")
	w.node("n2", v1.LabelTopologyZone, "z2")
	return w
}

// node adds or replaces a node with labels in addition to its name.
func (w *world) node(name string, labels ...string) {
	n := node(name, "8")
	for i := 0; i < len(labels); i += 2 {
		n.Labels[labels[i]] = labels[i+1]
	}
	w.SetNode(n)
}

func (w *world) add(objects ...runtime.Object) {
	w.Helper()
	for _, o := range objects {
		if p, ok := o.(*v1.Pod); ok {
			do(w.T, w.SetPod(p))
			continue
		}
		do(w.T, w.SetObject(o))
	}
}

// expect compares the verdict on a pod: "n1 passes, n2 U NodeVolumeLimits: reason". A
// rejection of all nodes by PreFilter is "all UU …".
func (w *world) expect(p *v1.Pod, want string) *upstream.Verdict {
	w.Helper()
	v := judged(w.T, w.Scheduler, p)
	if got := said(v); got != want {
		w.Errorf("got  %s\nwant %s", got, want)
	}
	return v
}

func said(v *upstream.Verdict) string {
	if v.Err != nil {
		return "error " + v.Err.Error()
	}
	var texts []string
	for _, n := range v.Nodes {
		if n.Feasible {
			texts = append(texts, n.Name+" passes")
			continue
		}
		texts = append(texts, n.Name+" "+refused(n.First))
	}
	return strings.Join(texts, ", ")
}

func refused(r *upstream.Rejection) string {
	if r == nil {
		return "passes"
	}
	code := map[string]string{"Unschedulable": "U", "UnschedulableAndUnresolvable": "UU"}[r.Code]
	return code + " " + r.Plugin + ": " + strings.Join(r.Reasons, "; ")
}

// score returns a plugin's normalized score of a node.
func score(v *upstream.Verdict, plugin, nodeName string) int64 {
	for _, n := range v.Nodes {
		for _, s := range n.Scores {
			if n.Name == nodeName && s.Plugin == plugin {
				return s.Normalised
			}
		}
	}
	return -1
}

func TestInlineDisks(t *testing.T) {
	for _, tt := range []struct {
		name        string
		there, pods v1.Volume
		conflicts   bool
	}{
		{"R1", gce("pd1", false), gce("pd1", true), true},
		{"R2", gce("pd1", true), gce("pd1", true), false},
		{"R3", ebs("vol-1", true), ebs("vol-1", true), true},
		{"R4", iscsi("q", 1, false), iscsi("q", 2, true), true},
		{"R4 both read-only", iscsi("q", 1, true), iscsi("q", 2, true), false},
		{"R5", rbd(false, "m1", "m2"), rbd(true, "m2", "m3"), true},
		{"R5 other monitors", rbd(false, "m1"), rbd(false, "m3"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.add(with("other", "user", "n1", tt.there))
			want := "n1 passes, n2 passes"
			if tt.conflicts {
				want = "n1 U VolumeRestrictions: " + noDisk + ", n2 passes"
			}
			w.expect(with("default", "p", "", tt.pods), want)
		})
	}
}

func TestRestrictionsOfClaims(t *testing.T) {
	everywhere := "n1 U VolumeRestrictions: " + inUse + ", n2 U VolumeRestrictions: " + inUse
	t.Run("R6", func(t *testing.T) {
		w := newWorld(t)
		disk := v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "pd1"}}
		w.add(volumeOf("pv", "", "1Gi", from(disk)), claimOf("c", "", "1Gi", boundTo("pv")), with("default", "user", "n1", gce("pd1", false)))
		w.expect(with("default", "p", "", uses("c")), "n1 passes, n2 passes")
	})
	t.Run("R7, R8", func(t *testing.T) {
		w := newWorld(t)
		user := with("a", "user", "n2", uses("c"))
		w.add(volumeOf("pv", "", "1Gi"), claimOf("c", "", "1Gi", boundTo("pv"), oncePod, in("a")), user)
		p := with("a", "p", "", uses("c"))
		w.expect(p, everywhere)
		w.without("n2", "passes", user)
		w.without("n1", "U VolumeRestrictions: "+inUse)
		namesake := with("b", "namesake", "n1", uses("c"))
		w.add(namesake)
		w.expect(p, everywhere)
		w.without("n1", "passes", namesake)
	})
	t.Run("R9", func(t *testing.T) {
		w := newWorld(t)
		first, second := with("default", "first", "n1", uses("c1")), with("default", "second", "n2", uses("c2"))
		w.add(volumeOf("pv1", "", "1Gi"), volumeOf("pv2", "", "1Gi"), first, second,
			claimOf("c1", "", "1Gi", boundTo("pv1"), oncePod), claimOf("c2", "", "1Gi", boundTo("pv2"), oncePod))
		w.expect(with("default", "p", "", uses("c1"), uses("c2")), everywhere)
		w.without("n1", "U VolumeRestrictions: "+inUse, first)
		w.without("n2", "U VolumeRestrictions: "+inUse, second)
	})
	t.Run("R10", func(t *testing.T) {
		w := newWorld(t)
		no := ` UU VolumeRestrictions: persistentvolumeclaim "c" not found`
		v := w.expect(with("default", "p", "", uses("c")), "n1"+no+", n2"+no)
		if want := `0/2 nodes are available: persistentvolumeclaim "c" not found. not found`; v.Message != want || fmt.Sprint(v.Plugins) != "[VolumeRestrictions]" {
			t.Errorf("got %q, %q", v.Message, v.Plugins)
		}
	})
}

// without compares the filters' result for a node in a dry run without some pods.
func (w *world) without(nodeName, want string, victims ...*v1.Pod) {
	w.Helper()
	r, err := w.Without(nodeName, victims...)
	do(w.T, err)
	if got := refused(r); got != want {
		w.Errorf("%s without %d pods: got %q, want %q", nodeName, len(victims), got, want)
	}
}

// newLimits returns a world with volumes and claims v1 to v4 of driver d, and one node n,
// with the given limits.
func newLimits(t *testing.T, counts map[string]int32) *world {
	w := &world{t, newUpstream(t, cases.EmptyConfig())}
	w.node("n")
	for _, name := range []string{"v1", "v2", "v3", "v4"} {
		w.add(volumeOf(name, "", "1Gi"), claimOf(name, "", "1Gi", boundTo(name)))
	}
	if counts != nil {
		w.add(limits("n", counts))
	}
	return w
}

func TestVolumeLimits(t *testing.T) {
	no := "n U NodeVolumeLimits: " + tooMany
	two := map[string]int32{"d": 2}
	first := func() *v1.Pod { return with("default", "first", "n", uses("v1")) }
	attached := []runtime.Object{attachment("v1", "n"), attachment("v2", "n")}
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	late := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: "d", VolumeBindingMode: &mode}
	aws := func(id string) func(v *v1.PersistentVolume) {
		return from(v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: id}})
	}
	for _, tt := range []struct {
		name    string
		counts  map[string]int32
		objects []runtime.Object
		claims  []string
		want    string
	}{
		{"L1", two, append(attached, first()), []string{"v3"}, no},
		{"L2", two, append(attached, first()), []string{"v2"}, no},
		{"L3", two, append(attached, first()), []string{"v1"}, "n passes"},
		{"L4", map[string]int32{"d": 3}, append(attached, first()), []string{"v2"}, "n passes"},
		{"L5", two, []runtime.Object{first(), with("default", "second", "n", uses("v1"))}, []string{"v2"}, "n passes"},
		{"L5 one more", two, []runtime.Object{first(), with("default", "second", "n", uses("v1"))}, []string{"v2", "v3"}, no},
		{"L6", nil, []runtime.Object{driver("d", false, false)}, []string{"v1", "v2", "v3"}, "n passes"},
		{"L7", map[string]int32{"e": 5}, []runtime.Object{driver("d", false, true)}, []string{"v1"},
			"n U NodeVolumeLimits: d CSI driver is not installed on the node"},
		{"L7 without CSINode", nil, []runtime.Object{driver("d", false, true)}, []string{"v1"},
			"n U NodeVolumeLimits: d CSI driver is not installed on the node"},
		{"L8", map[string]int32{"d": 0}, nil, []string{"v1"}, no},
		{"L9", map[string]int32{"ebs.csi.aws.com": 1}, []runtime.Object{
			volumeOf("intree", "", "1Gi", aws("aws://us-east-1a/vol-1")), claimOf("intree", "", "1Gi", boundTo("intree")),
			volumeOf("csi", "", "1Gi", from(v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1"}})),
			claimOf("csi", "", "1Gi", boundTo("csi")),
		}, []string{"intree", "csi"}, "n passes"},
		{"L9 two disks", map[string]int32{"ebs.csi.aws.com": 1}, []runtime.Object{
			volumeOf("intree", "", "1Gi", aws("aws://us-east-1a/vol-1")), claimOf("intree", "", "1Gi", boundTo("intree")),
			volumeOf("other", "", "1Gi", aws("vol-2")), claimOf("other", "", "1Gi", boundTo("other")),
		}, []string{"intree", "other"}, no},
		{"L10", map[string]int32{"d": 1}, []runtime.Object{late, claimOf("c", "late", "1Gi"), with("default", "user", "n", uses("c"))}, []string{"c"}, "n passes"},
		{"L10 another claim", map[string]int32{"d": 1}, []runtime.Object{late, claimOf("c", "late", "1Gi"), claimOf("c2", "late", "1Gi"),
			with("default", "user", "n", uses("c"))}, []string{"c2"}, no},
		{"L11", map[string]int32{"d": 0}, []runtime.Object{claimOf("c", "", "1Gi", boundTo("nfs")),
			volumeOf("nfs", "", "1Gi", from(v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/"}}))}, []string{"c"}, "n passes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newLimits(t, tt.counts)
			w.add(tt.objects...)
			var volumes []v1.Volume
			for _, c := range tt.claims {
				volumes = append(volumes, uses(c))
			}
			w.expect(with("default", "p", "", volumes...), tt.want)
		})
	}
	t.Run("L12", func(t *testing.T) {
		w := newLimits(t, nil)
		p := with("default", "p", "", uses("v1"))
		for count, want := range map[int32]bool{-1: false, 0: false, 5: true} {
			queued, err := w.Hint(nodeVolumeLimits, p, fwk.CSINode, fwk.Update, limits("n", nil), limits("n", map[string]int32{"d": count}))
			if do(t, err); queued != want {
				t.Errorf("newly listed with count %d: queued %t", count, queued)
			}
		}
	})
	t.Run("L13", func(t *testing.T) {
		for _, attachments := range []bool{true, false} {
			w := newLimits(t, two)
			user, victim := with("default", "user", "n", uses("v1")), with("default", "victim", "n", uses("v2"))
			w.add(user, victim)
			want := "passes"
			if attachments {
				w.add(attached...)
				want = "U NodeVolumeLimits: " + tooMany
			}
			w.expect(with("default", "p", "", uses("v3")), no)
			w.without("n", want, victim)
		}
	})
}

func TestVolumeBinding(t *testing.T) {
	p := func(claims ...string) *v1.Pod {
		var volumes []v1.Volume
		for _, c := range claims {
			volumes = append(volumes, uses(c))
		}
		return with("default", "p", "", volumes...)
	}
	all := func(text string) string { return "n1 " + text + ", n2 " + text }
	immediately := storagev1.VolumeBindingImmediate
	np, dp := lateClass("np", static), lateClass("dp", "d")
	dp.Provisioner = "d"
	preBound := func(v *v1.PersistentVolume) { v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "c"} }
	lone := with("default", "p", "", ephemeralVolume("v"))
	for _, tt := range []struct {
		name    string
		objects []runtime.Object
		pod     *v1.Pod
		want    string
	}{
		{"V1", []runtime.Object{claimOf("c", "now", "1Gi"), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "now"}, Provisioner: "d", VolumeBindingMode: &immediately}},
			p("c"), all("UU VolumeBinding: " + immediate)},
		{"V2", []runtime.Object{np, claimOf("c", "np", "1Gi", func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" })},
			p("c"), all("UU VolumeBinding: " + immediate)},
		{"V3", []runtime.Object{volumeOf("pv", "", "1Gi", at(v1.LabelTopologyZone, "z1")), claimOf("c", "", "1Gi", boundTo("pv"))},
			p("c"), "n1 passes, n2 UU VolumeBinding: " + affinity},
		{"V4", []runtime.Object{claimOf("c", "", "1Gi", boundTo("pv"))}, p("c"), all(`UU VolumeZone: persistentvolume "pv" not found`)},
		{"V4 ephemeral", []runtime.Object{claimOf("p-v", "", "1Gi", boundTo("pv"), ownedBy(lone))}, lone, all("UU VolumeBinding: " + missing)},
		{"V5", []runtime.Object{np, claimOf("c", "np", "5Gi"), volumeOf("ten", "np", "10Gi", on("n1")), volumeOf("eight", "np", "8Gi", on("n1")),
			volumeOf("six", "np", "6Gi", on("n1"), phase(v1.VolumeReleased))}, p("c"), "n1 passes, n2 UU VolumeBinding: " + noVolumes},
		{"V6", []runtime.Object{dp, claimOf("big", "dp", "20Gi"), claimOf("c", "dp", "5Gi"), volumeOf("pv", "dp", "20Gi", on("n1"))}, p("big", "c"), all("passes")},
		{"V7 np", []runtime.Object{np, claimOf("c", "np", "5Gi"), volumeOf("pre", "np", "9Gi", on("n1"), preBound), volumeOf("free", "np", "6Gi", on("n2"))},
			p("c"), "n1 passes, n2 UU VolumeBinding: " + noVolumes},
		{"V7 dp", []runtime.Object{dp, claimOf("c", "dp", "5Gi"), volumeOf("pre", "dp", "9Gi", on("n1"), preBound), volumeOf("free", "dp", "6Gi", on("n2"))},
			p("c"), all("passes")},
		{"V8", []runtime.Object{dp, claimOf("c", "dp", "5Gi", annotated(selectedNode, "n1"))}, p("c"), "n1 passes, n2 UU VolumeBinding: " + noVolumes},
		{"V9", []runtime.Object{lateClass("dp", "d", "z1"), claimOf("c", "dp", "5Gi")}, p("c"), "n1 passes, n2 UU VolumeBinding: " + noVolumes},
		{"V10", []runtime.Object{dp, driver("d", true, false), pool("z1", "dp", "z1", "100Gi", "40Gi"), claimOf("c", "dp", "50Gi")},
			p("c"), all("UU VolumeBinding: " + noStorage)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.add(tt.objects...)
			w.expect(tt.pod, tt.want)
		})
	}
}

// TestVolumesChosen checks the assumptions of Reserve in the examples, and its writes.
func TestVolumesChosen(t *testing.T) {
	for _, tt := range []struct {
		name    string
		objects []runtime.Object
		claims  []string
		want    string
	}{
		{"V5", []runtime.Object{lateClass("np", static), claimOf("c", "np", "5Gi"), volumeOf("ten", "np", "10Gi", on("n1")),
			volumeOf("eight", "np", "8Gi", on("n1")), volumeOf("six", "np", "6Gi", on("n1"), phase(v1.VolumeReleased))}, []string{"c"}, "eight for c by controller"},
		{"V6", []runtime.Object{lateClass("dp", "d"), claimOf("big", "dp", "20Gi"), claimOf("c", "dp", "5Gi"), volumeOf("pv", "dp", "20Gi", on("n1"))},
			[]string{"big", "c"}, "pv for c by controller, big on n1"},
		{"V7", []runtime.Object{lateClass("np", static), claimOf("c", "np", "5Gi"), volumeOf("free", "np", "6Gi", on("n1")),
			volumeOf("pre", "np", "9Gi", on("n1"), func(v *v1.PersistentVolume) {
				v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "c"}
			})}, []string{"c"}, "pre for c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.add(tt.objects...)
			var volumes []v1.Volume
			for _, c := range tt.claims {
				volumes = append(volumes, uses(c))
			}
			if got := writes(w.place(with("default", "p", "", volumes...), "n1")); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// place judges a pod and reserves for it on a node.
func (w *world) place(p *v1.Pod, nodeName string) []runtime.Object {
	w.Helper()
	judged(w.T, w.Scheduler, p)
	do(w.T, w.Assume(p, nodeName))
	written, err := w.Reserve(p, nodeName)
	do(w.T, err)
	return written
}

func writes(objects []runtime.Object) string {
	var texts []string
	for _, o := range objects {
		switch o := o.(type) {
		case *v1.PersistentVolume:
			text := o.Name + " for " + o.Spec.ClaimRef.Name
			if o.Spec.ClaimRef.UID != types.UID("claim-"+o.Spec.ClaimRef.Name) || o.Spec.ClaimRef.Kind != "PersistentVolumeClaim" || o.Spec.ClaimRef.ResourceVersion != "1" {
				text += fmt.Sprintf(" %+v", o.Spec.ClaimRef)
			}
			if o.Annotations["pv.kubernetes.io/bound-by-controller"] != "" {
				text += " by controller"
			}
			texts = append(texts, text)
		case *v1.PersistentVolumeClaim:
			texts = append(texts, o.Name+" on "+o.Annotations[selectedNode])
		}
	}
	return strings.Join(texts, ", ")
}

func TestStorageScores(t *testing.T) {
	np, dp := lateClass("np", static), lateClass("dp", "d")
	tracked := driver("d", true, false)
	pools := func(class, capacity string) []runtime.Object {
		return []runtime.Object{pool(class+"1", class, "z1", capacity, ""), pool(class+"2", class, "z2", capacity, "")}
	}
	for _, tt := range []struct {
		name    string
		config  string
		objects []runtime.Object
		claims  []string
		n1, n2  int64
	}{
		{"V11", "", append(pools("dp", "100Gi"), dp, tracked, claimOf("a", "dp", "30Gi"), claimOf("b", "dp", "30Gi")), []string{"a", "b"}, 40, 40},
		{"V11 two of 60Gi", "", append(pools("dp", "100Gi"), dp, tracked, claimOf("a", "dp", "60Gi"), claimOf("b", "dp", "60Gi")), []string{"a", "b"}, 0, 0},
		{"V12", "", []runtime.Object{np, claimOf("a", "np", "30Gi"), volumeOf("v1", "np", "40Gi", on("n1")), volumeOf("v2", "np", "100Gi", on("n2"))},
			[]string{"a"}, 25, 70},
		{"V13", "", []runtime.Object{np, lateClass("np2", static), claimOf("a", "np", "30Gi"), claimOf("b", "np2", "30Gi"), volumeOf("v1", "np", "40Gi", on("n1")),
			volumeOf("v2", "np2", "100Gi", on("n1")), volumeOf("v3", "np", "30Gi", on("n2")), volumeOf("v4", "np2", "30Gi", on("n2"))}, []string{"a", "b"}, 48, 0},
		{"V14", "", append(pools("dp", "100Gi"), dp, tracked, np, claimOf("a", "np", "30Gi"), claimOf("b", "dp", "10Gi"), volumeOf("v1", "np", "40Gi", on("n1")),
			volumeOf("v2", "np", "60Gi", on("n2"))), []string{"a", "b"}, 25, 50},
		{"V15", "", append(pools("dp", "3Gi"), dp, tracked, claimOf("a", "dp", "1Gi")), []string{"a"}, 67, 67},
		{"V16", "[{utilization: 0, score: 0}, {utilization: 50, score: 3}, {utilization: 100, score: 5}]",
			append(pools("dp", "100Gi"), dp, tracked, claimOf("a", "dp", "75Gi")), []string{"a"}, 40, 40},
		{"no capacity data", "", []runtime.Object{dp, claimOf("a", "dp", "75Gi")}, []string{"a"}, 0, 0},
		{"bound", "", []runtime.Object{volumeOf("v", "", "1Gi"), claimOf("a", "", "1Gi", boundTo("v"))}, []string{"a"}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := cases.EmptyConfig()
			if tt.config != "" {
				config = []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n" +
					"- pluginConfig:\n  - name: VolumeBinding\n    args: {bindTimeoutSeconds: 600, shape: " + tt.config + "}\n")
			}
			w := &world{t, newUpstream(t, config)}
			w.node("n1", v1.LabelTopologyZone, "z1")
			w.node("n2", v1.LabelTopologyZone, "z2")
			w.add(tt.objects...)
			var volumes []v1.Volume
			for _, c := range tt.claims {
				volumes = append(volumes, uses(c))
			}
			v := w.expect(with("default", "p", "", volumes...), "n1 passes, n2 passes")
			if n1, n2 := score(v, volumeBinding, "n1"), score(v, volumeBinding, "n2"); n1 != tt.n1 || n2 != tt.n2 {
				t.Errorf("got %d and %d, want %d and %d", n1, n2, tt.n1, tt.n2)
			}
		})
	}
}

// TestAssumedVolumes checks that pods see the reservations of earlier pods, until these
// are forgotten or a newer object arrives.
func TestAssumedVolumes(t *testing.T) {
	no := "UU VolumeBinding: " + noVolumes
	t.Run("V17", func(t *testing.T) {
		w := newWorld(t)
		claim := claimOf("c", "dp", "1Gi")
		w.add(lateClass("dp", "d"), claim)
		first, second := with("default", "first", "", uses("c")), with("default", "second", "", uses("c"))
		w.place(first, "n1")
		w.expect(second, "n1 passes, n2 "+no)
		do(t, w.Forget(first))
		w.expect(second, "n1 passes, n2 passes")
		w.place(first, "n1")
		newer := claim.DeepCopy()
		newer.ResourceVersion = "2"
		w.add(newer)
		w.expect(second, "n1 passes, n2 passes")
	})
	t.Run("V18", func(t *testing.T) {
		w := newWorld(t)
		w.add(lateClass("np", static), claimOf("c1", "np", "5Gi"), claimOf("c2", "np", "5Gi"), volumeOf("pv", "np", "10Gi"))
		first, second := with("default", "first", "", uses("c1")), with("default", "second", "", uses("c2"))
		w.place(first, "n1")
		w.expect(second, "n1 "+no+", n2 "+no)
		do(t, w.RemovePod("default", "first"))
		w.expect(second, "n1 passes, n2 passes")
	})
	t.Run("out of sync", func(t *testing.T) {
		w := newWorld(t)
		w.add(lateClass("np", static), claimOf("c", "np", "5Gi"), volumeOf("pv", "np", "10Gi"))
		p := with("default", "p", "", uses("c"))
		judged(t, w.Scheduler, p)
		w.add(volumeOf("pv", "np", "10Gi", func(v *v1.PersistentVolume) { v.ResourceVersion = "2" }))
		do(t, w.Assume(p, "n1"))
		want := `running Reserve plugin "VolumeBinding": "pv" is out of sync (stored: 2, assume: 1)`
		if _, err := w.Reserve(p, "n1"); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if len(w.Placed()) > 0 {
			t.Error("the pod still counts on its node")
		}
	})
}

func TestVolumeZone(t *testing.T) {
	const zone, region, betaZone = v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaZone
	no := "n UU VolumeZone: " + otherZone
	for _, tt := range []struct {
		name      string
		pv, node  []string
		want      string
		inVolumes func(v *v1.PersistentVolume)
	}{
		{"Z1", []string{zone, "z1"}, nil, "n passes", nil},
		{"Z2", []string{zone, "z1__z2"}, []string{zone, "z2"}, "n passes", nil},
		{"Z3", []string{zone, "z1"}, []string{zone, "z3"}, no, nil},
		{"Z4", []string{zone, "z1"}, []string{region, "r1"}, no, nil},
		{"Z5", []string{betaZone, "z1"}, []string{zone, "z1"}, "n passes", nil},
		{"Z6", []string{zone, "z1"}, []string{betaZone, "z1"}, no, nil},
		{"Z7", []string{zone, "z1__"}, []string{zone, "z9"}, "n passes", nil},
		{"Z8", nil, []string{zone, "z2"}, "n UU VolumeBinding: " + affinity, at(zone, "z1")},
		{"Z9", []string{zone, "z1", region, "r1"}, []string{zone, "z1", region, "r2"}, no, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{t, newUpstream(t, cases.EmptyConfig())}
			w.node("n", tt.node...)
			change := []func(v *v1.PersistentVolume){labelled(tt.pv...)}
			if tt.inVolumes != nil {
				change = append(change, tt.inVolumes)
			}
			w.add(volumeOf("pv", "", "1Gi", change...), claimOf("c", "", "1Gi", boundTo("pv")))
			w.expect(with("default", "p", "", uses("c")), tt.want)
		})
	}
	t.Run("Z10", func(t *testing.T) {
		w := newWorld(t)
		w.add(lateClass("dp", "d"), claimOf("c", "dp", "1Gi"))
		w.expect(with("default", "p", "", uses("c")), "n1 passes, n2 passes")
	})
}
