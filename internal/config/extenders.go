package config

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/plugins/absent"
	"github.com/berth-scheduler/berth/internal/plugins/noderesourcesfit"
)

// Berth does not call extenders yet. An extender that only scores or helps to preempt would only make placements better. One that filters or
// binds may keep a pod off a node, so the pods that it judges must not be bound.

// decides reports whether an extender filters or binds.
func decides(e *configv1.Extender) bool { return e.FilterVerb != "" || e.BindVerb != "" }

// CheckExtenders returns an error for each field by which an extender judges every pod: extenders are not called, so no pod could be bound. It
// is nil if there is none.
func (c *Config) CheckExtenders() error {
	var errs field.ErrorList
	for i := range c.Source.Extenders {
		e, path := &c.Source.Extenders[i], field.NewPath("extenders").Index(i)
		if len(e.ManagedResources) > 0 {
			continue
		}
		for _, verb := range []struct{ field, value, without string }{
			{"filterVerb", e.FilterVerb, "pods would go to nodes that it rejects"},
			{"bindVerb", e.BindVerb, "pods would be bound without it"},
		} {
			if verb.value != "" {
				errs = append(errs, field.Invalid(path.Child(verb.field), verb.value, "this version of Berth does not ask extenders: "+verb.without))
			}
		}
	}
	return errs.ToAggregate()
}

// barExtenders adds the stand-in for the extenders that decide to every profile, if there are any. ignore leaves out those that judge every pod.
func (c *Config) barExtenders(ignore bool) {
	var barring []absent.Extender
	for i := range c.Source.Extenders {
		e := &c.Source.Extenders[i]
		if !decides(e) || ignore && len(e.ManagedResources) == 0 {
			continue
		}
		var managed []string
		for _, r := range e.ManagedResources {
			managed = append(managed, r.Name)
		}
		barring = append(barring, absent.Extender{Field: fmt.Sprintf("extenders[%d]", i), Managed: managed})
	}
	if len(barring) == 0 {
		return
	}
	c.Barring = append(c.Barring, absent.ExtenderName)
	slices.Sort(c.Barring)
	plugin := absent.NewExtenders(barring)
	for _, p := range c.Profiles {
		p.PreFilters = append(p.PreFilters, plugin)
		p.EnqueueExtensions = append(p.EnqueueExtensions, plugin)
	}
}

// notesOnExtenders returns a note on what happens to each extender.
func notesOnExtenders(extenders []configv1.Extender, ignore bool) []string {
	var notes []string
	for i := range extenders {
		e := &extenders[i]
		text := "no pod waits for it"
		switch {
		case !decides(e):
		case len(e.ManagedResources) > 0:
			text = "pods that request a resource that it manages stay pending"
		case ignore:
			text = "pods are bound without it"
		default:
			text = "all pods stay pending"
		}
		notes = append(notes, fmt.Sprintf("extenders[%d] is not asked: Berth does not support extenders yet; %s", i, text))
	}
	return notes
}

// ignoredByExtenders returns the resources that extenders manage and NodeResourcesFit must ignore, sorted.
func ignoredByExtenders(extenders []configv1.Extender) []string {
	var names []string
	for i := range extenders {
		for _, r := range extenders[i].ManagedResources {
			if r.IgnoredByScheduler {
				names = append(names, r.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ignoring returns a copy of NodeResourcesFit's arguments that ignores these resources, and no others: as in kube-scheduler, they replace
// ignoredResources in every profile. Without any, it returns the arguments.
func ignoring(args runtime.Object, names []string) runtime.Object {
	fit, ok := args.(*configv1.NodeResourcesFitArgs)
	if !ok || len(names) == 0 {
		return args
	}
	fit = fit.DeepCopy()
	fit.IgnoredResources = names
	return fit
}

// notesOnIgnored returns a note for each ignored resource that a DeviceClass may stand for. The configuration does not show whether there is
// such a class.
func (c *Config) notesOnIgnored() []string {
	if !slices.Contains(c.Barring, "DynamicResources") {
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
