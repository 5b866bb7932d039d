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

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/explain"
	"github.com/berth-scheduler/berth/internal/history"
	"github.com/berth-scheduler/berth/internal/model"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	*input
	pod   string
	group string
	// running is how to reach the running scheduler, past what it has answered.
	running *running
	past    asked
	since   []string
}

// explanationOutputs are the formats of answers; explainOutputs those of explain, whose table is a short form.
var (
	explanationOutputs = []string{"table", "json", "yaml"}
	explainOutputs     = []string{"table", "wide", "json", "yaml"}
)

func newExplainCommand() *cobra.Command {
	var e explainFlags
	cmd := &cobra.Command{
		Use:   "explain [POD]",
		Short: "Show why each node is feasible or not for the pending pods of a cluster",
		Long: `Show why each node is feasible or not for the pending pods of a cluster, and how it scores.

The cluster is that of the kubeconfig, which is read with your own rights: to list pods and nodes is needed, and what you may not list is said, with what is
assumed without it. POD is NAME, in the namespace of -n or of the context, or NAMESPACE/NAME; without it all pending pods are explained, with -n those of
that namespace. The configuration is the default one unless --config names another: give the file that the scheduler of the cluster has.

With --snapshot no running cluster is needed: the cluster is read from files as "kubectl get -o yaml" prints them. Include namespaces, services and controllers: pods are spread,
attracted and repelled by them; and priority classes and PodDisruptionBudgets, which preemption reads. Every pending pod is judged against
the cluster as it is: no other pending pod is placed, and no pod is evicted. "berth simulate" shows where they would go one after another.

The table is for people: which plugin rejects how many nodes and why, what preemption would do, or the best nodes and what puts the first before the second. Of a pod that
is named, without a node, it says what would help: the smallest changes with each of which the pod has a node. Each was tried: the change was made, and the engine decided
again. It is at most ten lines for each pod; -o wide has everything: how many nodes each plugin leaves, the nodes that a single plugin rejects and by how much,
all suggestions, and the nodes that are equal as one line each. With --pod-group both print the same long form. JSON and YAML hold everything: the object of the pod that --pod names, or else a list with one object for
each pod, by namespace and name. For each node, by name, they have
  rejections  of every plugin that rejects it, in the order of the profile; the first is the one that kube-scheduler reports. One without
              a plugin means that no filter was asked about the node, because the pod names other nodes only;
              leftOutBy has the plugins that say so.
  scores      of every plugin that scores the pod, normalised to 0..100 and before the weight, and their weighted sum, the total. There
              are none if only one node is feasible: kube-scheduler takes it without scoring. For a pod with a feasible nominated node
              kube-scheduler scores no node either; here they are scored all the same.
and for the pod, where they apply,
  message     the text of the FailedScheduling event, if no node is feasible,
  postFilterMessage
              the part of it that preemption adds: what it would do, why it helps on no node, or why the pod may not preempt,
  preemption  what preemption would do: the node that the pod would be nominated to; the victims that would be evicted from it, those
              that matter most first, with priority, start time and owner; the PodDisruptionBudgets that this would violate; and the
              pods of lower priority that would lose their nomination to the node,
  gated       why a PreEnqueue plugin holds the pod back; its nodes are judged all the same,
  error       why its turn would end without a result: it is being deleted (it is judged as if it were not), or a plugin fails (nothing
              is scored then),
  podGroup    the pod group with whose members the pod is decided about (gate GenericWorkload),
  group       what would become of that group; of a list, the first of its members has it,
  advice      what would help the pod that is named: suggestions, each with its changes, the node that the pod goes to then, and how many other
              pods of its owner would follow; what is missing; and whether the search was cut short. docs/explain-json.md describes it,
  history     with --scheduler, of a live cluster whose scheduler is Berth, what that knows of the pod that is named: its attempts, what woke it each time, what it
              waits for and who is before it,
  decision    and why it is on its node, if it has one: the best nodes with every plugin's score, and what tipped the balance.

For the last two the running scheduler is asked, with your own credentials, if --scheduler names it, and nobody otherwise. With leader it is the replica that leads, through a port-forward
to its pod, for which you need the rights to get the lease and that pod and to create pods/portforward there; with an address it is what answers there, if its certificate
is good. Who may get the pod gets an answer. Without an answer all else is said.

With --since, which names an older snapshot, it says why the answer about a pod is another one than it was then: which nodes are lost or won, and the smallest sets of differences that, undone in the
newer snapshot, bring the old answer back (or, where the pod has a node now and had none, that gave it one in the older snapshot). Each was tried. The pod may be on a node: it is judged as if it
waited, then and now.

With --feature-gates GenericWorkload=true the members of a pod group are decided about together, and --pod-group explains a group; include
podgroups in the snapshot then. The members are placed one after another, in the order of the scheduler, and taken back. It is said which find a
node, which of them holds the group up and which plugins object to it on how many nodes, what the condition of the PodGroup would be, and which
single changes would let the group start: a lower minCount, more nodes like one of the cluster, more members. Each of these was tried: the
change was made, and the group decided about again.`,
		Example: `  # Why is this pod pending?
  kubectl berth explain web-2 -n shop

  # Why is this pod on its node? The scheduler is asked, which must be Berth.
  kubectl berth explain web-0 -n shop --scheduler leader

  # Why is this pod pending, from a file, without a connection to the cluster?
  kubectl get ` + snapshotKinds + ` -A -o yaml |
    berth explain --snapshot - --pod shop/web-2

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
	flags.StringVar(&e.pod, "pod", "", "The only pod to explain, as NAMESPACE/NAME; all pending pods without it.")
	flags.StringArrayVar(&e.since, "since", nil, "A file or directory with an older snapshot of the cluster: say what has changed the answer about the pod, or the pod group, since. May be given several times.")
	flags.StringVar(&e.group, "pod-group", "", "The only pod group to explain, as NAMESPACE/NAME.")
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
			err = fmt.Errorf("%w; why it is there, the running scheduler can say if it is Berth: --%s %s asks it", err, schedulerFlag, leader)
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

// noteForeign lists the pending pods that were left out because no profile has their scheduler name.
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

// print explains pods of a snapshot. all are the pods of the cluster, of which the snapshot may lack some that wait.
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
			continue // it is nominated to a node, where it counts
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

// printPlaced prints what the scheduler has answered about a pod on its node.
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

// jsonPrinter prints one object, or an array of any number of them.
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

// yamlPrinter prints one mapping, or a sequence of any number of them.
type yamlPrinter struct {
	w       *bufio.Writer
	single  bool
	printed int
}

func (p *yamlPrinter) print(a *explain.Explanation) error {
	p.printed++
	var value any = a
	if !p.single {
		value = []*explain.Explanation{a} // sequences put one after another are one sequence
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
