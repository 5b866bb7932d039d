package app

import (
	"errors"
	"strings"

	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/loop"
)

// audit checks the invariants of the loop and of commit. Call it only between two rounds
// of the loop.
func (p *pipeline) audit() error { return errors.Join(p.loop.Audit(), p.commit.Audit()) }

// auditor audits after every round with a change. It ends the process at the first
// violation, because decisions based on wrong numbers are wrong.
type auditor struct {
	audit func(*loop.Round) error
	log   klog.Logger
	// exit ends the process at once.
	exit func()
}

// Round audits.
func (a auditor) Round(r *loop.Round) {
	if err := a.audit(r); err != nil {
		logViolations(a.log, err)
		a.log.Error(nil, "Stopping: an invariant is violated, so decisions could be wrong", "flag", "--"+auditFlag)
		a.exit()
	}
}

// Standing does nothing.
func (auditor) Standing(*loop.Standing) {}

// logViolations logs each violation on a line of its own.
func logViolations(log klog.Logger, violations error) {
	for text := range strings.SplitSeq(violations.Error(), "\n") {
		log.Error(nil, "Invariant violated", "violation", text)
	}
}
