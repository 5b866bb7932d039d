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

// PluginFactory makes a plugin for one profile.
type PluginFactory = framework.PluginFactory

// Option adds to a scheduler command.
type Option func(*additions)

// additions are what options add.
type additions struct {
	plugins []config.Registered
	types   []func(*runtime.Scheme) error
	shown   *framework.Types
}

// WithPlugin adds a plugin, which configurations enable by this name: in multiPoint or at the extension points whose interfaces of
// k8s.io/kube-scheduler/framework it implements. No two plugins have the same name, built-in ones included.
func WithPlugin(name string, factory PluginFactory) Option {
	return func(a *additions) { a.plugins = append(a.plugins, config.Registered{Name: name, Factory: factory}) }
}

// WithScheme adds types of arguments. The function registers <Name>Args in version v1 of group kubescheduler.config.k8s.io, and what belongs to it:
// defaulting functions, and the internal version with conversions if the plugin takes that. Types that a program adds to SchemeBuilder of
// k8s.io/kube-scheduler/config/v1 are known without it.
func WithScheme(add func(*runtime.Scheme) error) Option {
	return func(a *additions) { a.types = append(a.types, add) }
}

// WithTypes makes plugins get values of kube-scheduler's concrete types, and arguments of the
// types that packages register at kube-scheduler. A program needs it if it links a package of
// k8s.io/kubernetes, and gets them from compat.Types of
// github.com/berth-scheduler/berth/framework/compat.
func WithTypes(types *framework.Types) Option {
	return func(a *additions) { a.shown = types }
}

// addOutside checks what the command's options add.
func (o *options) addOutside() (err error) {
	var a additions
	for _, add := range o.added {
		add(&a)
	}
	if err := config.CheckProgram(a.plugins, a.shown); err != nil {
		return usage(err)
	}
	o.outside, err = config.NewOutside(a.plugins, a.types, a.shown)
	return err
}

// outside is what the plugins from outside have that must be started and stopped.
type outside struct {
	ctx     context.Context
	cancel  context.CancelFunc
	config  *config.Config // with the plugins
	clients *clients.Clients
	host    *host
}

// newOutside makes the enabled plugins from outside, and returns the configuration with them. Without any, outside is nil and the configuration is the same.
// Calls of plugins that the loop waits for may take as long as the deadline.
func newOutside(ctx context.Context, c *config.Config, access *rest.Config, client *kube.Client, seen observers, deadline time.Duration, name *cache.InformerName) (*outside, *config.Config, error) {
	if !c.EnablesOutside() {
		return nil, c, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	shared, err := clients.New(ctx, access, client.Interface, kube.Informers(client, name))
	if err != nil {
		cancel()
		return nil, nil, fmt.Errorf("out-of-tree plugins: %w", err)
	}
	o := &outside{ctx: ctx, cancel: cancel, config: c, clients: shared, host: newHost(ctx, c, shared, seen, deadline)}
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

// watches are the options by which the watch sees what plugins from outside and extenders need: whole objects, and changes of resources that scheduling
// does not read. Plugins and the watch share informers.
func (o *outside) watches(c *config.Config, changes *ingest.Ingest, log klog.Logger) []kube.WatchOption {
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

// join connects the plugins with the parts that were built after them.
func (o *outside) join(changes *ingest.Ingest, bindings *commit.Commit) {
	if o != nil {
		o.host.join(changes, bindings)
	}
}

// start starts the informers that factories have asked for.
func (o *outside) start() {
	if o != nil {
		o.clients.Start(o.ctx)
	}
}

// sync waits until they hold their first lists. An error means that the scheduler stops.
func (o *outside) sync() error {
	if o == nil {
		return nil
	}
	return o.clients.Sync(o.ctx)
}

// stop ends the context that the factories got, closes the plugins and waits for what they share.
func (o *outside) stop(log klog.Logger) {
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
