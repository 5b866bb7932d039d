package app

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"k8s.io/klog/v2/textlogger"

	"github.com/berth-scheduler/berth/internal/loop"
)

// TestAuditor runs an auditor on a round without violations, and on a round with two.
// Each violation is logged, and the process ends.
func TestAuditor(t *testing.T) {
	var text bytes.Buffer
	var violations error
	exits := 0
	a := auditor{
		audit: func(*loop.Round) error { return violations },
		log:   textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&text))),
		exit:  func() { exits++ },
	}
	if a.Round(&loop.Round{}); exits != 0 || text.Len() != 0 {
		t.Errorf("without a violation: %d exits\n%s", exits, text.String())
	}
	violations = errors.Join(errors.New("state: nodes is 2"), errors.New("queue: counts is 3"))
	a.Round(&loop.Round{})
	for _, want := range []string{`violation="state: nodes is 2"`, `violation="queue: counts is 3"`, "Stopping: an invariant is violated"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	if exits != 1 {
		t.Errorf("with violations: %d exits", exits)
	}
}
