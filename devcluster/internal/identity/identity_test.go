package identity

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestServerCertificateIsTrustedByItsAuthorityOnly(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	pair, err := own.Server("api", []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	cert := parse(t, pair)
	for name, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "elsewhere": false} {
		_, err := cert.Verify(x509.VerifyOptions{DNSName: name, Roots: pool(own)})
		if (err == nil) != want {
			t.Errorf("valid for %s: %v, want %v", name, err == nil, want)
		}
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: pool(other)}); err == nil {
		t.Error("a foreign authority vouches for the certificate")
	}
}

func TestKubeconfigCarriesTheUser(t *testing.T) {
	authority := newAuthority(t)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := authority.WriteKubeconfig(file, "https://127.0.0.1:1", "system:kube-scheduler"); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	cert := parse(t, Pair{Public: config.CertData, Private: config.KeyData})
	if cert.Subject.CommonName != "system:kube-scheduler" || len(cert.Subject.Organization) > 0 {
		t.Errorf("the certificate is for %s", cert.Subject)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the key: %s", info.Mode())
	}
}

func newAuthority(t *testing.T) *Authority {
	t.Helper()
	authority, err := NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func pool(a *Authority) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.Certificate())
	return pool
}

func parse(t *testing.T, p Pair) *x509.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(p.Public, p.Private)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}
