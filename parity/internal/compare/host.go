package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/external/framework"
	"github.com/berth-scheduler/berth/internal/external/framework/snapshot"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/parity/internal/outside"
)

// hosted is a configuration of Berth with external plugins and extenders, built as in
// package app.
type hosted struct {
	scheduler *config.Config
	plugins   outside.Set
	snapshot  *snapshot.Snapshot
	runtimes  []*framework.Runtime
}

// newHosted reads a configuration and makes its plugins.
func (p Pair) newHosted(text []byte) (*hosted, error) {
	h := &hosted{snapshot: snapshot.New(nil)}
	var registered []config.Registered
	factories := h.plugins.Factories()
	for _, name := range outside.Plugins() {
		registered = append(registered, config.Registered{Name: name, Factory: factories[name]})
	}
	known, err := config.NewExternal(registered, nil, nil)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "parity-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "scheduler.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	read, err := p.rules(config.Read(config.Request{File: file, External: known, AskExtenders: true, Release: p.Release}))
	if err != nil {
		return nil, err
	}
	if h.scheduler, err = read.Build(context.Background(), h); err != nil {
		return nil, errors.Join(fmt.Errorf("build Berth's plugins: %w", err), h.close())
	}
	return h, nil
}

func (h *hosted) close() error {
	for _, r := range h.runtimes {
		r.Close()
	}
	if h.scheduler == nil {
		return nil
	}
	if h.scheduler.Extenders != nil {
		h.scheduler.Extenders.Close()
	}
	return h.scheduler.Close()
}

// Profile returns the runtime for the plugins of a profile.
func (h *hosted) Profile(name string) (config.HostedProfile, error) {
	r, err := framework.New(context.Background(), framework.Config{Profile: name, Log: logr.Discard(), Snapshot: h.snapshot})
	if err != nil {
		return nil, err
	}
	h.runtimes = append(h.runtimes, r)
	return hostedProfile{r}, nil
}

type hostedProfile struct{ *framework.Runtime }

// Handle returns the handle for factories.
func (p hostedProfile) Handle() fwk.Handle { return p.Runtime.Handle() }

// Adapt returns adapters for the plugins, at the extension points of package outside.
func (p hostedProfile) Adapt(o config.Order) (config.Adapters, error) {
	a := config.Adapters{
		Objects:           map[string][]model.Kind{},
		EnqueueExtensions: map[string]*plugin.EnqueueExtensions{}, PreFilter: map[string]*plugin.PreFilter{}, Filter: map[string]*plugin.Filter{},
		PreScore: map[string]*plugin.PreScore{}, Score: map[string]*plugin.Score{}, Reserve: map[string]*plugin.Reserve{}, Permit: map[string]*plugin.Permit{},
	}
	for _, name := range o.Enabled {
		points, err := p.Runtime.Adapt(o.Plugins[name])
		if err != nil {
			return a, err
		}
		a.Objects[name] = points.Objects
		put(a.EnqueueExtensions, name, points.EnqueueExtensions)
		put(a.PreFilter, name, points.PreFilter)
		put(a.Filter, name, points.Filter)
		put(a.PreScore, name, points.PreScore)
		put(a.Score, name, points.Score)
		put(a.Reserve, name, points.Reserve)
		put(a.Permit, name, points.Permit)
	}
	return a, nil
}

func put[T comparable](adapters map[string]T, name string, adapter T) {
	if adapter != *new(T) {
		adapters[name] = adapter
	}
}

// Complete attaches the profile's plugins to their runtime.
func (p hostedProfile) Complete(of *plugin.Profile) { p.Attach(of, nil) }
