package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/internal/e2e/rig"
)

// binderInFlight is the number of writes that Berth keeps in flight.
const binderInFlight = 64

// bindRoundRobin binds every pending pod to the next node, whether it fits or not, and writes a Scheduled event for each. Then it waits to
// be stopped. It needs no watch and decodes each pod once: no scheduler can be cheaper. Pods with claims get the next volume instead, and its
// node.
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

func bindOne(ctx context.Context, client kubernetes.Interface, pod *v1.Pod, node string) error {
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}
	if err := client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("bind %s to %s: %w", pod.Name, node, err)
	}
	now := metav1.NowMicro()
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: pod.Namespace, Name: fmt.Sprintf("%s.%x", pod.Name, time.Now().UnixNano())},
		EventTime:           now,
		ReportingController: "round-robin",
		ReportingInstance:   "round-robin-compare",
		Action:              "Binding",
		Reason:              "Scheduled",
		Type:                v1.EventTypeNormal,
		Note:                fmt.Sprintf("Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, node),
		Regarding:           v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
	if _, err := client.EventsV1().Events(pod.Namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("write the event of %s: %w", pod.Name, err)
	}
	return nil
}
