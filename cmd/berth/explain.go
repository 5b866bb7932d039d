package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	// added are the pods that files add to a live cluster; nil if all pods are explained.
	added map[string]bool
}

func newExplainCommand() *cobra.Command {
	var e explainFlags
	cmd := &cobra.Command{
		Use:     "explain [POD]",
		Short:   "Show why pods are pending, and which changes would help",
		Long:    explainLong,
		Example: explainExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			if _, _, ok := oneNamed(args); !ok {
				return wrong{fmt.Errorf("%q takes at most one pod, got %q: name every file with --snapshot, and a pod group with --pod-group", cmd.CommandPath(), args)}
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return e.pendingNames(cmd.Context(), typed), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.name(args); err != nil {
				return err
			}
			return e.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	e.input = newInput(flags, "snapshot", "f", prints{outputs: wideOutputs, bare: true, jsonpath: "{.pod}", columns: "POD:.pod", of: "pods", byField: true})
	e.filesFlag, e.nodeless = "--snapshot", true
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "filename" { // as other commands call it
			name = "snapshot"
		}
		return pflag.NormalizedName(name)
	})
	flags.Lookup("namespace").Usage = "Namespace of POD (default: of the kubeconfig's context); without POD, only the pods of this namespace."
	e.makePods(flags, false)
	e.running = newRunning(flags, e.connection)
	e.complete(cmd)
	flags.StringVar(&e.pod, "pod", "", "Pod to explain, as NAMESPACE/NAME (default: all pending pods).")
	flags.StringArrayVar(&e.since, "since", nil, "File or directory with an older snapshot of the cluster: show what has changed the result for the pod or pod group since then. May be given several times.")
	flags.StringVar(&e.group, "pod-group", "", "Pod group to explain, as NAMESPACE/NAME.")
	_ = cmd.MarkFlagFilename("since", "yaml", "yml", "json")
	_ = cmd.RegisterFlagCompletionFunc("pod", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return e.pendingNames(cmd.Context(), typed), cobra.ShellCompDirectiveNoFileComp
	})
	exclude(flags, "pod", "pod-group", "selector", "field-selector")
	exclude(flags, "pod-group", "selector", "field-selector")
	exclude(flags, "snapshot", schedulerFlag)
	exclude(flags, "since", "selector", "field-selector", schedulerFlag)
	return cmd
}

// name sets the pod, or the pod group, that the arguments name. Args has checked their
// number.
func (e *explainFlags) name(args []string) error {
	if len(args) == 0 {
		return nil
	}
	resource, name, _ := oneNamed(args)
	for flag, value := range map[string]string{
		"--pod": e.pod, "--pod-group": e.group, "--selector": e.selects, "--field-selector": e.selectsBy,
	} {
		if value != "" {
			return wrong{bothGiven(fmt.Sprintf("pod %q", name), flag)}
		}
	}
	to := &e.pod
	switch resource {
	case "", "pod":
	case "podgroup":
		to = &e.group
	default:
		return wrong{notAPod(resource, name)}
	}
	qualified, err := e.connection.qualified(name)
	*to = qualified
	return err
}

// run reads the input and prints the explanations.
func (e *explainFlags) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	defer shortRun()()
	bar := newProgress(stderr)
	defer bar.clear()
	if err := e.checkRunning(); err != nil {
		return wrong{err}
	}
	if len(e.since) > 0 {
		return e.runSince(ctx, stdin, stdout, stderr, bar)
	}
	alone, err := e.askFirst(ctx, stderr, bar)
	if err != nil {
		return err
	}
	if alone != nil && alone.Spec.NodeName != "" && e.past.answer != nil {
		bar.clear()
		return e.printPlaced(stdout, e.past.answer)
	}
	scheduler, cluster, added, err := e.readWithFiles(ctx, stdin, bar)
	if isForbidden(err) {
		bar.clear()
		return e.answerNarrow(ctx, stdout, stderr, alone, err)
	}
	if err != nil {
		return err
	}
	pods, group := cluster.Pods, model.GroupKey{}
	switch {
	case e.pod != "":
		named := findPod(pods, e.pod)
		live := named != nil && len(e.files) == 0
		if live {
			e.past = e.past.about(named)
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
	e.added = added
	e.noteAssumed(stderr)
	notes(stderr, scheduler, cluster)
	noteForeign(stderr, pods, scheduler)
	if isTerminal(stdout) && e.output != "table" {
		bar = &progress{} // the printed pods show the progress
	}
	if e.group != "" {
		return e.printGroup(stdout, snapshot, group)
	}
	return e.print(stdout, snapshot, cluster.Pods, bar)
}

// printGroup prints the explanation of one pod group.
func (e *explainFlags) printGroup(stdout io.Writer, snapshot *explain.Snapshot, key model.GroupKey) error {
	g, err := snapshot.Group(key)
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
	case "table", "wide":
		out := bufio.NewWriter(stdout)
		printGroup(out, g)
		err = out.Flush()
	default:
		return e.noRows()
	}
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// noRows is the error for a value of -o that needs rows, if the answer has none.
func (e *explainFlags) noRows() error {
	return wrong{fmt.Errorf("--output %q: is for pending pods, not for a pod group or --since: use table, wide, json or yaml", e.output)}
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
	p, equal := e.newPrinter(out, snapshot)
	pending := snapshot.Pending()
	explained := map[model.GroupKey]bool{}
	for i, pod := range pending {
		if e.pod != "" && pod.String() != e.pod {
			continue // nominated: it takes space on its node
		}
		if e.pod == "" && (e.connection.only(pod.Namespace) || !e.chooses(pod.Object) || e.added != nil && !e.added[pod.String()]) {
			continue
		}
		bar.show("Explaining", int64(i), int64(len(pending)))
		if equal != nil && equal.addEqual(pod) {
			continue
		}
		a, err := snapshot.Of(pod)
		if err != nil {
			return fmt.Errorf("explain: %w", err)
		}
		if a.PodGroup != "" && !explained[pod.Group] {
			explained[pod.Group] = true
			if a.Group, err = snapshot.Group(pod.Group); err != nil {
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
		if equal != nil {
			equal.note(pod)
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

// newPrinter returns the printer of the output. equal is nil if each pod is explained.
func (e *explainFlags) newPrinter(out *bufio.Writer, snapshot *explain.Snapshot) (p printer, equal *equalAnswers) {
	switch e.output {
	case "json":
		p = &jsonPrinter{w: out, single: e.pod != ""}
	case "yaml":
		p = &yamlPrinter{w: out, single: e.pod != ""}
	case "name", "csv", ofJSONPath, ofColumns:
		p = &rowPrinter{printing: &e.printing, w: out, snapshot: snapshot, table: explainedPods()}
	default:
		t := newTablePrinter(out, snapshot, e.output == "wide")
		t.quiet = e.noHeaders
		if e.pod == "" && e.output == "table" {
			equal = newEqualAnswers(snapshot)
			t.equal = equal
		}
		p = t
	}
	return p, equal
}

// printPlaced prints the scheduler's answer about a pod on its node.
func (e *explainFlags) printPlaced(stdout io.Writer, past *history.Answer) error {
	a := &explain.Explanation{Pod: past.Pod, Profile: past.Profile, Nodes: []explain.Node{}, Decision: past.Decision, History: past.History}
	return e.printOne(stdout, a, func(w io.Writer) {
		printPlaced(w, a)
		if e.output == "wide" {
			printPast(w, a.History)
		}
	})
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
