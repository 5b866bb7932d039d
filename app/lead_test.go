package app

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
)

// slow binds until its context ends.
type slow struct {
	commit.Writer
	began chan struct{}
}

func (s slow) Bind(ctx context.Context, _ *model.Pod, _ string) error {
	s.began <- struct{}{}
	<-ctx.Done()
	return context.Cause(ctx)
}

// A binding is not begun by a replica that may no longer lead, and one that was begun is broken off.
func TestOnlyALeaderBinds(t *testing.T) {
	errGone := errors.New("gone")
	lost, lose := context.WithCancelCause(t.Context())
	var holds error
	writer := slow{began: make(chan struct{}, 1)}
	leader := leaderOnly{writer, func() error { return holds }, lost}

	ended := make(chan error)
	go func() { ended <- leader.Bind(t.Context(), &model.Pod{}, "a") }()
	<-writer.began
	lose(errGone)
	if err := <-ended; !errors.Is(err, errGone) {
		t.Errorf("the binding under way ended with %v", err)
	}
	holds = errGone
	if err := leader.Bind(t.Context(), &model.Pod{}, "a"); !errors.Is(err, errGone) || !strings.Contains(err.Error(), "no longer leads") {
		t.Errorf("error %v", err)
	}
	if len(writer.began) != 0 {
		t.Error("a binding was begun")
	}
}

func TestSemantic(t *testing.T) {
	for text, want := range map[string]string{"1.37": "1.37.0", "v1.37.1-rc.0+x": "1.37.1"} {
		v, err := version.ParseGeneric(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := semantic(v); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
