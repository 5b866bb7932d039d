package app

import (
	"encoding/base64"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-scheduler/berth/internal/config"
)

// canary is a password that no output may have.
const canary = "canary-5ecret"

// secretive writes a configuration whose extender has a password in its URL, and a key.
func (s *script) secretive() (path string, secrets []string) {
	key := base64.StdEncoding.EncodeToString(certificate().key)
	path = file(s.t, "scheduler.yaml", header+"clientConnection: {contentType: application/json, kubeconfig: "+s.kubeconfig("one")+"}\n"+
		"extenders:\n- urlPrefix: https://user:"+canary+"@127.0.0.1:1/scheduler\n  filterVerb: filter\n  prioritizeVerb: rate\n  weight: 1\n"+
		"  httpTimeout: 1s\n  tlsConfig: {keyData: "+key+", certData: "+base64.StdEncoding.EncodeToString(certificate().text)+", insecure: true}\n")
	return path, []string{canary, key, strings.Split(string(certificate().key), "\n")[1]}
}

// TestSecretsAreNotLogged runs a scheduler at the highest log level, with an unreachable
// extender and a password in the server's URL. No line and no event has a secret.
func TestSecretsAreNotLogged(t *testing.T) {
	s := newScript(t, small("a"), web("web-0"))
	config, secrets := s.secretive()
	master := strings.Replace(s.server.URL, "://", "://user:"+canary+"@", 1)
	p := s.start("one", "kube-scheduler", "--config", config, "-v=10", "--leader-elect=false", "--master="+master)
	s.await("FailedScheduling web-0", 1)
	p.signal(syscall.SIGUSR2)
	p.awaitLog("Dump of scheduling queue")
	p.signal(syscall.SIGTERM)
	_, stdout, stderr := p.wait()
	s.mu.Lock()
	events := strings.Join(s.events, "\n")
	s.mu.Unlock()
	for _, want := range []string{"FLAG: --master", "Using component config", "xxxxx"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("the log lacks %q, so it proves little", want)
		}
	}
	for _, secret := range secrets {
		for name, text := range map[string]string{"stdout": stdout, "log": stderr, "events": events} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("the %s has a secret: %q", name, text[max(0, at-200):at+len(secret)])
			}
		}
	}
}

// TestSecretsAreNotServed reads all pages that show a configuration.
func TestSecretsAreNotServed(t *testing.T) {
	s := newScript(t, small("a"), web("web-0"))
	config, secrets := s.secretive()
	master := strings.Replace(s.server.URL, "://", "://user:"+canary+"@", 1)
	r := s.prepare("one", "--leader-elect=false", "--config", config, "--master="+master)
	s.await("FailedScheduling web-0", 1)
	for _, path := range []string{"/configz", "/flagz", "/statusz", "/metrics", "/explain/default/web-0", "/debug/pprof/cmdline"} {
		status, body := r.get(path, "operator")
		if path == "/configz" && (status != 200 || !strings.Contains(body, "xxxxx")) || path == "/flagz" && !strings.Contains(body, "xxxxx") {
			t.Errorf("%s: %d %s", path, status, body)
		}
		for _, secret := range secrets {
			if strings.Contains(body, secret) {
				t.Errorf("%s shows a secret:\n%s", path, body)
			}
		}
	}
}

// TestWrittenConfigurationHasNoSecrets writes a configuration. It is rejected with the
// names of the missing fields, and accepted when they are restored.
func TestWrittenConfigurationHasNoSecrets(t *testing.T) {
	s := newScript(t)
	from, secrets := s.secretive()
	to := file(t, "written.yaml", "")
	p := s.start("one", "kube-scheduler", "--config", from, "--write-config-to", to)
	if code, _, stderr := p.wait(); code != 0 {
		t.Fatal(stderr)
	}
	data, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if strings.Contains(string(data), secret) {
			t.Errorf("it has a secret:\n%s", data)
		}
	}
	_, err = config.Load(to)
	for _, want := range []string{"extenders[0].tlsConfig.keyData: Forbidden: is redacted", "extenders[0].urlPrefix: Forbidden: is redacted"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
	restored := strings.NewReplacer("xxxxx", canary, base64.StdEncoding.EncodeToString([]byte("REDACTED")), secrets[1]).Replace(string(data))
	if _, err := config.Load(file(t, "restored.yaml", restored)); err != nil {
		t.Errorf("restored: %v", err)
	}
}
