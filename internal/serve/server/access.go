package server

import (
	"fmt"
	"net"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	cliflag "k8s.io/component-base/cli/flag"
)

// Access is kube-scheduler's flags for the port, its certificate, authentication and
// authorization.
type Access struct {
	Serving        *serveroptions.SecureServingOptions
	Authentication *serveroptions.DelegatingAuthenticationOptions
	Authorization  *serveroptions.DelegatingAuthorizationOptions
}

// NewAccess returns the defaults, with a port; 0 means none.
func NewAccess(port int) *Access {
	a := &Access{
		Serving:        serveroptions.NewSecureServingOptions(),
		Authentication: serveroptions.NewDelegatingAuthenticationOptions(),
		Authorization:  serveroptions.NewDelegatingAuthorizationOptions(),
	}
	a.Authentication.TolerateInClusterLookupFailure = true
	a.Authentication.RemoteKubeConfigFileOptional = true
	a.Authorization.RemoteKubeConfigFileOptional = true
	a.Serving.ServerCert.CertDirectory = "" // a self-signed certificate stays in memory
	a.Serving.ServerCert.PairName = Name
	a.Serving.BindPort = port
	return a
}

// AddFlags defines the flags, in groups.
func (a *Access) AddFlags(sets *cliflag.NamedFlagSets) {
	a.Serving.AddFlags(sets.FlagSet("secure serving"))
	a.Authentication.AddFlags(sets.FlagSet("authentication"))
	a.Authorization.AddFlags(sets.FlagSet("authorization"))
}

// Validate returns all mistakes in the flags.
func (a *Access) Validate() []error {
	errs := a.Serving.Validate()
	errs = append(errs, a.Authentication.Validate()...)
	return append(errs, a.Authorization.Validate()...)
}

// selfSignedHost and loopIP are the subjects of a self-signed certificate.
const selfSignedHost, loopIP = "localhost", "127.0.0.1"

// SelfSign creates a self-signed certificate if none is given.
func (a *Access) SelfSign() error {
	if err := a.Serving.MaybeDefaultWithSelfSignedCerts(selfSignedHost, nil, []net.IP{net.ParseIP(loopIP)}); err != nil {
		return fmt.Errorf("make a self-signed certificate: %w", err)
	}
	return nil
}

// Listen opens the port; nil if flags turn it off.
func (a *Access) Listen() (*apiserver.SecureServingInfo, error) {
	if err := a.SelfSign(); err != nil {
		return nil, err
	}
	var serving *apiserver.SecureServingInfo
	if err := a.Serving.ApplyTo(&serving); err != nil {
		return nil, fmt.Errorf("secure serving (--bind-address, --secure-port, --tls-*): %w", err)
	}
	return serving, nil
}

// Auth builds the authenticator and the authorizer of the port.
func (a *Access) Auth(serving *apiserver.SecureServingInfo) (authenticator.Request, authorizer.UnconditionalAuthorizer, error) {
	var authentication apiserver.AuthenticationInfo
	if err := a.Authentication.ApplyTo(&authentication, serving, nil); err != nil {
		return nil, nil, fmt.Errorf("authentication (--authentication-kubeconfig, --client-ca-file, --requestheader-*): %w", err)
	}
	var authorization apiserver.AuthorizationInfo
	if err := a.Authorization.ApplyTo(&authorization); err != nil {
		return nil, nil, fmt.Errorf("authorization (--authorization-kubeconfig): %w", err)
	}
	return authentication.Authenticator, authorization.Authorizer, nil
}

// StartMetrics serves the metrics and health checks of another program than the
// scheduler, until the returned function is called. Without a port it serves nothing.
func (a *Access) StartMetrics(metrics http.Handler, ready ...healthz.HealthChecker) (stop func(), err error) {
	serving, err := a.Listen()
	if err != nil {
		return nil, err
	}
	if serving == nil {
		return func() {}, nil
	}
	c := Config{Serving: serving}
	if c.Authenticator, c.Authorizer, err = a.Auth(serving); err != nil {
		return nil, err
	}
	paths := mux.NewPathRecorderMux(Name)
	healthz.InstallHandler(paths)
	healthz.InstallLivezHandler(paths)
	healthz.InstallReadyzHandler(paths, ready...)
	paths.Handle("/metrics", metrics)
	return start(paths, c)
}
