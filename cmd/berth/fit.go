package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// fitFlags are the flags of fit.
type fitFlags struct {
	*input
	by   string
	most int
}

func newFitCommand() *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:   "fit -f POD",
		Short: "Count how many more pods of one kind fit, and what runs out",
		Long: `Count how many more pods of one kind fit in a cluster, and what runs out where.

The command reads the cluster of the kubeconfig with your own permissions. If the files have Nodes, they are the
cluster, and the command needs no running one. Nothing is written to the cluster.

The file has exactly one pending Pod, or one workload such as a Deployment, whose template becomes the pod. Other
objects, such as claims, are added to the cluster. If the cluster comes from files too, these may have pending Pods
of their own: then put the Pod into the last file without Nodes.

The scheduler's engine places the pods one after another, so spreading, affinity, ports and volumes count. The
command preempts no pods and ignores other pending pods, unless they are nominated to a node.

The table lists the nodes by zone, or by the label of --by, such as a label that names the pool:
  FEASIBLE        Nodes that are feasible for the first pod.
  FITS            Pods placed on these nodes.
  RUNS OUT        Why the feasible nodes take no more pods.
  NEVER FEASIBLE  Why the other nodes never took one.`,
		Example: `  # How many more of these fit, by zone?
  kubectl berth fit -f pod.yaml

  # How many fit, by instance type?
  kubectl berth fit -f pod.yaml --by node.kubernetes.io/instance-type`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrong{fmt.Errorf("%q takes no arguments, got %q: name the pod's file with -f", cmd.CommandPath(), args)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	f.input = newInput(flags, "filename", "f",
		prints{outputs: rowOutputs, bare: true, jsonpath: "{.fits}", columns: "NAME:.name,FITS:.fits", sorts: sortKeys("name", fitOrders)})
	f.makePods(flags, true)
	f.complete(cmd)
	flags.StringVar(&f.by, "by", v1.LabelTopologyZone, "Label to group nodes by.")
	flags.IntVar(&f.most, "most", 100_000, "Number of pods at which counting stops.")
	return cmd
}

// run reads the cluster and the pod, counts and prints.
func (f *fitFlags) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	defer shortRun()()
	bar := newProgress(stderr)
	defer bar.clear()
	if len(f.files) == 0 {
		return wrong{errors.New("no file is given: name the file with the pod with -f, or - for standard input")}
	}
	if err := checkLabel(f.by); err != nil {
		return wrong{err}
	}
	if f.most < 1 {
		return wrong{fmt.Errorf("--most %d: must be at least 1", f.most)}
	}
	scheduler, cluster, asked, err := f.readWithFiles(ctx, stdin, bar)
	if err != nil {
		return err
	}
	pod, note, err := podToFit(cluster, asked)
	switch {
	case err != nil:
		return wrong{err}
	case !hasProfile(scheduler, pod.Spec.SchedulerName):
		return wrong{fmt.Errorf("-f: no profile has the scheduler name %q of pod %s; the profiles are %s", pod.Spec.SchedulerName, nameOf(pod), quoted(scheduler.SchedulerNames()))}
	}
	pods := slices.DeleteFunc(slices.Clone(cluster.Pods), func(p *v1.Pod) bool { return p != pod && isPending(p) && p.Status.NominatedNodeName == "" })
	snapshot, err := explain.New(scheduler, cluster.Nodes, pods, cluster.Objects(), time.Now())
	if err != nil {
		return fmt.Errorf("fit: %w", err)
	}
	for _, pending := range snapshot.Pending() {
		if pending.String() != nameOf(pod) {
			continue
		}
		fit, err := snapshot.CountFits(pending, f.by, f.most)
		if err != nil {
			return fmt.Errorf("fit: %w", err)
		}
		bar.clear()
		if note != "" {
			fmt.Fprintln(stderr, note)
		}
		f.noteAssumed(stderr)
		notes(stderr, scheduler, cluster)
		return f.print(stdout, fit)
	}
	return fmt.Errorf("fit: pod %s is not the scheduler's to place", nameOf(pod))
}

// podToFit returns the pod to count, and a note if it was chosen among several.
//
// A snapshot may have pending pods of its own. If several pods are pending, the choice is
// the only pod of the last file that has pending pods and no Nodes. If the files are
// added to a live cluster, asked are the pods of the files.
func podToFit(cluster *manifest.Cluster, asked map[string]bool) (pod *v1.Pod, note string, err error) {
	pending := func(pods []*v1.Pod) (found []*v1.Pod) {
		for _, p := range pods {
			if isPending(p) && (asked == nil || asked[nameOf(p)]) {
				found = append(found, p)
			}
		}
		return found
	}
	all := pending(cluster.Pods)
	if len(all) == 1 {
		return all[0], "", nil
	}
	var names []string
	for _, p := range all {
		names = append(names, nameOf(p))
	}
	for i := len(cluster.Given) - 1; i >= 0; i-- {
		given := &cluster.Given[i]
		own := pending(given.Pods)
		if len(given.Nodes) > 0 || len(own) == 0 {
			continue
		}
		if len(own) > 1 {
			break
		}
		note = fmt.Sprintf("Counting pods like %s of %s. Other pending pods are ignored: %d.", nameOf(own[0]), given.Name, len(all)-1)
		return own[0], note, nil
	}
	const most = 5
	if len(names) == 0 {
		return nil, "", errors.New("-f: the files have no pending Pod to count: add a file with a Pod or a workload")
	}
	if len(names) > most {
		names = append(names[:most], "...")
	}
	return nil, "", fmt.Errorf("-f: the last file with pending Pods and no Nodes must have exactly one such Pod; all files have %d: %s", len(all), strings.Join(names, ", "))
}

// fitOrders are the values of --sort-by.
var fitOrders = map[string]func(a, b *explain.FitDomain) int{
	"name":     func(_, _ *explain.FitDomain) int { return 0 },
	"nodes":    func(a, b *explain.FitDomain) int { return cmp.Compare(b.Nodes, a.Nodes) },
	"feasible": func(a, b *explain.FitDomain) int { return cmp.Compare(b.Feasible, a.Feasible) },
	"fits":     func(a, b *explain.FitDomain) int { return cmp.Compare(b.Fits, a.Fits) },
}

func (f *fitFlags) print(w io.Writer, fit *explain.Fit) error {
	order := fitOrders[f.sortBy]
	slices.SortStableFunc(fit.Domains, func(a, b explain.FitDomain) int { return order(&a, &b) })
	domains := func() *table {
		t := newTable("VALUE", "NODES>", "FEASIBLE>", "FITS>", "RUNS OUT", "NEVER FEASIBLE:~")
		for i := range fit.Domains {
			d := &fit.Domains[i]
			t.add(orNone(d.Name), d.Nodes, d.Feasible, d.Fits, reasonsOf(d.Full), reasonsOf(d.Unfit))
		}
		return t
	}
	if done, err := f.printing.print(w, listing{object: fit, rows: rowsOf(fit.Domains), table: domains}); done {
		return err
	}
	b := f.blocks(w)
	if !f.noHeaders {
		atLeast := ""
		if fit.AtLeast {
			atLeast = "at least "
		}
		text := fmt.Sprintf("Pods like %s that fit: %s%d", fit.Pod, atLeast, fit.Fits)
		b.line("%s", text)
		if fit.Message != "" {
			b.begun = false // no empty line
			b.line("The next one: %s", fit.Message)
		}
		b.line("By %s:", fit.By)
	}
	b.table(domains())
	return b.end()
}

// reasonsOf formats reasons with their numbers of nodes.
func reasonsOf(reasons []explain.FitReason) string {
	if len(reasons) == 0 {
		return "-"
	}
	var all []string
	for _, r := range reasons {
		all = append(all, fmt.Sprintf("%s (%d)", r.Reason, r.Nodes))
	}
	return strings.Join(all, ", ")
}
