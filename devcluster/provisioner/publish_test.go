package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// TestPublishedAndWithdrawn publishes for two nodes, one of them with a driver already.
// It follows a change and restores the initial state.
func TestPublishedAndWithdrawn(t *testing.T) {
	o := &options{driver: "d.example.com", topologyKey: "zone", volumesPerNode: 7, capacityBytes: 100}
	node := func(name, zone string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}}
	}
	client := fake.NewClientset(
		node("n1", "a"), node("n2", "b"),
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "other"}, {Name: o.driver, NodeID: "of an earlier run"},
		}}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "ours"}, Provisioner: o.driver},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Provisioner: "other"},
	)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes, classes := factory.Core().V1().Nodes(), factory.Storage().V1().StorageClasses()
	b := newBackend(o, nodes.Lister())
	p := newPublisher(o, client, b, nodes, classes)
	if err := p.follow(); err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()

	storage := client.StorageV1()
	drivers := func() (all []string) {
		list, err := storage.CSINodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range list.Items {
			for _, d := range n.Spec.Drivers {
				text := n.Name + " " + d.Name
				if d.Allocatable != nil {
					text += fmt.Sprint(" ", d.NodeID, d.TopologyKeys, *d.Allocatable.Count)
				}
				all = append(all, text)
			}
		}
		slices.Sort(all)
		return all
	}
	capacities := func() (all []string) {
		list, err := storage.CSIStorageCapacities(capacityNamespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list.Items {
			all = append(all, fmt.Sprintf("%s %s %s", c.StorageClassName, c.NodeTopology.MatchLabels["zone"], c.Capacity))
		}
		slices.Sort(all)
		return all
	}
	expect := func(what string, got func() []string, want ...string) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); !slices.Equal(got(), want); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %q, want %q", what, got(), want)
			}
		}
	}
	published := []string{"n1 d.example.com n1[zone] 7", "n2 d.example.com n2[zone] 7", "n2 other"}
	expect("drivers", drivers, published...)
	expect("capacities", capacities, "ours a 100", "ours b 100")
	b.mu.Lock()
	b.allot("pv", allotment{"b", 30})
	b.mu.Unlock()
	expect("capacities beside a volume", capacities, "ours a 100", "ours b 70")
	if _, err := client.CoreV1().Nodes().Create(ctx, node("n3", "c"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("drivers with another node", drivers, append(published, "n3 d.example.com n3[zone] 7")...)
	if err := client.CoreV1().Nodes().Delete(ctx, "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("capacities without a node", capacities, "ours b 70", "ours c 100")

	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := p.withdraw(); err != nil {
		t.Fatal(err)
	}
	expect("drivers afterwards", drivers, "n2 other")
	expect("capacities afterwards", capacities)
	if list, err := storage.CSIDrivers().List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("CSIDrivers are left: %v, %v", list.Items, err)
	}
}
