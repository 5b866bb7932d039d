package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cliflag "k8s.io/component-base/cli/flag"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/live"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// takeSnapshot is the command that writes all objects that the scheduler reads.
const takeSnapshot = "kubectl berth snapshot -o cluster.json"

// input holds the flags of commands that read files.
type input struct {
	printing

	files  []string
	config string
	gates  map[string]bool
	// release is the value of --release; empty means the cluster's release.
	release string

	filesFlag string    // as on the command line
	nodeless  bool      // files may be a cluster without nodes, and -n limits the output
	stdin     io.Reader // of the command, after complete
	// connection is the connection to a live cluster.
	connection *connection
	// assumed are notes about unreadable parts of a live cluster. aside removes from a
	// pod whatever cannot be checked without them.
	assumed []string
	aside   func(*v1.Pod)
	// workloads makes pods for the workloads of the files; nil in other commands.
	workloads *workloads
}

// newInput declares the flags. filesFlag is the flag for files, short its letter, which
// may be empty. A command that reads no files has no such flag.
func newInput(flags *pflag.FlagSet, filesFlag, short string, out prints) *input {
	in := newInputOf(flags, filesFlag, short, out)
	flags.StringVar(&in.config, "config", "", "Configuration file of the scheduler, a KubeSchedulerConfiguration; - is standard input (default: the default configuration).")
	addRelease(flags, &in.release)
	return in
}

// newInputOf declares the flags except --config and --release.
func newInputOf(flags *pflag.FlagSet, filesFlag, short string, out prints) *input {
	in := &input{printing: printing{prints: out}, filesFlag: "--" + filesFlag, connection: newConnection(flags)}
	if short != "" {
		in.filesFlag = "-" + short
	}
	if filesFlag != "" {
		flags.StringArrayVarP(&in.files, filesFlag, short, nil, "File or directory with the cluster's objects, YAML or JSON; - is standard input. May be given several times.")
	}
	flags.Var(cliflag.NewMapStringBool(&in.gates), "feature-gates", "Feature gates of the scheduler, in the format of its own flag, such as GenericWorkload=true (default: the defaults of its version).")
	in.declare(flags)
	return in
}

// read reads the scheduler's configuration and the cluster. Without --config the
// configuration is the default one. The cluster comes from the files, with the pods of
// their workloads, or without files from the API server.
func (in *input) read(ctx context.Context, stdin io.Reader, bar *progress) (*config.Config, *manifest.Cluster, error) {
	scheduler, cluster, err := in.readPlain(ctx, stdin, bar)
	if err == nil && len(in.files) > 0 {
		err = in.expand(cluster)
	}
	return scheduler, cluster, err
}

// readPlain is read without the pods of workloads.
func (in *input) readPlain(ctx context.Context, stdin io.Reader, bar *progress) (*config.Config, *manifest.Cluster, error) {
	scheduler, err := in.readConfig()
	if err != nil {
		return nil, nil, err
	}
	if len(in.files) == 0 {
		if err := in.checkNoFiles(); err != nil {
			return nil, nil, err
		}
		found, err := in.readLive(ctx, bar, scheduler)
		if err != nil {
			return nil, nil, err
		}
		scheduler, err = in.forRelease(ctx, scheduler, nil)
		return scheduler, found.Cluster, err
	}
	cluster, err := in.readFiles(manifest.Options{Progress: bar.reading}, stdin)
	if err != nil {
		return nil, nil, err
	}
	scheduler, err = in.forRelease(ctx, scheduler, cluster.Nodes)
	return scheduler, cluster, err
}

// readWithFiles reads the cluster of the files. If these have no Node, it adds their
// objects to a live cluster, and returns the names of their pods, which are created last.
func (in *input) readWithFiles(ctx context.Context, stdin io.Reader, bar *progress) (*config.Config, *manifest.Cluster, map[string]bool, error) {
	var piped bytes.Buffer // standard input is read twice
	if slices.Contains(in.files, "-") {
		stdin = io.TeeReader(stdin, &piped)
	}
	scheduler, files, err := in.readPlain(ctx, stdin, bar)
	if err != nil || len(in.files) == 0 {
		return scheduler, files, nil, err
	}
	into := manifest.Namespace{Only: *in.connection.flags.Namespace != ""}
	if len(files.Nodes) > 0 || in.nodeless && in.connection.isUnknown() {
		if into.Only && !in.nodeless {
			return nil, nil, nil, wrong{fmt.Errorf("--namespace %q: not supported for a cluster of files, whose objects have their own namespace (default %q): set metadata.namespace and omit the flag",
				*in.connection.flags.Namespace, metav1.NamespaceDefault)}
		}
		return scheduler, files, nil, in.expand(files)
	}
	if into.Name, err = in.connection.namespace(); err != nil {
		return nil, nil, nil, err
	}
	found, err := in.readLive(ctx, bar, scheduler)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the files have no Node, so they are added to a live cluster: %w", err)
	}
	if scheduler, err = in.liveRelease(ctx, scheduler); err != nil {
		return nil, nil, nil, err
	}
	cluster, err := in.readFiles(manifest.Options{Base: found.Cluster, Namespace: &into}, &piped)
	if err != nil {
		return nil, nil, nil, err
	}
	first := len(cluster.Pods) - len(files.Pods) // pods of the files are the last
	if err := in.expand(cluster); err != nil {
		return nil, nil, nil, err
	}
	asked, now := map[string]bool{}, metav1.Now()
	for _, pod := range cluster.Pods[first:] {
		asked[nameOf(pod)] = true
		found.SetAside(pod)
		if pod.CreationTimestamp.IsZero() {
			pod.CreationTimestamp = now
		}
	}
	return scheduler, cluster, asked, nil
}

// readConfig reads the scheduler's configuration. Some commands read it twice: explain
// before and after it asks the scheduler, compare for two releases. So standard input is
// kept for the next time.
func (in *input) readConfig() (*config.Config, error) {
	release, err := parseRelease(in.release)
	if err != nil {
		return nil, err
	}
	var read bytes.Buffer
	scheduler, err := loadConfig(in.config, in.gates, release, io.TeeReader(in.stdin, &read))
	if err != nil {
		return nil, wrong{err}
	}
	if in.config == "-" {
		in.stdin = &read
	}
	return scheduler, nil
}

// readLive reads the cluster from its API server, with the kinds that the configurations
// read.
func (in *input) readLive(ctx context.Context, bar *progress, schedulers ...*config.Config) (*live.Result, error) {
	var reads []model.Kind
	for _, scheduler := range schedulers {
		reads = append(reads, scheduler.Reads()...)
	}
	access, err := in.connection.access()
	if err != nil {
		return nil, wrong{fmt.Errorf("%w; or name the cluster's files with %s", err, in.filesFlag)}
	}
	result, err := live.Read(ctx, live.Request{Access: access, Kinds: reads, Progress: bar.reading})
	if err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	in.assumed, in.aside = result.Notes, result.SetAside
	return result, nil
}

// setAside removes from an added pod whatever cannot be checked.
func (in *input) setAside(pod *v1.Pod) {
	if in.aside != nil {
		in.aside(pod)
	}
}

// noteAssumed notes which parts of a live cluster were unreadable, and which pods were
// made.
func (in *input) noteAssumed(w io.Writer) {
	for _, note := range in.assumed {
		fmt.Fprintf(w, "Note: %s\n", note)
	}
	in.noteMade(w)
}

// complete registers shell completion for the common flags. It makes the command check
// the printing flags before it runs.
func (in *input) complete(cmd *cobra.Command) {
	in.printing.complete(cmd)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		in.stdin = cmd.InOrStdin()
		return in.check()
	}
	// Registration cannot fail, because the flag exists.
	_ = cmd.RegisterFlagCompletionFunc("namespace", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return in.connection.namespaces(cmd.Context(), typed), cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.RegisterFlagCompletionFunc("feature-gates", completeGates)
	if in.of != "" {
		_ = cmd.RegisterFlagCompletionFunc("selector", in.completeLabels)
	}
	for _, flag := range []string{"filename", "snapshot", "since", "config"} { // no error for others
		_ = cmd.MarkFlagFilename(flag, "yaml", "yml", "json")
	}
	_ = cmd.MarkFlagFilename("kubeconfig")
}

// printObject prints an answer as JSON or YAML.
func printObject(w io.Writer, format string, answer any) error {
	var data []byte
	var err error
	if format == "yaml" {
		data, err = yaml.Marshal(answer)
	} else {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(answer)
		data = text.Bytes()
	}
	if err == nil {
		_, err = w.Write(data)
	}
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// loadConfig reads a configuration file, or the default configuration without a file,
// with these gates set and the answers of a release. The file "-" is standard input.
func loadConfig(file string, set map[string]bool, release config.Release, stdin io.Reader) (*config.Config, error) {
	own := make(map[string]bool, len(set))
	for name, on := range set {
		own[strings.TrimPrefix(name, ofKubernetes)] = on
	}
	gates, err := feature.With(own)
	if err != nil {
		return nil, fmt.Errorf("--feature-gates: %w", err)
	}
	r := config.Request{File: file, Gates: gates, Release: release}
	if file != "-" {
		return config.Read(r)
	}
	data, err := io.ReadAll(stdin)
	if err != nil {
		return nil, fmt.Errorf("read the scheduler configuration from standard input: %w", err)
	}
	return config.ParseWith("standard input", data, r)
}

// ofKubernetes is an optional prefix of a gate's name.
const ofKubernetes = "kube:"

// notes writes which parts of the input were ignored or are missing.
func notes(w io.Writer, scheduler *config.Config, cluster *manifest.Cluster) {
	for _, warning := range cluster.Warnings {
		fmt.Fprintf(w, "Note: %s\n", warning)
	}
	for _, warning := range []string{missingControllers(scheduler, cluster), missingStorage(scheduler, cluster), gateOfGroups(scheduler, cluster)} {
		note(w, warning)
	}
	var kinds []string
	for _, s := range cluster.Skipped {
		kinds = append(kinds, fmt.Sprintf("%d %s (%s)", s.Count, s.Kind, s.APIVersion))
	}
	if len(kinds) > 0 {
		fmt.Fprintf(w, "Note: ignored objects that scheduling does not read: %s\n", strings.Join(kinds, ", "))
	}
	if len(scheduler.Barring) > 0 {
		fmt.Fprintf(w, "Note: configured, but not supported by Berth; pods that need them stay pending: %s\n", strings.Join(scheduler.Barring, ", "))
	}
	for _, note := range scheduler.Unasked {
		fmt.Fprintf(w, "Note: %s\n", note)
	}
	if names := scheduler.WithoutEffect(); len(names) > 0 {
		fmt.Fprintf(w, "Note: enabled plugins without effect: %s\n", strings.Join(names, ", "))
	}
}

// note writes a note unless it is empty.
func note(w io.Writer, text string) {
	if text != "" {
		fmt.Fprintf(w, "Note: %s\n", text)
	}
}

// gateOfGroups warns that pods of pod groups are scheduled one by one because the gate is
// off. It returns "" without such pods.
func gateOfGroups(scheduler *config.Config, cluster *manifest.Cluster) string {
	if scheduler.Groups {
		return ""
	}
	pods := 0
	for _, pod := range cluster.Pods {
		if isPending(pod) && groupOf(pod) != "" {
			pods++
		}
	}
	return oneByOne(pods)
}

// oneByOne is the warning for a number of pods of pod groups. It returns "" for none.
func oneByOne(pods int) string {
	if pods == 0 {
		return ""
	}
	return fmt.Sprintf("pending pods of pod groups are scheduled one by one: %d; to schedule each group as a whole, add --feature-gates GenericWorkload=true", pods)
}

// groupOf returns namespace/name of the pod's PodGroup, or "".
func groupOf(pod *v1.Pod) string {
	if of := pod.Spec.SchedulingGroup; of != nil && of.PodGroupName != nil {
		return pod.Namespace + "/" + *of.PodGroupName
	}
	return ""
}

// missingControllers warns of pods whose controllers are missing in the input.
//
// Default constraints of PodTopologySpread use the selectors of services and controllers.
// Without these objects the default selector is empty, and the pods are not spread. It
// returns "" if the input is complete.
func missingControllers(scheduler *config.Config, cluster *manifest.Cluster) string {
	if !slices.Contains(scheduler.Reads(), model.ReplicaSetKind) {
		return ""
	}
	known := map[string]bool{
		"ReplicationController": len(cluster.ReplicationControllers) > 0,
		"ReplicaSet":            len(cluster.ReplicaSets) > 0,
		"StatefulSet":           len(cluster.StatefulSets) > 0,
	}
	pods := map[string]int{} // by kind of controller
	for _, pod := range cluster.Pods {
		if kind := spreadingController(pod); kind != "" && !known[kind] && isPending(pod) && len(pod.Spec.TopologySpreadConstraints) == 0 {
			pods[kind]++
		}
	}
	var missing []string
	for _, kind := range []string{"ReplicationController", "ReplicaSet", "StatefulSet"} {
		if pods[kind] > 0 {
			missing = append(missing, fmt.Sprintf("no %s (pending pods of one: %d)", kind, pods[kind]))
		}
	}
	if missing == nil {
		return ""
	}
	return "the input has " + strings.Join(missing, ", ") +
		"; without its controller a pod may be spread differently than in the cluster; get all needed objects with: " + takeSnapshot
}

// missingStorage warns if objects name claims, volumes or classes and the input has none
// of that kind. Such a snapshot was taken without them, so pods wait for objects that the
// cluster has. It returns "" if the input is complete.
func missingStorage(scheduler *config.Config, cluster *manifest.Cluster) string {
	if !slices.Contains(scheduler.Reads(), model.PersistentVolumeClaimKind) {
		return ""
	}
	pods, bound, classed := 0, 0, 0
	for _, pod := range cluster.Pods {
		if isPending(pod) && slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil }) {
			pods++
		}
	}
	for _, claim := range cluster.PersistentVolumeClaims {
		if claim.Spec.VolumeName != "" {
			bound++
		} else if class := claim.Spec.StorageClassName; class != nil && *class != "" {
			classed++
		}
	}
	var missing []string
	if pods > 0 && len(cluster.PersistentVolumeClaims) == 0 {
		missing = append(missing, fmt.Sprintf("no PersistentVolumeClaim (pending pods that use one: %d)", pods))
	}
	if bound > 0 && len(cluster.PersistentVolumes) == 0 {
		missing = append(missing, fmt.Sprintf("no PersistentVolume (claims that have one: %d)", bound))
	}
	if classed > 0 && len(cluster.StorageClasses) == 0 {
		missing = append(missing, fmt.Sprintf("no StorageClass (claims without a volume that have one: %d)", classed))
	}
	if missing == nil {
		return ""
	}
	return "the input has " + strings.Join(missing, ", ") +
		"; pods wait here for objects that exist in the cluster; get all needed objects with: " + takeSnapshot
}

// spreadingController returns the kind of the pod's controller if default selectors use
// that kind; "" otherwise.
func spreadingController(pod *v1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return ""
	}
	switch owner.APIVersion + " " + owner.Kind {
	case "v1 ReplicationController", "apps/v1 ReplicaSet", "apps/v1 StatefulSet":
		return owner.Kind
	}
	return ""
}
