package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Plugins from outside are configured in two steps. Read accepts their names and decodes their arguments, and makes none of them, so that a
// configuration can be read without a cluster; its profiles are complete but for them. Config.Build then makes them: which points a plugin extends
// is seen from the made plugin alone.
//
// For each profile Build asks a Host for a Handle, calls the factories of the enabled plugins in configured order, works out the order of each
// extension point, has the Host adapt the plugins to package plugin's interfaces, and puts the adapters into the profile among the built-in plugins.

// Registered is a plugin from outside that a program brings.
type Registered struct {
	Name    string
	Factory framework.PluginFactory
}

// Outside is what a program brings: plugins, and the types of their arguments. It never changes.
type Outside struct {
	plugins []Registered
	scheme  *runtime.Scheme
	types   *framework.Types
}

// NewOutside checks names and factories, and registers types by calling the functions in order. They register <Name>Args in version
// kubescheduler.config.k8s.io/v1, its defaults, and where plugins want another type than that, the internal version and conversions.
//
// Shown are the types of the values that plugins get, nil for Berth's own. Their scheme is
// then the one to register in: packages have put types there when the program started.
func NewOutside(registered []Registered, types []func(*runtime.Scheme) error, shown *framework.Types) (*Outside, error) {
	own := builtIn(noGates{}) // gates decide which are enabled, not which there are
	o := &Outside{types: shown}
	for _, r := range registered {
		taken := own.find(r.Name) != nil || slices.ContainsFunc(o.plugins, func(p Registered) bool { return p.Name == r.Name })
		switch {
		case r.Name == "":
			return nil, errors.New("a plugin without a name cannot be registered: give the name that configurations use for it")
		case taken:
			return nil, fmt.Errorf("a plugin named %v already exists", r.Name)
		case r.Factory == nil:
			return nil, fmt.Errorf("the factory of plugin %v is nil", r.Name)
		}
		o.plugins = append(o.plugins, r)
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	if shown != nil {
		scheme = shown.Scheme
	}
	for i, add := range types {
		if err := register(add, scheme); err != nil {
			return nil, fmt.Errorf("register types of plugin arguments (function %d of %d): %w", i+1, len(types), err)
		}
	}
	o.scheme = scheme
	return o, nil
}

// noGates has every gate off.
type noGates struct{}

// Enabled returns false.
func (noGates) Enabled(featuregate.Feature) bool { return false }

// register adds types to a scheme. A scheme panics where types contradict each other.
func register(add func(*runtime.Scheme) error, scheme *runtime.Scheme) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	if add == nil {
		return errors.New("the function is nil")
	}
	return add(scheme)
}

// Types returns the types of the values that plugins get, nil for Berth's own.
func (o *Outside) Types() *framework.Types {
	if o == nil {
		return nil
	}
	return o.types
}

// Names returns the names of the plugins in the order of their registration; none for nil.
func (o *Outside) Names() []string {
	if o == nil {
		return nil
	}
	names := make([]string, len(o.plugins))
	for i, p := range o.plugins {
		names[i] = p.Name
	}
	return names
}

// Host runs plugins from outside.
type Host interface {
	// Profile returns what hosts the plugins of a profile. It is called once for each profile that enables any.
	Profile(name string) (HostedProfile, error)
}

// HostedProfile runs the plugins from outside of one profile. Its methods are called in the order in which they stand here, once each but for Handle.
type HostedProfile interface {
	// Handle is given to the factories. What it shows of the cluster is empty and without error until the first turn.
	Handle() fwk.Handle
	// Adapt returns what the plugins do at their points.
	Adapt(o Order) (Adapters, error)
	// Complete takes the finished profile, built-in plugins included, and sets its Outside: the Handle's methods that run plugins run those of it.
	Complete(p *plugin.Profile)
}

// Order is which plugins from outside a profile runs, and in which order its Bind plugins are tried. A plugin goes by the name that configurations use for
// it, which may differ from what its Name method returns.
type Order struct {
	// Plugins are those from outside that run at any point, by name.
	Plugins map[string]fwk.Plugin
	// Enabled are their names in configured order.
	Enabled []string
	// Bind are the Bind plugins, built-in ones too, in the order in which they are tried.
	Bind []string
}

// Adapters are what the plugins from outside of a profile do, by extension point and plugin. A plugin without an adapter at one of its points is left out
// there: an adapter before it does its work. Bind plugins have no adapters: the profile's Outside, which Complete sets, has their steps. Adapters that have a
// method Reads() []model.Kind have these kinds watched.
type Adapters struct {
	QueueSort         map[string]plugin.QueueSort
	PreEnqueue        map[string]plugin.PodPreEnqueue
	EnqueueExtensions map[string]plugin.EnqueueExtensions
	PreFilter         map[string]plugin.PreFilter
	Filter            map[string]plugin.TurnFilter
	PostFilter        map[string]plugin.PostFilter
	PreScore          map[string]plugin.PreScore
	Score             map[string]plugin.TurnScore
	Reserve           map[string]plugin.Reserve
	Permit            map[string]plugin.Permit
	PreBind           map[string]plugin.PreBind
	PostBind          map[string]plugin.PostBind
}

// extends returns the points whose interfaces a made plugin implements.
func extends(p fwk.Plugin) pointSet {
	var set pointSet
	for point, implements := range map[point]bool{
		preFilter:          is[fwk.PreFilterPlugin](p),
		filter:             is[fwk.FilterPlugin](p),
		postFilter:         is[fwk.PostFilterPlugin](p),
		reserve:            is[fwk.ReservePlugin](p),
		preScore:           is[fwk.PreScorePlugin](p),
		score:              is[fwk.ScorePlugin](p),
		preBind:            is[fwk.PreBindPlugin](p),
		bind:               is[fwk.BindPlugin](p),
		postBind:           is[fwk.PostBindPlugin](p),
		permit:             is[fwk.PermitPlugin](p),
		preEnqueue:         is[fwk.PreEnqueuePlugin](p),
		queueSort:          is[fwk.QueueSortPlugin](p),
		placementGenerate:  is[fwk.PlacementGeneratePlugin](p),
		placementScore:     is[fwk.PlacementScorePlugin](p),
		podGroupPostFilter: is[fwk.PodGroupPostFilterPlugin](p),
	} {
		if implements {
			set |= at(point)
		}
	}
	return set
}

func is[T any](p fwk.Plugin) bool {
	_, ok := p.(T)
	return ok
}

// build calls a factory. It returns when the context ends, with or without the factory.
func (r Registered) build(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	type outcome struct {
		plugin fwk.Plugin
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if panicked := recover(); panicked != nil {
				o = outcome{err: fmt.Errorf("its factory panicked: %v\n%s", panicked, debug.Stack())}
			}
			done <- o
		}()
		o.plugin, o.err = r.Factory(ctx, args, h)
	}()
	select {
	case o := <-done:
		if o.err == nil && o.plugin == nil {
			o.err = errors.New("its factory returned neither a plugin nor an error")
		}
		return o.plugin, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("its factory had not returned when the scheduler was stopped: %w", context.Cause(ctx))
	}
}

// nameOf returns the name that a plugin gives itself.
func nameOf(p fwk.Plugin) (name string, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("its method Name panicked: %v\n%s", panicked, debug.Stack())
		}
	}()
	return p.Name(), nil
}

// closeAll closes the plugins that are io.Closers, the last made first, and returns all errors.
func closeAll(made []madeOutside) error {
	var errs []error
	for _, m := range slices.Backward(made) {
		if err := closeOne(m.plugin); err != nil {
			errs = append(errs, fmt.Errorf("framework %s failed to close: %s failed to close: %w", m.profile, m.name, err))
		}
	}
	return errors.Join(errs...)
}

// closePatience is how long a plugin may take to close: the process ends without one that never does.
const closePatience = 2 * time.Second

func closeOne(p fwk.Plugin) error {
	closer, ok := p.(io.Closer)
	if !ok {
		return nil
	}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- fmt.Errorf("panic: %v", r)
			}
		}()
		done <- closer.Close()
	}()
	timer := time.NewTimer(closePatience)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("Close did not return within %v", closePatience)
	}
}

// madeOutside is a made plugin from outside.
type madeOutside struct {
	profile, name string
	plugin        fwk.Plugin
}
