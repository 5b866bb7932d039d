package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clients "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/app"
)

// connection holds kubectl's flags for the cluster, the user and the namespace.
type connection struct {
	flags *genericclioptions.ConfigFlags
}

func newConnection(flags *pflag.FlagSet) *connection {
	c := &connection{genericclioptions.NewConfigFlags(true)}
	c.flags.CacheDir = nil // no cache on disk
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.flags.AddFlags(all)
	all.VisitAll(func(flag *pflag.Flag) {
		if flag.Name == "namespace" { // has a meaning of its own in each command
			flag.Usage = "Only the pods of this namespace (default: all)."
			return
		}
		_ = all.SetAnnotation(flag.Name, ofKubectl, nil) // the flag exists
	})
	flags.AddFlagSet(all)
	return c
}

// access returns the client configuration for the API server.
func (c *connection) access() (*rest.Config, error) {
	if c.isUnknown() {
		return nil, wrong{errors.New("no cluster is configured: name a kubeconfig file with --kubeconfig")}
	}
	access, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, wrong{fmt.Errorf("load the kubeconfig: %w; name a kubeconfig file with --kubeconfig", err)}
	}
	access.UserAgent = "kubectl-berth/" + app.Version()
	access.WarningHandler = rest.NoWarnings{}
	return access, nil
}

// isUnknown reports whether nothing names an API server: no kubeconfig, no flag, and no
// service account of a pod.
func (c *connection) isUnknown() bool {
	raw, err := c.flags.ToRawKubeConfigLoader().RawConfig()
	return err == nil && len(raw.Clusters) == 0 && *c.flags.APIServer == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == ""
}

// namespace returns the namespace of -n, or of the context.
func (c *connection) namespace() (string, error) {
	namespace, _, err := c.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", wrong{fmt.Errorf("find the namespace of the context: %w", err)}
	}
	return namespace, nil
}

// only reports whether -n names another namespace.
func (c *connection) only(namespace string) bool {
	return *c.flags.Namespace != "" && *c.flags.Namespace != namespace
}

// qualified returns NAMESPACE/NAME for a pod that may be given by its name alone.
func (c *connection) qualified(pod string) (string, error) {
	if strings.Contains(pod, "/") {
		return pod, nil
	}
	namespace, err := c.namespace()
	return namespace + "/" + pod, err
}

// maxCompletion limits the time for a shell completion, and completionNames the number of
// names.
const (
	maxCompletion   = 3 * time.Second
	completionNames = 500
)

// pendingPods returns the namespace's pending pods with this prefix. Errors return none,
// because a shell shows no errors.
func (c *connection) pendingPods(ctx context.Context, typed string) []string {
	client, ctx, cancel, err := c.completing(ctx)
	if err != nil {
		return nil
	}
	defer cancel()
	namespace, err := c.namespace()
	if err != nil {
		return nil
	}
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=,status.phase=" + string(v1.PodPending), Limit: completionNames})
	if err != nil {
		return nil
	}
	return begun(list.Items, typed, func(p *v1.Pod) string { return p.Name })
}

// nodes returns the nodes with this prefix.
func (c *connection) nodes(ctx context.Context, typed string) []string {
	client, ctx, cancel, err := c.completing(ctx)
	if err != nil {
		return nil
	}
	defer cancel()
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	return begun(list.Items, typed, func(n *v1.Node) string { return n.Name })
}

// namespaces returns the namespaces with this prefix.
func (c *connection) namespaces(ctx context.Context, typed string) []string {
	client, ctx, cancel, err := c.completing(ctx)
	if err != nil {
		return nil
	}
	defer cancel()
	list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	return begun(list.Items, typed, func(n *v1.Namespace) string { return n.Name })
}

// begun returns up to completionNames names with this prefix.
func begun[T any](items []T, typed string, name func(*T) string) []string {
	var names []string
	for i := range items {
		if name := name(&items[i]); strings.HasPrefix(name, typed) && len(names) < completionNames {
			names = append(names, name)
		}
	}
	return names
}

// completing returns a client for completion. The returned function ends the client's
// context.
func (c *connection) completing(ctx context.Context) (*clients.Clientset, context.Context, context.CancelFunc, error) {
	access, err := c.access()
	if err != nil {
		return nil, nil, nil, err
	}
	client, err := clients.NewForConfig(access)
	if err != nil {
		return nil, nil, nil, err
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, maxCompletion)
	return client, ctx, cancel, nil
}
