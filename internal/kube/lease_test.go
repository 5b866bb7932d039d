package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbase "k8s.io/component-base/config/v1alpha1"
)

// leaseServer keeps one lease, as an API server does.
type leaseServer struct {
	gone chan struct{} // closed when the test ends

	events chan corev1.Event // events of the election, up to the capacity

	mu    sync.Mutex
	lease *coordinationv1.Lease
	wrote []time.Time // when the stored writes arrived
	read  int         // how often the lease was read
	// refuse answers writes instead, or blocks; nil to store them.
	refuse  func(*leaseServer, http.ResponseWriter)
	release func(lease *coordinationv1.Lease) // is called before a released lease is stored
}

func newLeaseServer(t *testing.T) *leaseServer {
	s := &leaseServer{gone: make(chan struct{}), events: make(chan corev1.Event, 10)}
	t.Cleanup(func() { close(s.gone) })
	return s
}

// ServeHTTP reads or writes the lease. Events are kept.
func (s *leaseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	if !strings.Contains(r.URL.Path, "/leases") {
		var event corev1.Event
		if err := json.Unmarshal(body, &event); err == nil && event.Reason != "" {
			select {
			case s.events <- event:
			default:
			}
		}
		_, _ = w.Write(body)
		return
	}
	s.mu.Lock()
	refuse := s.refuse
	s.mu.Unlock()
	if r.Method != http.MethodGet && refuse != nil {
		refuse(s, w)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodGet {
		s.read++
	} else if !s.store(body, arrived) {
		w.WriteHeader(http.StatusConflict)
		return
	}
	if s.lease == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(s.lease)
}

// store stores a lease, unless it was made from an older version than the stored one.
func (s *leaseServer) store(body []byte, arrived time.Time) bool {
	lease := &coordinationv1.Lease{}
	if err := json.Unmarshal(body, lease); err != nil {
		panic(err)
	}
	if s.lease != nil && s.lease.ResourceVersion != lease.ResourceVersion {
		return false
	}
	if *lease.Spec.HolderIdentity == "" && s.release != nil {
		s.release(lease)
	}
	s.wrote = append(s.wrote, arrived)
	lease.ResourceVersion = strconv.Itoa(len(s.wrote))
	s.lease = lease
	return true
}

// state returns how often the lease was read and written, and when the last stored write
// arrived.
func (s *leaseServer) state() (reads, writes int, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.wrote); n > 0 {
		last = s.wrote[n-1]
	}
	return s.read, len(s.wrote), last
}

func (s *leaseServer) set(refuse func(*leaseServer, http.ResponseWriter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
}

// Renew deadlines: one that a test can wait for, and one that no test reaches.
const (
	shortDeadline = 2 * time.Second
	longDeadline  = 10 * time.Minute
)

func (s *leaseServer) election(t *testing.T, renewDeadline time.Duration) *Election {
	t.Helper()
	access, client := inMemory(t, s, ClientConfig{ContentType: "application/json"})
	e, err := NewElection(ElectionConfig{Access: access, Client: client, Scheduler: "default-scheduler", Rules: rules(renewDeadline)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// rules are those of an election for the lease kube-system/berth.
func rules(renewDeadline time.Duration) componentbase.LeaderElectionConfiguration {
	return componentbase.LeaderElectionConfiguration{
		LeaseDuration: metav1.Duration{Duration: 2 * renewDeadline}, RenewDeadline: metav1.Duration{Duration: renewDeadline},
		RetryPeriod: metav1.Duration{Duration: 200 * time.Millisecond}, ResourceLock: "leases", ResourceNamespace: "kube-system", ResourceName: "berth",
	}
}

// lead runs the election until it leads and has renewed its lease.
func (s *leaseServer) lead(t *testing.T, e *Election) (stop context.CancelFunc, ran <-chan error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-e.ended
	})
	<-e.Leading()
	soon := time.NewTicker(time.Millisecond)
	defer soon.Stop()
	for {
		if _, writes, _ := s.state(); writes > 1 {
			return stop, ended
		}
		select {
		case <-soon.C:
		case <-e.ended: // on a very busy machine, a short lease may be lost before its renewal
			return stop, ended
		}
	}
}

// A leader whose writes fail while its reads succeed must not count a read as a renewal.
// Its leadership is lost when the last stored renewal expires, even while requests hang.
// If it does not end then, it is unhealthy from 20 s after the end of the lease.
func TestReadingIsNoRenewal(t *testing.T) {
	for _, test := range []struct {
		name   string
		refuse func(*leaseServer, http.ResponseWriter)
	}{
		{"writes hang", func(s *leaseServer, _ http.ResponseWriter) { <-s.gone }},
		{"writes fail", func(_ *leaseServer, w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newLeaseServer(t)
				e := server.election(t, shortDeadline)
				_, ran := server.lead(t, e)
				server.set(test.refuse)
				before, writes, last := server.state()
				time.Sleep(time.Until(last.Add(shortDeadline - 1)))
				if err := e.Holds(); err != nil {
					t.Errorf("while its last renewal is good, the leader has doubts: %v", err)
				}
				if err := <-ran; !errors.Is(err, ErrLost) {
					t.Errorf("the election ended with %v", err)
				}
				if took := time.Since(last); took != shortDeadline || e.Holds() == nil {
					t.Errorf("it ended %v after its last renewal, which was good for %v, and then it has the doubt: %v", took, shortDeadline, e.Holds())
				}
				reads, after, _ := server.state()
				if hang := test.name == "writes hang"; after != writes || reads == before && !hang {
					t.Errorf("%d writes were stored, and it was read %d times", after-writes, reads-before)
				}
				// If it can read the lease, it last saw a change at the first failed
				// renewal.
				time.Sleep(time.Until(last.Add(2*shortDeadline + 20*time.Second)))
				if err := e.Check(nil); err != nil {
					t.Errorf("20 s after the end of its lease it is not healthy: %v", err)
				}
				time.Sleep(shortDeadline)
				if err := e.Check(nil); err == nil {
					t.Error("long after the end of its lease it is healthy")
				}
			})
		})
	}
}

// A released lease is not held from the moment the request is sent: another replica may
// lead before the response arrives.
func TestGivenBackIsNotHeld(t *testing.T) { synctest.Test(t, givenBackIsNotHeld) }

func givenBackIsNotHeld(t *testing.T) {
	server := newLeaseServer(t)
	e := server.election(t, longDeadline)
	given := make(chan error, 1)
	server.release = func(*coordinationv1.Lease) { given <- e.Holds() }
	if err := e.Holds(); err == nil || err.Error() != "the lease is not this replica's: leaderelection lost" {
		t.Errorf("before the election: %v", err)
	}
	stop, ran := server.lead(t, e)
	if err := e.Holds(); err != nil {
		t.Errorf("a leader has doubts: %v", err)
	}
	if err := e.Check(nil); err != nil || e.Name() != "leaderElection" {
		t.Errorf("the health check %q of a leader: %v", e.Name(), err)
	}
	if e.Candidates() != nil {
		t.Error("there are candidates, and the election is not coordinated")
	}
	holder := e.lock.Identity()
	event := next(t, server.events)
	if event.Source.Component != "default-scheduler" || event.Reason != "LeaderElection" || event.Message != holder+" became leader" {
		t.Errorf("event %q of %q: %s", event.Reason, event.Source.Component, event.Message)
	}
	if host, err := os.Hostname(); err != nil || !strings.HasPrefix(holder, host+"_") || len(holder) != len(host)+len("_00000000-0000-0000-0000-000000000000") {
		t.Errorf("the holder is %q on host %q (%v)", holder, host, err)
	}
	stop()
	if err := <-given; !errors.Is(err, ErrLost) || err.Error() != "the lease was given back, or not renewed in time: leaderelection lost" {
		t.Errorf("while the lease is given back: %v", err)
	}
	if err := <-ran; err != nil {
		t.Errorf("stopped, the election ended with %v", err)
	}
}

// An election that has ended before keep runs is lost, unless its context has ended.
func TestEndedBeforeLookedAt(t *testing.T) {
	for range 20 { // select picks either of two closed channels
		e := newLeaseServer(t).election(t, longDeadline)
		close(e.leading)
		close(e.ended)
		if err := e.keep(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("it ended with %v", err)
		}
		stopped, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.keep(stopped); err != nil {
			t.Errorf("stopped, it ended with %v", err)
		}
	}
}

func TestEndOfLease(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct{ sent, duration, renewDeadline, want time.Duration }{
		{900 * time.Millisecond, 15 * time.Second, 10 * time.Second, 10900 * time.Millisecond},
		{100 * time.Millisecond, 4900 * time.Millisecond, 3700 * time.Millisecond, 3800 * time.Millisecond},
		{900 * time.Millisecond, 4900 * time.Millisecond, 3700 * time.Millisecond, 4 * time.Second},
	} {
		l := &lock{duration: test.duration, renewDeadline: test.renewDeadline}
		if got := l.endOf(at.Add(test.sent)).Sub(at); got != test.want {
			t.Errorf("sent at %v, with a duration of %v and a deadline of %v: held until %v, want %v", test.sent, test.duration, test.renewDeadline, got, test.want)
		}
	}
}

// A record that is repeated after a missing response must differ, so that others
// recognize it as a renewal. A failed write renews nothing.
func TestRenewalsDiffer(t *testing.T) {
	errNoAnswer := errors.New("no answer")
	l := &lock{Interface: &resourcelock.LeaseLock{LockConfig: resourcelock.ResourceLockConfig{Identity: "me"}}, duration: time.Hour, renewDeadline: time.Minute}
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "me", RenewTime: metav1.NewTime(time.Now().Add(-time.Second))}
	for _, answer := range []error{errNoAnswer, nil} {
		before := time.Now()
		err := l.write(t.Context(), record, func(_ context.Context, sent resourcelock.LeaderElectionRecord) error {
			if sent.RenewTime.Time.Before(before) {
				t.Errorf("it is sent as of %v before", before.Sub(sent.RenewTime.Time))
			}
			return answer
		})
		if !errors.Is(err, answer) || l.end().IsZero() != (answer != nil) {
			t.Errorf("answer %v: error %v, held until %v", answer, err, l.end())
		}
	}
}

// A renewal counts from when it was sent, however late the answer is: another replica may
// have seen it at once.
func TestRenewalCountsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lock{Interface: &resourcelock.LeaseLock{LockConfig: resourcelock.ResourceLockConfig{Identity: "me"}}, duration: time.Hour, renewDeadline: time.Minute}
		began := time.Now()
		if err := l.write(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}, func(context.Context, resourcelock.LeaderElectionRecord) error {
			time.Sleep(3 * time.Second)
			return nil
		}); err != nil {
			t.Error(err)
		}
		if got := l.end().Sub(began); got != time.Minute {
			t.Errorf("it is good until %v after it was sent, want a minute", got)
		}
	})
}

// A leader checks its lease at each retry period, at least each second, and at the end of
// the lease.
func TestPauses(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct{ retryPeriod, left, want time.Duration }{
		{200 * ms, 10 * time.Second, 200 * ms}, {2 * time.Second, 10 * time.Second, time.Second}, {2 * time.Second, 300 * ms, 300 * ms},
		{200 * ms, 300 * ms, 200 * ms}, {200 * ms, 0, 200 * ms}, {200 * ms, -time.Second, 200 * ms},
	} {
		if got := pauseFor(test.retryPeriod, test.left); got != test.want {
			t.Errorf("renewing every %v, with %v left: a pause of %v, want %v", test.retryPeriod, test.left, got, test.want)
		}
	}
}

// In a coordinated election the API server chooses among candidates, which publish their
// identities and versions.
func TestCandidate(t *testing.T) { synctest.Test(t, candidateSaysItsVersions) }

func candidateSaysItsVersions(t *testing.T) {
	access, _ := inMemory(t, newLeaseServer(t), ClientConfig{ContentType: "application/json"})
	client := fake.NewClientset()
	candidates := make(chan *coordinationv1beta1.LeaseCandidate, 10)
	client.PrependReactor("create", "leasecandidates", func(action clienttesting.Action) (bool, runtime.Object, error) {
		candidates <- action.(clienttesting.CreateAction).GetObject().(*coordinationv1beta1.LeaseCandidate).DeepCopy()
		return false, nil, nil
	})
	e, err := NewElection(ElectionConfig{
		Access: access, Client: client, Scheduler: "s", Rules: rules(longDeadline), Coordinated: true, Binary: "1.37.0", Emulation: "1.36.0",
	})
	if err != nil {
		t.Fatal(err)
	}
	if e.Candidates() == nil {
		t.Error("there is nothing to wait for the first list of candidates with")
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- e.Run(ctx) }()
	candidate := next(t, candidates)
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if candidate.Namespace != "kube-system" || candidate.Name != e.lock.Identity() {
		t.Errorf("the candidate is %s/%s, want kube-system/%s", candidate.Namespace, candidate.Name, e.lock.Identity())
	}
	candidate.Spec.PingTime, candidate.Spec.RenewTime = nil, nil
	want := coordinationv1beta1.LeaseCandidateSpec{
		LeaseName: "kube-scheduler", BinaryVersion: "1.37.0", EmulationVersion: "1.36.0", Strategy: coordinationv1.OldestEmulationVersion,
	}
	if candidate.Spec != want {
		t.Errorf("the candidate is %+v, want %+v", candidate.Spec, want)
	}
}

// TestNoteUndecided records pods in the lease while it is renewed. The elector keeps the
// annotation, each write succeeds, and the next leader finds the pods without an extra
// request.
func TestNoteUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLeaseServer(t)
		e := s.election(t, longDeadline)
		stop, ran := s.lead(t, e)
		for _, uids := range [][]types.UID{{"a"}, {"b", "a"}, {"c"}} {
			if err := e.NoteUndecided(t.Context(), uids); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // several renewals
			if err := e.Holds(); err != nil {
				t.Error(err)
			}
		}
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		reads, _, _ := s.state()
		next := s.election(t, longDeadline)
		s.lead(t, next)
		if next.TookOver() {
			t.Error("the lease was given back")
		}
		if got := next.Undecided(); !slices.Equal(got, []types.UID{"c"}) {
			t.Errorf("the next leader finds %v", got)
		}
		if after, _, _ := s.state(); after > reads+2 {
			t.Errorf("the next leader reads the lease %d times", after-reads)
		}
		if err := e.NoteUndecided(t.Context(), []types.UID{"x"}); !errors.Is(err, ErrLost) {
			t.Errorf("a former leader notes, error %v", err)
		}
		if err := next.NoteUndecided(t.Context(), nil); err != nil || len(next.Undecided()) > 0 && s.annotation() != "" {
			t.Errorf("the note is %q, error %v", s.annotation(), err)
		}
	})
}

// TestUndecidedIsBounded drops the oldest of too many pods.
func TestUndecidedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLeaseServer(t)
		e := s.election(t, longDeadline)
		s.lead(t, e)
		var uids []types.UID
		for i := range maxUndecided + 3 {
			uids = append(uids, types.UID(strconv.Itoa(i)))
		}
		if err := e.NoteUndecided(t.Context(), uids); err != nil {
			t.Fatal(err)
		}
		if got := strings.Split(s.annotation(), ","); len(got) != maxUndecided || got[0] != "3" {
			t.Errorf("noted %v", got)
		}
	})
}

func (s *leaseServer) annotation() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease.Annotations[UndecidedAnnotation]
}

// TestTookOver takes the lease from a holder that does not renew it.
func TestTookOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLeaseServer(t)
		dead, seconds, now := "dead", int32(1), metav1.NowMicro()
		s.lease = &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "berth"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &dead, LeaseDurationSeconds: &seconds, RenewTime: &now, AcquireTime: &now},
		}
		e := s.election(t, longDeadline)
		if s.lead(t, e); !e.TookOver() {
			t.Error("TookOver is false")
		}
	})
}

// TestNoteMeetsARenewal makes the API server reject a note because the lease was written
// meanwhile. The note is sent again.
func TestNoteMeetsARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLeaseServer(t)
		e := s.election(t, longDeadline)
		s.lead(t, e)
		refused := false
		s.set(func(s *leaseServer, w http.ResponseWriter) {
			refused = true
			s.set(nil)
			w.WriteHeader(http.StatusConflict)
		})
		if err := e.NoteUndecided(t.Context(), []types.UID{"u"}); err != nil || !refused || s.annotation() != "u" {
			t.Errorf("refused: %t, error %v, noted %q", refused, err, s.annotation())
		}
	})
}
