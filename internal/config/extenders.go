package config

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/decide/plugins/noderesourcesfit"
	"github.com/berth-scheduler/berth/internal/external/extender"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// addExtenders builds the configured extenders and adds them to the profiles, unless they
// are not to be called.
func (c *Config) addExtenders(ask bool) error {
	if len(c.Source.Extenders) == 0 {
		return nil
	}
	if !ask {
		c.Unasked = unasked(c.Source.Extenders)
		return nil
	}
	set, err := extender.NewSet(c.Source.Extenders, klog.Background())
	if err != nil {
		return fmt.Errorf("couldn't build extenders: %w", err)
	}
	c.Extenders = set
	c.askExtenders()
	return nil
}

// askExtenders adds the extenders to the profiles. All profiles have the same ones.
func (c *Config) askExtenders() {
	if c.Extenders == nil {
		return
	}
	all, binds := c.Extenders.Extenders(), c.Extenders.BindSteps()
	for _, p := range c.Profiles {
		p.Extenders = all
		if c.Extenders.Binds() {
			// As in kube-scheduler, extenders come before all Bind plugins.
			p.BindSteps = append([]*plugin.BindSteps{binds}, p.BindSteps...)
		}
	}
	c.addReads(c.Extenders.Reads()...)
}

// OtherEvents returns the resources of events that out-of-tree plugins or extenders
// registered and that scheduling does not read. The names are kube-scheduler's, sorted.
func (c *Config) OtherEvents() []string {
	var names []string
	add := func(events []model.EventToRegister) {
		for i := range events {
			if events[i].Resource == model.OtherEvent {
				names = append(names, events[i].Other)
			}
		}
	}
	for _, p := range c.Profiles {
		for _, x := range p.EnqueueExtensions {
			add(x.Events)
		}
		if len(p.Extenders) > 0 {
			add(model.DefaultEvents())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// unasked returns a note on each extender that is not called.
func unasked(extenders []configv1.Extender) []string {
	var notes []string
	for i := range extenders {
		e := &extenders[i]
		var does []string
		for _, verb := range []struct{ value, does string }{
			{e.FilterVerb, "filters nodes"}, {e.PrioritizeVerb, "rates nodes"}, {e.PreemptVerb, "chooses victims"}, {e.BindVerb, "binds pods"},
		} {
			if verb.value != "" {
				does = append(does, verb.does)
			}
		}
		of := "every pod"
		if len(e.ManagedResources) > 0 {
			var names []string
			for _, r := range e.ManagedResources {
				names = append(names, r.Name)
			}
			of = "pods that request " + strings.Join(names, ", ")
		}
		if len(does) > 0 {
			notes = append(notes, fmt.Sprintf("extenders[%d] (%s) is not called here; the scheduler calls it for %s: it %s", i, extender.Redacted(e.URLPrefix), of, strings.Join(does, ", ")))
		}
	}
	return notes
}

// notesOnExtenders returns a note on each accepted value that has no effect.
func notesOnExtenders(extenders []configv1.Extender) []string {
	var notes []string
	for i := range extenders {
		if timeout := extenders[i].HTTPTimeout.Duration; timeout < 0 {
			notes = append(notes, fmt.Sprintf("extenders[%d].httpTimeout %v means no limit: %v is used", i, timeout, defaultExtenderTimeout))
		}
	}
	return notes
}

// ignoredByExtenders returns the resources that extenders manage and NodeResourcesFit
// must ignore, in the order of the configuration.
func ignoredByExtenders(extenders []configv1.Extender) []string {
	var names []string
	for i := range extenders {
		for _, r := range extenders[i].ManagedResources {
			if r.IgnoredByScheduler {
				names = append(names, r.Name)
			}
		}
	}
	return names
}

// ignoring returns a copy of NodeResourcesFit's arguments that ignores only these
// resources. They replace ignoredResources in every profile, as in kube-scheduler.
// Without any, it returns the arguments.
func ignoring(args runtime.Object, names []string) runtime.Object {
	fit, ok := args.(*configv1.NodeResourcesFitArgs)
	if !ok || len(names) == 0 {
		return args
	}
	fit = fit.DeepCopy()
	fit.IgnoredResources = names
	return fit
}

// notesOnIgnored returns a note for each ignored resource that may be an extended
// resource of a DeviceClass. The configuration does not show whether such a class exists.
func (c *Config) notesOnIgnored() []string {
	if !slices.Contains(c.reads, model.ResourceClaimKind) {
		return nil
	}
	names := ignoredByExtenders(c.Source.Extenders)
	for i := range c.Source.Profiles {
		config := argsFor(noderesourcesfit.Name, c.Source.Profiles[i].PluginConfig)
		if config == nil {
			continue
		}
		fit, ok := config.Object.(*configv1.NodeResourcesFitArgs)
		if !ok {
			continue
		}
		if len(ignoredByExtenders(c.Source.Extenders)) == 0 {
			names = append(names, fit.IgnoredResources...)
		}
		for _, group := range fit.IgnoredResourceGroups {
			names = append(names, group+"/*")
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []string{"NodeResourcesFit ignores " + strings.Join(slices.Compact(names), ", ") + ": a pod that requests it is bound without " +
		"a device, also where a DeviceClass has that spec.extendedResourceName"}
}
