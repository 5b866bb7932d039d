package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	componentbase "k8s.io/component-base/config/v1alpha1"
)

// ElectionConfig is the configuration of an election.
type ElectionConfig struct {
	Access *rest.Config
	Client kubernetes.Interface
	// Rules name the Lease and its times.
	Rules componentbase.LeaderElectionConfiguration
	// Scheduler is the reporting controller of events about the election.
	Scheduler string
	// Coordinated lets the API server choose among the candidates, by their versions
	// Binary and Emulation.
	Coordinated       bool
	Binary, Emulation string
}

// Election makes at most one replica lead, by a Lease that the leader keeps renewing.
type Election struct {
	elector   *leaderelection.LeaderElector
	lock      *lock
	health    *leaderelection.HealthzAdaptor
	candidate *leaderelection.LeaseCandidate // nil unless coordinated
	synced    leaderelection.CacheSyncWaiter
	events    record.EventBroadcaster
	sink      record.EventSink
	rules     componentbase.LeaderElectionConfiguration
	leases    coordination.LeaseInterface
	noted     *lastNote
	leading   chan struct{}
	ended     chan struct{}
}

// ErrLost ends an election whose context has not ended: another replica leads, or may
// lead.
var ErrLost = errors.New("leaderelection lost")

// component is the component name in the leases of candidates and in the metrics of the
// election.
const component = "kube-scheduler"

// healthTolerance is the time after the end of its lease during which a leader that has
// not stopped counts as healthy.
const healthTolerance = 20 * time.Second

// NewElection prepares an election. It sends nothing before Run.
func NewElection(config ElectionConfig) (*Election, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the name of this host, which the leader is known by: %w", err)
	}
	e := &Election{
		health:  leaderelection.NewLeaderHealthzAdaptor(healthTolerance),
		events:  record.NewBroadcaster(),
		sink:    &typedcorev1.EventSinkImpl{Interface: config.Client.CoreV1().Events(metav1.NamespaceAll)},
		rules:   config.Rules,
		noted:   &lastNote{},
		leading: make(chan struct{}),
		ended:   make(chan struct{}),
	}
	identity := host + "_" + string(uuid.NewUUID()) // two processes on one host are two candidates
	client, err := kubernetes.NewForConfig(leaseAccess(config.Access, config.Rules.RenewDeadline.Duration))
	if err != nil {
		return nil, fmt.Errorf("build a client for the lease: %w", err)
	}
	e.leases = client.CoordinationV1().Leases(config.Rules.ResourceNamespace)
	lease, err := resourcelock.New(config.Rules.ResourceLock, config.Rules.ResourceNamespace, config.Rules.ResourceName,
		client.CoreV1(), noted{client.CoordinationV1(), e.noted, identity}, resourcelock.ResourceLockConfig{
			Identity:      identity,
			EventRecorder: e.events.NewRecorder(scheme.Scheme, v1.EventSource{Component: config.Scheduler}),
		})
	if err != nil {
		return nil, fmt.Errorf("prepare the lease %s/%s: %w", config.Rules.ResourceNamespace, config.Rules.ResourceName, err)
	}
	e.lock = &lock{Interface: lease, duration: config.Rules.LeaseDuration.Duration, renewDeadline: config.Rules.RenewDeadline.Duration}
	e.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            e.lock,
		LeaseDuration:   config.Rules.LeaseDuration.Duration,
		RenewDeadline:   config.Rules.RenewDeadline.Duration,
		RetryPeriod:     config.Rules.RetryPeriod.Duration,
		WatchDog:        e.health,
		Name:            component,
		ReleaseOnCancel: true,
		Coordinated:     config.Coordinated,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(e.leading) },
			OnStoppedLeading: func() { close(e.ended) },
		},
	})
	if err != nil {
		return nil, fmt.Errorf("leaderElection: %w", err)
	}
	e.health.SetLeaderElection(e.elector)
	if config.Coordinated {
		e.candidate, e.synced, err = leaderelection.NewCandidate(config.Client, metav1.NamespaceSystem, identity, component,
			config.Binary, config.Emulation, coordinationv1.OldestEmulationVersion)
		if err != nil {
			return nil, fmt.Errorf("prepare the lease candidate: %w", err)
		}
	}
	return e, nil
}

// leaseAccess returns the configuration for requests for the lease. Their timeout is
// short, so that at least two attempts fit before a renewal is too late.
func leaseAccess(access *rest.Config, renewDeadline time.Duration) *rest.Config {
	access = as(access, "leader-election")
	access.Timeout = max(time.Second, renewDeadline/2)
	return access
}

// Leading is closed when this replica leads.
func (e *Election) Leading() <-chan struct{} { return e.leading }

// Name is the name of the health check.
func (e *Election) Name() string { return e.health.Name() }

// Check fails when a leader has not stopped long after the end of its lease.
func (e *Election) Check(request *http.Request) error { return e.health.Check(request) }

// Candidates returns a waiter for the first list of the candidates; nil unless the
// election is coordinated.
func (e *Election) Candidates() leaderelection.CacheSyncWaiter { return e.synced }

// Holds returns nil while this replica certainly leads: it holds the lease, and its last
// answered renewal was sent so recently that no other replica can have acquired the
// lease. It sends no request.
func (e *Election) Holds() error {
	if !e.elector.IsLeader() {
		return fmt.Errorf("the lease is not this replica's: %w", ErrLost)
	}
	if !time.Now().Before(e.lock.end()) {
		return fmt.Errorf("the lease was given back, or not renewed in time: %w", ErrLost)
	}
	return nil
}

// Keep leaves the lease to expire at the end of the election, instead of releasing it.
// Until it expires no other replica leads, although this one no longer writes.
func (e *Election) Keep() { e.lock.kept.Store(true) }

// Run takes part in the election and, once elected, renews the lease until the context
// ends. Then it releases the lease and returns nil. It returns ErrLost as soon as the
// lease is lost, without waiting for an unreachable API server.
func (e *Election) Run(ctx context.Context) error {
	e.events.StartRecordingToSink(e.sink)
	defer e.events.Shutdown()
	if e.candidate != nil {
		go e.candidate.Run(ctx)
	}
	go e.elector.Run(ctx)
	return e.keep(ctx)
}

// keep waits until the election ends, and checks whether the lease is held: periodically,
// and when it expires.
func (e *Election) keep(ctx context.Context) error {
	select {
	case <-e.leading:
	case <-e.ended:
		return unlessStopped(ctx, ErrLost)
	}
	for {
		select {
		case <-e.ended:
			return unlessStopped(ctx, ErrLost)
		case <-time.After(pauseFor(e.rules.RetryPeriod.Duration, time.Until(e.lock.end()))):
			if err := unlessStopped(ctx, e.Holds()); err != nil {
				return err
			}
		}
	}
}

// pauseFor returns the pause until a leader checks again whether it holds the lease,
// given the time until the lease ends.
func pauseFor(retryPeriod, left time.Duration) time.Duration {
	pause := min(retryPeriod, time.Second)
	if left > 0 {
		pause = min(pause, left)
	}
	return pause
}

// unlessStopped returns the error, or nil if the context has ended, which is an orderly
// end of the election.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
