package terse_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-scheduler/berth/internal/terse"
)

// TestLogger logs a thousand failures of two kinds and expects a few lines that say so.
func TestLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		log, flush := terse.Logger(funcr.New(func(_, args string) { got = append(got, args) }, funcr.Options{}))
		broken, denied := errors.New("connection refused"), apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("no"))
		for i := range 1_000 {
			log.WithName("w").Error(broken, "Could not bind", "pod", i)
			log.WithValues("a", 1).Error(denied, "Could not bind", "pod", i)
		}
		log.Info("Something else")
		if len(got) != 7 {
			t.Fatalf("%d lines:\n%s", len(got), strings.Join(got, "\n"))
		}
		time.Sleep(10 * time.Second) // virtual
		got = nil
		log.Error(broken, "Could not bind", "pod", 1_000)
		if !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, `"more"=997`) }) || len(got) != 3 {
			t.Errorf("after the window:\n%s", strings.Join(got, "\n"))
		}
		for range 5 {
			log.Error(broken, "Could not bind")
		}
		got = nil
		flush()
		if len(got) != 1 || !strings.Contains(got[0], `"more"=3`) {
			t.Errorf("at the end:\n%s", strings.Join(got, "\n"))
		}
	})
}

// TestKindsAreBounded logs a different message each time: none may be lost, and memory must not grow with them.
func TestKindsAreBounded(t *testing.T) {
	lines := 0
	log, _ := terse.Logger(funcr.New(func(string, string) { lines++ }, funcr.Options{}))
	for i := range 5_000 {
		log.Error(errors.New("odd"), fmt.Sprint("message ", i))
	}
	if lines != 5_000 {
		t.Errorf("%d lines, want all 5,000", lines)
	}
}

// TestLinesKeepTheirSource expects that a line names the code that logs, and not the one that counts.
func TestLinesKeepTheirSource(t *testing.T) {
	var got []string
	log, _ := terse.Logger(funcr.New(func(_, args string) { got = append(got, args) }, funcr.Options{LogCaller: funcr.All}))
	log.Info("information")
	log.Error(errors.New("odd"), "an error")
	log.WithCallDepth(0).WithName("n").Error(errors.New("odd"), "an error")
	for _, line := range got {
		if !strings.Contains(line, `"terse_test.go"`) {
			t.Errorf("the source is lost: %s", line)
		}
	}
}
