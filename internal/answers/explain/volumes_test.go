package explain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestVolumesInTheWay explains a pod on two nodes in two zones. It checks the
// descriptions of the claims and the nodes.
func TestVolumesInTheWay(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	pv, pvc, class := build.PersistentVolume, build.PersistentVolumeClaim, build.StorageClass
	zone1 := build.VolumeAffinity("topology.kubernetes.io/zone In z1")
	with := func(objects ...runtime.Object) []runtime.Object { return objects }
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		pod     build.PodOption
		claims  string
		near    []string
	}{
		{"bound elsewhere", with(pvc("c", "storage=5Gi bound=v"), pv("v", "storage=5Gi", zone1)), build.Claims("c"),
			"c  5Gi is bound to volume v, which can be used where topology.kubernetes.io/zone is z1",
			[]string{"VolumeBinding n2: claim c is bound to volume v, which can be used where topology.kubernetes.io/zone is z1; here topology.kubernetes.io/zone is z2"}},
		{"no volume", with(class("np", ""), pvc("c", "class=np storage=5Gi"), pv("a", "class=np storage=5Gi", zone1), pv("b", "class=np storage=1Gi"),
			pv("d", "class=np storage=9Gi claim=default/x"), pv("e", "class=np storage=9Gi mode=Block"), pv("f", "class=other storage=9Gi")), build.Claims("c"),
			"c np 5Gi is bound when the pod is placed",
			[]string{"VolumeBinding n2: claim c: of the volumes of class np (4) are 1 not available, 1 smaller than 5Gi, 1 not of the kind that is claimed, 1 not to be used on this node; the class has no provisioner"}},
		{"no volume at all", with(class("np", ""), pvc("c", "class=np storage=5Gi")), build.Claims("c"), "c np 5Gi is bound when the pod is placed",
			[]string{"VolumeBinding n1: claim c: there is no volume of class np; the class has no provisioner", "VolumeBinding n2: claim c: there is no volume of class np; the class has no provisioner"}},
		{"one volume for two", with(class("np", ""), pvc("c", "class=np storage=5Gi"), pvc("d", "class=np storage=5Gi"), pv("v", "class=np storage=5Gi"), pv("w", "class=np storage=5Gi", zone1)), build.Claims("c d"),
			"c np 5Gi is bound when the pod is placed, d np 5Gi is bound when the pod is placed",
			[]string{"VolumeBinding n2: there are volumes for each of the claims c, d, and not for all of them"}},
		{"selected, and gone", with(class("dp", "provisioner=d"), pvc("c", "class=dp storage=5Gi node=n9")), build.Claims("c"),
			"c dp 5Gi is to be provisioned for node n9, which does not exist", []string{
				"VolumeBinding n1: claim c is to be provisioned for node n9, which does not exist",
				"VolumeBinding n2: claim c is to be provisioned for node n9, which does not exist",
			}},
		{"selected", with(class("dp", "provisioner=d"), pvc("c", "class=dp storage=5Gi node=n1")), build.Claims("c"), "c dp 5Gi is to be provisioned for node n1",
			[]string{"VolumeBinding n2: claim c is to be provisioned for node n1"}},
		{"topologies", with(class("dp", "provisioner=d", build.AllowedTopologies("topology.kubernetes.io/zone=z1,z3")), pvc("c", "class=dp storage=5Gi")), build.Claims("c"),
			"c dp 5Gi is bound when the pod is placed",
			[]string{"VolumeBinding n2: claim c: there is no volume of class dp; the class is provisioned where topology.kubernetes.io/zone is one of z1, z3; here topology.kubernetes.io/zone is z2"}},
		{"capacity", with(class("dp", "provisioner=d"), build.CSIDriver("d", "storageCapacity"), build.CSIStorageCapacity("a", "class=dp capacity=4Gi", "topology.kubernetes.io/zone=z1"),
			pvc("c", "class=dp storage=5Gi")), build.Claims("c"), "c dp 5Gi is bound when the pod is placed",
			[]string{"VolumeBinding n1: claim c: there is no volume of class dp; it requests 5Gi, and the largest volume that driver d can provision here has 4Gi",
				"VolumeBinding n2: claim c: there is no volume of class dp; driver d publishes no capacity for this node"}},
		{"zones", with(pvc("c", "storage=5Gi bound=v"), pv("v", "storage=5Gi label=topology.kubernetes.io/zone=z1__z3")), build.Claims("c"),
			"c  5Gi is bound to volume v, which can be used on every node, in topology.kubernetes.io/zone z1 or z3",
			[]string{"VolumeZone n2: volume v of claim c is in topology.kubernetes.io/zone z1 or z3; here topology.kubernetes.io/zone is z2"}},
		{"limits", with(build.CSINode("n2", "d=1"), pvc("c", "storage=5Gi bound=v"), pv("v", "storage=5Gi csi=d/v"), pvc("used", "storage=5Gi bound=w"), pv("w", "storage=5Gi csi=d/w")), build.Claims("c"),
			"c  5Gi is bound to volume v, which can be used on every node",
			[]string{"NodeVolumeLimits n2: driver d: the node has 1 of at most 1 volumes, and the pod brings 1 more (v)"}},
		{"one pod", with(pvc("used", "storage=5Gi modes=RWOP bound=w"), pv("w", "storage=5Gi")), build.Claims("used"),
			"used  5Gi is bound to volume w, which can be used on every node",
			[]string{"VolumeRestrictions n1: claim used is for one pod, and default/old uses it on n2", "VolumeRestrictions n2: claim used is for one pod, and default/old uses it on n2"}},
		{"disk", nil, build.Disks("ebs=vol-1"), "", []string{"VolumeRestrictions n2: disk vol-1 is used by default/old"}},
		{"immediate", with(class("now", "mode=Immediate"), pvc("c", "class=now storage=1Gi")), build.Claims("c"),
			"c now 1Gi is not bound, and its class does not wait for pods: it must be bound before the pod can be placed", nil},
		{"no such claim", nil, build.Claims("c"), "c   does not exist", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := build.Pod(build.Claims("used"), build.Disks("ebs=vol-1"), func(p *v1.Pod) { p.Name, p.Spec.NodeName = "old", "n2" })
			s, err := explain.New(scheduler, build.NodesInZones("n1=z1 n2=z2"), []*v1.Pod{build.Pod(test.pod), old}, test.objects, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			a, err := s.Of(s.Pending()[0])
			if err != nil {
				t.Fatal(err)
			}
			sum := s.Summarize(a)
			var claims, near []string
			for _, c := range sum.Claims {
				claims = append(claims, fmt.Sprint(c.Name, " ", c.Class, " ", c.Request, " ", c.State))
			}
			for _, n := range sum.Near {
				for _, e := range n.Examples {
					near = append(near, fmt.Sprint(n.Plugin, " ", e.Name, ": ", strings.Join(e.InTheWay, " | ")))
				}
			}
			if got := strings.Join(claims, ", "); got != test.claims {
				t.Errorf("its claims are\n%s, want\n%s", got, test.claims)
			}
			if !slices.Equal(near, test.near) {
				t.Errorf("in the way is\n%s\nwant\n%s", strings.Join(near, "\n"), strings.Join(test.near, "\n"))
			}
		})
	}
}
