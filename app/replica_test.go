package app

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/proof/build"
)

// replica is a scheduler in this process. Only one can run at a time; others run in their
// own processes.
type replica struct {
	t       *testing.T
	name    string
	s       *scheduler
	address string
	stop    func()
	ended   chan error
}

// leading are flags with which a replica checks the lease often, and never loses it
// because this machine is busy.
var leading = []string{"--leader-elect-lease-duration=600s", "--leader-elect-renew-deadline=400s", "--leader-elect-retry-period=50ms"}

// prepare assembles a replica as the command does, listening on a free port. Instead of
// the immediate exit after a lost lease, a note is recorded, so that a test sees further
// requests.
func (s *script) prepare(name string, args ...string) *replica {
	s.t.Helper()
	access := s.kubeconfig(name)
	o := parsed(s.t, append([]string{
		"--kubeconfig", access, "--kube-api-content-type=application/json", "--authentication-kubeconfig", access, "--authorization-kubeconfig", access,
		"--authentication-skip-lookup", "--tls-cert-file", file(s.t, "crt", string(certificate().text)), "--tls-private-key-file", file(s.t, "key", string(certificate().key)),
	}, args...)...)
	var err error
	if err := o.check(); err != nil {
		s.t.Fatal(err)
	}
	o.added = s.options
	if s.drain > 0 {
		o.drain = s.drain
	}
	if err := o.addExternal(); err != nil {
		s.t.Fatal(err)
	}
	if o.access.Serving.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		s.t.Fatal(err)
	}
	c, err := o.configuration()
	if err != nil {
		s.t.Fatal(err)
	}
	if s.edit != nil {
		s.edit(c)
	}
	ctx, cancel := context.WithCancelCause(s.t.Context())
	scheduler, err := newScheduler(ctx, o, c)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.runs(ctx, name, scheduler, o.access.Serving.Listener.Addr().String(), func() { cancel(errSignal) })
}

// runs runs a replica until it is stopped, at the latest when the test ends.
func (s *script) runs(ctx context.Context, name string, scheduler *scheduler, address string, stop func()) *replica {
	scheduler.leadership.exit = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.note("%s: exit", name)
	}
	if s.period > 0 {
		scheduler.release.period = s.period
	}
	r := &replica{t: s.t, name: name, s: scheduler, address: address, ended: make(chan error, 1), stop: stop}
	go func() { r.ended <- scheduler.run(ctx) }()
	s.t.Cleanup(r.end())
	return r
}

// end stops the replica and waits for its end. Further calls do nothing.
func (r *replica) end() func() {
	return sync.OnceFunc(func() {
		r.stop()
		_ = r.wait() // tests that need the result call wait
	})
}

// wait returns the result of run.
func (r *replica) wait() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		r.ended <- err
		return err
	case <-time.After(deadline):
		r.t.Error("the replica does not end")
		return nil
	}
}

// get requests a page of the replica, as the user of this token.
func (r *replica) get(path, token string) (status int, body string) {
	r.t.Helper()
	client := &http.Client{Timeout: deadline, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://"+r.address+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// expect compares the status of a page, and a part of its content.
func (r *replica) expect(path string, status int, want string) {
	r.t.Helper()
	if got, body := r.get(path, "operator"); got != status || !strings.Contains(body, want) {
		r.t.Errorf("%s: %d, want %d and %q in\n%s", path, got, status, want, body)
	}
}

// small returns a node with room for a hundred pods.
func small(name string) *v1.Node {
	return build.Node(name, build.Allocatable("cpu=1000 memory=100Gi pods=100"))
}

// web returns a pod that fits on it.
func web(name string) *v1.Pod {
	return build.Pod(build.Named(name), build.Container("cpu=1"), func(p *v1.Pod) { p.UID = types.UID("uid-" + name) })
}

// index returns the index of the first note with this prefix, or -1.
func index(notes []string, begin string) int {
	return slices.IndexFunc(notes, func(note string) bool { return strings.HasPrefix(note, begin) })
}

// last returns the index of the last note with this prefix, or -1.
func last(notes []string, begin string) int {
	for i, note := range slices.Backward(notes) {
		if strings.HasPrefix(note, begin) {
			return i
		}
	}
	return -1
}
