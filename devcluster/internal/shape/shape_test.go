package shape

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func TestNodeDependsOnIndexOnly(t *testing.T) {
	for _, fleet := range []Fleet{Realistic, Uniform} {
		for i := range 50 {
			if !reflect.DeepEqual(fleet.Node(i, now), fleet.Node(i, now)) {
				t.Errorf("%s node %d differs from itself", fleet, i)
			}
		}
	}
}

func TestNamesAndAddressesAreDistinct(t *testing.T) {
	for _, fleet := range []Fleet{Realistic, Uniform} {
		seen := map[string]int{}
		for i := 0; i < MaxNodes; i += 37 {
			n := fleet.Node(i, now)
			for _, key := range []string{n.Name, n.Spec.PodCIDR, n.Status.Addresses[0].Address} {
				if j, ok := seen[key]; ok {
					t.Fatalf("%s: nodes %d and %d share %s", fleet, j, i, key)
				}
				seen[key] = i
			}
		}
	}
}

func TestRealisticFleet(t *testing.T) {
	pools := map[string]map[string]bool{}
	for i := range 60 {
		n := Realistic.Node(i, now)
		pool, zone := n.Labels[PoolLabel], n.Labels[corev1.LabelTopologyZone]
		if pools[pool] == nil {
			pools[pool] = map[string]bool{}
		}
		pools[pool][zone] = true
		checkNode(t, n)
	}
	if len(pools) != len(realistic) {
		t.Errorf("%d pools, want %d", len(pools), len(realistic))
	}
	for pool, zones := range pools {
		if len(zones) != 3 {
			t.Errorf("pool %s is in %d zones, want 3", pool, len(zones))
		}
	}
}

func TestFirstTenRealisticNodesHoldEveryPool(t *testing.T) {
	pools := map[string]bool{}
	for i := range 10 {
		pools[Realistic.Node(i, now).Labels[PoolLabel]] = true
	}
	if len(pools) != len(realistic) {
		t.Errorf("%d pools, want %d", len(pools), len(realistic))
	}
}

func TestUniformFleet(t *testing.T) {
	pools := map[string]bool{}
	for i := range 30 {
		n := Uniform.Node(i, now)
		checkNode(t, n)
		pools[n.Labels[PoolLabel]] = true
		if got := n.Status.Allocatable.Cpu().String(); got != "32" {
			t.Errorf("node %d: %s CPU, want 32", i, got)
		}
		if got := n.Status.Allocatable.Memory().String(); got != "128Gi" {
			t.Errorf("node %d: %s memory, want 128Gi", i, got)
		}
	}
	if len(pools) != 10 {
		t.Errorf("%d pools, want 10", len(pools))
	}
}

// checkNode checks every node's common properties.
func checkNode(t *testing.T, n *corev1.Node) {
	t.Helper()
	if n.Labels[corev1.LabelHostname] != n.Name {
		t.Errorf("%s: hostname label is %q", n.Name, n.Labels[corev1.LabelHostname])
	}
	if got := n.Status.Allocatable.Pods().Value(); got != 110 {
		t.Errorf("%s: room for %d pods, want 110", n.Name, got)
	}
	for name, allocatable := range n.Status.Allocatable {
		if capacity := n.Status.Capacity[name]; allocatable.Cmp(capacity) > 0 {
			t.Errorf("%s: allocatable %s exceeds capacity", n.Name, name)
		}
	}
	gpus := n.Status.Allocatable[GPU]
	if tainted := len(n.Spec.Taints) > 0; tainted != !gpus.IsZero() {
		t.Errorf("%s: %s GPUs, tainted %v", n.Name, gpus.String(), tainted)
	}
}

func TestParseFleet(t *testing.T) {
	for _, want := range []Fleet{Realistic, Uniform} {
		if got, err := ParseFleet(want.String()); got != want || err != nil {
			t.Errorf("ParseFleet(%q) = %v, %v", want, got, err)
		}
	}
	if _, err := ParseFleet("round"); err == nil {
		t.Error("a fleet that does not exist was accepted")
	}
}
