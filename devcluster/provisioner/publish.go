package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// ownerLabel marks the provisioner's own objects. Its value is the driver's name.
const ownerLabel = "berth.dev/provisioner"

// capacityNamespace holds the CSIStorageCapacity objects; a real driver has its own
// namespace.
const capacityNamespace = metav1.NamespaceSystem

const (
	// writers is the number of requests in flight.
	writers = 16
	// publishEvery is the minimum time between two rounds of publishing. Capacities may
	// be stale by this time, like a real driver's.
	publishEvery = 200 * time.Millisecond
	// withdrawLimit is the time limit for removing everything.
	withdrawLimit = 20 * time.Second
)

// publisher reconciles the driver's objects. Only run's goroutine writes during run, and
// withdraw afterwards.
type publisher struct {
	options *options
	client  kubernetes.Interface
	backend *backend
	nodes   coreinformers.NodeInformer
	classes storageinformers.StorageClassInformer

	mu   sync.Mutex           // a round's requests run concurrently
	done map[string]types.UID // nodes with a published CSINode, by name
	last map[string]int64     // bytes of the published capacities, by name
}

func newPublisher(o *options, client kubernetes.Interface, b *backend, nodes coreinformers.NodeInformer, classes storageinformers.StorageClassInformer) *publisher {
	return &publisher{
		options: o, client: client, backend: b, nodes: nodes, classes: classes,
		done: map[string]types.UID{}, last: map[string]int64{},
	}
}

// follow starts a round of publishing after nodes or classes are added or removed, or
// labels change.
func (p *publisher) follow() error {
	tell := func(any) { p.backend.tell() }
	for _, informer := range []cache.SharedIndexInformer{p.nodes.Informer(), p.classes.Informer()} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell, DeleteFunc: tell, UpdateFunc: func(before, now any) {
			b, n := before.(metav1.Object), now.(metav1.Object)
			if !labels.Equals(b.GetLabels(), n.GetLabels()) {
				p.backend.tell()
			}
		}})
		if err != nil {
			return fmt.Errorf("watch nodes and classes: %w", err)
		}
	}
	return nil
}

// run publishes until the context ends. The CSIDriver comes last: once it exists,
// everything does.
func (p *publisher) run(ctx context.Context) error {
	tick := time.NewTicker(publishEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		err := p.round(ctx)
		if err == nil && first {
			err = p.publishDriver(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && first {
			return err
		}
		if err != nil { // the API server may be restarting
			fmt.Fprintf(os.Stderr, "provisioner: tried again: %v\n", err)
			p.backend.tell()
		}
		select {
		case <-p.backend.changed:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// round reconciles everything but the CSIDriver.
func (p *publisher) round(ctx context.Context) error {
	nodes, err := p.nodes.Lister().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	work, workCtx := errgroup.WithContext(ctx)
	work.SetLimit(writers)
	there := map[string]bool{}
	for _, node := range nodes {
		there[node.Name] = true
		work.Go(func() error { return p.publishNode(workCtx, node) })
	}
	if err := work.Wait(); err != nil {
		return err
	}
	maps.DeleteFunc(p.done, func(name string, _ types.UID) bool { return !there[name] })
	if p.options.capacityBytes == 0 {
		return nil
	}
	return p.publishCapacities(ctx, nodes)
}

// entry returns the driver's CSINode entry for a node.
func (p *publisher) entry(node *v1.Node) storagev1.CSINodeDriver {
	entry := storagev1.CSINodeDriver{Name: p.options.driver, NodeID: node.Name, TopologyKeys: []string{p.options.topologyKey}}
	if p.options.volumesPerNode > 0 {
		entry.Allocatable = &storagev1.VolumeNodeResources{Count: &p.options.volumesPerNode}
	}
	return entry
}

// publishNode adds the driver to a node's CSINode, which a kubelet would create. A
// missing one is created here.
func (p *publisher) publishNode(ctx context.Context, node *v1.Node) error {
	p.mu.Lock()
	id, done := p.done[node.Name]
	p.mu.Unlock()
	if done && id == node.UID {
		return nil
	}
	if err := p.setEntry(ctx, node, p.entry(node)); err != nil {
		return fmt.Errorf("publish the CSINode of %s: %w", node.Name, err)
	}
	p.mu.Lock()
	p.done[node.Name] = node.UID
	p.mu.Unlock()
	return nil
}

func (p *publisher) setEntry(ctx context.Context, node *v1.Node, entry storagev1.CSINodeDriver) error {
	nodes := p.client.StorageV1().CSINodes()
	have, err := nodes.Get(ctx, node.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = nodes.Create(ctx, &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{
				Name: node.Name, Labels: map[string]string{ownerLabel: p.options.driver},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
			},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{entry}},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	// An entry cannot be changed, only replaced in two steps.
	if others := p.others(have); len(others) < len(have.Spec.Drivers) {
		have.Spec.Drivers = others
		if have, err = nodes.Update(ctx, have, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	have.Spec.Drivers = append(have.Spec.Drivers, entry)
	_, err = nodes.Update(ctx, have, metav1.UpdateOptions{})
	return err
}

// others returns the entries of other drivers.
func (p *publisher) others(node *storagev1.CSINode) []storagev1.CSINodeDriver {
	return slices.DeleteFunc(slices.Clone(node.Spec.Drivers), func(d storagev1.CSINodeDriver) bool { return d.Name == p.options.driver })
}

func (p *publisher) publishDriver(ctx context.Context) error {
	// Attaching would require a controller, which is missing.
	attach, capacity := false, p.options.capacityBytes > 0
	_, err := p.client.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: p.options.driver, Labels: map[string]string{ownerLabel: p.options.driver}},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: &attach, StorageCapacity: &capacity},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		patch := fmt.Appendf(nil, `{"spec": {"storageCapacity": %v}}`, capacity)
		_, err = p.client.StorageV1().CSIDrivers().Patch(ctx, p.options.driver, "application/merge-patch+json", patch, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("publish the CSIDriver: %w", err)
	}
	return nil
}

// publishCapacities keeps exactly one object for each class of the driver and each
// segment.
func (p *publisher) publishCapacities(ctx context.Context, nodes []*v1.Node) error {
	classes, err := p.classes.Lister().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list classes: %w", err)
	}
	segments := map[string]bool{}
	for _, node := range nodes {
		if segment, ok := node.Labels[p.options.topologyKey]; ok {
			segments[segment] = true
		}
	}
	wanted := map[string]bool{}
	work, workCtx := errgroup.WithContext(ctx)
	work.SetLimit(writers)
	for _, class := range classes {
		if !p.options.ours(class) {
			continue
		}
		for segment := range segments {
			name := p.capacityName(class.Name, segment)
			wanted[name] = true
			work.Go(func() error { return p.publishCapacity(workCtx, name, class.Name, segment) })
		}
	}
	if err := work.Wait(); err != nil {
		return err
	}
	for name := range p.last {
		if wanted[name] {
			continue
		}
		err := p.client.StorageV1().CSIStorageCapacities(capacityNamespace).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove a capacity: %w", err)
		}
		delete(p.last, name)
	}
	return nil
}

// capacityName is the same in every run, so an earlier run's object is found again.
func (p *publisher) capacityName(class, segment string) string {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%q %q %q", p.options.driver, class, segment)
	return fmt.Sprintf("csisc-%016x", hash.Sum64())
}

func (p *publisher) publishCapacity(ctx context.Context, name, class, segment string) error {
	bytes := p.backend.free(segment)
	p.mu.Lock()
	last, there := p.last[name]
	p.mu.Unlock()
	if there && last == bytes {
		return nil
	}
	capacities := p.client.StorageV1().CSIStorageCapacities(capacityNamespace)
	quantity := resource.NewQuantity(bytes, resource.BinarySI)
	patch := fmt.Appendf(nil, `{"capacity": %q}`, quantity.String())
	_, err := capacities.Patch(ctx, name, "application/merge-patch+json", patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = capacities.Create(ctx, &storagev1.CSIStorageCapacity{
			ObjectMeta:       metav1.ObjectMeta{Name: name, Labels: map[string]string{ownerLabel: p.options.driver}},
			StorageClassName: class, Capacity: quantity,
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{p.options.topologyKey: segment}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("publish the capacity of segment %s: %w", segment, err)
	}
	p.mu.Lock()
	p.last[name] = bytes
	p.mu.Unlock()
	return nil
}

// withdraw removes all published objects, also those of an earlier, killed run.
func (p *publisher) withdraw() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), withdrawLimit, fmt.Errorf("it took longer than %v", withdrawLimit))
	defer cancel()
	driver := p.client.StorageV1().CSIDrivers().Delete(ctx, p.options.driver, metav1.DeleteOptions{})
	if apierrors.IsNotFound(driver) {
		driver = nil
	}
	if err := errors.Join(driver, p.withdrawCapacities(ctx), p.withdrawNodes(ctx)); err != nil {
		return fmt.Errorf("remove what was published: %w", err)
	}
	return nil
}

func (p *publisher) withdrawCapacities(ctx context.Context) error {
	capacities := p.client.StorageV1().CSIStorageCapacities(capacityNamespace)
	list, err := capacities.List(ctx, metav1.ListOptions{LabelSelector: ownerLabel + "=" + p.options.driver})
	if err != nil {
		return err
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(writers)
	for i := range list.Items {
		work.Go(func() error {
			err := capacities.Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	}
	return work.Wait()
}

// withdrawNodes removes the driver from all CSINodes, and deletes its own CSINodes
// without other drivers.
func (p *publisher) withdrawNodes(ctx context.Context) error {
	nodes := p.client.StorageV1().CSINodes()
	list, err := nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(writers)
	for i := range list.Items {
		node := &list.Items[i]
		others := p.others(node)
		if len(others) == len(node.Spec.Drivers) {
			continue
		}
		work.Go(func() error {
			var err error
			if len(others) == 0 && node.Labels[ownerLabel] == p.options.driver {
				err = nodes.Delete(ctx, node.Name, metav1.DeleteOptions{})
			} else {
				node.Spec.Drivers = others
				_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
			}
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	}
	return work.Wait()
}
