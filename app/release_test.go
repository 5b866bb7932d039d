package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/config"
)

// TestReleaseOfTheServer starts replicas at servers of several versions. The flag
// overrides the server's.
func TestReleaseOfTheServer(t *testing.T) {
	for _, row := range []struct {
		minor int
		args  []string
		want  config.Release
	}{
		{36, nil, config.Release37},
		{37, nil, config.Release37},
		{38, nil, config.Release38},
		{39, nil, config.Release38},
		{37, []string{"--berth-release=1.38"}, config.Release38},
		{38, []string{"--berth-release=1.37"}, config.Release37},
	} {
		s := newScript(t, small("a"), web("web-0"))
		s.serves(row.minor)
		r := s.prepare("one", append(row.args, "--leader-elect=false")...)
		s.await("one: bind web-0 to a", 1)
		if got := r.s.config.Release(); got != row.want {
			t.Errorf("server 1.%d, flags %q: release %v, want %v", row.minor, row.args, got, row.want)
		}
		r.stop()
		if err := r.wait(); err != nil {
			t.Errorf("server 1.%d: %v", row.minor, err)
		}
	}
}

// TestReleaseFoundLater starts a replica while the version cannot be read. It decides
// nothing before, and ends if the release is another one.
func TestReleaseFoundLater(t *testing.T) {
	for _, row := range []struct {
		minor int
		ends  bool
	}{{37, false}, {38, true}} {
		s := newScript(t, small("a"), web("web-0"))
		s.serves(0, 0, row.minor)
		r := s.prepare("one")
		if !row.ends {
			s.await("one: bind web-0 to a", 1)
			r.stop()
		}
		if err := r.wait(); errors.Is(err, errRelease) != row.ends {
			t.Errorf("server 1.%d: %v", row.minor, err)
		}
		if bound, leads := count(s.noted(), "one: bind"), count(s.noted(), "one: take lease"); row.ends && bound+leads > 0 {
			t.Errorf("server 1.%d: %d bindings, %d leases", row.minor, bound, leads)
		}
	}
}

// TestReleaseChanges upgrades the server of a leader. The replica releases the lease and
// fails.
func TestReleaseChanges(t *testing.T) {
	s := newScript(t, small("a"), web("web-0"))
	s.period = time.Millisecond
	r := s.prepare("one")
	s.await("one: bind web-0 to a", 1)
	s.serves(38)
	if err := r.wait(); !errors.Is(err, errRelease) || err.Error() != "the API server has another release: 1.38 instead of 1.37" || ExitCode(err) != exitFailure {
		t.Errorf("error %v, exit code %d", err, ExitCode(err))
	}
	if count(s.noted(), "one: give lease") == 0 {
		t.Error("the lease is not released")
	}
}

// TestReleaseFlaps reads another release once, between readings that fail or have the own
// one. Two in a row are a change, also with a failure in between.
func TestReleaseFlaps(t *testing.T) {
	for _, row := range []struct {
		minors []int
		ends   bool
	}{
		{[]int{37, 38, 37, 38, 37, 0, 38, 37}, false},
		{[]int{37, 39, 0, 38}, true},
		{[]int{37, 36, 36, 36}, false}, // the rules are the same
	} {
		s := newScript(t)
		s.serves(row.minors...)
		client, err := kubernetes.NewForConfig(&rest.Config{Host: s.server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
		if err != nil {
			t.Fatal(err)
		}
		r := newRelease(t.Context(), &options{}, config.Release37, client, klog.Background())
		r.period = time.Millisecond
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.run(ctx, cancel)
		}()
		if !row.ends {
			s.awaitUntil("all versions", func() bool { return len(s.minors) == 1 })
			cancel(nil)
		}
		<-ended
		if got := errors.Is(context.Cause(ctx), errRelease); got != row.ends {
			t.Errorf("minors %v: ends %t, want %t", row.minors, got, row.ends)
		}
	}
}

// TestReleaseFlag refuses other releases.
func TestReleaseFlag(t *testing.T) {
	o := parsed(t, "--berth-release=1.36")
	if err := o.check(); err == nil || err.Error() != `--berth-release "1.36": must be 1.37 or 1.38` {
		t.Errorf("error %v", err)
	}
}
