package quietlog_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-scheduler/berth/internal/kit/quietlog"
)

// notebook keeps lines. Any goroutine may write.
type notebook struct {
	mu    sync.Mutex
	lines []string
}

func (n *notebook) write(_, line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, line)
}

// take returns the lines since the last call.
func (n *notebook) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.lines
	n.lines = nil
	return lines
}

// TestLogger logs a thousand failures of two kinds and expects a few lines.
func TestLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said notebook
		log, flush := quietlog.Logger(funcr.New(said.write, funcr.Options{}))
		broken, denied := errors.New("connection refused"), apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("no"))
		for i := range 1_000 {
			log.WithName("w").Error(broken, "Could not bind", "pod", i)
			log.WithValues("a", 1).Error(denied, "Could not bind", "pod", i)
		}
		log.Info("Something else")
		if got := said.take(); len(got) != 7 {
			t.Fatalf("%d lines:\n%s", len(got), strings.Join(got, "\n"))
		}
		time.Sleep(10 * time.Second) // virtual
		synctest.Wait()
		if got := said.take(); len(got) != 2 || !strings.Contains(got[0], `"more"=997`) || !strings.Contains(got[1], `"more"=997`) {
			t.Errorf("after the window:\n%s", strings.Join(got, "\n"))
		}
		log.Error(broken, "Could not bind", "pod", 1_000)
		if got := said.take(); len(got) != 1 {
			t.Errorf("in the next window:\n%s", strings.Join(got, "\n"))
		}
		for range 5 {
			log.Error(broken, "Could not bind")
		}
		said.take()
		flush()
		if got := said.take(); len(got) != 1 || !strings.Contains(got[0], `"more"=3`) {
			t.Errorf("at the end:\n%s", strings.Join(got, "\n"))
		}
	})
}

// TestResourcesAreDistinguished logs many errors about forbidden requests for some
// resources. An error for another resource must still be logged.
func TestResourcesAreDistinguished(t *testing.T) {
	var got []string
	log, flush := quietlog.Logger(funcr.New(func(_, args string) { got = append(got, args) }, funcr.Options{}))
	for _, resource := range []string{"pods", "nodes", "namespaces", "services"} {
		denied := apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no"))
		for range 2 {
			log.Error(fmt.Errorf("failed to list: %w", denied), "Failed to watch")
		}
	}
	flush()
	if len(got) != 8 {
		t.Errorf("%d lines, want two of each kind:\n%s", len(got), strings.Join(got, "\n"))
	}
}

// TestKindsAreBounded logs a different message each time. None may be lost, and memory
// must not grow with them.
func TestKindsAreBounded(t *testing.T) {
	lines := 0
	log, _ := quietlog.Logger(funcr.New(func(string, string) { lines++ }, funcr.Options{}))
	for i := range 5_000 {
		log.Error(errors.New("odd"), fmt.Sprint("message ", i))
	}
	if lines != 5_000 {
		t.Errorf("%d lines, want all 5,000", lines)
	}
}

// TestLinesKeepTheirSource expects the logger's caller, and not this package, as the
// source of a line.
func TestLinesKeepTheirSource(t *testing.T) {
	var got []string
	log, _ := quietlog.Logger(funcr.New(func(_, args string) { got = append(got, args) }, funcr.Options{LogCaller: funcr.All}))
	log.Info("information")
	log.Error(errors.New("odd"), "an error")
	log.WithCallDepth(0).WithName("n").Error(errors.New("odd"), "an error")
	for _, line := range got {
		if !strings.Contains(line, `"quietlog_test.go"`) {
			t.Errorf("the source is lost: %s", line)
		}
	}
}
