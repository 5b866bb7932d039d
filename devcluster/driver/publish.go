package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const (
	// writers is the number of requests in flight.
	writers = 16
	// starters is the number of controllers that start at the same time. Each checks once
	// a second whether it has synced its slices.
	starters = 128
	// publishEvery is the minimum time between two rounds of publishing.
	publishEvery = 100 * time.Millisecond
	// withdrawLimit is the time limit for removing everything.
	withdrawLimit = 20 * time.Second
)

// publisher reconciles the driver's ResourceSlices. The library has one controller for
// each node, which runs on that node in real drivers.
type publisher struct {
	options *options
	client  kubernetes.Interface
	nodes   corelisters.NodeLister
	// stop ends the program with an error.
	stop context.CancelCauseFunc
	// changed receives a value when nodes may have changed.
	changed chan struct{}
	// published are the pools by name. Only run's goroutine uses it during run, and
	// withdraw afterwards.
	published map[string]*published
	// leftovers is set if slices of unwanted pools may exist. It has the same users as
	// published.
	leftovers bool
}

// published is a pool published by a controller.
type published struct {
	node       types.UID // empty for a shared pool
	taints     string    // as in wanted
	controller *resourceslice.Controller
}

func newPublisher(o *options, client kubernetes.Interface, nodes corelisters.NodeLister, stop context.CancelCauseFunc) *publisher {
	return &publisher{options: o, client: client, nodes: nodes, stop: stop, changed: make(chan struct{}, 1), published: map[string]*published{}}
}

// nodeSeen starts a round of publishing after a node is added, removed, or has a changed
// annotation.
func (p *publisher) nodeSeen(before, now *v1.Node) {
	annotation := p.options.taintAnnotation()
	if before == nil || now == nil || before.UID != now.UID || before.Annotations[annotation] != now.Annotations[annotation] {
		p.tell()
	}
}

func (p *publisher) tell() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// run publishes until the context ends.
func (p *publisher) run(ctx context.Context) error {
	tick := time.NewTicker(publishEvery)
	defer tick.Stop()
	p.leftovers = true // of an earlier, killed run
	for first := true; ; first = false {
		err := p.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && first {
			return err
		}
		if err != nil { // the API server may be restarting
			fmt.Fprintf(os.Stderr, "driver: tried again: %v\n", err)
			p.tell()
		}
		select {
		case <-p.changed:
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

// round reconciles the pools. Unwanted ones are removed first, because a controller keeps
// existing slices.
func (p *publisher) round(ctx context.Context) error {
	nodes, err := p.nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	pools, wrong := p.options.pools(nodes)
	for _, err := range wrong {
		fmt.Fprintf(os.Stderr, "driver: %v\n", err)
	}
	for name, have := range p.published {
		if w := pools[name]; w == nil || w.uid() != have.node {
			have.controller.Stop()
			delete(p.published, name)
			p.leftovers = true
		}
	}
	if p.leftovers {
		if err := p.remove(ctx, func(slice *resourcev1.ResourceSlice) bool { return obsolete(slice, pools) }); err != nil {
			return err
		}
		p.leftovers = false
	}
	return p.publish(ctx, pools)
}

// publish starts controllers for new pools and updates the others.
func (p *publisher) publish(ctx context.Context, pools map[string]*wanted) error {
	var mu sync.Mutex // for the map
	work, workCtx := errgroup.WithContext(ctx)
	work.SetLimit(starters)
	before := len(p.published)
	for name, w := range pools {
		resources := &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{name: w.pool}}
		mu.Lock()
		have := p.published[name]
		mu.Unlock()
		if have != nil {
			if have.taints != w.taints {
				have.controller.Update(resources)
				have.taints = w.taints
			}
			continue
		}
		work.Go(func() error {
			if workCtx.Err() != nil {
				return nil
			}
			controller, err := resourceslice.StartController(ctx, resourceslice.Options{
				DriverName: p.options.driver, KubeClient: p.client, Owner: w.owner, Resources: resources, ErrorHandler: p.failed,
			})
			if err != nil {
				return fmt.Errorf("publish pool %s: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			p.published[name] = &published{w.uid(), w.taints, controller}
			return nil
		})
	}
	err := work.Wait()
	if len(p.published) != before {
		fmt.Fprintf(os.Stderr, "driver: publishes %d pools\n", len(p.published))
	}
	return err
}

// failed is the library's callback before a retry. If the API server dropped fields, a
// retry is useless: pods would get devices with other properties.
func (p *publisher) failed(_ context.Context, err error, what string) {
	if dropped := (*resourceslice.DroppedFieldsError)(nil); errors.As(err, &dropped) {
		p.stop(fmt.Errorf("%s: %w", what, err))
		return
	}
	fmt.Fprintf(os.Stderr, "driver: %s: %v\n", what, err)
}

// obsolete reports whether a slice of the driver belongs to an unwanted pool, or to an
// earlier node of the same name.
func obsolete(slice *resourcev1.ResourceSlice, pools map[string]*wanted) bool {
	w := pools[slice.Spec.Pool.Name]
	if w == nil || (w.owner == nil) != (slice.Spec.NodeName == nil) {
		return true
	}
	owner := metav1.GetControllerOf(slice)
	return w.owner != nil && (owner == nil || owner.UID != w.owner.UID)
}

// withdraw removes all published slices, also those of an earlier, killed run.
func (p *publisher) withdraw() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), withdrawLimit, fmt.Errorf("it took longer than %v", withdrawLimit))
	defer cancel()
	for _, have := range p.published {
		have.controller.Stop()
	}
	return p.remove(ctx, func(*resourcev1.ResourceSlice) bool { return true })
}

// remove deletes the selected slices of the driver.
func (p *publisher) remove(ctx context.Context, goes func(*resourcev1.ResourceSlice) bool) error {
	api := p.client.ResourceV1().ResourceSlices()
	list, err := api.List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(resourcev1.ResourceSliceSelectorDriver, p.options.driver).String()})
	if err != nil {
		return fmt.Errorf("list ResourceSlices: %w", err)
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(writers)
	for i := range list.Items {
		slice := &list.Items[i]
		if !goes(slice) {
			continue
		}
		work.Go(func() error {
			err := api.Delete(ctx, slice.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &slice.UID}})
			// a conflict: it has been replaced already
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return fmt.Errorf("remove ResourceSlice %s: %w", slice.Name, err)
			}
			return nil
		})
	}
	return work.Wait()
}
