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
	// writers is how many requests are in flight.
	writers = 16
	// starters is how many controllers are started at the same time. Each looks once a second whether it knows its slices.
	starters = 128
	// publishEvery is the least time between two rounds of publishing.
	publishEvery = 100 * time.Millisecond
	// withdrawLimit is how long removing everything may take.
	withdrawLimit = 20 * time.Second
)

// publisher keeps the driver's ResourceSlices as they should be. The library has one controller for each node, as it runs on that node with real drivers.
type publisher struct {
	options *options
	client  kubernetes.Interface
	nodes   corelisters.NodeLister
	// stop ends the program, because of an error.
	stop context.CancelCauseFunc
	// changed gets a value when nodes may have changed.
	changed chan struct{}
	// published are the pools by name. Only run's goroutine uses it while it runs, and withdraw after it.
	published map[string]*published
	// leftovers is set if there may be slices of pools that are not wanted. It is used as published is.
	leftovers bool
}

// published is a pool that a controller publishes.
type published struct {
	node       types.UID // empty for a shared pool
	taints     string    // as in wanted
	controller *resourceslice.Controller
}

func newPublisher(o *options, client kubernetes.Interface, nodes corelisters.NodeLister, stop context.CancelCauseFunc) *publisher {
	return &publisher{options: o, client: client, nodes: nodes, stop: stop, changed: make(chan struct{}, 1), published: map[string]*published{}}
}

// nodeSeen makes nodes that come and go, and annotations that change, lead to a round of publishing.
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
	p.leftovers = true // of an earlier run that was killed
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

// round brings the pools up to date: those that are not wanted any more go first, because a controller keeps slices that it finds.
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

// publish starts controllers for new pools, and passes on what has changed to others.
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

// failed is called by the library before it tries again. Where the API server has dropped fields, trying again is no use: pods would get devices that are not
// what they seem.
func (p *publisher) failed(_ context.Context, err error, what string) {
	if dropped := (*resourceslice.DroppedFieldsError)(nil); errors.As(err, &dropped) {
		p.stop(fmt.Errorf("%s: %w", what, err))
		return
	}
	fmt.Fprintf(os.Stderr, "driver: %s: %v\n", what, err)
}

// obsolete reports whether a slice of the driver is of no pool that is wanted, or of an earlier node of that name.
func obsolete(slice *resourcev1.ResourceSlice, pools map[string]*wanted) bool {
	w := pools[slice.Spec.Pool.Name]
	if w == nil || (w.owner == nil) != (slice.Spec.NodeName == nil) {
		return true
	}
	owner := metav1.GetControllerOf(slice)
	return w.owner != nil && (owner == nil || owner.UID != w.owner.UID)
}

// withdraw removes everything that was published, also by an earlier run that was killed.
func (p *publisher) withdraw() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), withdrawLimit, fmt.Errorf("it took longer than %v", withdrawLimit))
	defer cancel()
	for _, have := range p.published {
		have.controller.Stop()
	}
	return p.remove(ctx, func(*resourcev1.ResourceSlice) bool { return true })
}

// remove removes those of the driver's slices that are to go.
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
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // a conflict means that it is another one by now
				return fmt.Errorf("remove ResourceSlice %s: %w", slice.Name, err)
			}
			return nil
		})
	}
	return work.Wait()
}
