package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// slow blocks each write until its context ends.
type slow struct {
	commit.Writer
	began chan struct{}
}

func (s slow) Bind(ctx context.Context, _ *v1.Binding) error { return s.hang(ctx) }
func (s slow) Write(ctx context.Context, _ *plan.Write) (kinds.Object, error) {
	return nil, s.hang(ctx)
}

func (s slow) Delete(ctx context.Context, _ *model.Pod) error { return s.hang(ctx) }
func (s slow) PatchStatus(ctx context.Context, _ *model.Pod, _ *v1.PodCondition, _ plan.Nomination) error {
	return s.hang(ctx)
}
func (s slow) hang(ctx context.Context) error {
	s.began <- struct{}{}
	<-ctx.Done()
	return context.Cause(ctx)
}

// A replica that lost the right to lead starts no binding and no step, and cancels the
// requests in flight.
func TestOnlyALeaderBinds(t *testing.T) {
	errGone := errors.New("gone")
	for name, write := range map[string]func(context.Context, commit.Writer) error{
		"bound":   func(ctx context.Context, w commit.Writer) error { return w.Bind(ctx, &v1.Binding{}) },
		"deleted": func(ctx context.Context, w commit.Writer) error { return w.Delete(ctx, &model.Pod{}) },
		"evicted": func(ctx context.Context, w commit.Writer) error {
			return w.PatchStatus(ctx, &model.Pod{}, &v1.PodCondition{Type: v1.DisruptionTarget}, plan.Nomination{})
		},
		"written": func(ctx context.Context, w commit.Writer) error { _, err := w.Write(ctx, &plan.Write{}); return err },
	} {
		synctest.Test(t, func(t *testing.T) {
			// The cancelled requests should take less than a minute.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			lost, lose := context.WithCancelCause(ctx)
			var holds error
			writer := slow{began: make(chan struct{}, 1)}
			leader := leaderOnly{writer, func() error { return holds }, lost}

			ended := make(chan error)
			go func() { ended <- write(ctx, leader) }()
			<-writer.began
			lose(errGone)
			if err := <-ended; !errors.Is(err, errGone) {
				t.Errorf("%s: what was under way ended with %v", name, err)
			}
			holds = errGone
			if err := write(ctx, leader); !errors.Is(err, errGone) || err.Error() != "not "+name+" by this replica, which lost the lease: gone" {
				t.Errorf("%s: error %v", name, err)
			}
			if len(writer.began) != 0 {
				t.Errorf("%s: it was begun", name)
			}
		})
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
