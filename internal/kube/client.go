package kube

import (
	"fmt"
	"net/http"
	"net/url"
	"runtime"

	apiappsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	appsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
)

// ClientConfig configures the access to the API server.
type ClientConfig struct {
	// Kubeconfig is the path of a kubeconfig file; Master overrides its server. If both
	// are empty, the process must run in a cluster.
	Kubeconfig, Master string
	// Version of this program, for the user agent.
	Version string
	// ContentType is the media type of requests, AcceptContentTypes that of responses.
	// Empty means protobuf, with JSON for responses that the API server cannot send as
	// protobuf.
	ContentType, AcceptContentTypes string
	// QPS and Burst limit the requests. QPS 0 or less means no limit in the client:
	// commit bounds the requests in flight, and the API server protects itself.
	QPS   float32
	Burst int
}

// Access returns the configuration for every client of this process; each client adds its
// own name to the user agent. Compression is off: between a scheduler and an API server
// it costs more time than it saves.
func Access(config ClientConfig) (*rest.Config, error) {
	access, err := access(config)
	if err != nil {
		return nil, err
	}
	access.DisableCompression = true
	moveCredentials(access)
	access.ContentType, access.AcceptContentTypes = config.ContentType, config.AcceptContentTypes
	if access.ContentType == "" {
		access.ContentType = apiruntime.ContentTypeProtobuf
	}
	if access.AcceptContentTypes == "" && access.ContentType == apiruntime.ContentTypeProtobuf {
		access.AcceptContentTypes = apiruntime.ContentTypeProtobuf + "," + apiruntime.ContentTypeJSON
	}
	access.QPS, access.Burst = config.QPS, config.Burst
	if config.QPS <= 0 {
		access.QPS = -1
	}
	access.WarningHandlerWithContext = &warnings{}
	access.UserAgent = fmt.Sprintf("berth/%s (%s/%s) kubernetes", config.Version, runtime.GOOS, runtime.GOARCH)
	return access, nil
}

// Connect returns the client for all requests except those for the lease. It sends
// nothing before the first request.
//
// Requests share one HTTP/2 connection up to the server's limit of streams, which is 100
// by default in kube-apiserver. Watches and commit's writes count. Beyond the limit the
// transport opens further connections.
func Connect(access *rest.Config) (*Client, error) {
	client, err := newClient(as(access, "scheduler"))
	if err != nil {
		return nil, fmt.Errorf("build a client for %s: %w", access.Host, err)
	}
	return client, nil
}

// Client is a client of an API server. It has two clients for the watches: one decodes
// objects trimmed to the fields that scheduling reads, the other decodes them whole.
type Client struct {
	kubernetes.Interface
	trimmed, whole kubernetes.Interface
	dynamic        dynamic.Interface
}

// watches returns the client for the watches.
func (c *Client) watches(whole bool) kubernetes.Interface {
	if whole {
		return c.whole
	}
	return c.trimmed
}

// watchClient is a client with its own codecs for the kinds that scheduling reads.
type watchClient struct {
	kubernetes.Interface
	core corev1.CoreV1Interface
	apps appsv1.AppsV1Interface
}

// CoreV1 and AppsV1 return the parts of the API that the watched kinds belong to.
func (c watchClient) CoreV1() corev1.CoreV1Interface { return c.core }
func (c watchClient) AppsV1() appsv1.AppsV1Interface { return c.apps }

// newClient builds all clients on one HTTP client.
func newClient(access *rest.Config) (*Client, error) {
	transport, err := rest.HTTPClientFor(access)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfigAndClient(access, transport)
	if err != nil {
		return nil, err
	}
	codecs := rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion()
	trimmed, err := newWatchClient(access, transport, client, kinds.Trimming(codecs))
	if err != nil {
		return nil, err
	}
	whole, err := newWatchClient(access, transport, client, kinds.Whole(codecs))
	if err != nil {
		return nil, err
	}
	others, err := dynamic.NewForConfigAndClient(access, transport)
	if err != nil {
		return nil, err
	}
	return &Client{client, trimmed, whole, others}, nil
}

// newWatchClient builds a client for watches with these codecs.
func newWatchClient(access *rest.Config, transport *http.Client, client kubernetes.Interface, codecs apiruntime.NegotiatedSerializer) (watchClient, error) {
	config := rest.CopyConfig(access) // with separate rate limits for lists and watches
	config.NegotiatedSerializer = codecs
	config.GroupVersion, config.APIPath = &v1.SchemeGroupVersion, "/api"
	core, err := rest.RESTClientForConfigAndClient(config, transport)
	if err != nil {
		return watchClient{}, err
	}
	config.GroupVersion, config.APIPath = &apiappsv1.SchemeGroupVersion, "/apis"
	apps, err := rest.RESTClientForConfigAndClient(config, transport)
	if err != nil {
		return watchClient{}, err
	}
	return watchClient{client, corev1.New(core), appsv1.New(apps)}, nil
}

// as returns a copy whose user agent also names the purpose of the client.
func as(access *rest.Config, what string) *rest.Config {
	named := rest.CopyConfig(access)
	named.UserAgent += "/" + what
	return named
}

// moveCredentials moves a user and a password out of the server's URL, because logs and
// errors print the URL. They are still sent, unless the configuration has other
// credentials.
func moveCredentials(access *rest.Config) {
	server, err := url.Parse(access.Host)
	if err != nil || server.User == nil {
		return
	}
	if access.Username == "" && access.Password == "" && access.BearerToken == "" && access.BearerTokenFile == "" {
		access.Username = server.User.Username()
		access.Password, _ = server.User.Password()
	}
	server.User = nil
	access.Host = server.String()
}

func access(config ClientConfig) (*rest.Config, error) {
	if config.Kubeconfig == "" && config.Master == "" {
		access, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("no kubeconfig: set --kubeconfig, or run in a pod with a service account: %w", err)
		}
		return access, nil
	}
	access, err := clientcmd.BuildConfigFromFlags(config.Master, config.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	return access, nil
}
