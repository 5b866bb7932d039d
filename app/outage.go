package app

import (
	"time"

	"k8s.io/klog/v2"
)

const (
	// outageFirst is how long the API server may be silent before the log names it.
	// outageAgain is the pause until the next line.
	outageFirst = 10 * time.Second
	outageAgain = time.Minute
)

// outage logs that the API server does not answer: after outageFirst, then each
// outageAgain, and when it answers again. Watches retry without a line while connections
// are refused, so the log would be empty otherwise. One goroutine at a time calls it.
type outage struct {
	log   klog.Logger
	now   func() time.Time
	since time.Time // of the first failure; zero while the server answers
	said  time.Time // of the last line; zero before the first
}

// failed notes a request without an answer, which began then.
func (o *outage) failed(began time.Time, err error) {
	now := o.now()
	if o.since.IsZero() {
		o.since = began
	}
	if now.Sub(o.since) < outageFirst || !o.said.IsZero() && now.Sub(o.said) < outageAgain {
		return
	}
	o.said = now
	o.log.Error(err, "The API server does not answer, retrying", "for", now.Sub(o.since).Round(time.Second))
}

// answered notes an answer.
func (o *outage) answered() {
	if !o.said.IsZero() {
		o.log.Info("The API server answers again", "after", o.now().Sub(o.since).Round(time.Second))
	}
	o.since, o.said = time.Time{}, time.Time{}
}
