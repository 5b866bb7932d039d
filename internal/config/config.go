package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/external/extender"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/queue"
)

// Config is a checked configuration. It never changes.
type Config struct {
	// Source is the configuration with defaults filled in and plugin sets merged. Write
	// writes it.
	Source *configv1.KubeSchedulerConfiguration
	// Profiles are in the order of Source.
	Profiles []*plugin.Profile
	// BackoffInitial and MaxBackoff bound the wait after a failed attempt.
	BackoffInitial, MaxBackoff time.Duration
	// Missing lists the enabled plugins that Berth lacks, sorted.
	Missing []string
	// Barring lists the plugins of Missing that keep pods pending, sorted: the pods that
	// the real plugin would have filtered. The others have no effect.
	Barring []string

	// Kubeconfig is the path of the kubeconfig file; empty if the configuration has none.
	Kubeconfig string
	// ContentType and AcceptContentTypes are the content types for requests to the API
	// server and for its responses.
	ContentType, AcceptContentTypes string
	// QPS and Burst limit the requests to the API server. Both are 0, for no limit,
	// unless the file sets either. The other is then kube-scheduler's default. A
	// negative QPS also means no limit.
	QPS   float32
	Burst int

	// Extenders are the extenders that the profiles call; nil for none. Unasked has a
	// note on each configured extender that the profiles do not call.
	Extenders *extender.Set
	Unasked   []string

	// Notes list fields that were accepted but have no effect, and why.
	Notes []string
	reads []model.Kind

	file string // as given; empty without a file
	// known are the plugins that profiles may enable. Build uses them again.
	known           registry
	gates           Gates
	release         Release
	external        []madeExternal
	types           *framework.Types
	enablesExternal bool

	// Flagz and Statusz enable the pages of these names. Coordinated lets the API server
	// choose the leader.
	Flagz, Statusz, Coordinated bool

	// Groups schedules the members of a pod group together.
	Groups bool
	// Trees allows pod groups to belong to composite groups. All groups of a tree are
	// scheduled together.
	Trees bool
	// GroupClaims means that PodGroups have device claims, which their members share.
	GroupClaims bool
	// Announce writes a pod's chosen node as its nominated node before plugins wait at
	// Permit or run PreBind.
	Announce bool
}

// Request is the input of Read. The zero value requests the defaults.
type Request struct {
	// File is the path of the configuration file; empty means none.
	File string
	// Gates are the feature gates; nil means the defaults.
	Gates Gates
	// Release chooses the answers of the plugins; 0 means Release37.
	Release Release
	// Edit applies flags: it changes the configuration after defaults are filled in and
	// before it is checked.
	Edit func(*configv1.KubeSchedulerConfiguration)
	// Limited means that Edit sets QPS or burst of the client connection, so that these
	// limits apply.
	Limited bool
	// AskExtenders makes the profiles call the configured extenders over the network. A
	// simulation must not: extenders bind pods, and their calls take time.
	AskExtenders bool
	// External are the out-of-tree plugins that the configuration may name; nil means
	// none.
	External *External
}

// Error is a mistake in a configuration. All errors of Load and Parse are of this type.
type Error struct {
	File string // as given
	Err  error
	// Where is the line and the field, with the name that was probably meant; empty if
	// they are unknown.
	Where string
}

// Error returns the file, the mistake and its place.
func (e *Error) Error() string {
	if e.Where == "" {
		return e.File + ": " + e.Err.Error()
	}
	return e.File + ": " + e.Err.Error() + " (" + e.Where + ")"
}

// Unwrap returns the mistake.
func (e *Error) Unwrap() error { return e.Err }

// Default returns the configuration without a file.
func Default() (*Config, error) { return Read(Request{}) }

// Load reads a configuration file, YAML or JSON. Its errors are of type *Error.
func Load(path string) (*Config, error) { return Read(Request{File: path}) }

// Parse parses a configuration, YAML or JSON. Its errors are of type *Error and begin
// with the name.
func Parse(name string, data []byte) (*Config, error) { return ParseWith(name, data, Request{}) }

// Read returns the requested configuration. Mistakes in a file are of type *Error.
func Read(r Request) (*Config, error) {
	if r.File == "" {
		if err := r.fillGates(); err != nil {
			return nil, err
		}
		return finish(&configv1.KubeSchedulerConfiguration{}, r)
	}
	data, err := os.ReadFile(r.File)
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err // the Error has the path
		}
		return nil, &Error{File: r.File, Err: fmt.Errorf("read the scheduler configuration: %w", err)}
	}
	return ParseWith(r.File, data, r)
}

// ParseWith is Parse with the gates and the out-of-tree plugins of a request. It ignores
// the request's file.
func ParseWith(name string, data []byte, r Request) (*Config, error) {
	scheme, err := r.scheme()
	if err != nil {
		return nil, err
	}
	if err := r.fillGates(); err != nil {
		return nil, err
	}
	f := &finder{text: data, scheme: scheme}
	source, err := decode(data, scheme)
	if err != nil {
		return nil, &Error{File: name, Err: err, Where: f.where(err)}
	}
	f.source = source.DeepCopy()
	c, err := finish(source, r)
	if err != nil {
		f.known, _ = r.registry() // finish has returned its error
		return nil, &Error{File: name, Err: err, Where: f.where(err)}
	}
	c.file = name
	if more := furtherDocuments(data); more > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("only the first YAML document of the file is read, as by kube-scheduler; %d more are ignored", more))
	}
	return c, nil
}

// scheme returns the types of the configuration and of the arguments of plugins.
func (r *Request) scheme() (*runtime.Scheme, error) {
	if r.External != nil {
		return r.External.scheme, nil
	}
	return newScheme()
}

// fillGates sets the default gates, unless gates are given.
func (r *Request) fillGates() error {
	if r.Gates != nil {
		return nil
	}
	defaults, err := feature.Defaults()
	if err == nil {
		r.Gates = defaults
	}
	return err
}

// registry returns the plugins that the configuration may name.
func (r *Request) registry() (registry, error) {
	return builtIn(r.Gates, rulesOf(max(r.Release, Release37))).with(r.External)
}

// finish fills in defaults, checks everything and builds the profiles.
func finish(source *configv1.KubeSchedulerConfiguration, r Request) (*Config, error) {
	gates, release := r.Gates, max(r.Release, Release37)
	known, err := r.registry()
	if err != nil {
		return nil, err
	}
	connection := source.ClientConnection // as written
	fill(known, source)
	if err := checkConversions(known, source.Profiles); err != nil {
		return nil, err
	}
	if r.Edit != nil {
		r.Edit(source)
	}
	if err := check(known, source); err != nil {
		return nil, err
	}
	c := &Config{
		Source:             source,
		BackoffInitial:     time.Duration(*source.PodInitialBackoffSeconds) * time.Second,
		MaxBackoff:         time.Duration(*source.PodMaxBackoffSeconds) * time.Second,
		Kubeconfig:         source.ClientConnection.Kubeconfig,
		ContentType:        source.ClientConnection.ContentType,
		AcceptContentTypes: source.ClientConnection.AcceptContentTypes,
		Notes:              slices.Concat(notes(source), notesOnExtenders(source.Extenders), notesOnGates(gates)),
		Flagz:              gates.Enabled(componentFlagz),
		Statusz:            gates.Enabled(componentStatusz),
		Coordinated:        gates.Enabled(coordinatedLeaderElection),
		Groups:             gates.Enabled(genericWorkload),
		Trees:              gates.Enabled(compositePodGroup),
		GroupClaims:        hasGroupClaims(gates),
		Announce:           gates.Enabled(nominatedNodeNameBeforeBinding),

		known:   known,
		gates:   gates,
		release: release,
		types:   r.External.Types(),
	}
	if connection.QPS != 0 || connection.Burst != 0 || r.Limited {
		c.QPS, c.Burst = source.ClientConnection.QPS, int(source.ClientConnection.Burst)
	}
	if err := c.addProfiles(nil); err != nil {
		return nil, fmt.Errorf("initializing profiles: %w", err)
	}
	if err := c.addExtenders(r.AskExtenders); err != nil {
		return nil, err
	}
	c.Notes = append(c.Notes, c.notesOnIgnored()...)
	return c, nil
}

// Build returns the configuration with the out-of-tree plugins in the profiles. It calls
// their factories, which may block until the context ends. After an error, the plugins
// that were built are closed. Mistakes in a file that appear only now are of type *Error.
func (c *Config) Build(ctx context.Context, host Host) (*Config, error) {
	full := *c
	full.Source = c.Source.DeepCopy()
	full.Profiles, full.Missing, full.Barring, full.reads = nil, nil, nil, nil
	h := &hosting{ctx: ctx, host: host}
	if err := full.addProfiles(h); err != nil {
		err = errors.Join(fmt.Errorf("initializing profiles: %w", err), closeAll(h.made))
		if !h.failed && c.file != "" {
			err = &Error{File: c.file, Err: err}
		}
		return nil, err
	}
	full.askExtenders()
	full.external = h.made
	for _, complete := range h.complete {
		complete()
	}
	return &full, nil
}

// Close closes the out-of-tree plugins that are io.Closers.
func (c *Config) Close() error { return closeAll(c.external) }

// WholeObjects reports whether the watches must keep pods and nodes whole, for
// out-of-tree plugins and extenders.
func (c *Config) WholeObjects() bool { return c.enablesExternal || len(c.Source.Extenders) > 0 }

// Types returns the types of the values that out-of-tree plugins get; nil for Berth's
// own.
func (c *Config) Types() *framework.Types { return c.types }

// EnablesExternal reports whether a profile enables an out-of-tree plugin, so that Build
// is needed.
func (c *Config) EnablesExternal() bool { return c.enablesExternal }

// addProfiles builds the profiles. With a nil hosting, it omits their out-of-tree
// plugins.
func (c *Config) addProfiles(h *hosting) error {
	ignored := ignoredByExtenders(c.Source.Extenders)
	var shared plugins
	var firstSort string
	for i := range c.Source.Profiles {
		source := &c.Source.Profiles[i]
		b, err := build(c.known, source, ignored, &shared, h)
		if err != nil {
			return fmt.Errorf("creating profile for scheduler name %s: %w", *source.SchedulerName, err)
		}
		c.enablesExternal = c.enablesExternal || b.external
		c.Profiles = append(c.Profiles, b.profile)
		c.Missing = append(c.Missing, b.plugins...)
		c.Barring = append(c.Barring, b.barring...)
		c.reads = append(c.reads, b.reads...)
		if i == 0 {
			firstSort = b.queueSort
		}
		if firstSort == "" || b.queueSort == "" { // unknown until Build
			continue
		}
		if b.queueSort != firstSort {
			return fmt.Errorf("different queue sort plugins for profile %q: %q, first: %q", *source.SchedulerName, b.queueSort, firstSort)
		}
		if !equality.Semantic.DeepEqual(argsFor(firstSort, c.Source.Profiles[0].PluginConfig), argsFor(firstSort, source.PluginConfig)) {
			return fmt.Errorf("different queue sort plugin args for profile %q", *source.SchedulerName)
		}
	}
	slices.Sort(c.Missing)
	c.Missing = slices.Compact(c.Missing)
	slices.Sort(c.Barring)
	c.Barring = slices.Compact(c.Barring)
	c.addReads(model.PodKind, model.NodeKind)
	if c.Groups {
		c.addReads(model.PodGroupKind)
	}
	if c.Trees {
		c.addReads(model.CompositePodGroupKind)
	}
	return nil
}

// addReads adds kinds to watch.
func (c *Config) addReads(more ...model.Kind) {
	for _, kind := range more {
		// Out-of-tree plugins may register for any kind. A kind whose gate is off is not
		// watched.
		if gated := kind == model.PodGroupKind && !c.Groups || kind == model.CompositePodGroupKind && !c.Trees; !gated {
			c.reads = append(c.reads, kind)
		}
	}
	slices.Sort(c.reads)
	c.reads = slices.Compact(c.reads)
}

// WithoutEffect returns the plugins of Missing that keep no pod pending, sorted.
func (c *Config) WithoutEffect() []string {
	return slices.DeleteFunc(slices.Clone(c.Missing), func(name string) bool { return slices.Contains(c.Barring, name) })
}

// SchedulerNames returns the scheduler names of the profiles, in their order.
func (c *Config) SchedulerNames() []string {
	names := make([]string, len(c.Profiles))
	for i, p := range c.Profiles {
		names[i] = p.Name
	}
	return names
}

// KeepsPending returns why a pod of these profiles can never be bound, whatever the
// nodes: it needs an enabled feature that Berth lacks. It is "" for most pods.
func (c *Config) KeepsPending(object *v1.Pod, classes model.ClassResolver) string {
	for _, p := range c.Profiles {
		if p.Name != object.Spec.SchedulerName {
			continue
		}
		again := object.DeepCopy()
		again.Spec.NodeName = "" // the needs are compiled for pending pods only
		pod := model.NewPod(again)
		for _, filter := range p.PreFilters {
			if filter.Bars != nil {
				if why := filter.Bars(pod, classes); why != "" {
					return why
				}
			}
		}
	}
	return ""
}

// Compile returns the functions that compile the pods of each scheduler name.
func (c *Config) Compile() map[string]ingest.Compile {
	compile := make(map[string]ingest.Compile, len(c.Profiles))
	for _, p := range c.Profiles {
		compile[p.Name] = p.Compile
	}
	return compile
}

// Binder returns the first Bind plugin of a scheduler name's profile; nil if only
// out-of-tree plugins bind pods there.
func (c *Config) Binder(schedulerName string) *plugin.Bind {
	for _, p := range c.Profiles {
		if p.Name == schedulerName && len(p.Bind) > 0 {
			return p.Bind[0]
		}
	}
	return nil
}

// Reads returns the kinds of API object to watch, in order: pods, nodes, and the kinds
// that any profile's plugins read.
func (c *Config) Reads() []model.Kind { return c.reads }

// ReadsDevices reports whether Reads includes devices and claims.
func (c *Config) ReadsDevices() bool { return slices.Contains(c.reads, model.ResourceClaimKind) }

// Queue returns the configuration of a queue for the profiles. maxParked is a flag; the
// configuration has no field for it.
func (c *Config) Queue(maxParked time.Duration) queue.Config {
	return queue.Config{Profiles: c.Profiles, Groups: c.Groups, Trees: c.Trees, BackoffInitial: c.BackoffInitial, MaxBackoff: c.MaxBackoff, MaxParked: maxParked}
}
