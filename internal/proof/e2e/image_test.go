package e2e_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// TestImageIsKubeSchedulerInAStaticPod builds the image of the commit, unpacks it, and
// starts it like kubeadm's static pod. The binary is called kube-scheduler and found by
// the image's PATH. It runs with kubeadm's arguments, as root, with a kubeconfig that
// only root can read, and with the image's files only.
func TestImageIsKubeSchedulerInAStaticPod(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may change the root folder of a process")
	}
	w := newWorld(t, "image")
	folder := t.TempDir()
	clone, root := filepath.Join(folder, "clone"), filepath.Join(folder, "root")
	check := exec.CommandContext(w.ctx, "true")
	check.SysProcAttr = &syscall.SysProcAttr{Chroot: "/"}
	if err := check.Run(); err != nil {
		t.Skipf("the root folder of a process cannot be changed here: %v", err)
	}
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(w.ctx, name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	run("git", "clone", "--quiet", filepath.Join("..", "..", ".."), clone)
	tool, archive := filepath.Join(folder, "release"), filepath.Join(folder, "berth.tar")
	run("env", "CGO_ENABLED=0", "go", "build", "-C", filepath.Join("..", "..", "..", "tools", "release"), "-o", tool, ".")
	run(tool, "image", "--source", clone, "--platform", "linux/"+runtime.GOARCH, "--output", archive)
	run(tool, "unpack", archive, root, "--platform", "linux/"+runtime.GOARCH)

	config, err := clientcmd.LoadFromFile(cluster.SchedulerKubeconfig)
	w.must(err)
	w.must(clientcmdapi.FlattenConfig(config))
	const kubeconfig = "/etc/kubernetes/scheduler.conf"
	w.must(clientcmd.WriteToFile(*config, filepath.Join(root, kubeconfig)))
	w.must(os.Chmod(filepath.Join(root, kubeconfig), 0o600))

	port, err := rig.FreePort()
	w.must(err)
	address := net.JoinHostPort("127.0.0.1", port)
	p, err := rig.Start(nil, "env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "chroot", root, "kube-scheduler",
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig, "--bind-address=127.0.0.1", "--kubeconfig="+kubeconfig, "--leader-elect=true", "--secure-port="+port)
	w.must(err)
	stopped := false
	defer func() {
		if !stopped {
			p.End()
		}
		if t.Failed() {
			t.Logf("the end of the scheduler's log:\n%s", p.Log())
		}
	}()
	w.smallPods(3)
	w.awaitBound(3)
	// like the kubelet's probes
	probe := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	// the paths in kubeadm's manifest
	for _, path := range []string{"/livez", "/readyz"} {
		response, err := probe.Get("https://" + address + path)
		w.must(err)
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	commit, err := exec.CommandContext(w.ctx, "git", "-C", clone, "rev-parse", "HEAD").Output()
	w.must(err)
	if !strings.Contains(p.Log(), string(commit[:12])) {
		t.Errorf("the log does not name commit %s", commit)
	}
	stopped = true
	if err := p.Stop(); err != nil {
		t.Errorf("stopped by a signal: %v", err)
	}
}
