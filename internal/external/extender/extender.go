// Package extender calls extenders: external HTTP services that filter and score nodes,
// choose victims and bind pods.
//
// It takes the extenders of a checked configuration. It returns a plugin.Extender for
// each, and the binding step of extenders. It owns the connections. It makes no decisions
// about pods: the engine uses the extenders' answers.
//
// Requests and failures are kube-scheduler's: JSON is posted to the prefix and the verb,
// and a valid response has status 200. A malformed response is an error or is ignored,
// and has no other effect.
package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	restclient "k8s.io/client-go/rest"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/internal/plugin"
)

const (
	// timeoutDefault is for extenders without a timeout, or with a negative one, which
	// would mean no limit.
	timeoutDefault = 5 * time.Second
	// maxResponse is the maximum size of a response in bytes, besides twice the size of
	// the request: an extender may send all nodes back.
	maxResponse = 64 << 20
	// maxRest is how many bytes after the answer are read so that the connection can be
	// reused.
	maxRest = 64 << 10
	// maxIdle is the number of idle connections to one extender. By default as many
	// bindings are in flight.
	maxIdle = 64
	// scale converts an extender's scores to the scale of plugins.
	scale = plugin.MaxScore / extenderv1.MaxExtenderPriority
)

// Client calls one extender. It is safe for concurrent use.
type Client struct {
	config  configv1.Extender
	traits  plugin.ExtenderTraits
	managed sets.Set[v1.ResourceName]
	http    *http.Client
	log     logr.Logger
	max     int64 // of a response in bytes, besides twice the request
}

var _ plugin.Extender = (*Client)(nil)

// New returns a client of an extender, or an error for its TLS configuration. It logs
// failures that are ignored because the extender is ignorable.
func New(config *configv1.Extender, log logr.Logger) (*Client, error) {
	c := &Client{config: *config.DeepCopy(), traits: traitsOf(config), managed: sets.New[v1.ResourceName](), log: log, max: maxResponse}
	for _, r := range config.ManagedResources {
		c.managed.Insert(v1.ResourceName(r.Name))
	}
	tls, err := restclient.TLSConfigFor(tlsOf(config))
	if err != nil {
		return nil, err
	}
	timeout := config.HTTPTimeout.Duration
	if timeout <= 0 {
		timeout = timeoutDefault
	}
	transport := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: tls, MaxIdleConnsPerHost: maxIdle})
	c.http = &http.Client{Transport: transport, Timeout: timeout}
	return c, nil
}

// tlsOf returns the TLS configuration. As in kube-scheduler, enableHTTPS without a
// certificate authority means that the certificate is not verified.
func tlsOf(config *configv1.Extender) *restclient.Config {
	var of restclient.Config
	if t := config.TLSConfig; t != nil {
		of.TLSClientConfig = restclient.TLSClientConfig{
			Insecure: t.Insecure, ServerName: t.ServerName,
			CertFile: t.CertFile, KeyFile: t.KeyFile, CAFile: t.CAFile,
			CertData: t.CertData, KeyData: t.KeyData, CAData: t.CAData,
		}
	}
	if config.EnableHTTPS && of.CAFile == "" && len(of.CAData) == 0 {
		of.Insecure = true
	}
	return &of
}

// Traits returns the constants of the configuration. A password in the URL is redacted.
func (c *Client) Traits() plugin.ExtenderTraits { return c.traits }

func traitsOf(config *configv1.Extender) plugin.ExtenderTraits {
	return plugin.ExtenderTraits{
		Name: Redacted(config.URLPrefix), Ignorable: config.Ignorable,
		Filters: config.FilterVerb != "", Prioritizes: config.PrioritizeVerb != "", Preempts: config.PreemptVerb != "", Binds: config.BindVerb != "",
	}
}

// Redacted returns an extender's URL with the password redacted, for texts that others
// read. A URL without a password is unchanged.
func Redacted(prefix string) string {
	parsed, err := url.Parse(prefix)
	switch {
	case err == nil && parsed.User != nil:
		if _, secret := parsed.User.Password(); secret {
			return parsed.Redacted()
		}
		return prefix
	case err == nil && parsed.Opaque == "":
		return prefix
	}
	// An invalid URL; the password may be the reason.
	begin := 0
	if scheme := strings.Index(prefix, "://"); scheme >= 0 {
		begin = scheme + len("://")
	}
	if end := strings.LastIndex(prefix, "@"); end >= begin {
		return prefix[:begin] + "xxxxx" + prefix[end:]
	}
	return prefix
}

// IsInterested reports whether the extender processes the pod. Requests and limits of
// containers count, even with the amount 0; pod-level resources do not.
func (c *Client) IsInterested(pod *v1.Pod) bool {
	return c.managed.Len() == 0 || c.manages(pod.Spec.Containers) || c.manages(pod.Spec.InitContainers)
}

func (c *Client) manages(containers []v1.Container) bool {
	for i := range containers {
		for _, list := range []v1.ResourceList{containers[i].Resources.Requests, containers[i].Resources.Limits} {
			for name := range list {
				if c.managed.Has(name) {
					return true
				}
			}
		}
	}
	return false
}

// argsOf returns the arguments of the verbs filter and prioritize: nodes, or only their
// names for an extender with its own node cache.
func (c *Client) argsOf(pod *v1.Pod, nodes []*v1.Node) *extenderv1.ExtenderArgs {
	args := &extenderv1.ExtenderArgs{Pod: pod}
	if c.config.NodeCacheCapable {
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Name
		}
		args.NodeNames = &names
		return args
	}
	args.Nodes = &v1.NodeList{Items: make([]v1.Node, len(nodes))}
	for i, n := range nodes {
		args.Nodes.Items[i] = *n
	}
	return args
}

// Filter returns which of the nodes pass. A node that was not among them is an error,
// because plugins have not passed it. An answer with neither nodes nor names passes none.
func (c *Client) Filter(pod *v1.Pod, nodes []*v1.Node) (plugin.ExtenderVerdicts, error) {
	verdicts, err := c.filter(pod, nodes)
	c.passOver(c.config.FilterVerb, err)
	return verdicts, err
}

func (c *Client) filter(pod *v1.Pod, nodes []*v1.Node) (plugin.ExtenderVerdicts, error) {
	var result extenderv1.ExtenderFilterResult
	if err := c.send(context.Background(), c.config.FilterVerb, c.argsOf(pod, nodes), &result); err != nil {
		return plugin.ExtenderVerdicts{}, err
	}
	if result.Error != "" {
		return plugin.ExtenderVerdicts{}, errors.New(result.Error)
	}
	verdicts := plugin.ExtenderVerdicts{Failed: result.FailedNodes, Unresolvable: result.FailedAndUnresolvableNodes}
	var passed []string
	switch {
	case c.config.NodeCacheCapable && result.NodeNames != nil:
		passed = *result.NodeNames
	case result.Nodes != nil:
		verdicts.Bare = true
		for i := range result.Nodes.Items {
			passed = append(passed, result.Nodes.Items[i].Name)
		}
	}
	offered := make(map[string]bool, len(nodes)) // true once it has passed
	for _, n := range nodes {
		offered[n.Name] = false
	}
	for _, name := range passed {
		already, ok := offered[name]
		switch {
		case !ok:
			return plugin.ExtenderVerdicts{}, fmt.Errorf("extender %q claims a filtered node %q which is not found in the input node list", c.traits.Name, name)
		case !already:
			offered[name] = true
			verdicts.Passed = append(verdicts.Passed, name)
		}
	}
	return verdicts, nil
}

// Prioritize returns what to add to the totals of nodes, by name: a node's scores times
// the weight, on the scale of totals. As in kube-scheduler, scores outside of 0 to 10 are
// allowed, and unknown names have no effect.
func (c *Client) Prioritize(pod *v1.Pod, nodes []*v1.Node) (map[string]int64, error) {
	var result extenderv1.HostPriorityList
	if err := c.send(context.Background(), c.config.PrioritizeVerb, c.argsOf(pod, nodes), &result); err != nil {
		c.log.Error(err, "An extender failed, ignoring its scores", "extender", c.traits.Name, "pod", pod.Namespace+"/"+pod.Name)
		return nil, err
	}
	scores := make(map[string]int64, len(result))
	for _, host := range result {
		scores[host.Host] += host.Score * c.config.Weight * scale
	}
	return scores, nil
}

// ProcessPreemption returns the remaining candidates and their victims, by node.
func (c *Client) ProcessPreemption(pod *v1.Pod, victims map[string]*extenderv1.Victims) (map[string]*extenderv1.MetaVictims, error) {
	args := &extenderv1.ExtenderPreemptionArgs{Pod: pod}
	if c.config.NodeCacheCapable {
		args.NodeNameToMetaVictims = metaOf(victims)
	} else {
		args.NodeNameToVictims = victims
	}
	var result extenderv1.ExtenderPreemptionResult
	err := c.send(context.Background(), c.config.PreemptVerb, args, &result)
	c.passOver(c.config.PreemptVerb, err)
	if err != nil {
		return nil, err
	}
	return result.NodeNameToMetaVictims, nil
}

func metaOf(victims map[string]*extenderv1.Victims) map[string]*extenderv1.MetaVictims {
	meta := make(map[string]*extenderv1.MetaVictims, len(victims))
	for node, of := range victims {
		to := &extenderv1.MetaVictims{Pods: make([]*extenderv1.MetaPod, len(of.Pods)), NumPDBViolations: of.NumPDBViolations}
		for i, pod := range of.Pods {
			to.Pods[i] = &extenderv1.MetaPod{UID: string(pod.UID)}
		}
		meta[node] = to
	}
	return meta
}

// Bind binds a pod through the extender.
func (c *Client) Bind(binding *v1.Binding) error { return c.BindContext(context.Background(), binding) }

// BindContext is Bind with a context. When the context ends, it is unknown whether the
// pod was bound, as after a timeout.
func (c *Client) BindContext(ctx context.Context, binding *v1.Binding) error {
	args := &extenderv1.ExtenderBindingArgs{PodName: binding.Name, PodNamespace: binding.Namespace, PodUID: binding.UID, Node: binding.Target.Name}
	var result extenderv1.ExtenderBindingResult
	err := c.send(ctx, c.config.BindVerb, args, &result)
	if err == nil && result.Error != "" {
		err = errors.New(result.Error)
	}
	c.passOver(c.config.BindVerb, err)
	return err
}

// passOver logs an error that is ignored because the extender is ignorable.
func (c *Client) passOver(verb string, err error) {
	if err != nil && c.config.Ignorable {
		c.log.Error(err, "An ignorable extender failed, skipping it", "extender", c.traits.Name, "verb", verb)
	}
}

// send posts the arguments to a verb, and decodes the response.
func (c *Client) send(ctx context.Context, verb string, args, result any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	endpoint := strings.TrimRight(c.config.URLPrefix, "/") + "/" + verb
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		if public := Redacted(endpoint); public != endpoint { // the reason may quote the password
			return fmt.Errorf("the extender's URL %q is malformed", public)
		}
		return err
	}
	endpoint = Redacted(endpoint) // package http already redacts passwords of hosts
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		if failed := new(url.Error); request.URL.Opaque != "" && errors.As(err, &failed) {
			failed.URL = endpoint
		}
		return err
	}
	defer response.Body.Close()
	// Bytes after the answer, such as a newline, are read too, so that the connection can
	// be reused.
	defer func() { _, _ = io.CopyN(io.Discard, response.Body, maxRest) }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("failed %v with extender at URL %v, code %v", verb, endpoint, response.StatusCode)
	}
	limit := c.max + 2*int64(len(body))
	bounded := &io.LimitedReader{R: response.Body, N: limit}
	if err := json.NewDecoder(bounded).Decode(result); err != nil {
		if bounded.N <= 0 {
			return fmt.Errorf("failed %v with extender at URL %v: its response is longer than %d bytes", verb, endpoint, limit)
		}
		return err
	}
	return nil
}
