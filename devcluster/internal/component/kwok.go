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
	// agentID holds the nodes' leases. It is the same in every run, so a resumed cluster
	// need not wait until the previous run's leases expire.
	agentID = "devcluster"
	// foreignNodeIP and foreignPodCIDR are for user-created nodes without addresses.
	foreignNodeIP  = "172.31.0.1"
	foreignPodCIDR = "100.64.0.0/10"

	agentWorkers = 16
)

// runKwok simulates the kubelets of all nodes. Our own code admits and starts pods.
// kwok's controllers do the rest with their stock stages: they renew leases, complete
// pods of Jobs and delete terminating pods.
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

	// Below warnings, kwok logs every lease.
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

// newClient returns a client with protobuf and without a rate limit, because the agent
// replaces thousands of kubelets.
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

// stockStages returns kwok's own stages, without the stage that starts pods.
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
