package app

import (
	"context"
	"net/http"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/healthz"

	"github.com/berth-scheduler/berth/internal/kube"
	"github.com/berth-scheduler/berth/internal/serve/metrics"
	"github.com/berth-scheduler/berth/internal/serve/server"
)

// newServer opens the listener and returns the configuration of a scheduler's server; nil
// without a secure port. Requests are answered only after run begins. The context ends
// when the scheduler is to stop.
func newServer(ctx context.Context, o *options, of *scheduler) (*server.Config, error) {
	serving, err := o.access.Listen()
	if serving == nil || err != nil {
		return nil, err
	}
	authenticator, authorizer, err := o.access.Auth(serving)
	if err != nil {
		return nil, err
	}
	s := &server.Config{
		Serving:             serving,
		Authenticator:       authenticator,
		Authorizer:          authorizer,
		Configuration:       of.config.Shown(),
		Profiling:           *of.config.Source.EnableProfiling,
		ContentionProfiling: *of.config.Source.EnableContentionProfiling,
		Resources:           server.WhileLeading(of.leadership.leading, resources(of.watch)),
		Explain:             of.explain(),
		Queue:               of.listsQueue(),
	}
	s.Healthz, s.Readyz = checks(ctx, of.leadership, of.synced)
	if of.external != nil {
		s.Readyz = append(s.Readyz, healthz.NamedCheck("plugins", func(*http.Request) error { return of.external.host.Check() }))
	}
	// The library adds ping only if no other check exists, as for kube-scheduler's
	// /livez.
	s.Livez = []healthz.HealthChecker{healthz.PingHealthz, of.watchdog}
	if len(s.Healthz) == 0 {
		s.Healthz = append(s.Healthz, healthz.PingHealthz)
	}
	s.Healthz = append(s.Healthz, of.watchdog)
	if of.config.Flagz {
		s.Flags = shownFlags{flagz.NamedFlagSetsReader{FlagSets: o.sets}}
	}
	if of.config.Statusz {
		s.Versions = o.gates.Versions()
	}
	return s, nil
}

// checks returns the health and readiness checks.
func checks(ctx context.Context, leads leadership, synced <-chan struct{}) (healthy, ready []healthz.HealthChecker) {
	ready = []healthz.HealthChecker{healthz.NewShutdownHealthz(ctx.Done()), server.Synced(synced)}
	if election := leads.election; election != nil {
		healthy = []healthz.HealthChecker{election}
		ready = append([]healthz.HealthChecker{election}, ready...)
		if candidates := election.Candidates(); candidates != nil {
			ready = append(ready, healthz.NewInformerSyncHealthz(candidates))
		}
	}
	return healthy, ready
}

// resources serves the resource requests of the cluster's pods.
func resources(watch *kube.Watch) http.Handler {
	return metrics.Resources(func() []*v1.Pod {
		pods, _ := watch.Known()
		return pods
	})
}

// startServer serves until the returned function is called.
func (s *scheduler) startServer() (stop func(), err error) {
	if s.serve == nil {
		return func() {}, nil
	}
	return server.Start(*s.serve)
}
