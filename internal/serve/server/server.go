package server

import (
	"fmt"
	"net/http"
	"runtime"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	apiserver "k8s.io/apiserver/pkg/server"
	serverfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/apiserver/pkg/server/statusz"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/configz"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/prometheus/slis"
)

// Name is the component name that the server reports: kube-scheduler's.
const Name = "kube-scheduler"

// Config is the content of the endpoints, and the access to them.
type Config struct {
	// Serving is the listener and its certificates.
	Serving *apiserver.SecureServingInfo
	// Authenticator identifies the user of a request, Authorizer decides whether the user
	// may send it.
	Authenticator authenticator.Request
	Authorizer    authorizer.UnconditionalAuthorizer
	// Healthz, Livez and Readyz are the checks of these endpoints, besides the library's
	// own.
	Healthz, Livez, Readyz []healthz.HealthChecker
	// Configuration is the content of /configz.
	Configuration apiruntime.Object
	// Profiling enables /debug; ContentionProfiling also measures where goroutines block.
	Profiling, ContentionProfiling bool
	// Resources serves /metrics/resources.
	Resources http.Handler
	// Explain answers questions about pods at ExplainPath, for users who may get the pod;
	// nil disables it.
	Explain *Explain
	// Queue lists waiting pods at the path of a QueueQuestion, for users who may list
	// these pods; nil disables it.
	Queue *Queue
	// Flags are the content of /flagz; nil disables it.
	Flags flagz.Reader
	// Versions are the content of /statusz; nil disables it.
	Versions compatibility.EffectiveVersion
}

// drain is how long requests in progress may take when the server stops.
const drain = 5 * time.Second

// Start serves until the returned function is called. That function returns when the
// server has stopped.
func Start(config Config) (stop func(), err error) {
	endpoints, err := Endpoints(config)
	if err != nil {
		return nil, err
	}
	return start(endpoints, config)
}

// start serves endpoints to authorized users.
func start(endpoints http.Handler, config Config) (stop func(), err error) {
	ending := make(chan struct{})
	ended, closed, err := config.Serving.Serve(guard(endpoints, config), drain, ending)
	if err != nil {
		return nil, fmt.Errorf("start the secure server: %w", err)
	}
	return func() {
		close(ending)
		<-closed
		<-ended
	}, nil
}

// guard passes on only authorized requests.
func guard(handler http.Handler, config Config) http.Handler {
	resolver := resolver{&request.RequestInfoFactory{}}
	handler = filters.WithAuthorization(handler, config.Authorizer, scheme.Codecs)
	handler = filters.WithAuthentication(handler, config.Authenticator, filters.Unauthorized(scheme.Codecs), nil, nil)
	handler = filters.WithRequestInfo(handler, resolver)
	handler = filters.WithCacheControl(handler)
	handler = serverfilters.WithHTTPLogging(handler)
	return serverfilters.WithPanicRecovery(handler, resolver)
}

// Endpoints returns the handler of all endpoints, without authentication and
// authorization.
func Endpoints(config Config) (http.Handler, error) {
	// The process has one registry of configurations: a second scheduler in it replaces
	// the first.
	const page = "componentconfig"
	configz.Delete(page)
	shown, err := configz.New(page)
	if err != nil {
		return nil, fmt.Errorf("register the configuration: %w", err)
	}
	if err := shown.Set(config.Configuration); err != nil {
		return nil, fmt.Errorf("show the configuration: %w", err)
	}
	paths := mux.NewPathRecorderMux(Name)
	healthz.InstallHandler(paths, config.Healthz...)
	healthz.InstallLivezHandler(paths, config.Livez...)
	healthz.InstallReadyzHandler(paths, config.Readyz...)
	configz.InstallHandler(paths)
	paths.Handle("/metrics", legacyregistry.HandlerWithReset())
	paths.Handle("/metrics/resources", config.Resources)
	slis.SLIMetricsWithReset{}.Install(paths)
	if config.Profiling {
		routes.Profiling{}.Install(paths)
		if config.ContentionProfiling {
			runtime.SetBlockProfileRate(1)
		}
		routes.DebugFlags{}.Install(paths, "v", routes.StringFlagPutHandler(logs.GlogSetter))
	}
	if config.Flags != nil {
		flagz.Install(paths, Name, config.Flags)
	}
	if config.Versions != nil {
		statusz.Install(paths, Name, statusz.NewRegistry(config.Versions, statusz.WithListedPaths(paths.ListedPaths())))
	}
	if config.Explain != nil { // last: /statusz lists the same paths as kube-scheduler's
		paths.HandlePrefix(explainPrefix, config.Explain.handler())
	}
	if config.Queue != nil {
		questions := config.Queue.handler()
		paths.Handle(queuePrefix, questions)
		paths.HandlePrefix(queuePrefix+"/", questions)
	}
	return paths, nil
}
