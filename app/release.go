package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/kube"
)

const (
	// versionTimeout limits a request for the version. versionRetry is the pause between
	// requests while the server cannot be reached at the start, versionPeriod later.
	versionTimeout = 5 * time.Second
	versionRetry   = time.Second
	versionPeriod  = 10 * time.Second
	// readingsOfChange is the number of readings of another release, in a row, that end
	// the process. A single one may come from an API server behind the same address.
	readingsOfChange = 3
)

// errRelease is the cause of a stop because the release of the API server has changed.
var errRelease = errors.New("the API server has another release")

// release follows the release of the API server. A scheduler never decides with the
// answers of another release than its own, and ends if the server's changes.
type release struct {
	// own is the release of the profiles. fixed means that --berth-release has set it.
	own   config.Release
	fixed bool
	// known means that own is the server's, or that the server's cannot be found out.
	known  bool
	client kubernetes.Interface
	log    klog.Logger
	period time.Duration
	outage outage // of the API server
}

// newRelease returns the release by the flag, or by the version of the API server. If the
// server cannot be reached, it is found out later, before the first decision.
func newRelease(ctx context.Context, o *options, have config.Release, client kubernetes.Interface, log klog.Logger) *release {
	r := &release{own: have, fixed: o.release != "", client: client, log: log, period: versionPeriod, outage: outage{log: log, now: time.Now}}
	if r.fixed {
		log.Info("Following the release set by --berth-release", "release", have)
		return r
	}
	if v, ok := r.read(ctx); ok {
		r.own = v
		r.known = true
	}
	return r
}

// read returns the release of the server. It returns false if the server did not answer.
// A server without a readable version has the own release.
func (r *release) read(ctx context.Context) (config.Release, bool) {
	began := r.outage.now()
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	v, answered, err := kube.ServerVersion(ctx, r.client)
	switch {
	case err != nil && !answered:
		r.outage.failed(began, err)
		return 0, false
	case err != nil:
		r.outage.answered()
		if !r.known && !r.fixed {
			r.log.Error(err, "Version of the API server is unknown, use --berth-release to set the release", "release", r.own)
		}
		return r.own, true
	}
	r.outage.answered()
	is := config.ReleaseFor(v.Minor)
	if !r.known && !r.fixed {
		r.log.Info("Following the release of the API server", "release", is, "apiServer", v.Text)
		if v.Minor > int(is) {
			r.log.Info("The API server is newer than this build, use a newer Berth", "release", is, "apiServer", v.Text)
		}
	}
	return is, true
}

// confirm waits until the server's release is known. It returns an error if that is not
// the own one.
func (r *release) confirm(ctx context.Context) error {
	for !r.fixed && !r.known {
		is, ok := r.read(ctx)
		switch {
		case ok && is != r.own:
			return r.changed(is)
		case ok:
			r.known = true
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(versionRetry):
		}
	}
	return nil
}

// run reads the version until the context ends. It calls end once the release is another
// one.
func (r *release) run(ctx context.Context, end func(error)) {
	wait := time.NewTimer(r.period)
	defer wait.Stop()
	others := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		is, ok := r.read(ctx)
		if ok {
			wait.Reset(r.period)
		} else {
			wait.Reset(min(r.period, versionRetry))
		}
		switch {
		case !ok, r.fixed: // read for the log alone
		case is == r.own:
			others = 0
		default:
			if others++; others >= readingsOfChange {
				end(r.changed(is))
				return
			}
		}
	}
}

// changed returns the error that ends the process.
func (r *release) changed(is config.Release) error {
	err := fmt.Errorf("%w: %v instead of %v", errRelease, is, r.own)
	r.log.Error(err, "Ending the process, which must start again to decide as the new release")
	return err
}
