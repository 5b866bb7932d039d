package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// listPods lists all pods once, as any client does at its start: the minimum work of a
// scheduler.
func listPods(ctx context.Context, kubeconfig string) error {
	config, err := rig.Config(kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"}); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	return nil
}
