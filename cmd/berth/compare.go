package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// compareFlags are the flags of compare.
type compareFlags struct {
	*input
	configs  []string
	releases []string
	owned    bool
	by       string
	seed     uint64
}

// compared is the output as an object.
type compared struct {
	// A and B are the files of the configurations; empty for the default one.
	A string `json:"a"`
	B string `json:"b"`
	// ReleaseA and ReleaseB are the releases of Kubernetes whose answers they give.
	ReleaseA string `json:"releaseA"`
	ReleaseB string `json:"releaseB"`
	*simulate.Comparison
}

func newCompareCommand() *cobra.Command {
	var c compareFlags
	cmd := &cobra.Command{
		Use:   "compare --config A --config B | --release A --release B",
		Short: "Show which pods two configurations, or releases, of the scheduler would place differently",
		Long: `Show which pods two configurations, or releases, of the scheduler would place differently.

The command reads the cluster of the kubeconfig once, with your own permissions. With -f it reads the cluster from files
and needs no running one. It writes nothing to the cluster. The scheduler places the pending pods twice, with a
virtual clock: once with the first --config (A) and once with the second (B). With a single --config, A is the
default configuration.

To rehearse an upgrade of Kubernetes, give --release twice, and --config at most once. The column RULE has the
changes that alone give the pod another outcome, by their names in docs/versions.md; "-" means that the outcome
follows from other pods, or from several changes together. Extenders are not called, and webhooks and controllers
of another release are not compared.

With --owned all pods with a controller are placed again, by priority and age, as if they were pending. DaemonSet
pods and static pods stay, and so do volumes and devices that claims already have.

Pods with the same outcome in both runs are not listed. One different decision can cause others, because the pods
after it meet another cluster. The same cluster, configurations and seed give the same result.

A second table shows the node usage by zone, or by the label of --by, such as a label that names the pool.`,
		Example: `  # What would change for the pods that are pending now?
  kubectl berth compare --config today.yaml --config tomorrow.yaml

  # Where would everything go, by pool of nodes?
  kubectl berth compare --config today.yaml --config tomorrow.yaml --owned --by node.kubernetes.io/pool

  # What would an upgrade of Kubernetes change?
  kubectl berth compare --release 1.37 --release 1.38 --config scheduler.yaml --owned

  # What would change from the default configuration, in a snapshot?
  berth compare -f cluster.yaml --config tomorrow.yaml --owned`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrong{fmt.Errorf("%q takes no arguments, got %q: name the configurations with --config", cmd.CommandPath(), args)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	c.input = newInputOf(flags, "filename", "f", prints{
		outputs: nameOutputs, bare: true, jsonpath: "{.pods[*].pod}", columns: "POD:.pod", of: "pods", byField: true, sorts: sortKeys("turn", comparedOrders)})
	c.makePods(flags, false)
	flags.StringArrayVar(&c.configs, "config", nil, "Configuration file (KubeSchedulerConfiguration). Give it twice, first A and then B; if given once, A is the default configuration.")
	flags.StringArrayVar(&c.releases, "release", nil, "Kubernetes release whose scheduling behavior is followed: 1.37 or 1.38. Give it twice, first A and then B, or once for both. "+releaseHelp)
	flags.BoolVar(&c.owned, "owned", false, "Re-schedule all pods with a controller other than a DaemonSet, not only pending ones.")
	flags.StringVar(&c.by, "by", v1.LabelTopologyZone, "Label to group nodes by.")
	flags.Uint64Var(&c.seed, "seed", 0, "Seed for the choice among equally good nodes. The same seed gives the same choice.")
	c.complete(cmd)
	return cmd
}

// run reads the cluster, simulates twice and prints the differences.
func (c *compareFlags) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	defer shortRun()()
	bar := newProgress(stderr)
	defer bar.clear()
	if err := checkLabel(c.by); err != nil {
		return wrong{err}
	}
	schedulers, err := c.readSides()
	if err != nil {
		return err
	}
	cluster, err := c.readCluster(ctx, stdin, bar, schedulers[:])
	if err != nil {
		return err
	}
	for i := range schedulers {
		if schedulers[i], err = c.forRelease(ctx, schedulers[i], cluster.Nodes); err != nil {
			return err
		}
	}
	if c.owned {
		cluster, _ = simulate.Owned(cluster)
		for _, pod := range cluster.Pods {
			c.setAside(pod)
		}
	}
	var results [2]*simulate.Result
	for i, scheduler := range schedulers {
		what := "With " + "AB"[i:i+1]
		if results[i], err = c.simulate(scheduler, cluster, bar, what); err != nil {
			return fmt.Errorf("compare: with %s: %w", nameOfConfig(c.configs[i]), err)
		}
	}
	bar.clear()
	c.noteAssumed(stderr)
	var said [2]strings.Builder
	for i, scheduler := range schedulers {
		notes(&said[i], scheduler, cluster)
	}
	fmt.Fprint(stderr, said[0].String())
	if said[1].String() != said[0].String() {
		fmt.Fprint(stderr, said[1].String())
	}
	comparison := simulate.Compare(cluster, c.by, results[0], results[1])
	if err := c.addRules(schedulers, cluster, comparison, bar); err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	bar.clear()
	if of := *c.connection.flags.Namespace; of != "" {
		c.onlyNamespace(comparison, of, stderr)
	}
	c.choose(comparison, cluster.Pods)
	return c.print(stdout, schedulers, comparison)
}

// onlyNamespace removes the pods of other namespaces. They were simulated as well.
func (c *compareFlags) onlyNamespace(comparison *simulate.Comparison, of string, stderr io.Writer) {
	kept := []simulate.ComparedPod{}
	for _, pod := range comparison.Pods {
		if pod.Namespace == of {
			kept = append(kept, pod)
		}
	}
	if others := len(comparison.Pods) - len(kept); others > 0 {
		fmt.Fprintf(stderr, "Note: pods of other namespaces that differ are counted, but not listed: %d\n", others)
	}
	comparison.Pods = kept
}

// readCluster reads the cluster from the files, or without files from the API server.
func (c *compareFlags) readCluster(ctx context.Context, stdin io.Reader, bar *progress, schedulers []*config.Config) (*manifest.Cluster, error) {
	if len(c.files) == 0 {
		if err := c.checkNoFiles(); err != nil {
			return nil, err
		}
		found, err := c.readLive(ctx, bar, schedulers...)
		if err != nil {
			return nil, err
		}
		return found.Cluster, nil
	}
	cluster, err := c.readFiles(manifest.Options{Progress: bar.reading}, stdin)
	if err != nil {
		return nil, err
	}
	return cluster, c.expand(cluster)
}

// checkLabel returns an error if --by is not a valid label key.
func checkLabel(by string) error { return checkLabelOf("--by", by) }

// checkLabelOf checks the value of a flag that is the key of a label.
func checkLabelOf(flag, key string) error {
	if errs := metav1validation.ValidateLabelName(key, field.NewPath("label")); len(errs) > 0 {
		return fmt.Errorf("%s %q: must be the key of a label, such as %s: %s", flag, key, v1.LabelTopologyZone, errs[0].Detail)
	}
	return nil
}

func nameOfConfig(file string) string {
	if file == "" {
		return "the default configuration"
	}
	return file
}

// comparedOrders are the values of --sort-by. The default is the order of the turns.
var comparedOrders = map[string]func(a, b *simulate.ComparedPod) int{
	"turn":       func(_, _ *simulate.ComparedPod) int { return 0 },
	"name":       func(a, b *simulate.ComparedPod) int { return cmp.Compare(a.Pod, b.Pod) },
	"namespace":  func(a, b *simulate.ComparedPod) int { return cmp.Compare(a.Namespace, b.Namespace) },
	"difference": func(a, b *simulate.ComparedPod) int { return cmp.Compare(a.Difference, b.Difference) },
}

// choose drops the pods that the selectors leave out, and sorts the others.
func (c *compareFlags) choose(comparison *simulate.Comparison, pods []*v1.Pod) {
	if !c.choosesAll() {
		byName := podsByName(pods)
		comparison.Pods = slices.DeleteFunc(comparison.Pods, func(p simulate.ComparedPod) bool {
			pod := byName[p.Namespace+"/"+p.Pod]
			return pod == nil || !c.chooses(pod)
		})
	}
	order := comparedOrders[c.sortBy]
	slices.SortStableFunc(comparison.Pods, func(a, b simulate.ComparedPod) int { return order(&a, &b) })
}

func (c *compareFlags) print(w io.Writer, schedulers [2]*config.Config, result *simulate.Comparison) error {
	releaseA, releaseB := schedulers[0].Release().String(), schedulers[1].Release().String()
	pods := func() *table { return comparedPods(result.Pods, releaseA != releaseB) }
	done, err := c.printing.print(w, listing{
		object: compared{c.configs[0], c.configs[1], releaseA, releaseB, result}, rows: rowsOf(result.Pods), table: pods,
		names: func() []string { return podNames(len(result.Pods), func(i int) string { return result.Pods[i].Pod }) },
	})
	if done {
		return err
	}
	b := c.blocks(w)
	if c.noHeaders {
		b.table(pods())
		return b.end()
	}
	nameA, nameB := nameOfConfig(c.configs[0]), nameOfConfig(c.configs[1])
	if releaseA != releaseB {
		nameA, nameB = nameA+" in "+releaseA, nameB+" in "+releaseB
	}
	b.line("A is %s, B is %s.", nameA, nameB)
	b.table(pods())
	d := result.Differences
	b.line("Decisions: %d. The same: %d; on another node: %d; only A places: %d; only B places: %d; neither, but for different reasons: %d. Preempted: %d by A, %d by B.",
		result.Decided, result.Same, d[simulate.OtherNode], d[simulate.OnlyA], d[simulate.OnlyB], d[simulate.OtherReason], len(result.EvictedA), len(result.EvictedB))
	b.line("By %s:", result.By)
	domains := newTable("VALUE", "NODES>", "PODS A>", "PODS B>", "CPU A>", "CPU B>", "MEMORY A>", "MEMORY B>")
	for i := range result.Domains {
		d := &result.Domains[i]
		inA, inB := d.A, d.B // cpu, memory, pods
		domains.add(orNone(d.Name), d.Nodes, inA[2].After.String(), inB[2].After.String(), percent(inA[0].AfterPercent),
			percent(inB[0].AfterPercent), percent(inA[1].AfterPercent), percent(inB[1].AfterPercent))
	}
	b.table(domains)
	return b.end()
}

func percent(value float64) string { return fmt.Sprintf("%g%%", value) }

// comparedPods has a row for each pod with different outcomes. Two releases add the rules
// behind the differences.
func comparedPods(pods []simulate.ComparedPod, releases bool) *table {
	names := []string{"NAMESPACE", "POD", "DIFFERENCE", "RULE", "A", "B", "MESSAGE~"}
	if !releases {
		names = slices.Delete(names, 3, 4)
	}
	t := newTable(names...)
	for i := range pods {
		p := &pods[i]
		cells := []any{p.Namespace, p.Pod, p.Difference, rulesOf(p), place(&p.A), place(&p.B), messagesOf(p)}
		if !releases {
			cells = slices.Delete(cells, 3, 4)
		}
		t.add(cells...)
	}
	return t
}

func place(o *simulate.Outcome) string {
	if o.Node != "" {
		return o.Node
	}
	return string(o.Status)
}

// messagesOf returns the reasons why a pod has no node.
func messagesOf(p *simulate.ComparedPod) string {
	switch {
	case p.A.Message == "" || p.B.Message == "":
		return p.A.Message + p.B.Message
	case p.A.Message == p.B.Message:
		return p.A.Message
	}
	return "A: " + p.A.Message + " B: " + p.B.Message
}
