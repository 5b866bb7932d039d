// Driver is a DRA driver for a development cluster, with imaginary devices.
//
// It takes a kubeconfig, a driver name and device properties. It publishes
// ResourceSlices: a pool of devices for each node, or one shared pool for several nodes.
// It uses the library of real drivers, so generations, retries and conflicts are the real
// ones. Node annotations taint devices. On demand, devices have binding conditions, which
// the driver sets in the status of claims with its devices.
//
// It owns its ResourceSlices and removes them when it is stopped. It never creates
// DeviceClasses or claims, never allocates, and never prepares devices on a node.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

const (
	driverNameMax = 63  // characters; the API's limit
	devicesMax    = 512 // of a pool
)

// options are the values of the flags.
type options struct {
	kubeconfig        string
	driver            string
	nodeSelector      string
	devices           int
	model             string
	memory            string
	sharedPool        string
	bindingConditions bool
	bindingDelay      time.Duration

	nodes       labels.Selector   // of nodeSelector
	memoryBytes resource.Quantity // of memory
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
		fmt.Fprintf(os.Stderr, "driver: %v\n", err)
		return exitUsage
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if err := serve(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "driver: %v\n", err)
		return exitFailed
	}
	return 0
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := pflag.NewFlagSet("driver", pflag.ContinueOnError)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file` of an administrator")
	flags.StringVar(&o.driver, "driver", "gpu.berth.example", "`name` of the driver; no other process may publish for the same one")
	flags.StringVar(&o.nodeSelector, "node-selector", "", "`labels` of the nodes that have devices, such as gpu=yes; all nodes without it")
	flags.IntVar(&o.devices, "devices", 8, "`number` of devices of each pool: gpu-0, gpu-1, ...")
	flags.StringVar(&o.model, "model", "imaginary-1", "the devices' attribute `model`")
	flags.StringVar(&o.memory, "memory", "16Gi", "the devices' capacity memory, a `quantity`")
	flags.StringVar(&o.sharedPool, "shared-pool", "", "`name` of one pool, whose devices can be reached from all of the nodes; without it, each node has a pool of its name")
	flags.BoolVar(&o.bindingConditions, "binding-conditions", false, "the devices have binding conditions, and the driver answers them in claims")
	flags.DurationVar(&o.bindingDelay, "binding-delay", 0, "`time` after an allocation at which its binding conditions are answered")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: driver takes flags only", flags.Arg(0))
	}
	return o, o.check()
}

// check validates the flags.
func (o *options) check() (err error) {
	if o.kubeconfig == "" {
		return errors.New("--kubeconfig is missing")
	}
	if wrong := validation.IsDNS1123Subdomain(o.driver); len(wrong) > 0 {
		return fmt.Errorf("--driver %q: %s", o.driver, wrong[0])
	}
	if len(o.driver) > driverNameMax {
		return fmt.Errorf("--driver %q: must have at most %d characters", o.driver, driverNameMax)
	}
	if o.nodes, err = labels.Parse(o.nodeSelector); err != nil {
		return fmt.Errorf("--node-selector %q: %w", o.nodeSelector, err)
	}
	if o.devices < 0 || o.devices > devicesMax {
		return fmt.Errorf("--devices %d: must be between 0 and %d", o.devices, devicesMax)
	}
	if o.model == "" || len(o.model) > validation.LabelValueMaxLength {
		return fmt.Errorf("--model %q: must have 1 to %d characters", o.model, validation.LabelValueMaxLength)
	}
	if o.memoryBytes, err = resource.ParseQuantity(o.memory); err != nil || o.memoryBytes.Sign() <= 0 {
		return fmt.Errorf("--memory %q: must be a quantity greater than 0, such as 16Gi", o.memory)
	}
	for part := range strings.SplitSeq(o.sharedPool, "/") {
		if wrong := validation.IsDNS1123Subdomain(part); o.sharedPool != "" && len(wrong) > 0 {
			return fmt.Errorf("--shared-pool %q: %s", o.sharedPool, wrong[0])
		}
	}
	switch {
	case o.bindingDelay < 0:
		return fmt.Errorf("--binding-delay %v: must be at least 0", o.bindingDelay)
	case o.bindingDelay > 0 && !o.bindingConditions:
		return errors.New("--binding-delay needs --binding-conditions")
	}
	return nil
}

// serve runs until the context ends, and then removes its objects.
func serve(ctx context.Context, o *options) (err error) {
	client, err := newClient(o.kubeconfig)
	if err != nil {
		return err
	}
	if _, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		// the library would retry forever
		return fmt.Errorf("list ResourceSlices of resource.k8s.io/v1: %w", err)
	}
	// The library logs an error of one pool and retries. An error of all pools ends the
	// program.
	running, stop := context.WithCancelCause(ctx)
	nodes := coreinformers.NewFilteredNodeInformer(client, 0, cache.Indexers{}, func(options *metav1.ListOptions) { options.LabelSelector = o.nodes.String() })
	publisher := newPublisher(o, client, corelisters.NewNodeLister(nodes.GetIndexer()), stop)
	changes := []func(before, now *v1.Node){publisher.nodeSeen}
	binder := newBinder(o, client, publisher.nodes)
	if o.bindingConditions {
		changes = append(changes, binder.nodeSeen)
	}
	if err := follow(nodes, changes); err != nil {
		return err
	}
	var goroutines sync.WaitGroup
	defer goroutines.Wait()
	defer stop(nil)
	goroutines.Go(func() { nodes.RunWithContext(running) })
	if !cache.WaitForCacheSync(running.Done(), nodes.HasSynced) {
		return nil // stopped
	}
	defer func() { err = errors.Join(err, publisher.withdraw()) }()
	if o.bindingConditions {
		goroutines.Go(func() { binder.run(running, stop) })
	}
	if err := publisher.run(running); err != nil {
		return err
	}
	if ctx.Err() == nil {
		return context.Cause(running)
	}
	return nil
}

// follow calls functions for each change of a node. One of the two versions is nil when a
// node is added or removed.
func follow(nodes cache.SharedInformer, do []func(before, now *v1.Node)) error {
	each := func(before, now *v1.Node) {
		for _, f := range do {
			f(before, now)
		}
	}
	_, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { each(nil, now.(*v1.Node)) },
		UpdateFunc: func(before, now any) { each(before.(*v1.Node), now.(*v1.Node)) },
		DeleteFunc: func(o any) {
			if missed, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
			}
			each(o.(*v1.Node), nil)
		},
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	return nil
}

// newClient returns a client without a rate limit.
func newClient(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config = rest.AddUserAgent(config, "driver")
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}
