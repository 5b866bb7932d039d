package cluster

import (
	"fmt"
	"net"
	"os"

	"github.com/berth-scheduler/berth/devcluster/internal/identity"
)

// Users of the kubeconfigs, named like the files.
const (
	admin       = "admin"
	scheduler   = "kube-scheduler"
	controllers = "kube-controller-manager"
	agent       = "kwok"
)

// administrators is a group with all rights in RBAC and exempt from priority and
// fairness.
const administrators = "system:masters"

// users are the users and groups of the kubeconfigs. The bootstrap roles of RBAC bind
// scheduler and controller manager by name; they have no other rights.
var users = []struct {
	file   string
	user   string
	groups []string
}{
	{admin, "kubernetes-admin", []string{administrators}},
	{scheduler, "system:kube-scheduler", nil},
	{controllers, "system:kube-controller-manager", nil},
	{agent, "devcluster:kwok", []string{administrators}},
}

// writeKeys makes all keys of one run. etcd has a separate authority: a client of the API
// server must not have access to etcd.
func writeKeys(l *layout, p ports) error {
	if err := writeEtcdKeys(l); err != nil {
		return fmt.Errorf("write etcd keys: %w", err)
	}
	if err := writeAPIServerKeys(l, p); err != nil {
		return fmt.Errorf("write API server keys: %w", err)
	}
	return nil
}

func writeEtcdKeys(l *layout) error {
	authority, err := newAuthority(l, "etcd-ca")
	if err != nil {
		return err
	}
	server, err := authority.Server("etcd", nil, []net.IP{net.ParseIP(loopback)})
	if err != nil {
		return err
	}
	if err := server.Write(l.key("etcd.crt"), l.key("etcd.key")); err != nil {
		return err
	}
	client, err := authority.Client("kube-apiserver")
	if err != nil {
		return err
	}
	return client.Write(l.key("etcd-client.crt"), l.key("etcd-client.key"))
}

func writeAPIServerKeys(l *layout, p ports) error {
	authority, err := newAuthority(l, "ca")
	if err != nil {
		return err
	}
	server, err := authority.Server("kube-apiserver",
		[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		[]net.IP{net.ParseIP(loopback), net.ParseIP(serviceIP)})
	if err != nil {
		return err
	}
	if err := server.Write(l.key("server.crt"), l.key("server.key")); err != nil {
		return err
	}
	// This API server has no proxy in front of it, but every component with delegated
	// authentication reads the proxy's authority.
	if _, err := newAuthority(l, "front-proxy-ca"); err != nil {
		return err
	}
	tokens, err := identity.NewSigningKey()
	if err != nil {
		return err
	}
	if err := tokens.Write(l.key("service-account.pub"), l.key("service-account.key")); err != nil {
		return err
	}
	for _, u := range users {
		if err := authority.WriteKubeconfig(l.kubeconfig(u.file), url(p.apiServer), u.user, u.groups...); err != nil {
			return err
		}
	}
	return nil
}

func newAuthority(l *layout, name string) (*identity.Authority, error) {
	authority, err := identity.NewAuthority("devcluster " + name)
	if err != nil {
		return nil, err
	}
	return authority, os.WriteFile(l.key(name+".crt"), authority.Certificate(), 0o600)
}
