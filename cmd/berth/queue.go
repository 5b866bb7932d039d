package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clients "k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/internal/answers/queued"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
	"github.com/berth-scheduler/berth/internal/serve/server"
)

// queueFlags are the flags of queue.
type queueFlags struct {
	*input
	running *running
	all     bool
	// recorded means that the answer comes from the conditions of pods.
	recorded bool
}

func newQueueCommand() *cobra.Command {
	var f queueFlags
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "List the waiting pods by owner and reason, and what each waits for",
		Long: `List the waiting pods of the running scheduler by owner and reason, and what each waits for.

The command asks the leading replica of Berth through a port-forward, or the address of --scheduler, with your own
credentials. You need permission to list the pods: of one namespace with -n, of all with -A. With -f the command
lists the pending pods of a snapshot, with the reason that its scheduler wrote into their conditions.

The columns are:
  PODS    Pods of the same owner that wait in the same place for the same reason.
  STATE   active (ready), backoff, parked (rejected, waits for an event) or gated.
  AGE     Of the oldest pod.
  TRIES   Attempts of each pod.
  NEXT    The position in the queue, the time until the next attempt, or "event".
  REASON  Of the last attempt.
Below are the events that wake parked pods. -o wide has a row for each pod.`,
		Example: `  # What waits in this namespace?
  kubectl berth queue

  # What waits in the cluster, the oldest first?
  kubectl berth queue -A --sort-by age

  # What waited when this snapshot was taken?
  berth queue -f cluster.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrong{fmt.Errorf("%q takes no arguments, got %q: select pods with -n and -l",
					cmd.CommandPath(), args)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	f.input = newInput(flags, "filename", "f",
		prints{outputs: wideOutputs, bare: true, jsonpath: "{.groups[*].owner}", columns: "OWNER:.owner,PLACE:.place", of: "pods", sorts: sortKeys("turn", queueOrders)})
	flags.Lookup("namespace").Usage = "Namespace (default: of the kubeconfig's context; with -f, all)."
	f.running = newRunning(flags, f.connection)
	f.running.at = leader
	scheduler := flags.Lookup(schedulerFlag)
	scheduler.DefValue = leader
	scheduler.Usage = "Running scheduler to ask, with your own credentials: leader (the replica that holds the lease, through a port-forward) or an address, such as https://scheduler.example:10259."
	f.complete(cmd)
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "List the pods of all namespaces.")
	exclude(flags, "all-namespaces", "namespace")
	exclude(flags, "filename", schedulerFlag)
	return cmd
}

// run checks the flags, asks and prints.
func (f *queueFlags) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	namespace, err := f.check()
	if err != nil {
		return err
	}
	scheduler, err := f.readConfig()
	if err != nil {
		return err
	}
	var answer *queued.Answer
	if len(f.files) > 0 {
		answer, err = f.offline(ctx, namespace, scheduler, stdin)
	} else {
		answer, err = f.ask(ctx, namespace, scheduler)
		if err != nil && !f.running.flags.Changed(schedulerFlag) {
			answer, err = f.fromConditions(ctx, namespace, stderr, err)
		}
	}
	if err != nil {
		return err
	}
	f.sort(answer)
	if err := f.print(stdout, answer, namespace == ""); err != nil {
		return err
	}
	f.note(stderr, answer, namespace)
	return nil
}

// check checks the flags, and returns the namespace; empty for all. Files have no
// current namespace, so -f lists all namespaces without -n.
func (f *queueFlags) check() (namespace string, err error) {
	if f.running.at == "" {
		return "", wrong{fmt.Errorf("--%s \"\": must be %s or an address; for a snapshot, name its file with -f",
			schedulerFlag, leader)}
	}
	if err := f.running.check(); err != nil {
		return "", wrong{err}
	}
	if named := *f.connection.flags.Namespace; f.all || len(f.files) > 0 && named == "" {
		return "", nil
	}
	return f.connection.namespace()
}

// ask asks the running scheduler.
func (f *queueFlags) ask(ctx context.Context, namespace string, scheduler *config.Config) (*queued.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, server.QueueTimeout+askTimeout)
	defer cancel()
	q := server.QueueQuestion{Namespace: namespace, LabelSelector: f.selects, Pods: f.output != "table"}
	body, err := f.running.fetch(ctx, &url.URL{Path: q.Path(), RawQuery: q.Query().Encode()}, scheduler.Source)
	var no *refused
	switch {
	case errors.As(err, &no) && no.code == http.StatusForbidden && namespace == "":
		return nil, fmt.Errorf("%w; list the pods of a namespace that you may read with -n", err)
	case err != nil:
		return nil, fmt.Errorf("ask the scheduler: %w", err)
	}
	var answer queued.Answer
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("read the scheduler's response: %w", err)
	}
	if answer.Version != queued.Version {
		return nil, fmt.Errorf("the scheduler's response has queue version %d, want %d", answer.Version, queued.Version)
	}
	return &answer, nil
}

// offline lists the pending pods of files.
func (f *queueFlags) offline(
	ctx context.Context, namespace string, scheduler *config.Config, stdin io.Reader,
) (*queued.Answer, error) {
	cluster, err := f.readFiles(manifest.Options{}, stdin)
	if err != nil {
		return nil, err
	}
	f.recorded = true
	answer, err := f.fromPods(ctx, namespace, cluster.Pods, scheduler.SchedulerNames(), newest(cluster.Pods))
	if err != nil {
		return nil, wrong{err}
	}
	return answer, nil
}

// fromPods lists the pending ones of the pods, with the reasons in their conditions.
func (f *queueFlags) fromPods(
	ctx context.Context, namespace string, pods []*v1.Pod, schedulers []string, at time.Time,
) (*queued.Answer, error) {
	pods = slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool { return !isPending(p) })
	lister := queued.Recorded(pods, schedulers, at)
	return lister(ctx, queued.Question{Namespace: namespace, Selector: f.selects, Pods: f.output != "table"})
}

// fromConditions lists the pending pods that the API server has, if the scheduler cannot
// be asked: it is not Berth, or the user may not open a port-forward to it.
func (f *queueFlags) fromConditions(
	ctx context.Context, namespace string, stderr io.Writer, failed error,
) (*queued.Answer, error) {
	access, err := f.connection.access()
	if err != nil {
		return nil, failed
	}
	client, err := clients.NewForConfig(access)
	if err != nil {
		return nil, failed
	}
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	switch {
	case isForbidden(err) && namespace == "":
		return nil, fmt.Errorf("%w; you may not list pods in all namespaces either: list the pods of a namespace that you may read with -n, "+
			"or request the verb list on pods in a ClusterRole", failed)
	case isForbidden(err):
		return nil, fmt.Errorf("%w; you may not list pods in namespace %q either: request the ClusterRole view there", failed, namespace)
	case err != nil:
		return nil, fmt.Errorf("%w; nor can the pods be listed: %w", failed, err)
	}
	var pods []*v1.Pod
	schedulers := map[string]bool{}
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
		schedulers[list.Items[i].Spec.SchedulerName] = true
	}
	fmt.Fprintf(stderr, "Note: %v\nNote: the list comes from the conditions of the pods instead: attempts and positions are unknown\n", failed)
	f.recorded = true
	return f.fromPods(ctx, namespace, pods, slices.Sorted(maps.Keys(schedulers)), time.Now())
}

// newest returns the latest time at which a pod was created or changed: about the time of
// a snapshot.
func newest(pods []*v1.Pod) (at time.Time) {
	for _, pod := range pods {
		if t := pod.CreationTimestamp.Time; t.After(at) {
			at = t
		}
		for i := range pod.Status.Conditions {
			if t := pod.Status.Conditions[i].LastTransitionTime.Time; t.After(at) {
				at = t
			}
		}
	}
	return at
}

// note writes what an answer lacks.
func (f *queueFlags) note(w io.Writer, a *queued.Answer, namespace string) {
	switch {
	case a.Pods == 0 && namespace != "":
		fmt.Fprintf(w, "No pod%s is waiting in namespace %s.\n", with(" with the labels ", f.selects), namespace)
	case a.Pods == 0:
		fmt.Fprintf(w, "No pod%s is waiting.\n", with(" with the labels ", f.selects))
	}
	if a.OtherSchedulers > 0 {
		fmt.Fprintf(w, "Note: pending pods of schedulers without a profile in the configuration are not listed: %d\n",
			a.OtherSchedulers)
	}
	if a.OrderUnknown != "" {
		fmt.Fprintf(w, "Note: positions are unknown: %s\n", a.OrderUnknown)
	}
	if a.GroupsLeftOut > 0 {
		fmt.Fprintf(w, "Note: more groups of pods are not listed: %d; select fewer pods with -n or -l\n",
			a.GroupsLeftOut)
	}
	if a.PodsLeftOut > 0 {
		fmt.Fprintf(w, "Note: more pods are not listed: %d; select fewer pods with -n or -l\n", a.PodsLeftOut)
	}
}
