package component

import (
	"context"
	"flag"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/berth-scheduler/berth/devcluster/internal/children"
)

// quotaBytes is enough for hundreds of thousands of pods and their history. Disk space is
// used only as it fills.
const quotaBytes = 8 << 30

// etcdFlags are the etcd child's flags. One certificate serves clients and peers, and
// access requires a certificate of the same authority.
type etcdFlags struct {
	dataDir   string
	clientURL string
	peerURL   string
	ca        string
	cert      string
	key       string
}

func runEtcd(ctx context.Context, args []string) error {
	var f etcdFlags
	flags := flag.NewFlagSet(children.Etcd, flag.ContinueOnError)
	flags.StringVar(&f.dataDir, "data-dir", "", "folder of the database")
	flags.StringVar(&f.clientURL, "client-url", "", "URL to serve clients on")
	flags.StringVar(&f.peerURL, "peer-url", "", "URL to serve peers on, though there are none")
	flags.StringVar(&f.ca, "ca-file", "", "authority of servers and clients")
	flags.StringVar(&f.cert, "cert-file", "", "certificate")
	flags.StringVar(&f.key, "key-file", "", "key of the certificate")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := f.config()
	if err != nil {
		return err
	}

	server, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return fmt.Errorf("serve: %w", err)
	}
}

func (f etcdFlags) config() (*embed.Config, error) {
	client, err := url.Parse(f.clientURL)
	if err != nil {
		return nil, fmt.Errorf("client URL: %w", err)
	}
	peer, err := url.Parse(f.peerURL)
	if err != nil {
		return nil, fmt.Errorf("peer URL: %w", err)
	}
	secure := transport.TLSInfo{CertFile: f.cert, KeyFile: f.key, TrustedCAFile: f.ca, ClientCertAuth: true}

	c := embed.NewConfig()
	c.Dir = f.dataDir
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	c.InitialCluster = c.Name + "=" + peer.String()
	c.ClientTLSInfo, c.PeerTLSInfo = secure, secure
	c.QuotaBackendBytes = quotaBytes
	c.LogOutputs = []string{"stderr"}
	c.LogLevel = "warn"
	// Writes of a killed process survive in the kernel. Only a power cut loses them,
	// which is acceptable here.
	c.UnsafeNoFsync = true
	return c, nil
}
