package scene

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// HighPriority is a priority class that precedes others. The caller creates it.
const HighPriority = "high"

// atOnce returns options to delete a pod without a grace period.
func atOnce() metav1.DeleteOptions {
	now := int64(0)
	return metav1.DeleteOptions{GracePeriodSeconds: &now}
}

// created creates another pod at each tick.
func created(every time.Duration, of func(i int) *v1.Pod) Churn {
	return Churn{
		Every: every,
		Step: func(ctx context.Context, client kubernetes.Interface, i int) error {
			_, err := client.CoreV1().Pods(parked).Create(ctx, of(i), metav1.CreateOptions{})
			return err
		},
		Undo: func(ctx context.Context, client kubernetes.Interface) error {
			return client.CoreV1().Pods(parked).DeleteCollection(ctx, atOnce(), metav1.ListOptions{})
		},
	}
}

// recreated creates a node without capacity, a pod that fits no node, and a Service, in
// turns. Each replaces the previous one.
func recreated(every time.Duration) Churn {
	const name = "churn"
	remove := []func(ctx context.Context, client kubernetes.Interface) error{
		func(ctx context.Context, client kubernetes.Interface) error {
			return client.CoreV1().Nodes().Delete(ctx, name, atOnce())
		},
		func(ctx context.Context, client kubernetes.Interface) error {
			return client.CoreV1().Pods(parked).Delete(ctx, tooLarge(0).Name, atOnce())
		},
		func(ctx context.Context, client kubernetes.Interface) error {
			return client.CoreV1().Services(parked).Delete(ctx, name, atOnce())
		},
	}
	makers := []func(ctx context.Context, client kubernetes.Interface) error{
		func(ctx context.Context, client kubernetes.Interface) error {
			_, err := client.CoreV1().Nodes().Create(ctx, node(name, room{"0", "0", "0"}, nil), metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context, client kubernetes.Interface) error {
			_, err := client.CoreV1().Pods(parked).Create(ctx, tooLarge(0), metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context, client kubernetes.Interface) error {
			_, err := client.CoreV1().Services(parked).Create(ctx, service(parked, name, map[string]string{"app": "foo"}), metav1.CreateOptions{})
			return err
		},
	}
	return Churn{
		Every: every,
		Step: func(ctx context.Context, client kubernetes.Interface, i int) error {
			k := i % len(makers)
			if err := gone(remove[k](ctx, client)); err != nil {
				return err
			}
			return makers[k](ctx, client)
		},
		Undo: func(ctx context.Context, client kubernetes.Interface) error {
			for _, remove := range remove {
				if err := gone(remove(ctx, client)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// gone returns the error of a deletion, or nil if the object did not exist.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// deleted deletes pods at a rate, even if a request takes longer than the interval.
// Otherwise the requests' duration would be measured. The caller creates the pods again
// before the next round.
func deleted(pods Pods, perSecond int) Churn {
	return Churn{
		Every: time.Second / time.Duration(perSecond), AtOnce: 16,
		Step: func(ctx context.Context, client kubernetes.Interface, i int) error {
			if i >= pods.Count {
				return nil
			}
			return gone(client.CoreV1().Pods(pods.NamespaceOf(i)).Delete(ctx, pods.Pod(i).Name, atOnce()))
		},
		Undo: func(context.Context, kubernetes.Interface) error { return nil },
	}
}

// updated changes a label of a node, then its CPU a little, and goes on to the next node.
func updated(perSecond int, site *Site) Churn {
	return Churn{
		Every: time.Second / time.Duration(perSecond),
		Step: func(ctx context.Context, client kubernetes.Interface, i int) error {
			return update(ctx, client, site.Node(i/2%site.Nodes), i)
		},
		Undo: func(context.Context, kubernetes.Interface) error { return nil },
	}
}

func update(ctx context.Context, client kubernetes.Interface, n *v1.Node, i int) error {
	var patch any
	var subresources []string
	if i%2 == 0 {
		patch = map[string]any{"metadata": map[string]any{"labels": map[string]string{"example.com/churn": fmt.Sprint(i)}}}
	} else {
		cpu := n.Status.Allocatable.Cpu().DeepCopy()
		cpu.Sub(*resource.NewMilliQuantity(int64(1+i%100), resource.DecimalSI))
		patch = map[string]any{"status": map[string]any{"allocatable": map[string]string{"cpu": cpu.String()}}}
		subresources = []string{"status"}
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, subresources...)
	return err
}
