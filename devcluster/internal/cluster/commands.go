package cluster

import (
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/devcluster/internal/children"
	"github.com/berth-scheduler/berth/devcluster/internal/options"
	"github.com/berth-scheduler/berth/devcluster/internal/supervise"
)

const (
	serviceRange = "192.168.0.0/16"
	serviceIP    = "192.168.0.1" // of the service "kubernetes"

	// leaseSeconds is longer than a kubelet's 40: each node renews every 30 s, so that
	// 5,000 of them cost the machine 170 writes a second and not 500.
	leaseSeconds = "120"
)

func command(name string, flags ...string) supervise.Command {
	return supervise.Command{Name: name, Args: append([]string{children.Command, name}, flags...)}
}

func etcdCommand(l *layout, p ports) supervise.Command {
	return command(children.Etcd,
		"--data-dir="+l.etcd(),
		"--client-url="+url(p.etcdClient),
		"--peer-url="+url(p.etcdPeer),
		"--ca-file="+l.key("etcd-ca.crt"),
		"--cert-file="+l.key("etcd.crt"),
		"--key-file="+l.key("etcd.key"),
	)
}

// apiServerCommand raises the limits on requests in flight from 400 and 200, which suit a
// server with many users. Priority and fairness stays on, as in production. It divides
// the sum of both limits.
func apiServerCommand(l *layout, p ports, o options.Options) supervise.Command {
	flags := []string{
		"--etcd-servers=" + url(p.etcdClient),
		"--etcd-cafile=" + l.key("etcd-ca.crt"),
		"--etcd-certfile=" + l.key("etcd-client.crt"),
		"--etcd-keyfile=" + l.key("etcd-client.key"),
		"--bind-address=" + loopback,
		"--advertise-address=" + loopback,
		"--secure-port=" + strconv.Itoa(p.apiServer),
		"--tls-cert-file=" + l.key("server.crt"),
		"--tls-private-key-file=" + l.key("server.key"),
		"--client-ca-file=" + l.key("ca.crt"),
		"--requestheader-client-ca-file=" + l.key("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + l.key("service-account.pub"),
		"--service-account-signing-key-file=" + l.key("service-account.key"),
		"--service-cluster-ip-range=" + serviceRange,
		// Endpoints may not be loopback addresses, and no pod uses this one.
		"--endpoint-reconciler-type=none",
		"--allow-privileged=true",
		"--max-requests-inflight=2000",
		"--max-mutating-requests-inflight=1000",
		"--profiling=true", // comparisons trigger its garbage collection between turns
	}
	flags = append(flags, "--disable-admission-plugins="+strings.Join(disabledAdmission(o), ","))
	if o.RuntimeConfig != "" {
		flags = append(flags, "--runtime-config="+o.RuntimeConfig)
	}
	if o.AuditPolicy != "" {
		flags = append(flags, "--audit-policy-file="+o.AuditPolicy, "--audit-log-path="+l.auditLog())
	}
	return command(children.APIServer, append(flags, featureGates(o)...)...)
}

// disabledAdmission names the admission plugins to disable.
func disabledAdmission(o options.Options) []string {
	// The plugin would taint every new node as not ready until the node lifecycle
	// controller, if it runs, has seen it. Ours are ready from the start, and removing
	// the taint from 5,000 nodes takes a minute. The controller still taints a node that
	// is not ready.
	off := []string{"TaintNodesByCondition"}
	if !o.Controllers {
		off = append(off, "ServiceAccount") // the default service accounts do not exist
	}
	return off
}

// disabledControllers selects all default controllers but these.
func disabledControllers(o options.Options) []string {
	// It writes the cache time of secrets to every node.
	off := []string{"-ttl-controller"}
	if !o.NodeLifecycle() {
		off = append(off, "-node-lifecycle-controller") // it would taint nodes whose leases are not renewed
	}
	return off
}

// controllerManagerCommand raises workers and request rates above the defaults, so the
// 2,000 pods of a Deployment are created in seconds.
func controllerManagerCommand(l *layout, p ports, o options.Options) supervise.Command {
	kubeconfig := l.kubeconfig(controllers)
	flags := []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=" + loopback,
		"--secure-port=" + strconv.Itoa(p.controllers),
		"--tls-cert-file=" + l.key("server.crt"),
		"--tls-private-key-file=" + l.key("server.key"),
		"--root-ca-file=" + l.key("ca.crt"),
		"--service-account-private-key-file=" + l.key("service-account.key"),
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		"--controllers=*," + strings.Join(disabledControllers(o), ","),
		"--node-monitor-grace-period=" + leaseSeconds + "s",
		"--concurrent-deployment-syncs=20",
		"--concurrent-replicaset-syncs=20",
		"--concurrent-job-syncs=20",
		"--concurrent-gc-syncs=20",
		"--profiling=false",
	}
	return command(children.ControllerManager, append(flags, featureGates(o)...)...)
}

func kwokCommand(l *layout, o options.Options) supervise.Command {
	flags := []string{"--kubeconfig=" + l.kubeconfig(agent), "--lease-seconds=" + leaseSeconds}
	return command(children.Kwok, append(flags, featureGates(o)...)...)
}

func featureGates(o options.Options) []string {
	if o.FeatureGates == "" {
		return nil
	}
	return []string{"--feature-gates=" + o.FeatureGates}
}
