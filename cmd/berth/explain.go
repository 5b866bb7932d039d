package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/answers/history"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	*input
	pod   string
	group string
	// running connects to the running scheduler; past is its answer.
	running *running
	past    asked
	since   []string
}

// explanationOutputs are the values of -o. Only explain has wide, too.
var (
	explanationOutputs = []string{"table", "json", "yaml"}
	explainOutputs     = []string{"table", "wide", "json", "yaml"}
)

func newExplainCommand() *cobra.Command {
	var e explainFlags
	cmd := &cobra.Command{
		Use:   "explain [POD]",
		Short: "Show why each node is feasible or not for the pending pods of a cluster",
		Long: `Show for pending pods why each node is feasible or not, and how it scores.

The command reads the cluster of the kubeconfig with your own rights. You need permission to list pods and nodes.
For anything else you may not list, the output states what was assumed. POD is NAME, in the namespace of -n or of
the context, or NAMESPACE/NAME. Without POD all pending pods are explained, with -n those of one namespace. Use
--config to give the configuration of the cluster's scheduler; without it the default configuration is assumed.

With --snapshot the command reads the cluster from files and needs no running one. The files have the output of
"kubectl get -o yaml". Include namespaces, services and controllers, because spreading and pod affinity use them.
Include priority classes and PodDisruptionBudgets, because preemption uses them. Each pending pod is checked against
the cluster as it is: no other pending pod is placed, and no pod is evicted. "berth simulate" places the pods one
after another.

The table has at most ten lines for each pod: the number of nodes that each plugin rejects and why, and the result
of preemption; or the best nodes, and the scores that put the first before the second. For a pending pod named on
the command line, suggestions follow: the smallest changes that would get the pod scheduled. Every suggestion was
tried with the scheduler's engine.

-o wide adds the number of nodes that pass each plugin, the nodes that a single plugin rejects and by how much, all
suggestions, and equal nodes in one line. With --pod-group table and wide are the same.

JSON and YAML have everything: one object for the pod of --pod, or a list with an object for each pod, by namespace
and name. For each node, by name:
  rejections  Every plugin that rejects the node, in the order of the profile. The first is the one that
              kube-scheduler reports. An entry without a plugin means that no filter ran, because a PreFilter plugin
              selected other nodes; leftOutBy lists these plugins.
  scores      Every plugin that scores the pod, normalised to 0..100 before the weight, and total, their weighted
              sum. Empty if only one node is feasible: kube-scheduler then skips scoring. If the pod has a feasible
              nominated node, kube-scheduler skips scoring as well, but the scores are shown here.
For the pod, where they apply:
  message     The text of the FailedScheduling event, if no node is feasible.
  postFilterMessage
              The part of message that preemption adds: what it would do, why it helps on no node, or why the pod
              may not preempt.
  preemption  The result of preemption: the nominated node; the victims, the most important first, with priority,
              start time and owner; the PodDisruptionBudgets that would be violated; and the pods of lower priority
              that would lose their nomination to the node.
  gated       Why a PreEnqueue plugin holds the pod back. Its nodes are checked as well.
  error       Why the attempt would fail: the pod is being deleted (its nodes are checked as well), or a plugin
              fails (then scores are missing).
  podGroup    The pod group that is scheduled as a whole (feature gate GenericWorkload).
  group       The result for that group. In a list only its first member has it.
  advice      What would get the named pod scheduled: suggestions, each with its changes, the node of the pod after
              them, and the number of other pods of its owner that would follow; the missing parts; and whether the
              search was cut short. See docs/explain-json.md.
  history     With --scheduler, if the cluster's scheduler is Berth: the attempts of the named pod, the event that
              woke it each time, what it waits for, and the pods before it.
  decision    With --scheduler: why the named pod is on its node, with the best nodes, every plugin's score, and the
              scores that decided.

history and decision come from the running scheduler, which receives your own credentials. It is contacted only if
--scheduler is set. With "leader" the command opens a port-forward to the replica that leads; you need permission to
get the lease and that pod, and to create pods/portforward there. With an address, the certificate of the server is
verified. You also need permission to get the explained pod. If the scheduler does not answer, the rest of the
output is printed without these two parts.

--since names an older snapshot. The output then shows why the result for a pod differs from the result in that
snapshot: the nodes lost or won, and the smallest sets of differences that bring the old result back when they are
undone in the newer snapshot. If the pod has a node only in the newer snapshot, it shows the smallest sets that give
the pod a node in the older one. Every set was tried. A pod on a node is checked as if it were pending, in both
snapshots.

With --feature-gates GenericWorkload=true the members of a pod group are scheduled together, and --pod-group
explains a group. Include podgroups in the snapshot. The members are placed one after another, in the order of the
scheduler, and removed again. The output shows which members can be placed, which member holds the group up and
which plugins reject it on how many nodes, the condition that the PodGroup would get, and the single changes that
would let the group start: a lower minCount, more nodes like one of the cluster, more members. Every change was
tried.`,
		Example: `  # Why is this pod pending?
  kubectl berth explain web-2 -n shop

  # Why is this pod on its node? The cluster's scheduler must be Berth.
  kubectl berth explain web-0 -n shop --scheduler leader

  # Why is this pod pending, from a file, without a connection to the cluster?
  ` + takeSnapshot + `
  berth explain --snapshot cluster.json --pod shop/web-2

  # Why did it fit an hour ago?
  berth explain --since then.yaml --snapshot now.yaml --pod shop/web-2

  # Why did this gang start an hour ago?
  berth explain --since then.yaml --snapshot now.yaml --feature-gates GenericWorkload=true --pod-group ml/train

  # What keeps this gang from starting, and what would let it start?
  berth explain --snapshot cluster.yaml --feature-gates GenericWorkload=true --pod-group ml/train

  # What would another configuration decide about all pending pods?
  berth explain --snapshot cluster.yaml --config scheduler.yaml -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return wrong{fmt.Errorf("%q takes at most one pod, got %q: name every file with --snapshot, and a pod group with --pod-group", cmd.CommandPath(), args)}
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return e.connection.pendingPods(cmd.Context(), typed), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if e.pod != "" {
					return wrong{fmt.Errorf("pod %q and --pod %q are both given: name one of the two", args[0], e.pod)}
				}
				pod, err := e.connection.qualified(args[0])
				if err != nil {
					return err
				}
				e.pod = pod
			}
			return e.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	e.input = newInput(flags, "snapshot", "f", explainOutputs)
	e.filesFlag = "--snapshot" // as documented; other commands call it -f
	e.makePods(flags, false)
	e.running = newRunning(flags, e.connection)
	e.complete(cmd)
	flags.StringVar(&e.pod, "pod", "", "Pod to explain, as NAMESPACE/NAME (default: all pending pods).")
	flags.StringArrayVar(&e.since, "since", nil, "File or directory with an older snapshot of the cluster: show what has changed the result for the pod or pod group since then. May be given several times.")
	flags.StringVar(&e.group, "pod-group", "", "Pod group to explain, as NAMESPACE/NAME.")
	return cmd
}

// run reads the input and prints the explanations.
func (e *explainFlags) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	defer shortRun()()
	bar := newProgress(stderr)
	defer bar.clear()
	if err := e.running.check(); err != nil {
		return wrong{err}
	}
	if len(e.since) > 0 {
		return e.runSince(ctx, stdin, stdout, stderr, bar)
	}
	scheduler, cluster, err := e.read(ctx, stdin, bar)
	if err != nil {
		return err
	}
	pods, group := cluster.Pods, model.GroupKey{}
	switch {
	case e.pod != "" && e.group != "":
		return wrong{errors.New("--pod and --pod-group are both given: name one of the two")}
	case e.pod != "":
		named := findPod(pods, e.pod)
		live := named != nil && len(e.files) == 0
		if live && e.running.at != "" {
			bar.clear()
			if e.past = e.running.ask(ctx, named.Namespace, named.Name, scheduler.Source).about(named); e.past.why != nil {
				fmt.Fprintf(stderr, "Note: the pod's history is missing: %v\n", e.past.why)
			}
			if e.past.answer != nil && named.Spec.NodeName != "" {
				return e.printPlaced(stdout, e.past.answer)
			}
		}
		if pods, err = only(cluster, e.pod, scheduler); err != nil && live && named.Spec.NodeName != "" && e.running.at == "" {
			err = fmt.Errorf("%w; if the cluster's scheduler is Berth, --%s %s shows why the pod is there", err, schedulerFlag, leader)
		}
	case e.group != "":
		group, pods, err = onlyGroup(cluster, e.group, scheduler)
	}
	if err != nil {
		return wrong{err}
	}
	snapshot, err := explain.New(scheduler, cluster.Nodes, pods, cluster.Objects(), time.Now())
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	bar.clear()
	e.noteAssumed(stderr)
	notes(stderr, scheduler, cluster)
	noteForeign(stderr, pods, scheduler)
	if isTerminal(stdout) {
		bar = &progress{} // the printed pods show the progress
	}
	if e.group != "" {
		return e.printGroup(stdout, snapshot, group)
	}
	return e.print(stdout, snapshot, cluster.Pods, bar)
}

// printGroup prints the explanation of one pod group.
func (e *explainFlags) printGroup(stdout io.Writer, snapshot *explain.Snapshot, key model.GroupKey) error {
	g, err := snapshot.OfGroup(key)
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	switch e.output {
	case "json":
		encoder := json.NewEncoder(stdout)
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(g)
	case "yaml":
		var data []byte
		if data, err = yaml.Marshal(g); err == nil {
			_, err = stdout.Write(data)
		}
	default:
		out := bufio.NewWriter(stdout)
		printGroup(out, g)
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// noteForeign lists the pending pods that were left out because no profile has their
// scheduler name.
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
		fmt.Fprintf(w, "Note: pending pods left out because no profile has their scheduler name %q: %d; the profiles are %s\n",
			name, counts[name], quoted(scheduler.SchedulerNames()))
	}
}

// print explains pods of a snapshot. all are the cluster's pods; the snapshot may lack
// some of the pending ones.
func (e *explainFlags) print(stdout io.Writer, snapshot *explain.Snapshot, all []*v1.Pod, bar *progress) error {
	out := bufio.NewWriterSize(stdout, 1<<18)
	var p printer
	switch e.output {
	case "json":
		p = &jsonPrinter{w: out, single: e.pod != ""}
	case "yaml":
		p = &yamlPrinter{w: out, single: e.pod != ""}
	default:
		p = newTablePrinter(out, snapshot, e.output == "wide")
	}
	pending := snapshot.Pending()
	explained := map[model.GroupKey]bool{}
	for i, pod := range pending {
		if e.pod != "" && pod.String() != e.pod {
			continue // nominated: it takes space on its node
		}
		if e.pod == "" && e.connection.only(pod.Namespace) {
			continue
		}
		bar.show("Explaining", int64(i), int64(len(pending)))
		a, err := snapshot.Of(pod)
		if err != nil {
			return fmt.Errorf("explain: %w", err)
		}
		if a.PodGroup != "" && !explained[pod.Group] {
			explained[pod.Group] = true
			if a.Group, err = snapshot.OfGroup(pod.Group); err != nil {
				return fmt.Errorf("explain: %w", err)
			}
		}
		if e.pod != "" {
			snapshot.Advise(a, explain.PendingBeside(pod.Object, all))
			if past := e.past.answer; past != nil {
				a.Decision, a.History = past.Decision, past.History
			}
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

// printPlaced prints the scheduler's answer about a pod on its node.
func (e *explainFlags) printPlaced(stdout io.Writer, past *history.Answer) error {
	a := &explain.Explanation{Pod: past.Pod, Profile: past.Profile, Nodes: []explain.Node{}, Decision: past.Decision, History: past.History}
	out := bufio.NewWriter(stdout)
	var err error
	switch e.output {
	case "json":
		p := &jsonPrinter{w: out, single: true}
		err = errors.Join(p.print(a), p.end())
	case "yaml":
		err = (&yamlPrinter{w: out, single: true}).print(a)
	default:
		printPlaced(out, a)
		if e.output == "wide" {
			printPast(out, a.History)
		}
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// printer prints explanations one after another, so that they need not all be in memory.
type printer interface {
	print(a *explain.Explanation) error
	end() error
}

// jsonPrinter prints one object, or an array.
type jsonPrinter struct {
	w       *bufio.Writer // keeps the first error, which Flush returns
	single  bool
	printed int
}

func (p *jsonPrinter) print(a *explain.Explanation) error {
	switch {
	case p.single:
	case p.printed == 0:
		_, _ = p.w.WriteString("[\n")
	default:
		_, _ = p.w.WriteString(",\n")
	}
	p.printed++
	return a.WriteJSON(p.w)
}

func (p *jsonPrinter) end() error {
	switch {
	case p.single:
		_, _ = p.w.WriteString("\n")
	case p.printed == 0:
		_, _ = p.w.WriteString("[]\n")
	default:
		_, _ = p.w.WriteString("\n]\n")
	}
	return nil
}

// yamlPrinter prints one mapping, or a sequence.
type yamlPrinter struct {
	w       *bufio.Writer
	single  bool
	printed int
}

func (p *yamlPrinter) print(a *explain.Explanation) error {
	p.printed++
	var value any = a
	if !p.single {
		value = []*explain.Explanation{a} // concatenated sequences are one sequence
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
		_, _ = p.w.WriteString("[]\n")
	}
	return nil
}
