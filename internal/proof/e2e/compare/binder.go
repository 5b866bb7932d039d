package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// binderInFlight is the number of writes that Berth keeps in flight.
const binderInFlight = 64

// bindRoundRobin binds every pending pod to the next node, whether it fits or not, and
// writes a Scheduled event for each. Then it waits to be stopped. It needs no watch and
// decodes each pod once, so no scheduler can be cheaper. Pods with claims get the next
// volume and its node instead.
func bindRoundRobin(ctx context.Context, kubeconfig string) error {
	config, err := rig.Config(kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	if slices.ContainsFunc(pods.Items, func(p v1.Pod) bool { return claimOf(&p) != "" }) {
		return bindWithVolumes(ctx, client, pods.Items)
	}
	work := make(chan int)
	failed := make(chan error, binderInFlight)
	var wg sync.WaitGroup
	for range binderInFlight {
		wg.Go(func() {
			for i := range work {
				if err := bindOne(ctx, client, &pods.Items[i], nodes.Items[i%len(nodes.Items)].Name); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	for i := range pods.Items {
		select {
		case work <- i:
		case err := <-failed:
			return err
		}
	}
	close(work)
	wg.Wait()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// bindOne binds a pod and writes its event.
func bindOne(ctx context.Context, client kubernetes.Interface, pod *v1.Pod, node string) error {
	if err := bind(pod, node)(ctx, client); err != nil {
		return err
	}
	return record(scheduled(pod, node))(ctx, client)
}
