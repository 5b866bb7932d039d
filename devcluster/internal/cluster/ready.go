package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// waitMax is far above the time of any step on a slow and busy machine.
	waitMax = 2 * time.Minute
	// probeInterval is short compared to a start, which takes seconds, and long compared
	// to a probe.
	probeInterval = 200 * time.Millisecond
	probeMax      = 10 * time.Second
)

// probe returns nil once its target is ready, and an error with the reason before.
type probe func(ctx context.Context) error

// both returns nil when a and b do.
func both(a, b probe) probe {
	return func(ctx context.Context) error {
		if err := a(ctx); err != nil {
			return err
		}
		return b(ctx)
	}
}

// wait calls ready until it returns nil, ctx ends or waitMax is over. For the end of ctx
// it returns the cause.
func wait(ctx context.Context, what string, ready probe) error {
	patience := time.After(waitMax)
	for {
		err := ask(ctx, ready)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-patience:
			return fmt.Errorf("wait for %s: not ready after %s: %w", what, waitMax, err)
		case <-time.After(probeInterval):
		}
	}
}

func ask(ctx context.Context, ready probe) error {
	ctx, cancel := context.WithTimeout(ctx, probeMax)
	defer cancel()
	return ready(ctx)
}

func (c *cluster) apiServerReady(ctx context.Context) error {
	_, err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	return err
}

// nodesReady requires every node to be Ready and without the not-ready taint: a resumed
// cluster's nodes may have been without an agent for long.
func (c *cluster) nodesReady(ctx context.Context) error {
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	ready := 0
	for i := range nodes.Items {
		if takesPods(&nodes.Items[i]) {
			ready++
		}
	}
	if ready < len(nodes.Items) || ready < c.options.Nodes {
		return fmt.Errorf("%d of %d nodes are ready", ready, max(len(nodes.Items), c.options.Nodes))
	}
	return nil
}

func takesPods(n *corev1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return false
		}
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (c *cluster) namespaceReady(ctx context.Context) error {
	_, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
	return err
}

// serviceAccountReady requests the default service account. Without it the API server
// refuses pods that name none.
func (c *cluster) serviceAccountReady(ctx context.Context) error {
	_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

func etcdProbe(l *layout, p ports) probe {
	return httpProbe(url(p.etcdClient)+"/health", l.key("etcd-ca.crt"), l.key("etcd-client.crt"), l.key("etcd-client.key"))
}

func controllersProbe(l *layout, p ports) probe {
	return httpProbe(url(p.controllers)+"/healthz", l.key("ca.crt"), "", "")
}

// httpProbe requests a URL of a server whose certificate ca signed; cert and key may be
// empty.
func httpProbe(url, ca, cert, key string) probe {
	return func(ctx context.Context) error {
		config, err := tlsConfig(ca, cert, key)
		if err != nil {
			return err
		}
		transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(response.Body)
			return fmt.Errorf("%s: %s", response.Status, body)
		}
		return nil
	}
}

func tlsConfig(ca, cert, key string) (*tls.Config, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: roots}
	if cert == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}
