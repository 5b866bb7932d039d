// Provisioner is a CSI external provisioner for a development cluster, with imaginary
// storage.
//
// It takes a kubeconfig, a driver name and storage properties: a volume's reach, the
// capacity, the share of failures. It provisions PersistentVolumes for the claims of the
// driver's StorageClasses. It uses the library of real provisioners, so claims,
// annotations, retries and events are the real ones. It also publishes the objects of a
// driver's other parts: the CSIDriver, its entry in each CSINode, and CSIStorageCapacity
// objects.
//
// It owns the published objects and removes them when it is stopped. Volumes stay with
// their claims. It never binds a claim (the controller manager does), and never attaches
// or mounts anything.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

// Failed provisionings are retried after retryMin, with doubled delays up to retryMax.
// The scheduler decides when to retry claims that were handed back.
const (
	retryMin = 50 * time.Millisecond
	retryMax = 5 * time.Second
)

// workers is the number of claims in work at the same time, as in kubernetes-csi's
// provisioner.
const workers = 100

// options are the values of the flags.
type options struct {
	kubeconfig     string
	driver         string
	topologyKey    string
	volumesPerNode int32
	capacity       string
	failShare      float64
	seed           uint64
	delay          time.Duration
	capacityBytes  int64 // capacity in bytes; 0 without a limit
}

func main() {
	os.Exit(run(os.Args[1:]))
}

// run is the whole program. It returns the exit code.
func run(args []string) int {
	o, err := parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "provisioner: %v\n", err)
		return exitUsage
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if err := provision(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "provisioner: %v\n", err)
		return exitFailed
	}
	return 0
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := pflag.NewFlagSet("provisioner", pflag.ContinueOnError)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file` of an administrator")
	flags.StringVar(&o.driver, "driver", "volumes.example.com", "`name` of the driver, which StorageClasses name as their provisioner")
	flags.StringVar(&o.topologyKey, "topology-key", "kubernetes.io/hostname", "a volume is reachable from the nodes that share the value of this `label`")
	flags.Int32Var(&o.volumesPerNode, "volumes-per-node", 0, "`number` of volumes that each node can attach, in CSINode; 0 for no limit")
	flags.StringVar(&o.capacity, "capacity", "", "`quantity` of storage behind each value of the topology key, published as CSIStorageCapacity; without it storage has no limit and none is published")
	flags.Float64Var(&o.failShare, "fail-share", 0, "`share` of the provisionings that fail, 0 to 1; the claim is handed back to the scheduler if a node was selected")
	flags.Uint64Var(&o.seed, "seed", 1, "which provisionings fail: equal seeds, claims and attempts fail alike")
	flags.DurationVar(&o.delay, "delay", 0, "`time` that provisioning a volume takes")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: provisioner takes flags only", flags.Arg(0))
	}
	return o, o.check()
}

// check validates the flags.
func (o *options) check() error {
	if o.kubeconfig == "" {
		return errors.New("--kubeconfig is missing")
	}
	if wrong := validation.IsDNS1123Subdomain(o.driver); len(wrong) > 0 {
		return fmt.Errorf("--driver %q: %s", o.driver, wrong[0])
	}
	if wrong := validation.IsQualifiedName(o.topologyKey); len(wrong) > 0 {
		return fmt.Errorf("--topology-key %q: %s", o.topologyKey, wrong[0])
	}
	if !(o.failShare >= 0 && o.failShare <= 1) { // also false for NaN
		return fmt.Errorf("--fail-share %v: must be between 0 and 1", o.failShare)
	}
	if o.volumesPerNode < 0 {
		return fmt.Errorf("--volumes-per-node %d: must be at least 0", o.volumesPerNode)
	}
	if o.delay < 0 {
		return fmt.Errorf("--delay %v: must be at least 0", o.delay)
	}
	if o.capacity == "" {
		return nil
	}
	quantity, err := resource.ParseQuantity(o.capacity)
	if err != nil || quantity.Value() <= 0 {
		return fmt.Errorf("--capacity %q: must be a quantity greater than 0, such as 100Gi", o.capacity)
	}
	o.capacityBytes = quantity.Value()
	return nil
}

// provision runs until the context ends, and then removes its published objects.
func provision(ctx context.Context, o *options) (err error) {
	client, err := newClient(o.kubeconfig)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes, volumes, classes := factory.Core().V1().Nodes(), factory.Core().V1().PersistentVolumes(), factory.Storage().V1().StorageClasses()
	backend := newBackend(o, nodes.Lister())
	publisher := newPublisher(o, client, backend, nodes, classes)
	for _, register := range []func() error{publisher.follow, func() error { return backend.follow(volumes.Informer()) }} {
		if err := register(); err != nil {
			return err
		}
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced && ctx.Err() == nil {
			return fmt.Errorf("list %v", kind)
		}
	}
	defer func() { err = errors.Join(err, publisher.withdraw()) }()
	publishing := make(chan error, 1)
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		publishing <- publisher.run(running)
		cancel() // the provisioner must stop without it
	}()
	provisioner := controller.NewProvisionController(running, client, o.driver, backend,
		controller.LeaderElection(false),
		controller.Threadiness(workers),
		controller.FailedProvisionThreshold(0), // try forever
		controller.FailedDeleteThreshold(0),
		controller.RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryMin, retryMax)),
		controller.CreateProvisionedPVLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryMin, retryMax)),
		controller.VolumesInformer(volumes.Informer()),
		controller.ClassesInformer(classes.Informer()),
	)
	provisioner.Run(running)
	return <-publishing
}

// newClient returns a client without a rate limit.
func newClient(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config = rest.AddUserAgent(config, "provisioner")
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}
