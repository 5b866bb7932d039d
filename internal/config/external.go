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
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Out-of-tree plugins are configured in two steps. Read accepts their names and decodes
// their arguments without building them, so that a configuration can be read without a
// cluster. Its profiles are complete except for these plugins. Config.Build then builds
// them, because only a built plugin shows which points it extends.
//
// For each profile, Build gets a Handle from a Host and calls the factories of the
// enabled plugins in configured order. It computes the order of each extension point, and
// the Host adapts the plugins to the interfaces of package plugin. Build then puts the
// adapters among the profile's built-in plugins.

// Registered is an out-of-tree plugin of a program.
type Registered struct {
	Name    string
	Factory framework.PluginFactory
}

// External is a program's out-of-tree plugins, and the types of their arguments. It never
// changes.
type External struct {
	plugins []Registered
	scheme  *runtime.Scheme
	types   *framework.Types
}

// NewExternal checks names and factories, and registers types by calling the functions in
// order. These register <Name>Args in version kubescheduler.config.k8s.io/v1, with
// defaults. They also register the internal version and conversions if plugins take that
// version.
//
// Shown are the types of the values that plugins get, nil for Berth's own. Types are then
// registered in Shown's scheme, where packages have put theirs at the start of the
// program.
func NewExternal(registered []Registered, types []func(*runtime.Scheme) error, shown *framework.Types) (*External, error) {
	own := builtIn(noGates{}, rules{}) // gates decide which are enabled, not which exist
	o := &External{types: shown}
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

// register adds types to a scheme. A scheme panics if types contradict each other.
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

// Types returns the types of the values that plugins get; nil for Berth's own.
func (o *External) Types() *framework.Types {
	if o == nil {
		return nil
	}
	return o.types
}

// Names returns the names of the plugins in the order of their registration; none for
// nil.
func (o *External) Names() []string {
	if o == nil {
		return nil
	}
	names := make([]string, len(o.plugins))
	for i, p := range o.plugins {
		names[i] = p.Name
	}
	return names
}

// Host runs out-of-tree plugins.
type Host interface {
	// Profile returns the host of a profile's plugins. It is called once for each profile
	// that enables any.
	Profile(name string) (HostedProfile, error)
}

// HostedProfile runs the out-of-tree plugins of one profile. Its methods are called in
// the order of their declaration, each once except Handle.
type HostedProfile interface {
	// Handle is passed to the factories. Until the first attempt, its view of the cluster
	// is empty, without errors.
	Handle() fwk.Handle
	// Adapt returns the adapters of the plugins at their points.
	Adapt(o Order) (Adapters, error)
	// Complete takes the finished profile, built-in plugins included, and sets its
	// External. Methods of the Handle that run plugins run this profile's plugins.
	Complete(p *plugin.Profile)
}

// Order lists the out-of-tree plugins of a profile, and the order of its Bind plugins.
// Plugins have their names from the configuration, which may differ from the results of
// their Name methods.
type Order struct {
	// Plugins are the out-of-tree plugins that run at any point, by name.
	Plugins map[string]fwk.Plugin
	// Enabled are their names in configured order.
	Enabled []string
	// Bind are the Bind plugins, built-in ones included, in the order of their calls.
	Bind []string
}

// Adapters are the adapters of a profile's out-of-tree plugins, by extension point and
// plugin.
//
// A plugin may lack an adapter at one of its points if an earlier adapter does its work.
// Bind plugins have no adapters: Complete sets the profile's External, which has their
// steps.
type Adapters struct {
	// Objects are the kinds whose events the plugin registers for. They are watched.
	Objects map[string][]model.Kind

	QueueSort         map[string]*plugin.QueueSort
	PreEnqueue        map[string]*plugin.PreEnqueue
	EnqueueExtensions map[string]*plugin.EnqueueExtensions
	PreFilter         map[string]*plugin.PreFilter
	Filter            map[string]*plugin.Filter
	PostFilter        map[string]*plugin.PostFilter
	PreScore          map[string]*plugin.PreScore
	Score             map[string]*plugin.Score
	Reserve           map[string]*plugin.Reserve
	Permit            map[string]*plugin.Permit
	PreBind           map[string]*plugin.PreBind
	PostBind          map[string]*plugin.PostBind
}

// extends returns the points whose interfaces a plugin implements.
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

// build calls a factory. It returns when the context ends, even if the factory is still
// running.
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

// nameOf returns the result of a plugin's Name method.
func nameOf(p fwk.Plugin) (name string, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("its method Name panicked: %v\n%s", panicked, debug.Stack())
		}
	}()
	return p.Name(), nil
}

// closeAll closes the plugins that are io.Closers, the last built first, and returns all
// errors.
func closeAll(made []madeExternal) error {
	var errs []error
	for _, m := range slices.Backward(made) {
		if err := closeOne(m.plugin); err != nil {
			errs = append(errs, fmt.Errorf("framework %s failed to close: %s failed to close: %w", m.profile, m.name, err))
		}
	}
	return errors.Join(errs...)
}

// closePatience limits the time in which a plugin may close. The process ends without
// waiting longer.
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

// madeExternal is a built out-of-tree plugin.
type madeExternal struct {
	profile, name string
	plugin        fwk.Plugin
}
