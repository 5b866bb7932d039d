package component

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/clock"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	"sigs.k8s.io/kwok/pkg/log"

	"github.com/berth-scheduler/berth/devcluster/internal/admission"
	"github.com/berth-scheduler/berth/devcluster/internal/children"
	"github.com/berth-scheduler/berth/devcluster/internal/kubelet"
)

const (
	// agentID holds the nodes' leases. It is the same in every run, so that a resumed cluster need not wait for the leases of its earlier
	// run to expire.
	agentID = "devcluster"
	// foreignNodeIP and foreignPodCIDR are for nodes that users create without addresses.
	foreignNodeIP  = "172.31.0.1"
	foreignPodCIDR = "100.64.0.0/10"

	agentWorkers = 16
)

// runKwok simulates the kubelets of all nodes. Our own code admits pods and starts them. kwok's controllers do the rest with kwok's stock
// stages: leases are renewed, pods of Jobs complete, terminating pods are deleted.
func runKwok(ctx context.Context, args []string) error {
	flags := pflag.NewFlagSet(children.Kwok, pflag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the agent")
	leaseSeconds := flags.Uint("lease-seconds", 40, "how long a node lives without a renewed lease; it is renewed four times as often")
	gates := compatibility.DefaultComponentGlobalsRegistry
	gates.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := gates.Set(); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	client, err := newClient(*kubeconfig)
	if err != nil {
		return err
	}
	stages, err := stockStages()
	if err != nil {
		return err
	}
	controller, err := controllers.NewController(controllers.Config{
		Clock:                     clock.RealClock{},
		TypedClient:               client,
		ManageAllNodes:            true,
		NodeIP:                    foreignNodeIP,
		CIDR:                      foreignPodCIDR,
		LocalStages:               stages,
		PodPlayStageParallelism:   agentWorkers,
		NodePlayStageParallelism:  agentWorkers,
		NodeLeaseParallelism:      agentWorkers,
		PodsOnNodeSyncParallelism: agentWorkers,
		NodeLeaseDurationSeconds:  *leaseSeconds,
		ID:                        agentID,
	})
	if err != nil {
		return fmt.Errorf("configure kwok: %w", err)
	}

	// Below warnings, kwok reports every lease.
	ctx = log.NewContext(ctx, log.NewLogger(os.Stderr, log.LevelWarn))
	if err := controller.Start(ctx); err != nil {
		return fmt.Errorf("start kwok: %w", err)
	}
	return kubelet.Run(ctx, kubelet.Config{
		Client:         client,
		Admit:          admission.Admit,
		NodeIP:         foreignNodeIP,
		PodCIDR:        foreignPodCIDR,
		PodGroupClaims: utilfeature.DefaultFeatureGate.Enabled(features.DRAWorkloadResourceClaims),
		Workers:        agentWorkers,
	})
}

// newClient makes a client that uses protobuf and has no rate limit: the agent replaces thousands of kubelets.
func newClient(kubeconfig string) (*kubernetes.Clientset, error) {
	if kubeconfig == "" {
		return nil, errors.New("--kubeconfig is missing")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config = rest.AddUserAgent(config, children.Kwok)
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

// stockStages are the stages that kwok ships, except the one that starts pods.
func stockStages() (map[internalversion.StageResourceRef][]*internalversion.Stage, error) {
	stages := map[internalversion.StageResourceRef][]*internalversion.Stage{}
	for _, text := range []string{
		nodefast.DefaultNodeInit, heartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodComplete, podfast.DefaultPodDelete,
	} {
		stage, err := config.UnmarshalWithType[*internalversion.Stage](text)
		if err != nil {
			return nil, fmt.Errorf("read a stage of kwok: %w", err)
		}
		stages[stage.Spec.ResourceRef] = append(stages[stage.Spec.ResourceRef], stage)
	}
	return stages, nil
}
