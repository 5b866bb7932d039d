package app

import (
	"fmt"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	cliflag "k8s.io/component-base/cli/flag"
	componentconfig "k8s.io/component-base/config"
	electionflags "k8s.io/component-base/config/options"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/answers/history"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/external/framework"
	"github.com/berth-scheduler/berth/internal/queue"
	"github.com/berth-scheduler/berth/internal/serve/server"
)

// options are the values of the flags.
type options struct {
	sets          cliflag.NamedFlagSets
	config        string
	writeConfigTo string
	master        string
	access        *server.Access
	deprecated    deprecated
	election      componentconfig.LeaderElectionConfiguration
	gates         *feature.Gates
	metrics       *metrics.Options
	logging       *logs.Options
	seed          uint64
	// release is the flag's value; empty means the release of the API server.
	release  string
	inFlight int
	// reportsPerSecond limits the conditions and events that are written.
	reportsPerSecond int
	tracing          string
	pluginDeadline   time.Duration
	loopDeadline     time.Duration
	groupPatience    time.Duration
	groupRetries     int
	historyMiB       int
	record           string
	recordMiB        int
	// eventHints adds to FailedScheduling events the smallest change that would help.
	eventHints bool
	// audit checks invariants after every round.
	audit bool
	// added are the command's options; external is built from them.
	added    []Option
	external *config.External
	// drain limits how long a stopping scheduler waits for unfinished writes. No flag
	// sets it; tests do.
	drain time.Duration
	// standalone is true for the scheduler as a program, and false as a command of a
	// larger program.
	standalone bool
}

// deprecated are flags that a configuration file replaces.
type deprecated struct {
	profiling, contentionProfiling bool
	kubeconfig, contentType        string
	qps                            float32
	burst                          int32
	maxParked                      time.Duration // no field of the file replaces it
}

// The port and the lease of kube-scheduler.
const (
	securePort          = 10259
	leaseDuration       = 15 * time.Second
	renewDeadline       = 10 * time.Second
	retryPeriod         = 2 * time.Second
	contentTypeProtobuf = "application/vnd.kubernetes.protobuf"
	defaultQPS          = 50
	defaultBurst        = 100
	ignoredWithFile     = " This parameter is ignored if a config file is specified in --config."
	deprecatedSet       = "deprecated"
	leaderElectionSet   = "leader election"
	auditFlag           = "berth-audit"
	defaultLoopDeadline = time.Minute
	maxHistoryMiB       = history.MaxBytes >> 20
	defaultRecordMiB    = 1024
)

// newOptions returns the defaults and defines the flags. Those of kube-scheduler keep its
// groups and texts, and come from the same libraries.
func newOptions() (*options, error) {
	gates, err := feature.Process()
	if err != nil {
		return nil, err
	}
	o := &options{
		access:  server.NewAccess(securePort),
		gates:   gates,
		metrics: metrics.NewOptions(),
		logging: logs.NewOptions(),
		drain:   commit.DefaultDrain,
	}
	o.election.LeaderElect = true
	o.election.LeaseDuration.Duration = leaseDuration
	o.election.RenewDeadline.Duration = renewDeadline
	o.election.RetryPeriod.Duration = retryPeriod
	o.election.ResourceLock = resourcelock.LeasesResourceLock
	o.election.ResourceName = configv1.SchedulerDefaultLockObjectName
	o.election.ResourceNamespace = configv1.SchedulerDefaultLockObjectNamespace
	o.addFlags()
	return o, nil
}

func (o *options) addFlags() {
	fs := o.sets.FlagSet("misc")
	fs.StringVar(&o.config, "config", "", "The path to the configuration file.")
	fs.StringVar(&o.writeConfigTo, "write-config-to", "", "If set, write the configuration values to this file and exit.")
	fs.StringVar(&o.master, "master", "", "The address of the Kubernetes API server (overrides any value in kubeconfig)")
	o.access.AddFlags(&o.sets)
	o.addDeprecatedFlags()
	electionflags.BindLeaderElectionFlags(&o.election, o.sets.FlagSet(leaderElectionSet))
	o.gates.AddFlags(o.sets.FlagSet("feature gate"))
	o.metrics.AddFlags(o.sets.FlagSet("metrics"))
	logsapi.AddFlags(o.logging, o.sets.FlagSet("logs"))
	fs = o.sets.FlagSet("berth")
	fs.Uint64Var(&o.seed, "berth-seed", 1, "Seed for the choice among equally good nodes. With the same seed, the same history leads to the same decisions.")
	fs.StringVar(&o.release, "berth-release", "", "Kubernetes release whose scheduling behavior is followed: 1.37 or 1.38. "+
		"By default it follows the version of the API server, and the process ends if the server's release changes.")
	fs.IntVar(&o.inFlight, "berth-writes-in-flight", commit.DefaultInFlight, "Maximum number of concurrent writes to the API server.")
	fs.IntVar(&o.reportsPerSecond, "berth-reports-per-second", commit.DefaultReportsPerSecond, "Maximum number of pod conditions and events written per second. "+
		"Bindings are not limited, and are sent first.")
	fs.DurationVar(&o.pluginDeadline, "berth-plugin-deadline", framework.DefaultDeadline, "Time limit for a call of a compiled-in plugin, or for its calls on all nodes together. "+
		"At the limit the attempt fails. PreBind, Bind and PostBind have no limit.")
	fs.DurationVar(&o.loopDeadline, "berth-loop-deadline", defaultLoopDeadline, "Time limit for one round of the scheduling loop, including calls of plugins and extenders. "+
		"At the limit /healthz and /livez fail, and the replica stops leading. 0 disables the limit.")
	fs.DurationVar(&o.groupPatience, "berth-group-patience", queue.DefaultGroupPatience, "How long an unschedulable pod group, or a tree of groups, lets other pods overtake it. "+
		"After that, if the group would fit without the pods that came later and have no higher priority, their space is reserved for it for some minutes as they end; "+
		"other such pods cannot use that space. 0 disables reservations and, as in kube-scheduler, no event wakes a rejected group before its backoff ends.")
	fs.IntVar(&o.groupRetries, "berth-group-retries", engine.DefaultGroupRetries, "Maximum number of decisions about members of a pod group, or a tree of groups, "+
		"in other orders and with other equally good nodes, before the group is rejected. 0 means one pass, as in kube-scheduler.")
	fs.StringVar(&o.record, "berth-record", "", "Directory for a recording of everything that the decisions depend on, which \"berth replay\" reads. "+
		"Each process writes a file. It contains names, labels and requests of all objects, and no Secrets.")
	fs.IntVar(&o.recordMiB, "berth-record-max-mib", defaultRecordMiB, "Size in MiB at which a recording ends.")
	fs.IntVar(&o.historyMiB, "berth-history-mib", history.DefaultBytes>>20, "Memory in MiB for the latest decisions, which kubectl berth explain shows (maximum 256). "+
		"0 keeps no decisions and disables the explain endpoint.")
	fs.BoolVar(&o.eventHints, "berth-event-hints", false, "End the note of a FailedScheduling event with the smallest change of the pod that would make it schedulable, if the search has found it by then. "+
		"The search takes at most 1 % of the scheduler's time. By default notes are those of kube-scheduler.")
	fs.StringVar(&o.tracing, "berth-tracing-config-file", "", "Path to a TracingConfiguration file in the format of kube-apiserver: where to send the spans of each pod, and how many. "+
		"Tracing is off by default.")
	fs.BoolVar(&o.audit, auditFlag, false, "For debugging: check all invariants of state, queue, engine and outbox after each round with changes, and exit if one is violated. "+
		"The checks count everything again and repeat every cached rejection; in a large cluster they take far more time than the decisions.")
}

func (o *options) addDeprecatedFlags() {
	fs, d := o.sets.FlagSet(deprecatedSet), &o.deprecated
	fs.BoolVar(&d.profiling, "profiling", true,
		"DEPRECATED: enable profiling via web interface host:port/debug/pprof/."+ignoredWithFile)
	fs.BoolVar(&d.contentionProfiling, "contention-profiling", true,
		"DEPRECATED: enable block profiling, if profiling is enabled."+ignoredWithFile)
	fs.StringVar(&d.kubeconfig, "kubeconfig", "",
		"DEPRECATED: path to kubeconfig file with authorization and master location information."+ignoredWithFile)
	fs.StringVar(&d.contentType, "kube-api-content-type", contentTypeProtobuf,
		"DEPRECATED: content type of requests sent to apiserver."+ignoredWithFile)
	fs.Float32Var(&d.qps, "kube-api-qps", defaultQPS, "DEPRECATED: QPS to use while talking with kubernetes apiserver."+ignoredWithFile)
	fs.Int32Var(&d.burst, "kube-api-burst", defaultBurst, "DEPRECATED: burst to use while talking with kubernetes apiserver."+ignoredWithFile)
	fs.DurationVar(&d.maxParked, "pod-max-in-unschedulable-pods-duration", queue.DefaultMaxParked,
		"DEPRECATED: the maximum time a pod can stay in unschedulablePods. If a pod stays in unschedulablePods for longer than this "+
			"value, the pod will be moved from unschedulablePods to backoffQ or activeQ. This flag is deprecated and will be removed in a "+
			"future version.")
}

// check returns all mistakes in the flags as one error.
func (o *options) check() error {
	errs := o.gates.Validate()
	errs = append(errs, o.access.Validate()...)
	errs = append(errs, o.metrics.Validate()...)
	if o.deprecated.maxParked <= 0 {
		errs = append(errs, fmt.Errorf("--pod-max-in-unschedulable-pods-duration %v: must be greater than 0, such as 5m", o.deprecated.maxParked))
	}
	if _, err := config.ParseRelease(o.release); o.release != "" && err != nil {
		errs = append(errs, fmt.Errorf("--berth-release %w", err))
	}
	if o.inFlight <= 0 {
		errs = append(errs, fmt.Errorf("--berth-writes-in-flight %d: must be greater than 0", o.inFlight))
	}
	if o.reportsPerSecond <= 0 {
		errs = append(errs, fmt.Errorf("--berth-reports-per-second %d: must be greater than 0", o.reportsPerSecond))
	}
	if o.pluginDeadline <= 0 {
		errs = append(errs, fmt.Errorf("--berth-plugin-deadline %v: must be greater than 0, such as 10s", o.pluginDeadline))
	}
	if o.loopDeadline < 0 || o.loopDeadline > 0 && o.loopDeadline < noteAfter {
		errs = append(errs, fmt.Errorf("--berth-loop-deadline %v: must be at least 1s, or 0 for no limit", o.loopDeadline))
	}
	if o.groupRetries < 0 {
		errs = append(errs, fmt.Errorf("--berth-group-retries %d: must not be negative; 0 means one pass", o.groupRetries))
	}
	if o.recordMiB < 1 {
		errs = append(errs, fmt.Errorf("--berth-record-max-mib %d: must be at least 1, such as %d", o.recordMiB, defaultRecordMiB))
	}
	if o.historyMiB < 0 || o.historyMiB > maxHistoryMiB {
		errs = append(errs, fmt.Errorf("--berth-history-mib %d: must be 0-%d", o.historyMiB, maxHistoryMiB))
	}
	if o.groupPatience < 0 {
		errs = append(errs, fmt.Errorf("--berth-group-patience %v: must not be negative; 0 disables reservations", o.groupPatience))
	}
	return utilerrors.NewAggregate(errs)
}

// configuration reads the configuration file and applies the leader election flags to it.
// Without a file, it applies all flags to the defaults.
func (o *options) configuration() (*config.Config, error) {
	release, _ := config.ParseRelease(o.release) // 0 if it is not given
	limited := o.sets.FlagSet(deprecatedSet).Changed("kube-api-qps") || o.sets.FlagSet(deprecatedSet).Changed("kube-api-burst")
	return config.Read(config.Request{
		File:    o.config,
		Gates:   o.gates,
		Release: release,
		Limited: limited && o.config == "",

		AskExtenders: true,
		External:     o.external,
		Edit: func(c *configv1.KubeSchedulerConfiguration) {
			if o.config == "" {
				o.editDeprecated(c)
			}
			o.editElection(c)
		},
	})
}

func (o *options) editDeprecated(c *configv1.KubeSchedulerConfiguration) {
	given, d := o.sets.FlagSet(deprecatedSet), &o.deprecated
	replace(given.Changed("profiling"), &c.EnableProfiling, &d.profiling)
	replace(given.Changed("contention-profiling"), &c.EnableContentionProfiling, &d.contentionProfiling)
	replace(given.Changed("kubeconfig"), &c.ClientConnection.Kubeconfig, d.kubeconfig)
	replace(given.Changed("kube-api-content-type"), &c.ClientConnection.ContentType, d.contentType)
	replace(given.Changed("kube-api-qps"), &c.ClientConnection.QPS, d.qps)
	replace(given.Changed("kube-api-burst"), &c.ClientConnection.Burst, d.burst)
}

func (o *options) editElection(c *configv1.KubeSchedulerConfiguration) {
	given, e, to := o.sets.FlagSet(leaderElectionSet), &o.election, &c.LeaderElection
	replace(given.Changed("leader-elect"), &to.LeaderElect, &e.LeaderElect)
	replace(given.Changed("leader-elect-lease-duration"), &to.LeaseDuration, e.LeaseDuration)
	replace(given.Changed("leader-elect-renew-deadline"), &to.RenewDeadline, e.RenewDeadline)
	replace(given.Changed("leader-elect-retry-period"), &to.RetryPeriod, e.RetryPeriod)
	replace(given.Changed("leader-elect-resource-lock"), &to.ResourceLock, e.ResourceLock)
	replace(given.Changed("leader-elect-resource-name"), &to.ResourceName, e.ResourceName)
	replace(given.Changed("leader-elect-resource-namespace"), &to.ResourceNamespace, e.ResourceNamespace)
}

// replace sets a field if the flag was given.
func replace[T any](given bool, field *T, value T) {
	if given {
		*field = value
	}
}
