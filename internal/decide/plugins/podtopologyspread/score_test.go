package podtopologyspread_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// Rows S come from design/rules/topology.md#spread-score; the others follow the rules
// there.
func TestScore(t *testing.T) {
	app := wearing("app=x")
	x := func(s string) []*v1.Pod { return fill(s, app) }
	abc := zoned("a=z1 b=z2 c=")
	two := zoned("a=z1 b=z2")
	five := zoned("a=z1 b=z1 c=z2 d=z2 e=z3")
	three := with(with(zoned("a=z1 b=z1 c=z2 d=z2 e=z3"), "d", cordoned), "e", cordoned)
	own := pod(app, soft(zone, "app=x"), soft(host, "app=x"))
	zoneOnly := func(parts ...constraintPart) *v1.Pod { return pod(app, soft(zone, "app=x", parts...)) }
	sameHost := with(with(zoned("a=z1 b=z1"), "a", also(host+"=h")), "b", also(host+"=h"))
	noHost := with(zoned("a=z1 b=z1 c=z2"), "c", without(host))
	halfHost := with(zoned("a=z1 b=z1 c=z2"), "b", without(host))
	emptyZone := with(zoned("a=z1 b= c="), "c", also(zone+"="))
	for _, tt := range []struct {
		row   string
		nodes []*v1.Node
		pods  []*v1.Pod
		pod   *v1.Pod
		want  string
	}{
		{"S1: raw 13 12 6", zoned("a=z1 b=z1 c=z2"), x("a=2 b=1"), pod(app), "46 53 100"},
		{"S2: raw 6 6 2", abc, nil, pod(app), "33 33 100"},
		{"S3: raw 9 9 4", abc, x("a=1 b=1 c=1"), pod(app), "44 44 100"},
		{"S4: raw 3 1 6", three, x("a=1 d=4 e=9"), own, "66 100 16"},
		{"S5: raw 4 2 6 14 32", five, x("a=1 d=4 e=9"), own, "93 100 87 62 6"},
		{"S6: raw 4 1 -", abc, x("a=3 b=1"), zoneOnly(), "25 100 0"},
		{"S7: raw 0 0", two, nil, zoneOnly(), "100 100"},
		{"S8: raw 3 3", two, x("a=9"), pod(app, soft(zone, "everything", skew(4))), "100 100"},
		{"S9 skew 1: raw 7 3", two, x("a=5 b=2"), zoneOnly(), "42 100"},
		{"S9 skew 2: raw 8 4", two, x("a=5 b=2"), zoneOnly(skew(2)), "50 100"},
		{"S9 skew 5: raw 11 7", two, x("a=5 b=2"), zoneOnly(skew(5)), "63 100"},
		{"no constraints, no service", abc, x("a=1"), pod(wearing("app=y")), "skip"},
		{"hard ones alone keep the defaults away", two, nil, pod(app, hard(zone, "app=x")), "skip"},
		{"all ignored", zoned("a= b="), x("a=3"), zoneOnly(), "0 0"},
		{"nothing selected: raw 3 3", two, x("a=9"), pod(app, soft(zone, "absent", skew(4))), "100 100"},
		{"host names are nodes: raw 3 1", sameHost, x("a=2 b=1"), pod(app, soft(host, "app=x")), "33 100"},
		{"and weigh as nodes, labels or not: raw 9 7 11", noHost, x("a=1 c=5"), pod(app), "81 100 63"},
		{"ignored nodes do not weigh: raw 1 0 -", noHost, x("a=1 c=5"), pod(app, soft(host, "app=x")), "0 100 0"},
		{"ignored for another key, pods too: raw 3 0 -", abc, x("a=1 b=0 c=7"), own, "0 100 0"},
		{"ignored in a zone that is not: raw 0 - 3", halfHost, x("b=5 c=1"), own, "100 0 0"},
		{"no zone is a zone to the weight: raw 16 16 7", abc, x("a=3 b=3 c=3"), pod(app), "43 43 100"},
		{"the empty zone is the absent one: raw 6 7 10", emptyZone, x("b=3"), pod(app), "100 90 60"},
		{"minDomains plays no role: raw 8 4", two, x("a=5 b=2"), zoneOnly(skew(2), domains(9)), "50 100"},
		{"scores far apart: raw 1099 0", two, x("a=1000"), zoneOnly(), "0 100"},
	} {
		b := newBench(t, serving(tt.nodes, tt.pods), spreadAlone())
		if got := marks(b.answer(t, tt.pod)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.row, got, tt.want)
		}
	}
}

// In scoring, the policies choose the nodes whose pods count for a domain, but a host's
// own pods always count.
func TestScorePolicies(t *testing.T) {
	c := oracle.Cluster{Nodes: with(zoned("a=z1 b=z1 c=z2"), "b", tainted), Pods: fill("a=1 b=4 c=2", wearing("app=x"))}
	profile := spreadAlone()
	profile.Disabled["TaintToleration"] = true
	for i, tt := range []struct {
		constraint podPart
		want       string
	}{
		// Zones ln 4: raw 7 7 3.
		{soft(zone, "app=x"), "42 42 100"},
		{soft(zone, "app=x", taintsPolicy("Honor")), "100 100 33"}, // raw 1 1 3
		// Hosts ln 5: raw 2 6 3.
		{soft(host, "app=x", taintsPolicy("Honor")), "100 33 83"},
	} {
		if got := marks(newBench(t, c, profile).answer(t, pod(wearing("app=x"), tt.constraint))); got != tt.want {
			t.Errorf("row %d: got %s, want %s", i, got, tt.want)
		}
	}
}

func TestListDefaults(t *testing.T) {
	hardZone := constraint(v1.DoNotSchedule, zone, matchKeys("hash"))
	softZone := constraint(v1.ScheduleAnyway, zone)
	app := wearing("app=x hash=v2")
	for _, tt := range []struct {
		name     string
		profile  oracle.Profile
		pod      *v1.Pod
		verdicts string
		marks    string
	}{
		{"empty list", listed(), pod(app), "fits fits fits", "skip"},
		{"hard; its matchLabelKeys do nothing", listed(hardZone), pod(app), "skew fits label", "skip"},
		// Raw 1 0 -
		{"soft: an absent label is not forgiven", listed(softZone), pod(app), "fits fits fits", "0 100 0"},
		{"both, one node left", listed(softZone, hardZone), pod(app), "skew fits label", "skip"},
		{"own constraints of the other action", listed(hardZone), pod(app, soft(zone, "app=x")), "fits fits fits", "0 100 0"},
		{"no service", listed(hardZone, softZone), pod(wearing("app=y")), "fits fits fits", "skip"},
	} {
		a := newBench(t, serving(zoned("a=z1 b=z2 c="), fill("a=1 c=3", wearing("app=x hash=v1"))), tt.profile).answer(t, tt.pod)
		if got := inShort(a); got != tt.verdicts {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.verdicts)
		}
		if got := marks(a); got != tt.marks {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.marks)
		}
	}
}

// Default selectors (design/rules/topology.md#derived-selector) as services and
// controllers are added and removed. Zone z1 holds two pods app=x, z2 two pods app=y, and
// node d shows whether any constraint applies.
func TestDefaultsFollowServicesAndControllers(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "default", Name: "r"}
	elsewhere := service("elsewhere", "app=x")
	elsewhere.Namespace = "other"
	noSelector := service("s", "")
	noSelector.Spec.Selector = nil
	rs := &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: choose("app In y,z")}}
	rc := &v1.ReplicationController{ObjectMeta: meta, Spec: v1.ReplicationControllerSpec{Selector: labelsOf("app=y")}}
	sts := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: choose("app NotIn y")}}
	of := func(apiVersion, kind string) *v1.Pod { return pod(wearing("app=x"), ownedBy(apiVersion, kind, "r")) }
	plain, ofSet, ofController, ofStateful := pod(wearing("app=x")), of("apps/v1", "ReplicaSet"), of("v1", "ReplicationController"), of("apps/v1", "StatefulSet")
	free, unowned := pod(), of("batch/v1", "Job")

	const alone, byX, byY, none = "fits fits fits fits", "skew fits fits label", "fits skew fits label", "fits fits fits label"
	c := oracle.Cluster{Nodes: zoned("a=z1 b=z2 c=z3 d="), Pods: append(fill("a=2", wearing("app=x")), fill("b=2", wearing("app=y"))...)}
	b := newBench(t, c, listed(constraint(v1.DoNotSchedule, zone)))
	for _, step := range []struct {
		name   string
		change model.Change
		pod    *v1.Pod
		want   string
	}{
		{"a service of another namespace", set(elsewhere), plain, alone},
		{"a service", set(service("s", "app=x")), plain, byX},
		{"for a pod without labels", set(service("s", "app=x")), free, alone},
		{"that selects others", set(service("s", "app=y")), plain, alone},
		{"that selects all", set(service("s", "")), plain, alone},
		{"that selects all, for a pod without labels", set(service("s", "")), free, alone},
		{"that selects none", set(noSelector), plain, alone},
		{"a replica set that is not there", set(service("s", "app=y")), ofSet, alone},
		{"a replica set that does not select its pod", set(rs), ofSet, byY},
		{"a controller of another kind", set(rs), unowned, alone},
		{"a replica set, and a service that disagrees", set(service("s", "app=x")), ofSet, none},
		{"the service is gone", gone(model.ServiceKind, "s"), ofSet, byY},
		{"the replica set has no selector", set(&appsv1.ReplicaSet{ObjectMeta: meta}), ofSet, alone},
		{"the replica set's selector cannot be parsed", set(&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: choose("app In")}}), ofSet, alone},
		{"a stateful set", set(sts), ofStateful, byX},
		{"a stateful set and a service", set(service("s", "app=x")), ofStateful, byX},
		{"the stateful set is gone", gone(model.StatefulSetKind, "r"), ofStateful, byX},
		{"a replication controller overrides the service", set(rc), ofController, byY},
		{"the service is gone, too", gone(model.ServiceKind, "s"), ofController, byY},
		{"the replication controller is gone", gone(model.ReplicationControllerKind, "r"), ofController, alone},
	} {
		b.state.Apply([]model.Change{step.change})
		if got := inShort(b.answer(t, step.pod)); got != step.want {
			t.Errorf("%s: got %s, want %s", step.name, got, step.want)
		}
	}
}

func set(object runtime.Object) model.Change {
	ref, _ := kinds.RefOf(object)
	return model.Change{Kind: model.ObjectSet, Object: object, Ref: ref}
}

func gone(kind model.Kind, name string) model.Change {
	return model.Change{Kind: model.ObjectGone, Ref: model.Ref{Kind: kind, Namespace: "default", Name: name}}
}
