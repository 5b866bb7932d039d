// Package identity creates the keys, certificates and kubeconfigs of one run of a
// cluster.
//
// It takes names. It returns PEM pairs and kubeconfig files. It owns the authorities,
// whose private keys stay in memory, so nothing can be signed after the run. It never
// reads keys of an earlier run.
package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	validity = 365 * 24 * time.Hour
	// clockSkew is the allowed lag of a reader's clock.
	clockSkew = time.Hour
)

// Pair is a certificate or public key and its private key, in PEM.
type Pair struct {
	Public  []byte
	Private []byte
}

// Authority signs certificates. Its key exists only in memory.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewAuthority creates a self-signed authority.
func NewAuthority(name string) (*Authority, error) {
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, fmt.Errorf("make authority %s: %w", name, err)
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make authority %s: %w", name, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make authority %s: %w", name, err)
	}
	return &Authority{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// Certificate returns the authority's own certificate in PEM.
func (a *Authority) Certificate() []byte {
	return a.pem
}

// Server issues a serving certificate for DNS names and addresses. It is also a client
// certificate for the same kind of server, as between etcd members.
func (a *Authority) Server(name string, dns []string, addresses []net.IP) (Pair, error) {
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate for %s: %w", name, err)
	}
	template.DNSNames = dns
	template.IPAddresses = addresses
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// Client issues a client certificate for a user and its groups.
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	template, err := newTemplate(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate for %s: %w", user, err)
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

func (a *Authority) issue(template *x509.Certificate) (Pair, error) {
	name := template.Subject.CommonName
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate for %s: %w", name, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate for %s: %w", name, err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate for %s: %w", name, err)
	}
	return Pair{Public: encode("CERTIFICATE", der), Private: private}, nil
}

// NewSigningKey creates a key pair without a certificate, for signing service account
// tokens.
func NewSigningKey() (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make signing key: %w", err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("make signing key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return Pair{}, fmt.Errorf("make signing key: %w", err)
	}
	return Pair{Public: encode("PUBLIC KEY", public), Private: private}, nil
}

// Write stores the pair. Only the owner can read it.
func (p Pair) Write(publicFile, privateFile string) error {
	if err := os.WriteFile(publicFile, p.Public, 0o600); err != nil {
		return err
	}
	return os.WriteFile(privateFile, p.Private, 0o600)
}

// WriteKubeconfig issues a client certificate for user and stores a kubeconfig with it.
// Only the owner can read it.
func (a *Authority) WriteKubeconfig(file, server, user string, groups ...string) error {
	pair, err := a.Client(user, groups...)
	if err != nil {
		return err
	}
	const cluster = "devcluster"
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: a.pem}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.Public, ClientKeyData: pair.Private}
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user}
	config.CurrentContext = cluster
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write kubeconfig of %s: %w", user, err)
	}
	return nil
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(validity),
	}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return encode("EC PRIVATE KEY", der), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
