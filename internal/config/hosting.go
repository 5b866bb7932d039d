package config

import (
	"context"
	"fmt"
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// hosting builds the out-of-tree plugins of all profiles.
type hosting struct {
	ctx  context.Context
	host Host
	// made are all plugins built so far.
	made []madeExternal
	// failed means that a plugin or its host failed, so the configuration is not at
	// fault.
	failed bool
	// complete passes each profile to its host after all are built.
	complete []func()
}

// hosted is the out-of-tree plugins of one profile; nil if they are not built.
type hosted struct {
	hosting *hosting
	profile HostedProfile // nil if none is enabled
	plugins map[string]fwk.Plugin
	names   map[string]string // results of their Name methods
	enabled []string
}

// instances builds the enabled plugins of a profile, in configured order.
func (h *hosting) instances(known registry, source *configv1.KubeSchedulerProfile, enabled []string) (*hosted, error) {
	if h == nil {
		return nil, nil
	}
	h.failed = true
	own := &hosted{hosting: h, plugins: map[string]fwk.Plugin{}, names: map[string]string{}}
	for _, name := range enabled {
		registered := known.fromExternal(name)
		if registered == nil {
			continue
		}
		if own.profile == nil {
			profile, err := h.host.Profile(*source.SchedulerName)
			if err != nil {
				return nil, err
			}
			own.profile = profile
		}
		args, err := argsForFactory(known.scheme, name, source.PluginConfig)
		if err != nil {
			return nil, fmt.Errorf("initializing plugin %q: %w", name, err)
		}
		made, err := registered.build(h.ctx, args, own.profile.Handle())
		if err != nil {
			return nil, fmt.Errorf("initializing plugin %q: %w", name, err)
		}
		own.plugins[name], own.enabled = made, append(own.enabled, name)
		h.made = append(h.made, madeExternal{*source.SchedulerName, name, made})
		if own.names[name], err = nameOf(made); err != nil {
			return nil, fmt.Errorf("initializing plugin %q: %w", name, err)
		}
	}
	h.failed = false
	return own, nil
}

// extended returns the points of each plugin; nil if they are not built.
func (h *hosted) extended() map[string]pointSet {
	if h == nil {
		return nil
	}
	extended := make(map[string]pointSet, len(h.plugins))
	for name, p := range h.plugins {
		extended[name] = extends(p)
	}
	return extended
}

// adapt returns the adapters of the plugins that run at any point; none if they are not
// built.
func (h *hosted) adapt(order *effective, weights map[string]int64) (Adapters, error) {
	if h == nil || h.profile == nil {
		return Adapters{}, nil
	}
	// Scores are added up under the result of the plugin's Name method.
	for _, name := range order[score] {
		if own, ok := h.names[name]; ok && weights[own] == 0 {
			return Adapters{}, fmt.Errorf("score plugin %q is not configured with weight", own)
		}
	}
	o := Order{
		Plugins: make(map[string]fwk.Plugin, len(h.plugins)),
		Bind:    order[bind],
	}
	for _, name := range h.enabled {
		if order.has(name) {
			o.Plugins[name], o.Enabled = h.plugins[name], append(o.Enabled, name)
		}
	}
	adapters, err := h.profile.Adapt(o)
	h.hosting.failed = err != nil
	return adapters, err
}

// called returns the results of the plugins' Name methods.
func (h *hosted) called(names []string) []string {
	if h == nil || len(h.plugins) == 0 {
		return names
	}
	called := slices.Clone(names)
	for i, name := range names {
		if own, ok := h.names[name]; ok {
			called[i] = own
		}
	}
	return called
}

// complete registers the profile for its host, which gets it after all are built.
func (h *hosted) complete(profile *plugin.Profile) {
	if h != nil && h.profile != nil {
		h.hosting.complete = append(h.hosting.complete, func() { h.profile.Complete(profile) })
	}
}

// reads returns the kinds whose events out-of-tree plugins register for.
func (a *Adapters) reads() []model.Kind {
	var kinds []model.Kind
	for _, own := range a.Objects {
		kinds = append(kinds, own...)
	}
	return kinds // the caller sorts and deduplicates
}
