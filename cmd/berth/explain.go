package main

import (
	"bufio"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/explain"
)

// explanation is what the flags of explain say.
type explanation struct {
	*input
	pod string
}

// explanationOutputs are the ways to print explanations.
var explanationOutputs = []string{"table", "json", "yaml"}

func newExplainCommand() *cobra.Command {
	var e explanation
	cmd := &cobra.Command{
		Use:   "explain --snapshot FILE",
		Short: "Say what the scheduler thinks of each node for the pending pods of a cluster",
		Long: `Say what the scheduler thinks of each node for the pending pods of a cluster, without a cluster.

The cluster is read from files as "kubectl get -o yaml" prints them. Namespaces, services and controllers are part of it: they decide
where pods spread or attract each other. Every pending pod is judged against it alone: no pod is placed, so none is in another's way.
"berth simulate" says where they would go one after another.

The table is for people: how many nodes each plugin leaves, the reasons, the nodes that a single plugin rejects and by how much, and the
best nodes with their scores. JSON and YAML hold everything: the object of the pod that --pod names, or else a list with one object for
each pod, by namespace and name. For each node, by name, they have
  rejections  of every plugin that rejects it, in the order of the profile; the first is the one that kube-scheduler reports. One without
              a plugin means that the node was not looked at, because the pod names the only nodes that are worth it.
  scores      of every plugin that has a say, normalised to 0..100 and before the weight, and their weighted sum, the total. There are
              none if only one node is feasible: kube-scheduler takes it without scoring. Of a pod with a nominated node that is
              feasible, kube-scheduler would not score the others either; they are scored here all the same.
and for the pod, where it applies,
  message     the text of the FailedScheduling event, without what preemption adds, if no node is feasible,
  gated       what keeps the pod from being tried; it is judged as if nothing did,
  error       why its turn would end without a result: it is being deleted (it is judged as if it were not), or a plugin fails (nothing
              is scored then).`,
		Example: `  # Why is this pod pending?
  kubectl get ` + snapshotKinds + ` -A -o yaml |
    berth explain --snapshot - --pod shop/web-2

  # What would another configuration say of all pending pods?
  berth explain --snapshot cluster.yaml --config scheduler.yaml -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrong{fmt.Errorf("%q takes no arguments, got %q: name every file with --snapshot, and a pod with --pod", cmd.CommandPath(), args)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.run(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	e.input = newInput(flags, "snapshot", "", explanationOutputs)
	flags.StringVar(&e.pod, "pod", "", "The only pod to explain, as NAMESPACE/NAME; all pending pods without it.")
	return cmd
}

// run reads, asks and prints.
func (e *explanation) run(stdin io.Reader, stdout, stderr io.Writer) error {
	defer shortRun()()
	bar := newProgress(stderr)
	defer bar.clear()
	scheduler, cluster, err := e.read(stdin, bar)
	if err != nil {
		return err
	}
	pods := cluster.Pods
	if e.pod != "" {
		if pods, err = only(pods, e.pod, scheduler); err != nil {
			return wrong{err}
		}
	}
	snapshot, err := explain.New(scheduler, cluster.Nodes, pods, cluster.Objects())
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	bar.clear()
	notes(stderr, scheduler, cluster)
	noteForeign(stderr, pods, scheduler)
	if isTerminal(stdout) {
		bar = &progress{} // what is printed shows how far things are
	}
	return e.print(stdout, snapshot, bar)
}

// noteForeign says which pending pods were left out because they are not the scheduler's.
func noteForeign(w io.Writer, pods []*v1.Pod, scheduler *config.Config) {
	var names []string
	counts := map[string]int{}
	for _, pod := range pods {
		if name := pod.Spec.SchedulerName; isPending(pod) && !hasProfile(scheduler, name) {
			if counts[name]++; counts[name] == 1 {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		fmt.Fprintf(w, "Note: no profile has the scheduler name %q, and pending pods that ask for it were left out: %d; the profiles are %s\n",
			name, counts[name], quoted(scheduler.SchedulerNames()))
	}
}

func (e *explanation) print(stdout io.Writer, snapshot *explain.Snapshot, bar *progress) error {
	out := bufio.NewWriterSize(stdout, 1<<18)
	var p printer
	switch e.output {
	case "json":
		p = &jsonPrinter{w: out, single: e.pod != ""}
	case "yaml":
		p = &yamlPrinter{w: out, single: e.pod != ""}
	default:
		p = newTablePrinter(out, snapshot)
	}
	pending := snapshot.Pending()
	for i, pod := range pending {
		bar.say("Explaining", int64(i), int64(len(pending)))
		a, err := snapshot.Of(pod)
		if err != nil {
			return fmt.Errorf("explain: %w", err)
		}
		if err := p.print(a); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	bar.clear()
	if err := p.end(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// printer prints answers one after another, so that they need not all be there at once.
type printer interface {
	print(a *explain.Answer) error
	end() error
}

// jsonPrinter prints one object, or an array of any number of them.
type jsonPrinter struct {
	w       *bufio.Writer // keeps the first error, which Flush returns
	single  bool
	printed int
}

func (p *jsonPrinter) print(a *explain.Answer) error {
	switch {
	case p.single:
	case p.printed == 0:
		p.w.WriteString("[\n")
	default:
		p.w.WriteString(",\n")
	}
	p.printed++
	return a.WriteJSON(p.w)
}

func (p *jsonPrinter) end() error {
	switch {
	case p.single:
		p.w.WriteString("\n")
	case p.printed == 0:
		p.w.WriteString("[]\n")
	default:
		p.w.WriteString("\n]\n")
	}
	return nil
}

// yamlPrinter prints one mapping, or a sequence of any number of them.
type yamlPrinter struct {
	w       *bufio.Writer
	single  bool
	printed int
}

func (p *yamlPrinter) print(a *explain.Answer) error {
	p.printed++
	var value any = a
	if !p.single {
		value = []*explain.Answer{a} // sequences put one after another are one sequence
	}
	data, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	_, err = p.w.Write(data)
	return err
}

func (p *yamlPrinter) end() error {
	if p.printed == 0 {
		p.w.WriteString("[]\n")
	}
	return nil
}
