package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/scene"
	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// arrivalBinder carries out the scene's answer for each pod. It makes no decisions, and
// makes all writes that a scheduler has to make for them.
type arrivalBinder struct {
	client  kubernetes.Interface
	limiter *limiter
	scene   *scene.Scene
	// running are the pods on nodes that existed when the binder started. It is not
	// changed afterwards.
	running map[types.NamespacedName]*v1.Pod
	// work has every goroutine but those of the informer. ctx ends when one of them
	// fails.
	work *errgroup.Group
	ctx  context.Context
}

// bindArrivals binds the pods of a workload, given by its name and scale, as they are
// created, until it is stopped.
func bindArrivals(ctx context.Context, workload, scale, kubeconfig string) error {
	factor, err := strconv.ParseFloat(scale, 64)
	if err != nil {
		return fmt.Errorf("scale %q: %w", scale, err)
	}
	scenes := scene.Workloads(workload, factor)
	if len(scenes) != 1 || scenes[0].Answer == nil {
		return fmt.Errorf("%q is no workload whose answers are known", workload)
	}
	config, err := rig.Config(kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	b := &arrivalBinder{client: client, limiter: newLimiter(), scene: scenes[0], running: map[types.NamespacedName]*v1.Pod{}}
	list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName!="})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		b.running[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = p
	}
	if err := b.run(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// run watches pods without a node, and handles each on a goroutine of its own.
func (b *arrivalBinder) run(ctx context.Context) error {
	b.work, b.ctx = errgroup.WithContext(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(b.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", "").String()
	}))
	begun := map[types.UID]bool{}
	see := func(object any) {
		pod := object.(*v1.Pod)
		// the controller manager has not created its claim yet
		if begun[pod.UID] || slices.Contains(rig.ClaimsOf(pod), "") {
			return
		}
		begun[pod.UID] = true
		b.work.Go(func() error { return b.place(b.ctx, pod) })
	}
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, now any) { see(now) }})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	// This goroutine ends last, so that Wait does not return while the informer still
	// adds to the group.
	b.work.Go(func() error {
		factory.StartWithContext(b.ctx)
		<-b.ctx.Done()
		factory.Shutdown()
		return nil
	})
	return b.work.Wait()
}

// place makes the writes about one pod, in Berth's order. Evictions come first. The pod's
// status and its claim follow at the same time, then the binding, then its event. The
// status precedes the binding, because a bound pod must not get the condition of a
// pending one. No other write waits for the event.
func (b *arrivalBinder) place(ctx context.Context, pod *v1.Pod) error {
	answer := b.scene.Answer(pod)
	node := ""
	if !answer.Pending() {
		node = b.scene.Site.Node(answer.Node).Name
	}
	first, within := errgroup.WithContext(ctx)
	if answer.Message != "" {
		first.Go(func() error { return b.send(within, reports, setPending(pod, answer.Message, node)) })
		b.note(failedScheduling(pod, answer.Message))
	}
	first.Go(func() error { return b.makeRoom(within, answer.Victims, pod, node) })
	if answer.Allocation != nil {
		first.Go(func() error { return b.send(within, reports, setExpected(pod, node)) })
		first.Go(func() error { return b.giveDevices(within, answer.Allocation, pod) })
	}
	if err := first.Wait(); err != nil || node == "" {
		return err
	}
	if err := b.send(ctx, urgent, bind(pod, node)); err != nil {
		return err
	}
	return b.send(ctx, reports, record(scheduled(pod, node)))
}

// giveDevices writes the allocation of a pod's claim.
func (b *arrivalBinder) giveDevices(ctx context.Context, allocation *resourcev1.AllocationResult, pod *v1.Pod) error {
	claim := rig.ClaimsOf(pod)[0]
	if err := b.send(ctx, urgent, protect(pod.Namespace, claim)); err != nil {
		return err
	}
	return b.send(ctx, urgent, allocate(pod, claim, allocation))
}

// makeRoom evicts the victims on a node. The last one is evicted after the others.
func (b *arrivalBinder) makeRoom(ctx context.Context, victims []types.NamespacedName, preemptor *v1.Pod, node string) error {
	if len(victims) == 0 {
		return nil
	}
	last := len(victims) - 1
	others, within := errgroup.WithContext(ctx)
	for _, victim := range victims[:last] {
		others.Go(func() error { return b.evict(within, victim, preemptor, node) })
	}
	if err := others.Wait(); err != nil {
		return err
	}
	return b.evict(ctx, victims[last], preemptor, node)
}

// evict marks a pod and deletes it. Without a grace period and a kubelet, it is gone when
// the API server answers.
func (b *arrivalBinder) evict(ctx context.Context, name types.NamespacedName, preemptor *v1.Pod, node string) error {
	victim := b.running[name]
	if victim == nil {
		return fmt.Errorf("evict %s for %s: it does not run", name, preemptor.Name)
	}
	if err := b.send(ctx, urgent, setDisrupted(victim)); err != nil {
		return err
	}
	if err := b.send(ctx, urgent, remove(victim)); err != nil {
		return err
	}
	b.note(preempted(victim, preemptor, node))
	return nil
}

// note writes an event in the background.
func (b *arrivalBinder) note(event *eventsv1.Event) {
	b.work.Go(func() error { return b.send(b.ctx, reports, record(event)) })
}

// send sends a write when the limiter permits.
func (b *arrivalBinder) send(ctx context.Context, l lane, write write) error {
	if err := b.limiter.take(ctx, l); err != nil {
		return err
	}
	defer b.limiter.give(l)
	return write(ctx, b.client)
}
