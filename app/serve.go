package app

import (
	"context"
	"fmt"

	apiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/healthz"

	"github.com/berth-scheduler/berth/internal/server"
)

// prepareServer listens, and finds out whom to believe; requests are answered when run begins. The context ends when the scheduler is
// told to stop.
func (s *scheduler) prepareServer(ctx context.Context, o *options) error {
	if err := o.selfSign(); err != nil {
		return err
	}
	c := &server.Config{
		Configuration:       s.config.Source,
		Profiling:           *s.config.Source.EnableProfiling,
		ContentionProfiling: *s.config.Source.EnableContentionProfiling,
		Resources:           server.WhileLeading(s.leading, s.resources()),
		Readyz:              []healthz.HealthChecker{healthz.NewShutdownHealthz(ctx.Done()), server.Synced(s.synced)},
	}
	if err := o.serving.ApplyTo(&c.Serving); err != nil {
		return fmt.Errorf("secure serving (--bind-address, --secure-port, --tls-*): %w", err)
	}
	if c.Serving != nil {
		if err := believe(o, c); err != nil {
			return err
		}
	}
	if s.election != nil {
		c.Healthz = append(c.Healthz, s.election)
		c.Readyz = append([]healthz.HealthChecker{s.election}, c.Readyz...)
		if candidates := s.election.Candidates(); candidates != nil {
			c.Readyz = append(c.Readyz, healthz.NewInformerSyncHealthz(candidates))
		}
	}
	if s.config.Flagz {
		c.Flags = flagz.NamedFlagSetsReader{FlagSets: o.sets}
	}
	if s.config.Statusz {
		c.Versions = o.gates.Versions()
	}
	if c.Serving != nil {
		s.serve = c
	}
	return nil
}

// believe makes what finds out who asks, and what they may ask.
func believe(o *options, c *server.Config) error {
	var who apiserver.AuthenticationInfo
	if err := o.authentication.ApplyTo(&who, c.Serving, nil); err != nil {
		return fmt.Errorf("authentication (--authentication-kubeconfig, --client-ca-file, --requestheader-*): %w", err)
	}
	var what apiserver.AuthorizationInfo
	if err := o.authorization.ApplyTo(&what); err != nil {
		return fmt.Errorf("authorization (--authorization-kubeconfig): %w", err)
	}
	c.Authenticator, c.Authorizer = who.Authenticator, what.Authorizer
	return nil
}

// startServer serves until the returned function is called.
func (s *scheduler) startServer() (stop func(), err error) {
	if s.serve == nil {
		return func() {}, nil
	}
	return server.Start(*s.serve)
}
