package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// testBackend has two nodes in zone a, one in zone b, and one without a zone.
func testBackend(t *testing.T, o *options) *backend {
	t.Helper()
	o.driver, o.topologyKey = "d.example.com", "zone"
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for name, labels := range map[string]map[string]string{"a1": {"zone": "a"}, "a2": {"zone": "a"}, "b1": {"zone": "b"}, "none": nil} {
		if err := nodes.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
			t.Fatal(err)
		}
	}
	return newBackend(o, corelisters.NewNodeLister(nodes))
}

func claim(name, node, request string, class storagev1.StorageClass) controller.ProvisionOptions {
	return controller.ProvisionOptions{
		StorageClass: &class, PVName: "pv-" + name, SelectedNodeName: node,
		PVC: &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name)},
			Spec: v1.PersistentVolumeClaimSpec{Resources: v1.VolumeResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(request)},
			}},
		},
	}
}

// in returns a class that allows volumes in zones.
func in(zones ...string) storagev1.StorageClass {
	return storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "class"},
		AllowedTopologies: []v1.TopologySelectorTerm{{
			MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: "zone", Values: zones}},
		}},
	}
}

func TestProvision(t *testing.T) {
	rack := storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: "racks"},
		AllowedTopologies: []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: "rack", Values: []string{"r1"}}}}},
	}
	for _, test := range []struct {
		node  string
		class storagev1.StorageClass
		want  string // a segment, or an error
	}{
		{"a2", storagev1.StorageClass{}, "a"},
		{"b1", in("a", "b"), "b"},
		{"b1", in("a"), "class class allows no volumes for node b1"},
		{"none", storagev1.StorageClass{}, "node none has no label zone"},
		{"gone", storagev1.StorageClass{}, `find the selected node: node "gone" not found`},
		{"", storagev1.StorageClass{}, "a"},
		{"", in("b"), "b"},
		{"b1", rack, "class racks allows no volumes for node b1"},
		{"", in("c"), "class class allows no volumes for any node with a label zone"},
	} {
		o := claim("c", test.node, "1Gi", test.class)
		volume, state, err := testBackend(t, &options{}).Provision(t.Context(), o)
		if err != nil {
			if err.Error() != test.want || state != controller.ProvisioningReschedule {
				t.Errorf("node %q: %v, %s; want %s", test.node, err, state, test.want)
			}
			continue
		}
		term := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
		if term.Key != "zone" || !slices.Equal(term.Values, []string{test.want}) || volume.Name != "pv-c" || volume.Spec.CSI.Driver != "d.example.com" {
			t.Errorf("node %q: %+v; want segment %s", test.node, volume, test.want)
		}
	}
}

// TestStorageIsFinite fills a segment and expects room again when a volume is gone.
func TestStorageIsFinite(t *testing.T) {
	b := testBackend(t, &options{capacityBytes: 10 << 30})
	provision := func(name, node, request string) error {
		_, _, err := b.Provision(t.Context(), claim(name, node, request, storagev1.StorageClass{}))
		return err
	}
	for _, step := range []struct {
		name, node, request string
		fits                bool
	}{
		{"one", "a1", "6Gi", true},
		{"one", "a1", "6Gi", true}, // the library repeats an unrecorded call
		{"two", "a2", "6Gi", false},
		{"two", "b1", "6Gi", true},
		{"three", "", "4Gi", true},
		{"four", "", "4Gi", true},
		{"five", "", "1", false},
	} {
		if err := provision(step.name, step.node, step.request); (err == nil) != step.fits {
			t.Errorf("%s on %q: %v", step.name, step.node, err)
		}
	}
	if err := b.Delete(t.Context(), &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-one"}}); err != nil {
		t.Fatal(err)
	}
	if free := b.free("a"); free != 6<<30 {
		t.Errorf("%d bytes are free", free)
	}
	// A volume of an earlier run has its room.
	volume := b.volume(new(claim("old", "a1", "2Gi", storagev1.StorageClass{})), "a")
	b.take(volume)
	b.take(volume)
	if free := b.free("a"); free != 4<<30 {
		t.Errorf("%d bytes are free beside the volume of an earlier run", free)
	}
}

// TestFailuresAreAShare checks that the share holds, and that other seeds and attempts
// fail elsewhere.
func TestFailuresAreAShare(t *testing.T) {
	const claims = 20_000
	for _, share := range []float64{0, 0.01, 1.0 / 3, 0.9, 1} {
		failed, again, elsewhere := 0, 0, 0
		for i := range claims {
			name := fmt.Sprint("ns/claim-", i)
			first := unlucky(1, name, 1, share)
			if first {
				failed++
			}
			if first && unlucky(1, name, 2, share) {
				again++
			}
			if first && unlucky(2, name, 1, share) {
				elsewhere++
			}
		}
		near := func(got int, want float64) bool { return float64(got) > want-400 && float64(got) < want+400 }
		if !near(failed, share*claims) || !near(again, share*share*claims) || !near(elsewhere, share*share*claims) {
			t.Errorf("share %v: %d of %d fail, %d of these at the second attempt too, %d with another seed", share, failed, claims, again, elsewhere)
		}
	}
}

func TestFailedClaimIsHandedBackUntilItSucceeds(t *testing.T) {
	b := testBackend(t, &options{failShare: 0.5, seed: 3})
	states := map[controller.ProvisioningState]int{}
	for i := range 100 {
		o := claim(fmt.Sprint("c", i), "a1", "1", storagev1.StorageClass{})
		for {
			_, state, err := b.Provision(t.Context(), o)
			states[state]++
			if err == nil {
				break
			}
		}
	}
	if states[controller.ProvisioningFinished] != 100 || states[controller.ProvisioningReschedule] < 60 || len(b.attempts) != 0 {
		t.Errorf("states %v, attempts left %v", states, b.attempts)
	}
}

func TestStoppedWhileItTakesTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := testBackend(t, &options{delay: 1 << 60})
	if _, state, err := b.Provision(ctx, claim("c", "a1", "1", storagev1.StorageClass{})); err == nil || state != controller.ProvisioningNoChange {
		t.Errorf("%s, %v", state, err)
	}
}

func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                                      "--kubeconfig is missing",
		"--kubeconfig f --fail-share 1.1":       "must be between 0 and 1",
		"--kubeconfig f --fail-share NaN":       "must be between 0 and 1",
		"--kubeconfig f --driver A_B":           `--driver "A_B"`,
		"--kubeconfig f --topology-key /":       `--topology-key "/"`,
		"--kubeconfig f --volumes-per-node -1":  "must be at least 0",
		"--kubeconfig f --capacity 0":           "must be a quantity greater than 0",
		"--kubeconfig f --capacity much":        "must be a quantity greater than 0",
		"--kubeconfig f --delay -1s":            "must be at least 0",
		"--kubeconfig f more":                   `unexpected argument "more"`,
		"--kubeconfig f --capacity 1Gi":         "",
		"--kubeconfig f --seed 7 --delay 100ms": "",
	} {
		_, err := parse(strings.Fields(args))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", args, err, want)
		}
	}
}
