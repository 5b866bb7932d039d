package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/external/clients"
	"github.com/berth-scheduler/berth/internal/kube"
)

// PluginFactory builds a plugin for one profile.
type PluginFactory = framework.PluginFactory

// Option extends a scheduler command.
type Option func(*additions)

// additions are the plugins and types from options.
type additions struct {
	plugins []config.Registered
	types   []func(*runtime.Scheme) error
	shown   *framework.Types
}

// WithPlugin adds a plugin. Configurations enable it by this name, in multiPoint or at
// the extension points whose interfaces of k8s.io/kube-scheduler/framework it implements.
// Names are unique, built-in plugins included.
func WithPlugin(name string, factory PluginFactory) Option {
	return func(a *additions) { a.plugins = append(a.plugins, config.Registered{Name: name, Factory: factory}) }
}

// WithScheme adds types of arguments. The function registers <Name>Args in version v1 of
// group kubescheduler.config.k8s.io, with its defaulting functions. It also registers the
// internal version and its conversions if the plugin takes that version.
//
// Types in SchemeBuilder of k8s.io/kube-scheduler/config/v1 need no WithScheme.
func WithScheme(add func(*runtime.Scheme) error) Option {
	return func(a *additions) { a.types = append(a.types, add) }
}

// WithTypes makes plugins get values of kube-scheduler's concrete types, such as its
// NodeInfo, instead of Berth's. Arguments then have the types that packages register with
// kube-scheduler. A program that links a package of k8s.io/kubernetes needs it, because
// plugins may assert these types. Take the types from compat.Types of
// github.com/berth-scheduler/berth/framework/compat.
func WithTypes(types *framework.Types) Option {
	return func(a *additions) { a.shown = types }
}

// addExternal checks the additions of the command's options.
func (o *options) addExternal() (err error) {
	var a additions
	for _, add := range o.added {
		add(&a)
	}
	if err := config.CheckProgram(a.plugins, a.shown); err != nil {
		return usage(err)
	}
	o.external, err = config.NewExternal(a.plugins, a.types, a.shown)
	return err
}

// external holds the parts of out-of-tree plugins that start and stop with the scheduler.
type external struct {
	ctx     context.Context
	cancel  context.CancelFunc
	config  *config.Config // with the plugins
	clients *clients.Clients
	host    *host
}

// newExternal builds the enabled out-of-tree plugins, and returns the configuration with
// them. Without such plugins, external is nil and the configuration is unchanged. The
// deadline bounds plugin calls that the loop waits for.
func newExternal(ctx context.Context, c *config.Config, access *rest.Config, client *kube.Client, seen observers, deadline time.Duration, name *cache.InformerName) (*external, *config.Config, error) {
	if !c.EnablesExternal() {
		return nil, c, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	shared, err := clients.New(ctx, access, client.Interface, kube.Informers(client, name))
	if err != nil {
		cancel()
		return nil, nil, fmt.Errorf("out-of-tree plugins: %w", err)
	}
	o := &external{ctx: ctx, cancel: cancel, config: c, clients: shared, host: newHost(ctx, c, shared, seen, deadline)}
	full, err := c.Build(ctx, o.host)
	if err != nil {
		o.stop(klog.FromContext(ctx))
		if errors.As(err, new(*config.Error)) {
			return nil, nil, usage(err)
		}
		return nil, nil, err
	}
	o.config = full
	return o, full, nil
}

// watches returns the watch options that out-of-tree plugins and extenders need: whole
// objects, and events of resources that scheduling does not read. Plugins and the watch
// share informers.
func (o *external) watches(c *config.Config, changes *ingest.Ingest, log klog.Logger) []kube.WatchOption {
	if !c.WholeObjects() {
		return nil
	}
	others := c.OtherEvents()
	for _, name := range others {
		if err := kube.CheckOther(name); err != nil {
			log.Error(err, "A plugin registered for events that are never delivered")
		}
	}
	options := []kube.WatchOption{kube.Whole(), kube.Others(others, changes)}
	if o != nil {
		options = append(options, kube.Through(o.clients.Informers))
	}
	return options
}

// join connects the plugins with the parts that are built after them.
func (o *external) join(changes *ingest.Ingest, bindings *commit.Commit) {
	if o != nil {
		o.host.join(changes, bindings)
	}
}

// start starts the informers that factories have requested.
func (o *external) start() {
	if o != nil {
		o.clients.Start(o.ctx)
	}
}

// sync waits for the first lists of these informers. An error means that the scheduler
// stops.
func (o *external) sync() error {
	if o == nil {
		return nil
	}
	return o.clients.Sync(o.ctx)
}

// stop ends the context of the factories, closes the plugins and waits for the goroutines
// they share.
func (o *external) stop(log klog.Logger) {
	if o == nil {
		return
	}
	o.cancel()
	if err := o.config.Close(); err != nil {
		log.Error(err, "Plugins failed to close")
	}
	o.host.Close()
	o.clients.Stop()
}
