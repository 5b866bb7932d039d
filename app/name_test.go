package app

import (
	"net"
	"strings"
	"testing"
)

// A scheduler that could not be assembled releases its name for the next scheduler in the
// process.
func TestNameIsLeft(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for range 2 {
		o, err := newOptions()
		if err != nil {
			t.Fatal(err)
		}
		o.deprecated.kubeconfig, o.access.Serving.BindAddress, o.access.Serving.BindPort = kubeconfig(t), net.IPv4(127, 0, 0, 1), taken.Addr().(*net.TCPAddr).Port
		o.access.Serving.ServerCert.CertKey.CertFile, o.access.Serving.ServerCert.CertKey.KeyFile = file(t, "crt", string(certificate().text)), file(t, "key", string(certificate().key))
		if err := o.sets.FlagSet(deprecatedSet).Set("kubeconfig", o.deprecated.kubeconfig); err != nil {
			t.Fatal(err)
		}
		c, err := o.configuration()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newScheduler(t.Context(), o, c); err == nil || !strings.Contains(err.Error(), "address already in use") {
			t.Errorf("the error is %v", err)
		}
	}
}
