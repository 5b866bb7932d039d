package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	clients "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/berth-scheduler/berth/internal/answers/history"
	"github.com/berth-scheduler/berth/internal/serve/server"
)

// running connects to the running scheduler, for the history of its decisions. The
// scheduler gets the user's credentials, so it is contacted only with --scheduler.
type running struct {
	connection *connection
	// at is the scheduler's address, leader for the holder of the lease, or empty for
	// none.
	at    string
	ca    string
	lease string
	port  uint16
	flags *pflag.FlagSet
}

func newRunning(flags *pflag.FlagSet, c *connection) *running {
	r := &running{connection: c, flags: flags}
	flags.StringVar(&r.at, schedulerFlag, "", "Running scheduler to read the history of the named pod from, with your own credentials: leader (the replica that holds the lease, through a port-forward) "+
		"or an address, such as https://scheduler.example:10259 (default: none).")
	flags.StringVar(&r.ca, schedulerCAFlag, "", "File with the certificate authority of the scheduler, for --scheduler with an address (default: the authorities of the system).")
	flags.StringVar(&r.lease, schedulerLeaseFlag, "", "Lease of the running scheduler, as NAMESPACE/NAME, for --scheduler leader (default: the lease of the configuration). The replica's pod must be in the same namespace.")
	flags.Uint16Var(&r.port, schedulerPortFlag, schedulerPort, "Secure port of the running scheduler, for --scheduler leader.")
	return r
}

const (
	// askTimeout limits the time for finding the scheduler and its answer.
	askTimeout = 10 * time.Second
	// maxAnswer limits the size of an answer in bytes.
	maxAnswer = 64 << 20
	// leader stands for the replica that holds the lease.
	leader = "leader"
	// schedulerPort is the port of kube-scheduler, and of Berth.
	schedulerPort = 10259

	schedulerFlag      = "scheduler"
	schedulerCAFlag    = "scheduler-certificate-authority"
	schedulerLeaseFlag = "scheduler-lease"
	schedulerPortFlag  = "scheduler-port"
)

// check checks the flags, so that credentials are never sent in an unintended way.
func (r *running) check() error {
	if r.at != "" && r.at != leader {
		if at, err := url.Parse(r.at); err != nil || at.Scheme != "https" || at.Host == "" {
			return fmt.Errorf("--%s %q: must be %s, or an address that begins with https://", schedulerFlag, r.at, leader)
		}
	}
	for _, flag := range []string{schedulerLeaseFlag, schedulerPortFlag} {
		if r.at != leader && r.flags.Changed(flag) {
			return fmt.Errorf("--%s: is for --%s %s", flag, schedulerFlag, leader)
		}
	}
	if (r.at == "" || r.at == leader) && r.flags.Changed(schedulerCAFlag) {
		return fmt.Errorf("--%s: is for --%s with an address", schedulerCAFlag, schedulerFlag)
	}
	if namespace, name, ok := strings.Cut(r.lease, "/"); r.flags.Changed(schedulerLeaseFlag) && (!ok || namespace == "" || name == "") {
		return fmt.Errorf("--%s %q: must be NAMESPACE/NAME", schedulerLeaseFlag, r.lease)
	}
	if r.port == 0 {
		return fmt.Errorf("--%s 0: must be between 1 and 65535", schedulerPortFlag)
	}
	return nil
}

// asked is the running scheduler's answer, or the reason why it has none.
type asked struct {
	answer *history.Answer
	why    error
}

// about drops an answer about another pod of the same name. The pod may have been
// recreated since it was read.
func (a asked) about(pod *v1.Pod) asked {
	if a.answer != nil && a.answer.UID != string(pod.UID) {
		return asked{why: fmt.Errorf("the scheduler's response is for another pod of this name, with UID %q instead of %q", a.answer.UID, pod.UID)}
	}
	return a
}

// ask requests the history of a pod from the running scheduler, with the user's own
// credentials. election is the lease in the scheduler's configuration.
func (r *running) ask(ctx context.Context, namespace, name string, election *configv1.KubeSchedulerConfiguration) asked {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	body, err := r.fetch(ctx, &url.URL{Path: server.ExplainPath(namespace, name)}, election)
	if err != nil {
		return asked{why: err}
	}
	answer, err := readHistory(body)
	return asked{answer, err}
}

// fetch sends a request to the running scheduler, and returns the body of the response.
// question has the path and the query.
func (r *running) fetch(ctx context.Context, question *url.URL, election *configv1.KubeSchedulerConfiguration) ([]byte, error) {
	access, err := r.connection.access()
	if err != nil {
		return nil, err
	}
	if access.Impersonate.UserName != "" {
		return nil, errors.New("--as is not supported with --scheduler, which would use your own permissions")
	}
	to := rest.CopyConfig(access)
	// The certificate at an address is always checked, because the user's credentials go
	// there. This holds even if the API server's certificate is not checked. A password
	// is for the API server alone; Berth accepts none.
	to.TLSClientConfig = rest.TLSClientConfig{CertFile: access.CertFile, KeyFile: access.KeyFile, CertData: access.CertData, KeyData: access.KeyData, CAFile: r.ca}
	to.Username, to.Password = "", ""
	to.Host, to.APIPath, to.Dial, to.Proxy = r.at, "", nil, nil
	if r.at == leader {
		stop, port, err := r.forward(ctx, access, election)
		if err != nil {
			return nil, err
		}
		defer stop()
		// The certificate is usually self-signed by the scheduler. The API server and the
		// node's kubelet guarantee that the connection ends at the pod.
		to.Host, to.TLSClientConfig.CAFile, to.TLSClientConfig.Insecure = fmt.Sprintf("https://127.0.0.1:%d", port), "", true
	}
	return get(ctx, to, question)
}

// refused is an error response of the scheduler.
type refused struct {
	code    int
	message string
}

// Error has the code and the scheduler's message.
func (r *refused) Error() string {
	return fmt.Sprintf("the scheduler returned %d: %s", r.code, r.message)
}

// get sends the request, and returns the body of the response.
func get(ctx context.Context, to *rest.Config, question *url.URL) ([]byte, error) {
	at, err := url.Parse(to.Host)
	if err != nil || at.Scheme != "https" || at.Host == "" { // the request carries credentials
		return nil, fmt.Errorf("scheduler address %q: must begin with https://", to.Host)
	}
	client, err := rest.HTTPClientFor(to)
	if err != nil {
		return nil, err
	}
	// A redirect must not send credentials to another host.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	at = at.JoinPath(question.Path)
	at.RawQuery = question.RawQuery
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("contact the scheduler: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the scheduler's response: %w", err)
	}
	if response.StatusCode == http.StatusOK {
		return body, nil
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return nil, &refused{response.StatusCode, status.Message}
	}
	return nil, fmt.Errorf("the scheduler returned %s; check that it is Berth, of this version, and for explain that --berth-history-mib is not 0", response.Status)
}

// readHistory reads an answer about a pod.
func readHistory(body []byte) (*history.Answer, error) {
	var answer history.Answer
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("read the scheduler's response: %w", err)
	}
	if answer.History == nil {
		return nil, errors.New("the scheduler's response has no history")
	}
	if answer.History.Version != history.Version {
		return nil, fmt.Errorf("the scheduler's response has history version %d, want %d", answer.History.Version, history.Version)
	}
	return &answer, nil
}

// forward opens a port of this host that leads, through the API server, to the replica
// that holds the lease. The returned function closes it.
func (r *running) forward(ctx context.Context, access *rest.Config, election *configv1.KubeSchedulerConfiguration) (stop func(), port uint16, err error) {
	client, err := clients.NewForConfig(access)
	if err != nil {
		return nil, 0, err
	}
	pod, err := r.leader(ctx, client, election)
	if err != nil {
		return nil, 0, err
	}
	to := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	dialer, err := dialerFor(access, to)
	if err != nil {
		return nil, 0, err
	}
	forwarding, stopForwarding := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(forwarding, dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", r.port)}, ready, io.Discard, io.Discard)
	if err != nil {
		stopForwarding()
		return nil, 0, fmt.Errorf("forward a port to pod %s: %w", nameOf(pod), err)
	}
	var failed error
	go func() {
		defer close(ended)
		failed = forwarder.ForwardPorts()
	}()
	stop = func() {
		stopForwarding()
		<-ended
	}
	select {
	case <-ready:
	case <-ended:
		stopForwarding()
		return nil, 0, fmt.Errorf("forward a port to pod %s: %w", nameOf(pod), failed)
	case <-ctx.Done(): // a hanging dialer ends with the process
		stopForwarding()
		return nil, 0, fmt.Errorf("forward a port to pod %s: %w", nameOf(pod), ctx.Err())
	}
	ports, err := forwarder.GetPorts()
	if err == nil && len(ports) != 1 {
		err = fmt.Errorf("%d ports instead of one", len(ports))
	}
	if err != nil {
		stop()
		return nil, 0, fmt.Errorf("forward a port to pod %s: %w", nameOf(pod), err)
	}
	return stop, ports[0].Local, nil
}

// dialerFor dials as kubectl does: through a WebSocket, or with SPDY if the API server or
// a proxy does not support these WebSockets.
func dialerFor(access *rest.Config, to *url.URL) (httpstream.Dialer, error) {
	transport, upgrader, err := spdy.RoundTripperFor(access)
	if err != nil {
		return nil, err
	}
	bySPDY := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, to)
	byWebSocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(to, access)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(byWebSocket, bySPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// leader returns the scheduler's pod that holds the lease. Only pods in the lease's
// namespace qualify, because the pod receives credentials. Users who may run pods in that
// namespace could also take the lease.
func (r *running) leader(ctx context.Context, client clients.Interface, election *configv1.KubeSchedulerConfiguration) (*v1.Pod, error) {
	namespace, name := election.LeaderElection.ResourceNamespace, election.LeaderElection.ResourceName
	if r.lease != "" {
		namespace, name, _ = strings.Cut(r.lease, "/")
	}
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("find the leader: %w", err)
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return nil, fmt.Errorf("the lease %s/%s has no holder", namespace, name)
	}
	host, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, host, metav1.GetOptions{})
	if err == nil {
		return pod, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("find the pod of the lease holder, %s/%s: %w", namespace, host, err)
	}
	// A pod in its node's network has the node's name.
	onNode, listErr := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", host).String()})
	if listErr != nil {
		return nil, fmt.Errorf("find the lease holder on node %s: %w", host, listErr)
	}
	var found *v1.Pod
	for i := range onNode.Items {
		p := &onNode.Items[i]
		if !p.Spec.HostNetwork || p.Labels["component"] != server.Name && p.Labels["app.kubernetes.io/name"] != "berth" {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("the holder of the lease is pod %s or %s; give its address with --scheduler", found.Name, p.Name)
		}
		found = p
	}
	if found == nil {
		return nil, fmt.Errorf("the holder of the lease %s/%s, %s, is not a pod in that namespace; give its address with --scheduler", namespace, name, host)
	}
	return found, nil
}
