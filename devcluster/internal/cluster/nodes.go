package cluster

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/devcluster/internal/shape"
)

// createWorkers is enough to keep the API server of a small machine busy.
const createWorkers = 32

// createNodes creates the first n nodes of the fleet, Ready from the start like a
// kubelet's registration. Existing nodes of a resumed cluster stay unchanged.
func createNodes(ctx context.Context, client kubernetes.Interface, fleet shape.Fleet, n int) error {
	now := time.Now()
	workers, workersCtx := errgroup.WithContext(ctx)
	workers.SetLimit(createWorkers)
	for i := range n {
		if workersCtx.Err() != nil {
			break
		}
		workers.Go(func() error {
			node := fleet.Node(i, now)
			_, err := client.CoreV1().Nodes().Create(workersCtx, node, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create node %s: %w", node.Name, err)
			}
			return nil
		})
	}
	err := workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
